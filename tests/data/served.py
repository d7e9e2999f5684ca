"""A real daemon with a data endpoint, and a client of it that knows nothing but HTTP and Arrow."""

import http.client
import json
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pyarrow as pa

import tiercel

PATIENCE_S = 60.0  # only a test that fails waits that long
V1 = "/data/v1"


@dataclass(frozen=True)
class Answer:
    status: int
    value: Any  # the JSON, or the bytes of what is none
    headers: dict[str, str]

    def __getitem__(self, name: Any) -> Any:  # of the JSON
        return self.value[name]


class Client:
    def __init__(self, url: str, token: str | None = None, ca: Path | None = None) -> None:
        self.url = urlsplit(url)
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._tls = None if ca is None else ssl.create_default_context(cafile=str(ca))

    def open(self) -> http.client.HTTPConnection:
        host, port = self.url.hostname or "", self.url.port
        if self._tls is not None:
            return http.client.HTTPSConnection(host, port, timeout=PATIENCE_S, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=PATIENCE_S)

    @contextmanager
    def asked(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        *,
        buffer_bytes: int | None = None,
        **query: Any,
    ) -> Iterator[http.client.HTTPResponse]:
        """The response to a request, on a connection of its own; the kernel keeps `buffer_bytes` of it."""
        text = urlencode(query, quote_via=quote)
        with closing(self.open()) as connection:
            connection.connect()
            if buffer_bytes is not None:
                connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
            address = f"{V1}{path}{'?' if text else ''}{text}"
            connection.request(method, address, body, self._headers | (headers or {}))
            with connection.getresponse() as response:
                yield response

    def ask(self, method: str, path: str, *arguments: Any, **query: Any) -> Answer:
        with self.asked(method, path, *arguments, **query) as response:
            data = response.read()
        headers = {name.lower(): value for name, value in response.getheaders()}
        is_json = "json" in headers.get("content-type", "")
        return Answer(response.status, json.loads(data) if is_json and data else data, headers)

    def get(self, path: str, **query: Any) -> Answer:
        return self.ask("GET", path, **query)

    def delete(self, path: str) -> Answer:
        return self.ask("DELETE", path)

    def post(self, path: str, **body: Any) -> Answer:
        return self.ask("POST", path, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def put(self, path: str, body: bytes, **query: Any) -> Answer:
        return self.ask("PUT", path, body, **query)

    def read(self, **query: Any) -> pa.Table:
        """The rows of a range; the stream must be whole, and nothing may follow it."""
        with self.asked("GET", "/range", **query) as response:
            assert response.status == 200, response.read()
            table = pa.ipc.open_stream(response).read_all()
            assert response.read() == b""
            return table


class Running:
    """A daemon that runs; its log is read meanwhile."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.events: list[dict[str, Any]] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        self.start = self.event("start")

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        with suppress(ValueError):  # of one that was killed: half a line, or a pipe that is closed beside us
            for line in self.process.stderr:
                with self._news:
                    self.events.append(json.loads(line) if line.startswith("{") else {"event": line})
                    self._news.notify_all()

    def event(self, name: str, number: int = 0) -> dict[str, Any]:
        """The event of that name, waiting for it; `number` counts from 0."""

        def found() -> list[dict[str, Any]]:
            return [each for each in self.events if each["event"] == name]

        with self._news:
            assert self._news.wait_for(lambda: len(found()) > number, PATIENCE_S), self.events
            return found()[number]


class Served(Running, Client):
    """A daemon with a data endpoint, and its client."""

    def __init__(self, process: "subprocess.Popen[str]", ca: Path | None = None) -> None:
        Running.__init__(self, process)
        Client.__init__(self, self.start["data_endpoint"], ca=ca)
        self._batches = count()

    def client(self, token: str, ca: Path | None = None) -> Client:
        return Client(self.start["data_endpoint"], token, ca)

    @contextmanager
    def connect(self) -> Iterator[socket.socket]:
        """A client that says nothing."""
        with socket.create_connection((self.url.hostname, self.url.port)) as connection:
            yield connection

    @property
    def data_pid(self) -> int:
        """Of the data process that was started last."""
        self.event("data_process_started")
        return int([each for each in self.events if each["event"] == "data_process_started"][-1]["pid"])

    def publish(self, queue: str, rows: list[dict[str, Any]], **options: Any) -> None:
        """Sends messages, as Spark would."""
        batch = str(next(self._batches))
        assert self.put(f"/stages/test/{batch}/0/a", arrow(rows)).status == 200
        stages = [f"test/{batch}/0/a"]
        answer = self.post("/publish", app="test", batch=batch, stages=stages, queue=queue, **options)
        assert answer.value == {"published": len(rows), "already": False}


def arrow(rows: list[dict[str, Any]]) -> bytes:
    """Rows as a writer sends them."""
    kinds = {"label": pa.string(), "body": pa.binary(), "priority": pa.int8(), "delivery": pa.int8()}
    kinds |= {"queue": pa.string()}
    schema = pa.schema([(name, kinds[name]) for name in rows[0]])
    return stream(pa.Table.from_pylist(rows, schema))


def stream(table: pa.Table, compression: str | None = None) -> bytes:
    sink, options = pa.BufferOutputStream(), pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


@contextmanager
def serving(
    folder: Path,
    prepare: Callable[[tiercel.EmbeddedQueueManager], None] = lambda _: None,
    options: str = "port = 0",
    ca: Path | None = None,
) -> Iterator[Served]:
    """A daemon on a store that `prepare` has filled, or on the one that is there already."""
    data = folder / "data"
    if not data.exists():
        with tiercel.open(data, computer_name="HOST") as manager:
            prepare(manager)
    file = folder / "tiercel.toml"
    file.write_text(f'[data]\nenabled = true\n{options}\n[log]\nformat = "json"\n', "utf-8")
    serve = ["serve", "--data", str(data), "--config", str(file), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(  # noqa: S603  # our own program
        [sys.executable, "-m", "tiercel", *serve],
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield Served(process, ca)
        finally:
            process.kill()


def until(condition: Callable[[], bool]) -> None:
    """Waits until it holds."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
