from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tiercel.store import MemoryStore, Store
from tiercel.store.lmdb_store import LmdbStore


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def lmdb_store(directory: Path) -> Iterator[LmdbStore]:
    store = LmdbStore.open(directory, max_bytes=64 * 2**20)
    yield store
    store.close()


@pytest.fixture(params=["lmdb", "memory"])
def make_store(request: pytest.FixtureRequest, directory: Path) -> Callable[[int], Store]:
    """Makes the store that is tested, with a limit in bytes."""

    def make(max_bytes: int) -> Store:
        made: Store
        if request.param == "lmdb":
            made = LmdbStore.open(directory, max_bytes=max_bytes)
        else:
            made = MemoryStore(max_bytes=max_bytes)
        request.addfinalizer(made.close)
        return made

    return make


@pytest.fixture
def store(make_store: Callable[[int], Store]) -> Store:
    return make_store(64 * 2**20)
