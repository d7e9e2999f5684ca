"""A real `tiercel serve` on loopback, what lies in its queues before, and what is left afterwards."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import tiercel
from tiercel.model.path_name import PathName
from tiercel.security.access import Token

PATIENCE_S = 60.0
QUEUE = r".\private$\q"


def free_ports(count: int) -> list[int]:
    """Held all at once, so that no two are the same."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def take_port_135() -> int:
    """Where Windows and Samba ask without being told; skips the test where we cannot listen there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", 135))
        except OSError as problem:
            pytest.skip(f"port 135 is not ours: {problem.strerror}")
    return 135


class Served:
    """`options` are those of [remote_read]; `more` is TOML that goes into the same file."""

    def __init__(self, folder: Path, options: Mapping[str, Any] | None = None, more: str = "") -> None:
        self.data = folder / "data"
        self.log = folder / "serve.log"
        self.config = folder / "tiercel.toml"
        self.binary_port, self.port, self.mapper_port = free_ports(3)
        remote_read = {
            "enabled": True,
            "port": self.port,
            "endpoint_mapper": True,
            "endpoint_mapper_port": self.mapper_port,
        } | dict(options or {})
        lines = [f"{name} = {json.dumps(value)}" for name, value in remote_read.items()]
        self.config.write_text(
            f'[listen]\nhost = "127.0.0.1"\nport = {self.binary_port}\n'
            f"[remote_read]\n{chr(10).join(lines)}\n"
            f'[log]\nlevel = "debug"\n{more}',
            "utf-8",
        )
        self._process: subprocess.Popen[bytes] | None = None

    def fill(self, *bodies: bytes, queue: str = QUEUE, owner: Token | None = None) -> None:
        """Before the start: a queue that everyone may read, or the owner alone, with these messages."""
        with tiercel.open(self.data) as qm:
            driver, path = qm.driver, PathName.parse(queue)
            driver.run(lambda: driver.engine.queues.create(path, owner or Token.anonymous()))
            for body in bodies:
                qm.queue(queue).send(tiercel.Message(body, label=body[:20].decode("ascii"), delivery=1))

    def start(self) -> "Served":
        command = (sys.executable, "-m", "tiercel", "serve")
        arguments = ("--data", str(self.data), "--config", str(self.config))
        with self.log.open("ab") as log:
            self._process = subprocess.Popen((*command, *arguments), stdout=log, stderr=log)  # noqa: S603
        deadline = time.monotonic() + PATIENCE_S
        while "event=start" not in self.log.read_text("utf-8"):
            assert self._process.poll() is None, self.log.read_text("utf-8")
            assert time.monotonic() < deadline, "it does not start"
            time.sleep(0.02)
        return self

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(PATIENCE_S)
        finally:
            process.kill()

    def left(self, queue: str = QUEUE) -> list[bytes]:
        """After the end: what is in the queue."""
        assert self.stop() == 0, self.log.read_text("utf-8")
        with tiercel.open(self.data) as qm:
            return [message.body for message in qm.queue(queue).cursor()]
