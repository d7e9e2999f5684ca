"""HTTPS through an HTTP proxy: CONNECT, and then the TLS handshake inside the tunnel. RFC 9110, 9.3.6."""

import asyncio
import re
import ssl
from typing import Final, cast

from tiercel.server.config import Endpoint
from tiercel.srmp.actions import Dial

_HEAD_MAX_BYTES: Final = 64 << 10
_SUCCESS: Final = re.compile(rb"HTTP/1\.[01] (2\d\d)\b")
_END: Final = b"\r\n\r\n"


class ProxyError(Exception):
    """The proxy did not open the tunnel; the text says why."""


async def open_tunnel(
    proxy: Endpoint,
    source: tuple[str, int] | None,
    action: Dial,
    connection: asyncio.Protocol,
    context: ssl.SSLContext,
) -> None:
    """Make `connection` one to the host of `action`. Raises `ProxyError` and `OSError`."""
    loop = asyncio.get_running_loop()
    transport, asking = await loop.create_connection(_Asking, proxy.host, proxy.port, local_addr=source)
    try:
        await asking.ask(Endpoint(action.host, action.port))
        encrypted = await loop.start_tls(transport, connection, context, server_hostname=action.host)
    except BaseException:
        transport.abort()
        raise
    connection.connection_made(cast("asyncio.Transport", encrypted))


class _Asking(asyncio.Protocol):
    """The request for the tunnel, and its answer."""

    def __init__(self) -> None:
        self._answer = bytearray()
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    async def ask(self, host: Endpoint) -> None:
        self._transport.write(f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        await self._done

    def data_received(self, data: bytes) -> None:
        self._answer += data
        if self._done.done():
            return
        if _END in self._answer:
            self._transport.pause_reading()  # until the handshake begins
            self._check(bytes(self._answer))
        elif len(self._answer) > _HEAD_MAX_BYTES:
            self._fail("its answer has no end")

    def _check(self, answer: bytes) -> None:
        if not _SUCCESS.match(answer):
            line = answer.partition(b"\r\n")[0].decode("latin-1")
            self._fail(f"it answered {line[:80]!a}")
        elif not answer.endswith(_END):
            self._fail("it sent more than its answer")
        else:
            self._done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._fail("it closed the connection" if exc is None else str(exc))

    def _fail(self, reason: str) -> None:
        self._done.set_exception(ProxyError(f"the proxy opens no tunnel: {reason}"))
