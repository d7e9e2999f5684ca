from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness import World


@pytest.fixture
def world() -> Iterator[World]:
    """A queue manager on a store in memory."""
    made = World()
    yield made
    made.store.close()


@pytest.fixture(params=["memory", "lmdb"])
def durable_world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """The same on both stores: for what must outlive a restart or a kill."""
    made = World(tmp_path / "data" if request.param == "lmdb" else None)
    yield made
    made.store.close()
