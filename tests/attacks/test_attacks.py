"""A short version of `make attacks`: the same attacks, fewer of each."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .attacks import ATTACKS, SHORT, Row, Scale


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_a_stranger(attack: Callable[[Path, Scale], Iterator[Row]], tmp_path: Path) -> None:
    rows = list(attack(tmp_path, SHORT))
    assert rows
    assert [row for row in rows if not row.is_held] == []
