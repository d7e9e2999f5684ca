"""One HTTP connection, accepted or dialled, with or without TLS."""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, cast

from tiercel.server.config import LimitOptions
from tiercel.server.connection_limits import ConnectionLimits, Standing


class Owner(Protocol):
    """The network that a connection belongs to."""

    guests: ConnectionLimits
    limits: LimitOptions

    def put(self, feed: Callable[[Any], None], argument: Any, size: int = 0) -> None:
        """Call `feed(argument)` in the next batch."""

    def opened(self, connection: "HttpConnection") -> None: ...

    def lost(self, connection: "HttpConnection") -> None: ...

    def heard(self, connection: "HttpConnection", data: bytes) -> None: ...

    def handshake_failed(self, reason: str) -> None: ...

    def feed_start(self, connection: "HttpConnection") -> None: ...

    def feed_end(self, connection: "HttpConnection") -> None: ...

    def feed_lost(self, connection: "HttpConnection") -> None: ...


class HttpConnection(asyncio.Protocol):
    """`number` identifies it to the protocol machine; an accepted connection gets one with the next batch."""

    transport: asyncio.Transport

    def __init__(self, owner: Owner, number: int | None = None) -> None:
        self.number = number
        self.is_ours = number is not None  # we connected
        self.address = ""
        self.is_closing = False  # by us; further input is ignored
        self.is_known = False  # whether one of its requests was accepted
        self.problem: Exception | None = None  # the error that ended it, if any
        self._owner = owner
        self._socket: asyncio.Transport | None = None  # below TLS, if there is TLS
        self._early: list[bytes] | None = []  # received before `connection_made`, which TLS can do
        self._is_lost = False
        self._has_ended = False  # whether the peer has nothing more to say
        self._waits = False  # for an answer
        self._timer: asyncio.TimerHandle | None = None

    # As a guest of the listener.

    def is_admitted(self, transport: asyncio.Transport) -> bool:
        """Whether there is room for the connection; asked once, before a TLS handshake."""
        self._socket = transport
        self.address = _peer_of(transport)
        return self._owner.guests.enter(self, self.address)

    @property
    def standing(self) -> Standing:
        if not self.is_known:
            return Standing.STRANGER
        return Standing.BUSY if self._waits else Standing.IDLE

    def evict(self) -> None:
        assert self._socket is not None
        self._socket.abort()

    def handshake_failed(self, reason: str) -> None:
        self._owner.handshake_failed(reason)

    # Called by asyncio, and by `TlsHandshake`.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._is_lost:
            return
        self.transport = cast("asyncio.Transport", transport)  # uvloop has classes of its own
        if self.is_ours:
            self.address = _peer_of(transport)
        elif self._socket is None and not self.is_admitted(self.transport):
            self.transport.abort()
            return
        early, self._early = self._early, None
        self._owner.opened(self)
        self._owner.put(self._owner.feed_start, self)
        for data in early or ():
            self.data_received(data)

    def data_received(self, data: bytes) -> None:
        if self._early is not None:
            self._early.append(data)
        elif not self.is_closing:
            self._waits = True
            self._owner.heard(self, data)

    # Clients that stop reading are paused.

    def pause_writing(self) -> None:
        if not self.is_ours:
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        if not self.is_ours:
            self.transport.resume_reading()

    def eof_received(self) -> bool:
        """A client may end its side and wait for the answer; TLS has no such half."""
        if self._early is not None or self.is_closing or self.is_ours or self.transport is not self._socket:
            return False
        self._has_ended = True
        self._owner.put(self._owner.feed_end, self)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.problem, self._is_lost = exc, True
        self._owner.guests.leave(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._early is None:
            self._owner.lost(self)
            if not self.is_closing:
                self._owner.put(self._owner.feed_lost, self)

    # Called by the network.

    def write(self, data: bytes) -> None:
        self._waits = False
        self.transport.write(data)

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
        self._timer = asyncio.get_running_loop().call_later(self._owner.limits.close_s, self.transport.abort)
        try:
            if self.transport.can_write_eof() and not self._has_ended:
                self.transport.write_eof()
            else:
                self.transport.close()
        except OSError:  # reset by the peer
            self.transport.abort()


def _peer_of(transport: asyncio.BaseTransport) -> str:
    peer = transport.get_extra_info("peername")
    return str(peer[0]).removeprefix("::ffff:") if peer else ""
