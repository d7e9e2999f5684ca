"""Connects to a queue manager: a local daemon's socket, a remote daemon, or a store without a daemon."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, quote, urlsplit

from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.failures import Failure
from tiercel.cli.http_client import Answer, CannotConnectError, ConnectionLostError, HttpClient

API: Final = "/api/v1/"
NDJSON: Final = "application/x-ndjson"
_SOCKET: Final = "tiercel.sock"  # in the data directory
_STORE: Final = "data.mdb"
_PORT: Final = 8801  # default port of the API
_OF_STATUS: Final = {
    401: ExitCode.DENIED,
    403: ExitCode.DENIED,
    404: ExitCode.NOT_FOUND,
    503: ExitCode.NO_DAEMON,
}
_OF_ERROR: Final = {"MQ_ERROR_MESSAGE_ALREADY_RECEIVED": ExitCode.NOT_FOUND}


_HOW_TO_LOG_IN: Final = (
    "Pass one with --token-file FILE or TIERCEL_TOKEN; `tiercel token add` on the server makes it"
)


class Refused(Failure):
    """The queue manager refused a request; `problem` has the text, the MSMQ code and the fix."""

    def __init__(self, answer: Answer, where: str) -> None:
        self.problem = _problem(answer, where)
        line = str(self.problem.get("detail") or f"HTTP status {answer.status}")
        if answer.status == HTTPStatus.UNAUTHORIZED:
            line = f"{where}: missing or unknown token. {_HOW_TO_LOG_IN}"
        code = _OF_STATUS.get(answer.status, ExitCode.FAILED)
        super().__init__(line, _OF_ERROR.get(str(self.problem.get("code")), code))
        self.status = answer.status


def _problem(answer: Answer, where: str) -> dict[str, Any]:
    try:
        problem = json.loads(answer.content)
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        return {"detail": f"{where}: HTTP status {answer.status}, not from a queue manager"}
    return problem


def queue_path(queue: str, *rest: str) -> str:
    """The API path of a queue or of a part of it; a queue name is one segment."""
    if not queue:
        raise Failure("QUEUE: missing queue name, for example orders", ExitCode.WRONG_USAGE)
    return "/".join(("queues", quote(queue, safe=""), *rest))


class Api:
    """A client of the HTTP API: returns JSON, raises `Refused`."""

    def __init__(self, client: HttpClient, where: str, *, is_stopped: bool = False) -> None:
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
            answer = self._client.request(method, API + path, _given(query), **options)
        if answer.status >= 400:
            raise self._refused(answer, method, path)
        return json.loads(answer.content) if answer.content else None

    def raw_lines(self, path: str, **query: Any) -> Iterator[bytes]:
        """Stream a response of JSON lines, as chunks of whole lines."""
        headers = {"Accept": NDJSON}
        with self._told(), self._client.stream(API + path, _given(query), headers) as (status, chunks):
            if status >= 400:
                raise self._refused(Answer(status, b"".join(chunks)), "GET", path)
            rest = b""
            for chunk in chunks:
                end = chunk.rfind(b"\n") + 1
                if end:
                    yield rest + chunk[:end]
                    rest = chunk[end:]
                else:
                    rest += chunk

    def _refused(self, answer: Answer, method: str, path: str) -> Refused:
        return Refused(answer, f"{method} {self._where}{API}{path}")

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except CannotConnectError as problem:
            fix = "Check the address, and that the daemon runs with [api] enabled = true"
            if "CERTIFICATE" in str(problem):
                fix = "For your own certificate authority, set SSL_CERT_FILE to its certificate"
            line = f"{self._where}: cannot connect ({problem}). {fix}"
            raise Failure(line, ExitCode.NO_DAEMON) from problem
        except ConnectionLostError as problem:
            line = f"{self._where}: connection lost ({problem}). Check whether the daemon still runs"
            raise Failure(line, ExitCode.NO_DAEMON) from problem


def _json(body: Any) -> dict[str, Any]:
    """In ASCII: labels may contain lone surrogates, which UTF-8 cannot encode."""
    return {"content": json.dumps(body).encode(), "headers": {"Content-Type": "application/json"}}


def _given(query: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in query.items() if value is not None}


class Place(NamedTuple):
    """Where a queue manager is: a data directory, or the URL of a daemon and the file with its token."""

    data: str | None = None
    server: str | None = None
    token_file: str | None = None


@contextmanager
def connect(place: Place, *, at_rest: bool = True) -> Iterator[Api]:
    """Connect to the server, else to the data directory, else to what the environment specifies.

    If no daemon runs, the store is opened only if its directory was given and `at_rest` allows it.
    """
    data, server, token_file = place
    address = server or (os.environ.get("TIERCEL_SERVER") if data is None else None)
    if address:
        with closing(_client_of(address, token_file)) as client:
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
        client = stack.enter_context(closing(HttpClient.unix(_socket_name(descriptor))))
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


def _client_of(address: str, token_file: str | None) -> HttpClient:
    url = url_of(address)
    token = _token(token_file)
    return HttpClient.of(url, {"Authorization": f"Bearer {token}"} if token else {})


def api_host(address: str) -> str:
    """The host in an address as `connect` takes it."""
    return urlsplit(url_of(address)).hostname or ""


def url_of(address: str) -> str:
    """HOST and HOST:PORT are short for http://."""
    written = address if "://" in address else f"http://{address}"
    url = _split(written)
    if url is None:
        line = f"--server {address}: write it as http://HOST:{_PORT} or https://HOST:{_PORT}"
        raise Failure(line, ExitCode.WRONG_USAGE)
    if "://" not in address and url.port is None:
        return url._replace(netloc=f"{url.netloc.rstrip(':')}:{_PORT}").geturl()
    return written


def _split(text: str) -> SplitResult | None:
    try:
        url = urlsplit(text)
        is_right = url.scheme in {"http", "https"} and url.hostname and url.port != 0 and " " not in text
    except ValueError:  # a port that is not a number, or a bracket that is not closed
        return None
    return url if is_right else None


def _token(file: str | None) -> str:
    source, data = "TIERCEL_TOKEN", os.environ.get("TIERCEL_TOKEN", "")
    if file is not None:
        source, data = file, Path(file).read_bytes().decode("ascii", "replace")
    token = data.strip()
    if not (token.isascii() and token.isprintable()) or " " in token:
        line = f"{source}: not a valid token; `tiercel token add` prints one"
        raise Failure(line, ExitCode.WRONG_USAGE)
    return token
