"""Pings over UDP: would a queue manager accept a session? [MS-MQQB] 3.1.7.6 to 3.1.7.8."""

from collections.abc import Callable
from functools import partial

from tiercel.binary.actions import SendDatagram
from tiercel.binary.context import Context
from tiercel.model.errors import DecodeError
from tiercel.wire.ping import REFUSED, REQUESTED_BY_CLIENT, Ping

_PATIENCE_MS = 1_000


class Pinging:
    """The cookie counts all requests of the queue manager (MQQB T40); old answers are ignored."""

    def __init__(self, context: Context, is_full: Callable[[], bool]) -> None:
        self._context = context
        self._is_full = is_full
        self._cookie = 0
        self._asked: dict[int, tuple[Callable[[bool], None], Callable[[], None]]] = {}

    def ask(self, address: str, answered: Callable[[bool], None]) -> None:
        """Send Ping Request: [MS-MQQB] 3.1.7.6."""
        self._cookie = (self._cookie + 1) & 0xFFFF_FFFF
        ping = Ping(REQUESTED_BY_CLIENT, cookie=self._cookie, qm_guid=self._context.queue_manager.identifier)
        port = self._context.settings.ping_port
        self._context.do(SendDatagram(address, port, ping.encode(), is_reply=False))
        give_up = partial(self._end, self._cookie, False)
        self._asked[self._cookie] = (answered, give_up)
        self._context.timers.set(give_up, self._context.after_ms(_PATIENCE_MS))

    def _end(self, cookie: int, is_welcome: bool) -> None:  # for partial
        """The answer, or the Ping Response Timer Event ([MS-MQQB] 3.1.6.8)."""
        answered, give_up = self._asked.pop(cookie)
        self._context.timers.cancel(give_up)
        answered(is_welcome)

    def answered(self, data: bytes) -> None:
        """Receive Ping Response ([MS-MQQB] 3.1.7.8), on the port that we send pings from."""
        try:
            ping = Ping.decode(data)
        except DecodeError:
            return
        if ping.cookie in self._asked:
            self._end(ping.cookie, not ping.is_refused)

    def asked(self, address: str, port: int, data: bytes) -> None:
        """Receive Ping Request ([MS-MQQB] 3.1.7.7), on the port of the ping service."""
        if not self._context.settings.ping:
            return
        try:
            ping = Ping.decode(data)
        except DecodeError:
            return
        flags = ping.flags & REQUESTED_BY_CLIENT | (REFUSED if self._is_full() else 0)
        reply = Ping(flags, cookie=ping.cookie, qm_guid=self._context.queue_manager.identifier)
        self._context.do(SendDatagram(address, port, reply.encode(), is_reply=True))
