"""One TCP connection: bytes in, bytes out, and a bound on everything that it can make us keep."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Protocol, cast

from tiercel.server import log
from tiercel.server.config import LimitOptions

Input = tuple[Callable[[Any], None], Any]

_KEEP_ALIVE_AFTER_S = 10
_KEEP_ALIVE_EVERY_S = 5
_KEEP_ALIVE_TIMES = 4


class Owner(Protocol):
    """What a connection needs of the network that it belongs to."""

    limits: LimitOptions

    def put(self, feed: Callable[[Any], None], argument: Any, size: int = 0) -> None:
        """Has `feed(argument)` called in the next batch."""

    def opened(self, connection: "Connection") -> bool:
        """Whether there is room for one more."""

    def lost(self, connection: "Connection") -> None: ...

    def feed_start(self, connection: "Connection") -> None: ...

    def feed_received(self, arrived: "tuple[Connection, bytes]") -> None: ...

    def unwritable(self, connection: "Connection") -> None:
        """At once: nothing but acknowledgements may follow."""

    def feed_writable(self, connection: "Connection") -> None: ...

    def feed_lost(self, connection: "Connection") -> None: ...


class Connection(asyncio.Protocol):
    """`number` is what the protocol machine calls it; an accepted one gets it with the next batch."""

    transport: asyncio.Transport

    def __init__(self, owner: Owner, number: int | None = None) -> None:
        self.number = number
        self.address = ""
        self.is_ours = number is not None  # we have dialled
        self.is_closing = False  # by us: what still comes from there is not wanted
        self.is_writable = True
        self.problem: Exception | None = None  # what ended it, if it did not end in order
        self.was_made = False  # False: it was over the limit, and nobody has heard of it
        self._piled_up = 0  # bytes, since it is not writable
        self._owner = owner
        self._timer: asyncio.TimerHandle | None = None

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop has classes of its own
        peer = transport.get_extra_info("peername")
        self.address = peer[0].removeprefix("::ffff:") if peer else ""
        if not self._owner.opened(self):
            self.transport.abort()
            return
        self.was_made = True
        _keep_alive(transport.get_extra_info("socket"))
        limits = self._owner.limits
        self.transport.set_write_buffer_limits(high=limits.write_buffer_bytes)
        self._call_later(limits.handshake_s, self._no_handshake)
        self._owner.put(self._owner.feed_start, self)

    def data_received(self, data: bytes) -> None:
        if not self.is_closing and self.was_made:
            self._owner.put(self._owner.feed_received, (self, data), len(data))

    def pause_writing(self) -> None:
        """The peer does not read. We go on reading, or two that wait for each other would wait for ever."""
        self.is_writable = False
        self._piled_up = 0
        self._owner.unwritable(self)

    def resume_writing(self) -> None:
        self.is_writable = True
        self._owner.put(self._owner.feed_writable, self)

    def eof_received(self) -> bool:
        if self.was_made and not self.is_closing:  # what we still owe may take as long as a close of ours
            self._call_later(self._owner.limits.close_s, self.transport.abort)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.problem = exc  # for the history of the connection; the log has the session's own words
        self._cancel_timer()
        if self.was_made:
            self._owner.lost(self)
            if not self.is_closing:
                self._owner.put(self._owner.feed_lost, self)

    # What the network calls.

    def write(self, data: bytes) -> None:
        if (
            not self.is_writable
        ):  # only acknowledgements: of what it sends, and whose answers it does not read
            self._piled_up += len(data)
            if self._piled_up > self._owner.limits.write_buffer_bytes:
                log.warning("peer_does_not_read", connection=self.number, address=self.address)
                self.transport.abort()
                return
        self.transport.write(data)

    def established(self) -> None:
        """The session stands; from here on the protocol watches over it."""
        self._cancel_timer()

    def close(self) -> None:
        """Closes it when everything is written.

        Ours goes first, so that the peer gets our last words: closing a socket that holds unread bytes
        would make the kernel take them back.
        """
        if self.is_closing:
            return
        self.is_closing = True
        if self.transport.is_closing():
            return
        self._call_later(self._owner.limits.close_s, self.transport.abort)
        try:
            self.transport.write_eof()
        except OSError:  # the peer has reset the connection meanwhile, and wants no last words
            self.transport.abort()

    def _no_handshake(self) -> None:
        if not self.is_closing:
            seconds = self._owner.limits.handshake_s
            log.warning(
                "session_refused",
                connection=self.number,
                address=self.address,
                reason=f"no session after {seconds} s",
            )
            self.transport.abort()

    def _call_later(self, seconds: float, function: Callable[[], None]) -> None:
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, function)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _keep_alive(peer: socket.socket) -> None:
    """Has the system find a line that is dead: the protocol itself would take more than a minute."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEP_ALIVE_AFTER_S)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEP_ALIVE_EVERY_S)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEP_ALIVE_TIMES)
