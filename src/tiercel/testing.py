r"""Pytest fixtures: a real queue manager in a temporary directory.

pytest_plugins = ["tiercel.testing"]

def test_order(queue_manager):
    orders = queue_manager.create_queue("orders")
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tiercel.client import embedded
from tiercel.client.embedded_sync import EmbeddedQueueManager


@pytest.fixture
def queue_manager(tmp_path: Path) -> Iterator[EmbeddedQueueManager]:
    """An empty queue manager, closed after the test."""
    with embedded.open(tmp_path / "queue-manager", computer_name="TEST") as manager:
        yield manager
