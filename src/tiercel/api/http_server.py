"""Serves an application on open sockets, on the current event loop, without touching signals."""

import asyncio
import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, ClassVar, Final, Protocol, cast

import uvicorn
from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.utils import get_remote_addr

from tiercel.api.authorization import ADMITTED
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
_ANSWER: Final = b"HTTP/1.1 %b\r\ncontent-length: %d\r\ncontent-type: application/json\r\n%b\r\n%b"
_STATUS: Final = {200: b"200 OK", 201: b"201 Created"}
_CLOSE: Final = b"connection: close\r\n"
_report_invalid: Final = log.Repeated("http_request_refused")
_CREDENTIALS: Final = struct.Struct("3i")  # struct ucred: process, user, group


class ShortRequest(Protocol):
    """One request on the short way."""

    @property
    def status(self) -> int:
        """Of the response, unless the request is refused."""

    def start(self, body: bytes, is_gone: Callable[[], bool]) -> "asyncio.Future[Any] | None":
        """Called when the whole body is there. None, or an exception later, means that nothing was done.

        `is_gone`: whether the client has disconnected.
        """

    def answer(self, result: Any) -> bytes:
        """The JSON of the response."""

    def end(self) -> None:
        """Called once in any case, also without a `start`."""


class Shortcut(Protocol):
    """Answers usual requests without the application, which answers all others."""

    def begin(self, scope: Scope) -> ShortRequest | None:
        """None for a request that is not usual, or that is refused."""


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
    shortcut: Shortcut | None = None,
    tls: RenewableContext | None = None,
    trusted_proxies: Iterable[str] = (),
    **options: Any,
) -> Server:
    """`trusted_proxies` may name the client's address in `X-Forwarded-For`."""
    server = Server(
        uvicorn.Config(
            app,
            http=partial(http or PunctualHttp, limits, shortcut),  # type: ignore[arg-type]  # it is called, as a class would be
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

    @property
    def connections(self) -> int:
        return len(self._server.server_state.connections)

    async def stop(self) -> None:
        self._server.should_exit = True
        with suppress(asyncio.CancelledError):
            await self._task


class PunctualHttp(HttpToolsProtocol):
    """HTTP/1.1 for untrusted clients: uvicorn waits forever for the rest of a request.

    The headers have one deadline, which more bytes do not extend, and a maximum size. A body must arrive at a
    minimum rate. `limits` decides who may connect, and who is evicted when there are too many.

    A task, the layers of the framework and a write for the headers alone cost more than a usual request:
    `shortcut` answers it as soon as its last byte is here.
    """

    headers_s: ClassVar[float] = 10
    silence_s: ClassVar[float] = 60
    _hangs_up: asyncio.TimerHandle | None = None

    def __init__(
        self, limits: ConnectionLimits | None, shortcut: Shortcut | None, *arguments: Any, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._limits = limits
        self._shortcut = shortcut
        self._short: ShortRequest | None = None
        self._has_headers = False
        self._is_between = False  # two requests
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
        """Of those that have no token, one that does not read what everybody may ask for is not in use."""
        if self.cycle is None:
            return Standing.STRANGER
        if self.cycle.response_complete:
            return Standing.IDLE
        is_admitted = self.cycle.scope["state"].get(ADMITTED, False)
        return Standing.BUSY if is_admitted or not self.flow.write_paused else Standing.STRANGER

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
        had_headers, self._is_between = self._has_headers, False
        super().data_received(data)
        if self._framing > _MAX_HEADER_BYTES:
            self._refuse_framing()
        elif not self._is_between:  # no timer for a request that came at once
            self._wait_for_more(had_headers)

    def _wait_for_more(self, had_headers: bool) -> None:
        if self._has_headers and (not had_headers or self._bytes >= _MIN_BODY_BYTES):
            self._hang_up_after(self.silence_s)
        elif self._hangs_up is None:  # another request begins
            self._hang_up_after(self.headers_s)

    def _refuse_framing(self) -> None:
        """The parser would keep headers without end, and a trailer after a chunked body as well."""
        if self._has_headers:  # the request may have an answer already
            _report_invalid(f"The trailer is larger than {_MAX_HEADER_BYTES} bytes.")
            self.transport.abort()
        else:
            self.send_400_response(f"The headers are larger than {_MAX_HEADER_BYTES} bytes.")

    def on_message_begin(self) -> None:
        self._is_between = False
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        self._framing = 0
        super().on_body(body)

    def on_headers_complete(self) -> None:
        self._has_headers = True
        self._framing = 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_between = True
        self._stop_waiting()
        super().on_message_complete()
        if self._short is not None:
            short, self._short = self._short, None
            self._take_short_way(short, self.cycle)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Not yet for a request that may go the short way: its body has not arrived."""
        self._unset_keepalive_if_required()  # set by an answer to what came in the same piece, before it
        is_usual = app is self.app and cycle.more_body and cycle.keep_alive
        if self._shortcut is not None and is_usual and not cycle.waiting_for_100_continue:
            self._short = self._shortcut.begin(cast("Scope", cycle.scope))
        if self._short is None:
            super()._start_asgi_task(cycle, app)

    def _take_short_way(self, short: ShortRequest, cycle: RequestResponseCycle) -> None:
        done = None if self.flow.write_paused else short.start(bytes(cycle.body), lambda: cycle.disconnected)
        if done is None:
            short.end()
            super()._start_asgi_task(cycle, self.app)
        elif done.done():
            self._end_short_way(short, cycle, done)
        else:
            done.add_done_callback(partial(self._end_short_way, short, cycle))

    def _end_short_way(
        self, short: ShortRequest, cycle: RequestResponseCycle, done: "asyncio.Future[Any]"
    ) -> None:
        short.end()
        failure = done.exception()
        if cycle.disconnected:
            return
        if failure is not None:  # the application says why, in its way
            super()._start_asgi_task(cycle, self.app)
            return
        body = short.answer(done.result())
        more = b"" if cycle.keep_alive else _CLOSE
        self.transport.write(_ANSWER % (_STATUS[short.status], len(body), more, body))
        cycle.response_started = cycle.response_complete = True
        if not cycle.keep_alive:  # the server stops
            self.transport.close()
        self.on_response_complete()

    def send_400_response(self, msg: str) -> None:
        _report_invalid(msg)
        super().send_400_response(msg)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._short is not None:
            self._short.end()
            self._short = None
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
