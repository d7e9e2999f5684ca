"""Every scenario on the real store, with every commit torn: any of its pages, whole or in part.

LMDB writes the pages of a commit, syncs, and then writes the meta page that makes them count. A machine that
stops before has the old state, whatever reached the disk; with everything there it has the new one.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from store.test_lmdb_crash import PAGE, SECTOR, apply, changed_pages
from tiercel.store import Store
from tiercel.store.lmdb_files import DATA_NAME
from tiercel.store.lmdb_store import LmdbBatch, LmdbStore

from .scenarios import SCENARIOS, Scenario
from .world import START, World, observe, opened, problems_of

HYBRIDS = 2  # of each kind, per commit
SIZE = 2**20


class TornRun:
    """One telling of a scenario, looking at all that each commit could have left."""

    def __init__(self, tmp_path: Path, seed: str) -> None:
        self.images = 0
        self._tmp_path = tmp_path
        self._data = tmp_path / "data" / DATA_NAME
        self._rand = random.Random(seed)
        self._state: str | None = None  # at the last yield
        self._now: float = START
        self._last: bytes | None = None  # the file after the last commit since then

    def tell(self, scenario: Scenario) -> None:
        world = World(LmdbStore.open(self._data.parent, max_bytes=SIZE), self._reopen)
        for state in scenario(world):
            self._state, self._now = state, world.now
            if self._last is not None:
                self._expect(state, self._last)
            self._last = None
        world.qm.close()

    def commit(self, batch: LmdbBatch, commit: Callable[[LmdbBatch], None]) -> None:
        before = self._data.read_bytes()
        commit(batch)
        self._last = after = self._data.read_bytes()
        if self._state is None:  # the setting
            return
        changed = changed_pages(before, after)
        for image in self._hybrids(before, after, changed) if changed else ():
            self._expect(self._state, image)

    def _hybrids(self, before: bytes, after: bytes, changed: list[int]) -> list[bytes]:
        images = [apply(before, after, changed)]
        for _ in range(HYBRIDS):
            some = self._rand.sample(changed, self._rand.randint(1, len(changed)))
            images.append(apply(before, after, some))
            images.append(apply(before, after, some, torn=self._rand.randrange(SECTOR, PAGE, SECTOR)))
        return images

    def _expect(self, state: str, image: bytes) -> None:
        directory = self._tmp_path / "crashed"
        directory.mkdir()
        (directory / DATA_NAME).write_bytes(image)
        store = LmdbStore.open(directory, max_bytes=SIZE, create=False)
        assert problems_of(store) == []
        with opened(store, self._now) as qm:
            assert observe(qm) == state
        shutil.rmtree(directory)
        self.images += 1

    def _reopen(self, store: Store) -> Store:
        store.close()
        return LmdbStore.open(self._data.parent, max_bytes=SIZE)


@pytest.mark.parametrize("name", SCENARIOS)
def test_torn_commits(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    run = TornRun(tmp_path, name)
    commit = LmdbBatch.commit

    def torn(batch: LmdbBatch) -> None:
        if str(batch._name) == f"store {tmp_path / 'data'}":
            run.commit(batch, commit)
        else:
            commit(batch)

    monkeypatch.setattr(LmdbBatch, "commit", torn)
    run.tell(SCENARIOS[name])
    assert run.images >= 2 * HYBRIDS
    record_property("torn images", run.images)
    print(f"{name}: {run.images} torn images")  # noqa: T201 -- pytest -s, or run.py, adds them up
