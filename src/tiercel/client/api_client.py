"""Requests to the HTTP API of a daemon, by its Unix socket or by TCP: for asyncio and for threads.

`daemon_sync` is generated from `daemon_aio`, which needs the same names here: `AsyncApiClient` and
`ApiClient`, `AsyncLease` and `Lease`.
"""

import asyncio
import json
import threading
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

import httpx

from tiercel.api.unix_socket import UnixSocket
from tiercel.model.errors import (
    AccessDeniedError,
    InvalidParameterError,
    MqError,
    ServiceNotAvailableError,
    TiercelError,
    error_for_code,
)

LEASE_S: Final = 60.0  # a message of a program that is killed returns after this time
_EXTENDED_EVERY_S: Final = LEASE_S / 4
_CONNECT_S: Final = 10.0
_AGAIN_S: Final = 10.0  # how long a request that may be repeated tries to reach a daemon that restarts
_PAUSE_S: Final = 0.2
_BASE: Final = "/api/v1/"
NDJSON: Final = "application/x-ndjson"

Json = dict[str, Any]


class _Connection:
    """The parts that threads and asyncio share."""

    def __init__(self, address: str, token: str | None) -> None:
        self.address = address
        kind, _, directory = address.partition(":")
        if kind == "unix":
            if token is not None:
                raise InvalidParameterError("token", problem="a Unix socket takes none", fix="leave it out")
            self._directory: UnixSocket | None = _socket_of(address, directory)
            self.base_url = "http://localhost"
        else:
            self._directory, self.base_url = None, _checked(address)
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    @property
    def socket(self) -> str | None:
        return None if self._directory is None else self._directory.name

    def close(self) -> None:
        directory, self._directory = self._directory, None
        if directory is not None:
            directory.close()

    @property
    def options(self) -> Json:
        never = httpx.Timeout(None, connect=_CONNECT_S)  # a response may wait for a message
        is_secure = self.base_url.startswith("https:")
        return {"base_url": self.base_url, "headers": self.headers, "timeout": never, "verify": is_secure}

    def result(self, answer: httpx.Response) -> Any:
        if answer.status_code >= 400:
            raise self._refused(answer)
        return answer.json() if answer.content else None

    def _refused(self, answer: httpx.Response) -> MqError:
        """The error that the daemon has raised, with its class and its text."""
        try:
            problem = answer.json()
            code, detail, fix = problem["number"], problem["detail"], problem["fix"]
        except (ValueError, KeyError, TypeError):
            said = f"HTTP status {answer.status_code}, not from a queue manager"
            return ServiceNotAvailableError(self.address, problem=said, fix="check the address")
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            return AccessDeniedError(
                self.address,
                problem="missing or unknown token",
                fix="pass token=...; `tiercel token add` on the server makes one",
            )
        subject, _, rest = str(detail).rpartition(" [")[0].partition(": ")
        end = f". {fix[:1].upper()}{fix[1:]}."
        return error_for_code(code)(subject, problem=rest.removesuffix(end), fix=fix)

    def lost(self, problem: Exception) -> ServiceNotAvailableError:
        if isinstance(problem, httpx.ConnectError | httpx.ConnectTimeout):
            fix = "check the address, and that the daemon runs"
            fix += "" if self.socket else " with [api] enabled = true"
            return ServiceNotAvailableError(self.address, problem=f"cannot connect ({problem})", fix=fix)
        said = f"connection lost ({problem}); whether the request had an effect is unknown"
        return ServiceNotAvailableError(self.address, problem=said, fix="check whether the daemon still runs")


def _socket_of(address: str, directory: str) -> UnixSocket:
    if not directory:
        raise InvalidParameterError("address", present=address, fix="pass unix:DIRECTORY, as in unix:data")
    try:
        return UnixSocket(Path(directory))
    except OSError as problem:
        fix = f"start a daemon with `tiercel serve --data {directory}`"
        raise ServiceNotAvailableError(address, problem=f"cannot connect ({problem})", fix=fix) from problem


def _checked(address: str) -> str:
    try:
        url = urlsplit(address)
        is_right = bool(url.hostname) and url.port != 0
    except ValueError:
        is_right = False
    if not is_right:
        raise InvalidParameterError("address", present=address, fix="pass http://HOST:8801")
    return address


def _json(body: Any) -> Json:
    """In ASCII: labels may contain lone surrogates, which UTF-8 cannot encode."""
    return {"content": json.dumps(body).encode(), "headers": {"Content-Type": "application/json"}}


def _query(query: Mapping[str, Any]) -> Json:
    return {name: value for name, value in query.items() if value is not None}


class AsyncApiClient:
    """`left` has the messages of receives that were interrupted during their acknowledgement, by queue."""

    def __init__(self, address: str, token: str | None) -> None:
        self._connection = _Connection(address, token)
        socket = self._connection.socket
        transport = None if socket is None else httpx.AsyncHTTPTransport(uds=socket, verify=False)
        self._client = httpx.AsyncClient(transport=transport, **self._connection.options)
        self.left: defaultdict[str, deque[Json]] = defaultdict(deque)

    @property
    def address(self) -> str:
        return self._connection.address

    async def start(self) -> None:
        """Raises if no daemon answers."""
        await self._ask("GET", "/health")

    async def close(self) -> None:
        await self._client.aclose()
        self._connection.close()

    async def get(self, path: str, **query: Any) -> Any:
        return await self._repeated("GET", path, params=_query(query))

    async def post(self, path: str, body: Any = None, **query: Any) -> Any:
        return await self._ask("POST", path, params=_query(query), **_json({} if body is None else body))

    async def post_lines(self, path: str, lines: bytes, **query: Any) -> Any:
        headers = {"Content-Type": NDJSON}
        return await self._ask("POST", path, params=_query(query), content=lines, headers=headers)

    async def post_again(self, path: str, body: Any = None) -> Any:
        """A request that may be repeated after a lost connection."""
        return await self._repeated("POST", path, **_json({} if body is None else body))

    async def patch(self, path: str, body: Any) -> Any:
        return await self._ask("PATCH", path, **_json(body))

    async def delete(self, path: str) -> Any:
        return await self._ask("DELETE", path)

    async def _ask(self, method: str, path: str, **options: Any) -> Any:
        try:
            answer = await self._client.request(method, path if path[0] == "/" else _BASE + path, **options)
        except (httpx.TransportError, RuntimeError) as problem:  # RuntimeError: the client is closed
            raise self._connection.lost(problem) from problem
        return self._connection.result(answer)

    async def _repeated(self, method: str, path: str, **options: Any) -> Any:
        end = time.monotonic() + _AGAIN_S
        while True:
            try:
                return await self._ask(method, path, **options)
            except ServiceNotAvailableError as error:
                if not isinstance(error.__cause__, httpx.TransportError) or time.monotonic() > end:
                    raise
            await asyncio.sleep(_PAUSE_S)


class ApiClient:
    """The same for threads."""

    def __init__(self, address: str, token: str | None) -> None:
        self._connection = _Connection(address, token)
        socket = self._connection.socket
        transport = None if socket is None else httpx.HTTPTransport(uds=socket, verify=False)
        self._client = httpx.Client(transport=transport, **self._connection.options)
        self.left: defaultdict[str, deque[Json]] = defaultdict(deque)

    @property
    def address(self) -> str:
        return self._connection.address

    def start(self) -> None:
        """Raises if no daemon answers."""
        self._ask("GET", "/health")

    def close(self) -> None:
        self._client.close()
        self._connection.close()

    def get(self, path: str, **query: Any) -> Any:
        return self._repeated("GET", path, params=_query(query))

    def post(self, path: str, body: Any = None, **query: Any) -> Any:
        return self._ask("POST", path, params=_query(query), **_json({} if body is None else body))

    def post_lines(self, path: str, lines: bytes, **query: Any) -> Any:
        headers = {"Content-Type": NDJSON}
        return self._ask("POST", path, params=_query(query), content=lines, headers=headers)

    def post_again(self, path: str, body: Any = None) -> Any:
        """A request that may be repeated after a lost connection."""
        return self._repeated("POST", path, **_json({} if body is None else body))

    def patch(self, path: str, body: Any) -> Any:
        return self._ask("PATCH", path, **_json(body))

    def delete(self, path: str) -> Any:
        return self._ask("DELETE", path)

    def _ask(self, method: str, path: str, **options: Any) -> Any:
        try:
            answer = self._client.request(method, path if path[0] == "/" else _BASE + path, **options)
        except (httpx.TransportError, RuntimeError) as problem:  # RuntimeError: the client is closed
            raise self._connection.lost(problem) from problem
        return self._connection.result(answer)

    def _repeated(self, method: str, path: str, **options: Any) -> Any:
        end = time.monotonic() + _AGAIN_S
        while True:
            try:
                return self._ask(method, path, **options)
            except ServiceNotAvailableError as error:
                if not isinstance(error.__cause__, httpx.TransportError) or time.monotonic() > end:
                    raise
            time.sleep(_PAUSE_S)


class AsyncLease:
    """A lease that a task extends while a block works on its message."""

    def __init__(self, api: AsyncApiClient, lease: str) -> None:
        self._api = api
        self._path = f"leases/{lease}"

    async def __aenter__(self) -> Self:
        self._keeper = asyncio.create_task(self._keep())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._keeper.cancel()
        await asyncio.wait([self._keeper])

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(_EXTENDED_EVERY_S)
            with suppress(TiercelError):  # `acknowledge` reports it
                await self._api.post_again(f"{self._path}/extend", {"lease_s": LEASE_S})

    async def acknowledge(self) -> None:
        await self._api.post_again(f"{self._path}/acknowledge")

    async def give_back(self) -> None:
        await self._api.post_again(f"{self._path}/return")


class Lease:
    """A lease that a thread extends while a block works on its message."""

    def __init__(self, api: ApiClient, lease: str) -> None:
        self._api = api
        self._path = f"leases/{lease}"
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._keep, name="tiercel lease", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()

    def _keep(self) -> None:
        while not self._ended.wait(_EXTENDED_EVERY_S):
            with suppress(TiercelError):  # `acknowledge` reports it
                self._api.post_again(f"{self._path}/extend", {"lease_s": LEASE_S})

    def acknowledge(self) -> None:
        self._api.post_again(f"{self._path}/acknowledge")

    def give_back(self) -> None:
        self._api.post_again(f"{self._path}/return")
