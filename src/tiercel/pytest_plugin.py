r"""Pytest fixtures, which pytest finds by itself where Tiercel is installed.

    def test_order(queue_manager):                  # an embedded queue manager
        orders = queue_manager.create_queue("orders")

    def test_shop(tiercel_daemon):                  # a daemon in a process of its own
        with tiercel_daemon.connect() as qm: ...

Each test has its own, empty, on a real store. Nothing is loaded before a test asks for it.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from tiercel.client.daemon_sync import DaemonQueueManager
    from tiercel.client.embedded_sync import EmbeddedQueueManager


class RunningDaemon(NamedTuple):
    """A daemon that runs until its test ends."""

    data: Path
    address: str  # HOST:PORT, where other queue managers send to
    process: "subprocess.Popen[str]"

    def connect(self) -> "DaemonQueueManager":
        """Its queues, with the calls of an embedded queue manager."""
        from tiercel.client.connecting import connect  # noqa: PLC0415

        return connect(f"unix:{self.data}", token=None)


@pytest.fixture
def queue_manager(tmp_path: Path) -> "Iterator[EmbeddedQueueManager]":
    """An empty queue manager, closed after the test."""
    from tiercel.client import embedded  # noqa: PLC0415

    with embedded.open(tmp_path / "queue-manager", computer_name="TEST") as manager:
        yield manager


@pytest.fixture
def tiercel_daemon(tmp_path: Path) -> Iterator[RunningDaemon]:
    """A daemon with an empty store on a free port of this computer, stopped after the test."""
    data, config = tmp_path / "tiercel-daemon", tmp_path / "tiercel-daemon.toml"
    config.write_text('[log]\nformat = "json"\n', "utf-8")
    serve = ["serve", "--data", str(data), "--config", str(config), "--listen", "127.0.0.1:0"]
    command = [sys.executable, "-m", "tiercel", *serve]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603  # our own
        try:
            started = _started(process)
            yield RunningDaemon(data, started["address"], process)
        finally:
            process.terminate()


def _started(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """What the log says of the start; after that, the log is only read away."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        event: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
        if event.get("event") == "start":
            Thread(target=process.stderr.read, daemon=True).start()
            return event
    raise RuntimeError(f"the daemon did not start: {''.join(lines)}")
