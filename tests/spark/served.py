"""A queue manager in a process of its own, and how a test commands, kills and restarts it."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from addresses import own_address
from spark_soak.processes import descendants, kill

_DESK = Path(__file__).with_name("desk.py")
PATIENCE_S = 120.0


class Served:
    r"""Queues are named in short: `orders` for `.\private$\orders`. `data` is TOML for [data]."""

    def __init__(self, folder: Path, data: str = "", host: str | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.data = folder / "data"
        self.log = folder / "serve.log"
        self.config = folder / "tiercel.toml"
        self._options = data
        self._host = (
            own_address() if host is None else host
        )  # where the ports of one that was killed stay free
        self._ports = {"data": 0, "remote_read": 0}  # whichever are free, and after that the same again
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def start(self) -> "Served":
        self.config.write_text(
            f'[listen]\nhost = "{self._host}"\nport = 0\n'
            f'[data]\nenabled = true\nhost = "{self._host}"\nport = {self._ports["data"]}\n{self._options}\n'
            f'[remote_read]\nenabled = true\nhost = "{self._host}"\nport = {self._ports["remote_read"]}\n'
            f'[log]\nfile = "{self.log}"\n',
            "utf-8",
        )
        command = (sys.executable, str(_DESK), str(self.data), str(self.config))
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  # our own program
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        where = self._read()
        self.url = where["data_endpoint"]
        self._ports = {"data": int(self.url.rpartition(":")[2]), "remote_read": where["remote_read"]}
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def rpc_url(self) -> str:
        return f"msmq-rpc://{self._host}:{self._ports['remote_read']}"

    def kill(self) -> None:
        """As a power cut would be: with the data process, which would hold its port for a while."""
        process, self._process = self._process, None
        if process is not None:
            kill([process.pid, *descendants(process.pid)])
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

    def set_properties(self, **properties: Any) -> None:
        self._call("set_properties", **properties)

    def make_queue(self, name: str, **properties: Any) -> str:
        self._call("create", full(name), **properties)
        return full(name)

    def delete_queue(self, name: str) -> None:
        self._call("delete", full(name))

    def send(self, name: str, *bodies: str, **more: Any) -> None:
        """Messages with these bodies, recoverable unless said otherwise; the label is the same."""
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

    def claims(self, consumer: str) -> list[dict[str, Any]]:
        """What a consumer holds, queue by queue; nothing for a queue of which it holds nothing."""
        found = self._get("claims")["claims"]
        return [claim for claim in found if claim["consumer"] == consumer and claim["count"]]

    def claim(self, consumer: str, queue: str, count: int) -> None:
        """What a driver does that dies right after it."""
        attached = self._post(f"consumers/{consumer}/attach", {"queues": [queue]})
        claim = {"epoch": attached["epoch"], "queue": queue, "start": 0, "limit": count}
        self._post(f"consumers/{consumer}/claim", claim)

    def release(self, consumer: str) -> None:
        """What an operator does with a consumer that nobody needs any more."""
        self._post(f"consumers/{consumer}/release", {})

    def stages(self) -> list[str]:
        return [stage["stage"] for stage in self._get("stages")["stages"]]

    def wait_until_empty(self, name: str) -> None:
        """Messages expire when their time is over; nobody needs to look."""
        deadline = time.monotonic() + PATIENCE_S
        while self.count(name):
            assert time.monotonic() < deadline, "it never came to be"
            time.sleep(0.05)

    def _get(self, path: str) -> dict[str, Any]:
        return self._ask(f"{self.url}/data/v1/{path}")

    def _post(self, path: str, content: dict[str, Any]) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        return self._ask(Request(f"{self.url}/data/v1/{path}", json.dumps(content).encode(), headers))  # noqa: S310

    @staticmethod
    def _ask(request: str | Request) -> dict[str, Any]:
        with urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310  # our own queue manager
            found: dict[str, Any] = json.load(answer)
        return found

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
