from collections.abc import Iterator
from pathlib import Path

import pytest

import tiercel

ORDERS = r".\private$\orders"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def qm(directory: Path) -> Iterator[tiercel.EmbeddedQueueManager]:
    with tiercel.open(directory, computer_name="TEST") as manager:
        yield manager


@pytest.fixture
def queue(qm: tiercel.EmbeddedQueueManager) -> tiercel.EmbeddedQueue:
    return qm.create_queue(ORDERS)


@pytest.fixture
def transactional(qm: tiercel.EmbeddedQueueManager) -> tiercel.EmbeddedQueue:
    return qm.create_queue(r".\private$\payments", transactional=True)
