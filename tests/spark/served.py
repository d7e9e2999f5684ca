"""A queue manager in a process of its own, and how a test commands, kills and restarts it."""

import json
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

_DESK = Path(__file__).with_name("desk.py")
PATIENCE_S = 120.0


def free_ports(count: int) -> list[int]:
    """Held all at once, so that no two are the same."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


class Served:
    r"""Queues are named in short: `orders` for `.\private$\orders`. `data` is TOML for [data]."""

    def __init__(self, folder: Path, data: str = "") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.data = folder / "data"
        self.log = folder / "serve.log"
        self.config = folder / "tiercel.toml"
        self.port, self.data_port, self.rpc_port = free_ports(3)
        self.config.write_text(
            f'[listen]\nhost = "127.0.0.1"\nport = {self.port}\n'
            f"[data]\nenabled = true\nport = {self.data_port}\n{data}\n"
            f"[remote_read]\nenabled = true\nport = {self.rpc_port}\n"
            f'[log]\nfile = "{self.log}"\n',
            "utf-8",
        )
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def start(self) -> "Served":
        command = (sys.executable, str(_DESK), str(self.data), str(self.config))
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  # our own program
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self.url = self._read()["data_endpoint"]
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def rpc_url(self) -> str:
        return f"msmq-rpc://127.0.0.1:{self.rpc_port}"

    def kill(self) -> None:
        """SIGKILL, as a power cut would be."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            self._close(process)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(PATIENCE_S)
            finally:
                process.kill()
                self._close(process)

    @staticmethod
    def _close(process: "subprocess.Popen[str]") -> None:
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    # What it can do.

    def make_queue(self, name: str, **properties: Any) -> str:
        self._call("create", full(name), **properties)
        return full(name)

    def delete_queue(self, name: str) -> None:
        self._call("delete", full(name))

    def send(self, name: str, *bodies: str, **more: Any) -> None:
        """Messages with these bodies, recoverable unless said otherwise; the label is the body's beginning."""
        self._call("send", full(name), list(bodies), **more)

    def fill(self, name: str, count: int, size: int = 1024) -> None:
        self._call("fill", full(name), count, size)

    def bodies(self, name: str) -> list[str]:
        found: list[str] = self._call("bodies", full(name))
        return found

    def count(self, name: str) -> int:
        count: int = self._call("count", full(name))
        return count

    def receive(self, name: str, count: int = 1) -> list[str]:
        received: list[str] = self._call("receive", full(name), count)
        return received

    def purge(self, name: str) -> None:
        self._call("purge", full(name))

    def _call(self, what: str, *arguments: Any, **more: Any) -> Any:
        assert self._process is not None
        assert self._process.stdin is not None
        call = {"do": what, "arguments": arguments, "more": more}
        self._process.stdin.write(json.dumps(call) + "\n")
        self._process.stdin.flush()
        answer = self._read()
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def _read(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the queue manager has ended: {self.log.read_text('utf-8')[-2000:]}"
        answer: dict[str, Any] = json.loads(line)
        return answer


def full(name: str) -> str:
    return name if "\\" in name else rf".\private$\{name}"
