"""A real daemon, and what asks it: httpx on its Unix socket, or on TCP."""

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx

from data.served import PATIENCE_S, Running

V1 = "/api/v1"
T = TypeVar("T")


class Api:
    """Asks; answers are JSON. A queue is named as people do."""

    def __init__(self, client: httpx.Client) -> None:
        self.http = client

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self.http.request(method, f"{V1}{path}", **options)

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self.ask("GET", path, params=query)

    def post(self, path: str, body: Any = None, **query: Any) -> httpx.Response:
        return self.ask("POST", path, json=body, params=query)

    def create(self, queue: str, **properties: Any) -> None:
        assert self.post("/queues", {"path_name": queue, **properties}).status_code == 201

    def send(self, queue: str, *messages: dict[str, Any]) -> list[str]:
        """Recoverable ones."""
        ids = []
        for each in messages:
            answer = self.post(f"{at(queue)}/messages", {"delivery": "recoverable", **each})
            assert answer.status_code == 201, answer.text
            ids.append(answer.json()["id"])
        return ids

    def labels(self, queue: str, **query: Any) -> list[str]:
        page = self.get(f"{at(queue)}/messages", **query).json()
        return [each.get("label", "") for each in page["messages"]]

    def receive(self, queue: str, **wish: Any) -> list[dict[str, Any]]:
        answer = self.post(f"{at(queue)}/receive", {"lease_s": 3600, **wish})
        assert answer.status_code == 200, answer.text
        messages: list[dict[str, Any]] = answer.json()["messages"]
        return messages

    def count(self, queue: str) -> int:
        count: int = self.get(at(queue)).json()["count"]
        return count


def at(queue: str) -> str:
    return f"/queues/{quote(queue, safe='')}"


class Doing(Generic[T]):
    """Something that is done in a thread meanwhile; what goes wrong in it, `result` raises."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._future: Future[T] = Future()
        threading.Thread(target=self._do, args=[work], daemon=True).start()

    def _do(self, work: Callable[[], T]) -> None:
        try:
            self._future.set_result(work())
        except BaseException as problem:  # noqa: BLE001  # the test may have ended, and the daemon with it
            self._future.set_exception(problem)

    @property
    def is_done(self) -> bool:
        return self._future.done()

    def result(self) -> T:
        return self._future.result(2 * PATIENCE_S)


class Asked(Running, Api):
    """A daemon, asked on its Unix socket."""

    def __init__(self, process: "subprocess.Popen[str]", data: Path) -> None:
        Running.__init__(self, process)
        self.data = data
        transport = httpx.HTTPTransport(uds=str(data / "tiercel.sock"))
        Api.__init__(self, httpx.Client(transport=transport, base_url="http://local", timeout=2 * PATIENCE_S))

    def connection(self) -> socket.socket:
        """A connection of its own, for those who break it off."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(str(self.data / "tiercel.sock"))
        return connection

    def by_tcp(self, token: str | None = None, **options: Any) -> Api:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        client = httpx.Client(base_url=self.start["api"], headers=headers, timeout=2 * PATIENCE_S, **options)
        return Api(client)


@contextmanager
def asked(folder: Path, options: str = "", *, listen: str = "127.0.0.1:0") -> Iterator[Asked]:
    """A daemon on a new store, or on the one that is there already."""
    file = folder / "tiercel.toml"
    file.write_text(f'{options}\n[log]\nformat = "json"\n[node]\ncomputer_name = "HOST"\n', "utf-8")
    serve = ["serve", "--data", str(folder / "data"), "--config", str(file), "--listen", listen]
    process = subprocess.Popen(  # noqa: S603  # our own program
        [sys.executable, "-m", "tiercel", *serve], stderr=subprocess.PIPE, text=True
    )
    with process:
        try:
            served = Asked(process, folder / "data")
            with served.http:
                yield served
        finally:
            process.kill()
