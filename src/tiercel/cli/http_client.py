"""A small HTTP/1.1 client: the standard library's, with connections that are kept and shared by threads.

A full client takes longer to load than most commands take to run.
"""

import http.client
import os
import select
import socket
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlencode, urlsplit

_CONNECT_S: Final = 10.0
_CHUNK_BYTES: Final = 1 << 16


class CannotConnectError(Exception):
    """No connection; the cause is the text."""


class ConnectionLostError(Exception):
    """The connection ended before the whole response arrived."""


class Answer(NamedTuple):
    status: int
    content: bytes


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)


class HttpClient:
    """Requests to one server. Threads may share it: each request has a connection of its own."""

    def __init__(
        self, connection: Callable[[], http.client.HTTPConnection], base: str, headers: Mapping[str, str]
    ) -> None:
        self._connection = connection
        self._base = base  # before every path
        self._headers = dict(headers)
        self._idle: list[http.client.HTTPConnection] = []

    @classmethod
    def unix(cls, path: str) -> "HttpClient":
        return cls(lambda: _UnixConnection(path), "", {})

    @classmethod
    def of(cls, url: str, headers: Mapping[str, str]) -> "HttpClient":
        """A client of an http or https URL, through the proxy that the environment names."""
        parts = urlsplit(url)
        proxy = _proxy_of(parts)
        base = parts.path.rstrip("/")
        if proxy is not None and parts.scheme == "http":
            base = f"http://{parts.netloc}{base}"
            headers = {**headers, **_proxy_headers(proxy)}
        return cls(lambda: _connection_to(parts, proxy), base, headers)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        with self._asked(method, path, query, content, headers or {}) as response:
            return Answer(response.status, response.read())

    @contextmanager
    def stream(
        self, path: str, query: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Iterator[tuple[int, Iterator[bytes]]]:
        """The status of a GET, and its body in pieces."""
        with self._asked("GET", path, query, None, headers) as response:
            yield response.status, iter(lambda: response.read1(_CHUNK_BYTES), b"")

    @contextmanager
    def _asked(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        content: bytes | None,
        headers: Mapping[str, str],
    ) -> Iterator[http.client.HTTPResponse]:
        target = self._base + path + (f"?{urlencode(_texts(query))}" if query else "")
        connection = self._idle_connection() or self._new_connection()
        response = None
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # a server that refuses early has answered
                connection.request(method, target, content, {**self._headers, **headers})
            response = connection.getresponse()
            yield response
        except (OSError, http.client.HTTPException) as problem:
            raise ConnectionLostError(str(problem) or type(problem).__name__) from problem
        finally:
            if response is not None and response.isclosed() and connection.sock is not None:
                self._idle.append(connection)
            else:
                connection.close()

    def _idle_connection(self) -> http.client.HTTPConnection | None:
        while self._idle:
            with suppress(IndexError):  # another thread took it
                connection = self._idle.pop()
                # Readable while idle: the server has closed it.
                if not select.select([connection.sock], [], [], 0)[0]:
                    return connection
                connection.close()
        return None

    def _new_connection(self) -> http.client.HTTPConnection:
        connection = self._connection()
        try:
            connection.connect()
        except (OSError, http.client.HTTPException) as problem:
            connection.close()
            raise CannotConnectError(getattr(problem, "strerror", None) or str(problem)) from problem
        connection.sock.settimeout(None)  # a response may wait for a message
        return connection


def _texts(query: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in query.items()
    }


def _connection_to(url: SplitResult, proxy: SplitResult | None) -> http.client.HTTPConnection:
    host, port = _place(url if proxy is None else proxy)
    if url.scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=_CONNECT_S)
    secure = http.client.HTTPSConnection(host, port, timeout=_CONNECT_S, context=ssl.create_default_context())
    if proxy is not None:
        secure.set_tunnel(*_place(url), headers=_proxy_headers(proxy))
    return secure


def _place(url: SplitResult) -> tuple[str, int]:
    return url.hostname or "", url.port or (443 if url.scheme == "https" else 80)


def _proxy_of(url: SplitResult) -> SplitResult | None:
    """As curl does it: from `https_proxy` and `all_proxy`, except for the hosts of `no_proxy`."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415  # slow to load

    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(url.netloc.rpartition("@")[2]):
        return None
    return urlsplit(proxy if "://" in proxy else f"http://{proxy}")


def _proxy_headers(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(login.encode()).decode()}"}
