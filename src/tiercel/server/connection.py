"""One TCP connection, with a limit on everything that the peer can make us buffer."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Protocol, cast

from tiercel.binary.actions import SessionEvent
from tiercel.binary.certificate import Certificate
from tiercel.server import log
from tiercel.server.config import LimitOptions
from tiercel.server.connection_limits import Standing
from tiercel.server.tls import certificate_of

Input = tuple[Callable[[Any], None], Any]

_KEEP_ALIVE_AFTER_S = 10
_KEEP_ALIVE_EVERY_S = 5
_KEEP_ALIVE_TIMES = 4


class Owner(Protocol):
    """The network that a connection belongs to."""

    limits: LimitOptions

    def put(self, feed: Callable[[Any], None], argument: Any, size: int = 0) -> None:
        """Call `feed(argument)` in the next batch."""

    def admits(self, connection: "Connection") -> bool:
        """Whether there is room for one more."""

    def opened(self, connection: "Connection") -> None: ...

    def handshake_failed(self, connection: "Connection", reason: str) -> None: ...

    def lost(self, connection: "Connection") -> None: ...

    def has_carried(self, connection: "Connection") -> bool:
        """Whether a message was sent or received on it."""

    def evicted(self, connection: "Connection") -> None: ...

    def log_event(self, event: SessionEvent) -> None: ...

    def feed_start(self, connection: "Connection") -> None: ...

    def feed_received(self, arrived: "tuple[Connection, bytes]") -> None: ...

    def unwritable(self, connection: "Connection") -> None:
        """Called at once: only acknowledgements may follow."""

    def feed_writable(self, connection: "Connection") -> None: ...

    def feed_lost(self, connection: "Connection") -> None: ...


class Connection(asyncio.Protocol):
    """`number` identifies it to the protocol machine; an accepted connection gets one with the next batch."""

    transport: asyncio.Transport

    def __init__(self, owner: Owner, number: int | None = None, *, is_tls: bool = False) -> None:
        self.number = number
        self.is_tls = is_tls
        self.certificate: Certificate | None = None  # of the peer, after the TLS handshake
        self.address = ""
        self.is_ours = number is not None  # we connected
        self.is_closing = False  # by us; further input is ignored
        self.is_writable = True
        self.problem: Exception | None = None  # the error that ended it, if any
        self.was_made = False  # False: refused, because over the limit
        self.made_at = self.last_received = 0.0  # on the clock of the loop
        self._socket: asyncio.Transport | None = None  # below TLS, if there is TLS
        self._early: list[bytes] = []  # received before `connection_made`, which TLS can do
        self._is_lost = False
        self._piled_up = 0  # bytes written since it became unwritable
        self._owner = owner
        self._now = asyncio.get_running_loop().time
        self._timer: asyncio.TimerHandle | None = None

    # Called by asyncio, and by `TlsHandshake`.

    def is_admitted(self, transport: asyncio.Transport) -> bool:
        """Whether there is room for the connection; asked once, before a TLS handshake."""
        self._socket = transport
        peer = transport.get_extra_info("peername")
        self.address = peer[0].removeprefix("::ffff:") if peer else ""
        self.made_at = self.last_received = self._now()
        return self.is_ours or self._owner.admits(self)

    def handshake_failed(self, reason: str) -> None:
        self._owner.handshake_failed(self, reason)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._is_lost:
            return
        self.transport = cast("asyncio.Transport", transport)  # uvloop has classes of its own
        if self._socket is None and not self.is_admitted(self.transport):
            self.transport.abort()
            return
        if self.is_tls:
            self.certificate = certificate_of(transport.get_extra_info("ssl_object"))
        self.was_made = True
        self._owner.opened(self)
        _keep_alive(transport.get_extra_info("socket"))
        limits = self._owner.limits
        self.transport.set_write_buffer_limits(high=limits.write_buffer_bytes)
        self._call_later(limits.handshake_s, self._no_handshake)
        self._owner.put(self._owner.feed_start, self)
        for data in self._early:
            self.data_received(data)
        self._early.clear()

    def data_received(self, data: bytes) -> None:
        if self.is_tls and not self.was_made:
            self._early.append(data)
        elif not self.is_closing and self.was_made:
            self.last_received = self._now()
            self._owner.put(self._owner.feed_received, (self, data), len(data))

    def pause_writing(self) -> None:
        """The peer does not read. We keep reading, or two peers could block each other forever."""
        self.is_writable = False
        self._piled_up = 0
        self._owner.unwritable(self)

    def resume_writing(self) -> None:
        self.is_writable = True
        self._owner.put(self._owner.feed_writable, self)

    def eof_received(self) -> bool:
        if self.was_made and not self.is_closing:  # leaves time to write the rest
            self._call_later(self._owner.limits.close_s, self.transport.abort)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.problem = exc  # for the connection history; the session logs its own reason
        self._is_lost = True
        self._cancel_timer()
        self._owner.lost(self)
        if self.was_made and not self.is_closing:
            self._owner.put(self._owner.feed_lost, self)

    # Called by the limits.

    @property
    def standing(self) -> Standing:
        """A newcomer counts as busy: it has time for its handshake, but not for that of TLS before."""
        if not self.was_made:
            return Standing.STRANGER
        latest = self._now() - self._owner.limits.idle_s
        if self.made_at > latest:
            return Standing.BUSY
        if not self._owner.has_carried(self):
            return Standing.STRANGER
        return Standing.IDLE if self.last_received <= latest else Standing.BUSY

    def evict(self) -> None:
        self._owner.evicted(self)
        assert self._socket is not None
        self._socket.abort()

    # Called by the network.

    def write(self, data: bytes) -> None:
        if not self.is_writable:  # acknowledgements for a peer that sends without reading
            self._piled_up += len(data)
            if self._piled_up > self._owner.limits.write_buffer_bytes:
                log.warning("peer_does_not_read", connection=self.number, address=self.address)
                self.transport.abort()
                return
        self.transport.write(data)

    def pause_reading(self) -> None:
        """Leave what comes next in the kernel, until `resume_reading`."""
        if not self.transport.is_closing():
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def established(self) -> None:
        """The session is established; from now on the protocol has its own timeouts."""
        self._cancel_timer()

    def close(self) -> None:
        """Close it when everything is written.

        Without TLS, only our direction is closed at first: closing a socket with unread input would make the
        kernel discard our last bytes.
        """
        if self.is_closing:
            return
        self.is_closing = True
        if self.transport.is_closing():
            return
        self._call_later(self._owner.limits.close_s, self.transport.abort)
        try:
            if self.is_tls:
                self.transport.close()
            else:
                self.transport.write_eof()
        except OSError:  # reset by the peer
            self.transport.abort()

    def _no_handshake(self) -> None:
        if not self.is_closing:
            seconds = self._owner.limits.handshake_s
            reason = f"no session after {seconds} s"
            self._owner.log_event(SessionEvent(self.number or 0, "refused", self.address, reason=reason))
            self.transport.abort()

    def _call_later(self, seconds: float, function: Callable[[], None]) -> None:
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, function)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _keep_alive(peer: socket.socket) -> None:
    """Let the kernel detect a dead connection: the protocol would take more than a minute."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEP_ALIVE_AFTER_S)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEP_ALIVE_EVERY_S)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEP_ALIVE_TIMES)
