"""A real process under load, ended by SIGKILL at random moments; the store ages from kill to kill."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tiercel.store.lmdb_store import LmdbStore

from .kill import Killer

KILLS = 50  # for each seed


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_under_load(seed: int, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    with Killer(tmp_path / "data", seed) as killer:
        for _ in range(KILLS):
            killer.kill()
    assert LmdbStore.verify(tmp_path / "data") == []
    assert killer.acknowledged > 10 * KILLS
    record_property("kills", killer.kills)
    record_property("acknowledged operations", killer.acknowledged)
