"""The client of the data endpoint: HTTP/1.1 with JSON for small requests and Arrow streams for messages.

Every request is idempotent: claims and acknowledgements have numbers, stages and publishes have names. So
after a lost connection or a restart of the queue manager, requests are retried with increasing delays, for
`patience_s` seconds, and the job continues.
"""

import http.client
import json
import logging
import random
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote, urlencode

import pyarrow as pa

from pyspark_msmq.endpoints import Endpoint

log = logging.getLogger(__name__)

_PREFIX: Final = "/data/v1"
_TIMEOUT_S: Final = 120.0  # per response; a large claim takes a while
_CONNECT_S: Final = 30.0  # an address that does not answer at all
PATIENCE_S: Final = 60.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_STREAM: Final = "application/vnd.apache.arrow.stream"
_AGAIN: Final = frozenset({502, 503, 504})
_BROKEN: Final = (OSError, http.client.HTTPException)


class EndpointError(RuntimeError):
    """The queue manager refused a request; `code` and `status` are for programs."""

    def __init__(self, text: str, status: int = 0, code: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.status, self.code)


class EndpointLostError(EndpointError):
    """The queue manager cannot be reached, or failed during a response."""


class DataClient:
    """One connection, opened on demand and reopened when lost. Not thread-safe."""

    def __init__(self, endpoint: Endpoint, *, patience_s: float = PATIENCE_S) -> None:
        self._endpoint = endpoint
        self.patience_s = patience_s
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # Requests.

    def identifier(self) -> str:
        """The GUID of the queue manager."""
        found: str = self.queues("-")["qm"]  # a pattern that no queue matches
        return found

    def queues(self, pattern: str | None = None, source: str = "queue") -> dict[str, Any]:
        return self._get("/queues", {"pattern": pattern, "from": source})

    def head(self, queue: str | None, source: str = "queue", **more: Any) -> dict[str, Any]:
        return self._get("/head", {"queue": queue, "from": source, **more})

    def cuts(self, queue: str | None, source: str, lo: int, hi: int, **more: Any) -> list[list[int]]:
        """Pieces of a range: (end, messages, bytes) of each."""
        answer = self._get("/cuts", {"queue": queue, "from": source, "lo": lo, "hi": hi, **more})
        cuts: list[list[int]] = answer["cuts"]
        return cuts

    def attach(self, consumer: str, queues: Sequence[str], epoch: int | None = None) -> dict[str, Any]:
        return self._post(f"/consumers/{quote(consumer)}/attach", {"queues": list(queues), "epoch": epoch})

    def look(self, consumer: str, queues: Sequence[str]) -> dict[str, Any]:
        """What attaching would find; it fences nobody."""
        return self._post(f"/consumers/{quote(consumer)}/attach", {"queues": list(queues), "dry_run": True})

    def claim(self, consumer: str, **what: Any) -> dict[str, Any]:
        return self._post(f"/consumers/{quote(consumer)}/claim", what)

    def acknowledge(self, consumer: str, epoch: int, queue: str, up_to: int) -> None:
        self._post(f"/consumers/{quote(consumer)}/ack", {"epoch": epoch, "queue": queue, "up_to": up_to})

    def stage(self, stage: str, chunk: int, payload: pa.Buffer) -> int:
        """Stage a chunk durably; return the number of messages."""
        path = f"/stages/{quote(stage)}?chunk={chunk}"
        rows: int = self._ask("PUT", path, payload, _STREAM)["rows"]
        return rows

    def publish(self, app: str, batch: str, stages: Sequence[str], **more: Any) -> dict[str, Any]:
        return self._post("/publish", {"app": app, "batch": batch, "stages": list(stages), **more})

    def discard(self, app: str, batch: str, *, for_good: bool) -> None:
        self._post("/discard", {"prefix": f"{app}/{batch}", "tombstone": for_good})

    def range(self, query: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        """The messages of a range; raises `EndpointLostError` if the connection breaks."""
        response = self._send("GET", f"/range?{_query(query)}", None, "")
        try:
            with pa.ipc.open_stream(response) as reader:
                yield from reader
            if rest := response.read():  # an error after the first messages
                raise _refusal(response, rest)
        except (*_BROKEN, pa.ArrowInvalid) as problem:
            self.close()
            raise EndpointLostError(
                f"{self._endpoint.url}: connection lost during the response ({_say(problem)})"
            ) from problem
        finally:
            if not response.isclosed():  # unread data makes the connection unusable
                self.close()

    # Sending requests.

    def _get(self, path: str, query: Mapping[str, Any]) -> dict[str, Any]:
        return self._ask("GET", f"{path}?{_query(query)}", None, "")

    def _post(self, path: str, content: Mapping[str, Any]) -> dict[str, Any]:
        said = {name: value for name, value in content.items() if value is not None}
        return self._ask("POST", path, json.dumps(said).encode(), "application/json")

    def _ask(self, method: str, path: str, body: Any, kind: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._send(method, path, body, kind).read() or b"{}")
        return answer

    def _send(self, method: str, path: str, body: Any, kind: str) -> http.client.HTTPResponse:
        """The successful response; temporary failures are retried."""
        ends, pause = time.monotonic() + self.patience_s, _FIRST_PAUSE_S
        while True:
            is_new = self._connection is None
            try:
                response = self._once(method, path, body, kind)
                if response.status not in _AGAIN:
                    return self._checked(response)
                problem: Exception = _refusal(response, response.read())
            except ssl.SSLCertVerificationError as error:
                raise EndpointError(
                    f"{self._endpoint.url}: the certificate is not trusted ({error})"
                ) from error
            except _BROKEN as error:
                problem = error
            self.close()
            if not is_new and isinstance(problem, ConnectionError):
                continue  # closed while idle
            if time.monotonic() + pause > ends:
                raise self._lost(problem) from problem
            log.info("%s: %s; retrying in %.1f s", self._endpoint.url, _say(problem), pause)
            time.sleep(pause * random.uniform(0.7, 1.3))  # noqa: S311  # spreads the tasks
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    def _once(self, method: str, path: str, body: Any, kind: str) -> http.client.HTTPResponse:
        connection = self._connection or self._connect()
        headers = {"Accept": f"{_STREAM}, application/json"}
        if kind:
            headers["Content-Type"] = kind
        if self._endpoint.token_file:
            headers["Authorization"] = f"Bearer {read_secret(self._endpoint.token_file, 'tokenFile')}"
        connection.request(method, _PREFIX + path, body, headers)
        return connection.getresponse()

    def _connect(self) -> http.client.HTTPConnection:
        url = self._endpoint.url
        if url.scheme == "https":
            context = _context(self._endpoint.tls_ca)
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                url.host, url.port, timeout=_CONNECT_S, context=context
            )
        else:
            connection = http.client.HTTPConnection(url.host, url.port, timeout=_CONNECT_S)
        connection.connect()
        connection.sock.settimeout(_TIMEOUT_S)
        self._connection = connection
        return connection

    def _checked(self, response: http.client.HTTPResponse) -> http.client.HTTPResponse:
        if response.status < 300:
            return response
        raise _refusal(response, response.read())

    def _lost(self, problem: Exception) -> EndpointError:
        return EndpointLostError(
            f"{self._endpoint.url}: cannot reach the queue manager for {self.patience_s:.0f} s "
            f"({_say(problem)}). Check that it runs with [data] enabled = true, and check the option url"
        )


def _refusal(response: http.client.HTTPResponse, text: bytes) -> EndpointError:
    """The error in an application/problem+json, or else the response text."""
    try:
        problem = json.loads(text)
        words = f"{problem['detail']}"
    except (ValueError, KeyError, TypeError):
        words = f"HTTP {response.status} {response.reason}: {text[:200].decode('utf-8', 'replace')}"
        return EndpointError(words, response.status)
    return EndpointError(words, problem.get("status", response.status), str(problem.get("code", "")))


def _context(tls_ca: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=tls_ca)
    except OSError as problem:
        raise EndpointError(f"tlsCa={tls_ca}: cannot load the certificates ({problem})") from problem


def read_secret(path: str, option: str) -> str:
    try:
        return Path(path).read_text("utf-8").strip()
    except OSError as problem:
        raise EndpointError(f"{option}={path}: cannot read the file ({problem.strerror})") from problem


def _query(values: Mapping[str, Any]) -> str:
    return urlencode({name: value for name, value in values.items() if value is not None})


def _say(problem: BaseException) -> str:
    return str(problem) or type(problem).__name__
