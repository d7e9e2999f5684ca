"""Connects to a queue manager: a local daemon's socket, a remote daemon, or a store without a daemon."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx

from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.failures import Failure

API: Final = "/api/v1/"
NDJSON: Final = "application/x-ndjson"
_SOCKET: Final = "tiercel.sock"  # in the data directory
_STORE: Final = "data.mdb"
_PORT: Final = 8801  # default port of the API
_CONNECT_S: Final = 10.0
_OF_STATUS: Final = {
    401: ExitCode.DENIED,
    403: ExitCode.DENIED,
    404: ExitCode.NOT_FOUND,
    503: ExitCode.NO_DAEMON,
}


class Refused(Failure):
    """The queue manager refused a request; `problem` has the text, the MSMQ code and the fix."""

    def __init__(self, answer: httpx.Response) -> None:
        self.problem = _problem(answer)
        line = str(self.problem.get("detail") or f"HTTP status {answer.status_code}")
        super().__init__(line, _OF_STATUS.get(answer.status_code, ExitCode.FAILED))
        self.status = answer.status_code


def _problem(answer: httpx.Response) -> dict[str, Any]:
    try:
        problem = answer.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        where = f"{answer.request.method} {answer.request.url}"
        return {"detail": f"{where}: HTTP status {answer.status_code}, not from a queue manager"}
    return problem


def queue_path(queue: str, *rest: str) -> str:
    """The API path of a queue or of a part of it; a queue name is one segment."""
    if not queue:
        raise Failure("QUEUE: missing queue name, for example orders", ExitCode.WRONG_USAGE)
    return "/".join(("queues", quote(queue, safe=""), *rest))


class Api:
    """A client of the HTTP API: returns JSON, raises `Refused`."""

    def __init__(self, client: httpx.Client, where: str, *, is_stopped: bool = False) -> None:
        self._client = client
        self._where = where
        self.is_stopped = is_stopped  # whether this process runs the queue manager itself

    def get(self, path: str, **query: Any) -> Any:
        return self.ask("GET", path, query)

    def post(self, path: str, body: Any = None, **query: Any) -> Any:
        return self.ask("POST", path, query, **_json({} if body is None else body))

    def patch(self, path: str, body: Any) -> Any:
        return self.ask("PATCH", path, {}, **_json(body))

    def delete(self, path: str, **query: Any) -> Any:
        return self.ask("DELETE", path, query)

    def post_lines(self, path: str, lines: bytes, **query: Any) -> Any:
        return self.ask("POST", path, query, content=lines, headers={"Content-Type": NDJSON})

    def ask(self, method: str, path: str, query: dict[str, Any], **options: Any) -> Any:
        with self._told():
            answer = self._client.request(method, API + path, params=_given(query), **options)
        if answer.status_code >= 400:
            raise Refused(answer)
        return answer.json() if answer.content else None

    def raw_lines(self, path: str, **query: Any) -> Iterator[bytes]:
        """Stream a response of JSON lines, as chunks of whole lines."""
        with self._told(), self._stream(path, query) as answer:
            rest = b""
            for chunk in answer.iter_bytes():
                end = chunk.rfind(b"\n") + 1
                if end:
                    yield rest + chunk[:end]
                    rest = chunk[end:]
                else:
                    rest += chunk

    @contextmanager
    def _stream(self, path: str, query: dict[str, Any]) -> Iterator[httpx.Response]:
        headers = {"Accept": NDJSON}
        with self._client.stream("GET", API + path, params=_given(query), headers=headers) as answer:
            if answer.status_code >= 400:
                answer.read()
                raise Refused(answer)
            yield answer

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except httpx.ConnectError as problem:
            fix = "Check the address, and that the daemon runs with [api] enabled = true"
            if "CERTIFICATE" in str(problem):
                fix = "For your own certificate authority, set SSL_CERT_FILE to its certificate"
            line = f"{self._where}: cannot connect ({problem}). {fix}"
            raise Failure(line, ExitCode.NO_DAEMON) from problem
        except httpx.TransportError as problem:
            line = f"{self._where}: connection lost ({problem}). Check whether the daemon still runs"
            raise Failure(line, ExitCode.NO_DAEMON) from problem


def _json(body: Any) -> dict[str, Any]:
    """In ASCII: labels may contain lone surrogates, which UTF-8 cannot encode."""
    return {"content": json.dumps(body).encode(), "headers": {"Content-Type": "application/json"}}


def _given(query: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in query.items() if value is not None}


@contextmanager
def connect(
    data: str | None, server: str | None, token_file: Path | None, *, at_rest: bool = True
) -> Iterator[Api]:
    """Connect to `server`, else to `data`, else to what the environment specifies.

    If no daemon runs, the store is opened only if `data` was given explicitly and `at_rest` allows it.
    """
    address = server or (os.environ.get("TIERCEL_SERVER") if data is None else None)
    if address:
        with _client_of(address, token_file) as client:
            yield Api(client, address)
        return
    directory = Path(data or os.environ.get("TIERCEL_DATA") or "data")
    with ExitStack() as stack:
        is_stopped = not _daemon_runs(directory)
        if is_stopped:
            if data is None or not at_rest or not (directory / _STORE).is_file():
                raise Failure(_nobody_runs(directory, is_named=data is not None), ExitCode.NO_DAEMON)
            from tiercel.api.local import serving  # noqa: PLC0415  # loads a whole queue manager

            stack.enter_context(serving(directory))
        descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, descriptor)
        # Without TLS: loading all certificates takes longer than most commands.
        transport = httpx.HTTPTransport(uds=_socket_name(descriptor), verify=False)
        client = stack.enter_context(
            httpx.Client(transport=transport, base_url="http://localhost", timeout=httpx.Timeout(None))
        )
        yield Api(client, str(directory), is_stopped=is_stopped)


def _socket_name(descriptor: int) -> str:
    """A path through an open directory: socket names are limited to 107 bytes."""
    return f"/proc/self/fd/{descriptor}/{_SOCKET}"


def _daemon_runs(directory: Path) -> bool:
    try:
        descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(_socket_name(descriptor))
    except (FileNotFoundError, ConnectionRefusedError):
        return False
    except PermissionError as problem:
        fix = "use that account (sudo -u), or --server URL with a token"
        raise Failure(
            f"{directory}: the daemon runs under another account; {fix}", ExitCode.DENIED
        ) from problem
    finally:
        os.close(descriptor)
    return True


def _nobody_runs(directory: Path, *, is_named: bool) -> str:
    start = f"Start one with `tiercel serve --data {directory}`"
    if (directory / _STORE).is_file():
        return (
            f"{directory}: no daemon runs on this store. {start}, "
            f"or add --data {directory} to open the store without one"
        )
    other = "" if is_named else ", or choose another with --data DIR or --server URL"
    return f"{directory}: no daemon runs here, and there is no store. {start}{other}"


def _client_of(address: str, token_file: Path | None) -> httpx.Client:
    url = _url(address)
    token = _token(token_file)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    timeout = httpx.Timeout(None, connect=_CONNECT_S)
    return httpx.Client(base_url=url, headers=headers, timeout=timeout, verify=url.scheme == "https")


def _url(address: str) -> httpx.URL:
    """HOST and HOST:PORT are short for http://."""
    try:
        url = httpx.URL(address if "://" in address else f"http://{address}")
        if "://" not in address and url.port is None:
            url = url.copy_with(port=_PORT)
    except httpx.InvalidURL as problem:
        line = f"--server {address}: {problem}. Write it as http://HOST:{_PORT}"
        raise Failure(line, ExitCode.WRONG_USAGE) from None
    if url.scheme not in {"http", "https"} or not url.host or not 0 < (url.port or _PORT) < 65536:
        line = f"--server {address}: write it as http://HOST:{_PORT} or https://HOST:{_PORT}"
        raise Failure(line, ExitCode.WRONG_USAGE)
    return url


def _token(file: Path | None) -> str:
    source, data = "TIERCEL_TOKEN", os.environ.get("TIERCEL_TOKEN", "")
    if file is not None:
        source, data = str(file), file.read_bytes().decode("ascii", "replace")
    token = data.strip()
    if not (token.isascii() and token.isprintable()) or " " in token:
        line = f"{source}: not a valid token; `tiercel token add` prints one"
        raise Failure(line, ExitCode.WRONG_USAGE)
    return token
