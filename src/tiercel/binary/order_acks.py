"""When to acknowledge transactional messages to their senders: [MS-MQQB] 3.1.1.6.2, 3.1.6.9.

One OrderAck covers all messages of a stream so far. It waits half a second for more of them, but at most
ten seconds, and goes out at once after many: their sender keeps each one until it is acknowledged.
"""

from collections.abc import Callable

from tiercel.binary.context import Context
from tiercel.binary.session import Session
from tiercel.engine.incoming_streams import IncomingStream

_MANY = 256  # messages

Send = Callable[[Session, IncomingStream], None]


class OrderAcks:
    def __init__(self, context: Context, send: Send) -> None:
        self._context = context
        self._send = send
        self._pending: dict[Session, dict[bytes, _Pending]] = {}

    def arrived(self, session: Session, stream: IncomingStream, count: int) -> None:
        """So many messages of the stream arrived, whether they were accepted or not (MQQB-157)."""
        of_session = self._pending.setdefault(session, {})
        pending = of_session.get(stream.key)
        if pending is None:
            pending = of_session[stream.key] = _Pending(self._context, session, self._send)
        pending.arrived(stream, count)

    def closed(self, session: Session) -> None:
        """Drop pending OrderAcks; they are sent when the messages arrive again (MQQB-159)."""
        for pending in self._pending.pop(session, {}).values():
            pending.cancel()


class _Pending:
    def __init__(self, context: Context, session: Session, send: Send) -> None:
        self._context = context
        self._session = session
        self._send = send
        self._sent_at = context.now
        self._count = 0
        self._stream: IncomingStream | None = None

    def arrived(self, stream: IncomingStream, count: int) -> None:
        context, settings = self._context, self._context.settings
        self._stream = stream
        self._count += count
        if self._count >= _MANY:
            context.timers.cancel(self.is_due)
            self.is_due()
            return
        may_wait = context.now - self._sent_at < settings.order_ack_delay_max_s
        if may_wait or not context.timers.is_set(self.is_due):
            context.timers.set(self.is_due, context.after_ms(settings.order_ack_delay_ms))

    def is_due(self) -> None:
        """Order Ack Send Timer Event ([MS-MQQB] 3.1.6.9)."""
        assert self._stream is not None
        self._sent_at, self._count = self._context.now, 0
        if self._stream.sequence:  # otherwise none was accepted, and there is nothing to confirm
            self._send(self._session, self._stream)

    def cancel(self) -> None:
        self._context.timers.cancel(self.is_due)
