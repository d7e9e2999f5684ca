"""Serves an application on open sockets, on the current event loop, without touching signals."""

import asyncio
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, ClassVar, Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.utils import get_remote_addr

from tiercel.server import log
from tiercel.server.connection_limits import ConnectionLimits, Standing
from tiercel.server.tls import RenewableContext, TlsHandshake

_STOP_S: Final = 2  # grace period for requests in progress
_IDLE_S: Final = 75  # longer than clients keep idle connections, so that the client closes first
_MAX_HEADER_BYTES: Final = 64 << 10
_MIN_BODY_BYTES: Final = 1 << 10  # in each `silence_s`, so that single bytes cannot keep a connection
_BUSY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nretry-after: 1\r\nconnection: close\r\n\r\n"
)
_report_invalid: Final = log.Repeated("http_request_refused")
_CREDENTIALS: Final = struct.Struct("3i")  # struct ucred: process, user, group


class Server(uvicorn.Server):
    tls: RenewableContext | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:  # the daemon handles them
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """With TLS, the limits apply before the handshake."""
        tls = self.tls
        if tls is not None:
            plain: Any = self.config.http_protocol_class

            def encrypted(**options: Any) -> TlsHandshake:
                http: PunctualHttp = plain(**options)
                return TlsHandshake(http, tls.current, http.headers_s)

            self.config.http_protocol_class = encrypted  # type: ignore[assignment]  # it is called, as a class would be
        await super().startup(sockets)


def new_server(
    app: ASGIApp,
    http: "type[PunctualHttp] | None" = None,
    *,
    limits: ConnectionLimits | None = None,
    tls: RenewableContext | None = None,
    trusted_proxies: Iterable[str] = (),
    **options: Any,
) -> Server:
    """`trusted_proxies` may name the client's address in `X-Forwarded-For`."""
    server = Server(
        uvicorn.Config(
            app,
            http=partial(http or PunctualHttp, limits),  # type: ignore[arg-type]  # it is called, as a class would be
            forwarded_allow_ips=list(trusted_proxies),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",  # any client can cause warnings
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=_STOP_S,
            **{"timeout_keep_alive": _IDLE_S, **options},
        )
    )
    server.tls = tls
    return server


class Serving:
    """A server in a task of its own."""

    def __init__(self, app: ASGIApp, listener: socket.socket, **options: Any) -> None:
        self._server = new_server(app, **options)
        self._task = asyncio.get_running_loop().create_task(self._server.serve([listener]))

    async def stop(self) -> None:
        self._server.should_exit = True
        with suppress(asyncio.CancelledError):
            await self._task


class PunctualHttp(HttpToolsProtocol):
    """HTTP/1.1 for untrusted clients: uvicorn waits forever for the rest of a request.

    The headers have one deadline, which more bytes do not extend, and a maximum size. A body must arrive at a
    minimum rate. `limits` decides who may connect, and who is evicted when there are too many.
    """

    headers_s: ClassVar[float] = 10
    silence_s: ClassVar[float] = 60
    _hangs_up: asyncio.TimerHandle | None = None

    def __init__(self, limits: ConnectionLimits | None, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._limits = limits
        self._has_headers = False
        self._bytes = 0  # since the timer was set
        self._framing = 0  # bytes since the last headers or piece of a body: of headers or a trailer
        self._socket: asyncio.Transport | None = None  # below TLS, if there is TLS
        self._early: list[bytes] | None = []  # received before `connection_made`, which TLS can do
        self._is_lost = False

    def is_admitted(self, transport: asyncio.Transport) -> bool:
        """Whether there is room for the connection; asked once, before a TLS handshake."""
        self._socket = transport
        peer = get_remote_addr(transport)
        return self._limits is None or peer is None or self._limits.enter(self, peer[0])

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if self._is_lost:
            return
        super().connection_made(transport)
        if self._socket is None and not self.is_admitted(transport):
            transport.write(_BUSY)
            transport.close()
            return
        self._hang_up_after(self.headers_s)
        early, self._early = self._early, None
        for data in early or ():
            self.data_received(data)

    @property
    def standing(self) -> Standing:
        if self.cycle is None:
            return Standing.STRANGER
        return Standing.IDLE if self.cycle.response_complete else Standing.BUSY

    def evict(self) -> None:
        assert self._socket is not None
        self._socket.abort()

    def handshake_failed(self, reason: str) -> None:
        _report_invalid(reason)

    def data_received(self, data: bytes) -> None:
        if self._early is not None:
            self._early.append(data)
            return
        if self.transport.is_closing():
            return
        self._bytes += len(data)
        self._framing += len(data)
        if self._hangs_up is None:  # another request begins
            self._hang_up_after(self.headers_s)
        elif self._has_headers and self._bytes >= _MIN_BODY_BYTES:
            self._hang_up_after(self.silence_s)
        super().data_received(data)
        if self._framing > _MAX_HEADER_BYTES:
            self._refuse_framing()

    def _refuse_framing(self) -> None:
        """The parser would keep headers without end, and a trailer after a chunked body as well."""
        if self._has_headers:  # the request may have an answer already
            _report_invalid(f"The trailer is larger than {_MAX_HEADER_BYTES} bytes.")
            self.transport.abort()
        else:
            self.send_400_response(f"The headers are larger than {_MAX_HEADER_BYTES} bytes.")

    def on_body(self, body: bytes) -> None:
        self._framing = 0
        super().on_body(body)

    def on_headers_complete(self) -> None:
        self._has_headers = True
        self._framing = 0
        self._hang_up_after(self.silence_s)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._stop_waiting()  # the request is complete
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        _report_invalid(msg)
        super().send_400_response(msg)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._limits is not None:
            self._limits.leave(self)
        self._is_lost = True
        if self.flow is not None:  # otherwise it was never made
            super().connection_lost(exc)

    def _hang_up_after(self, seconds: float) -> None:
        if self._hangs_up is not None:
            self._hangs_up.cancel()
        self._bytes = 0
        self._hangs_up = asyncio.get_running_loop().call_later(seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        self._has_headers = False
        self._bytes = self._framing = 0
        if self._hangs_up is not None:
            self._hangs_up.cancel()
            self._hangs_up = None


class LocalHttp(PunctualHttp):
    """HTTP on a Unix socket: the kernel tells which user the client runs as."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer = transport.get_extra_info("socket")
        _pid, uid, _gid = _CREDENTIALS.unpack(
            peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        self.client = (f"uid {uid}", 0)
