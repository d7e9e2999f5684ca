"""When to confirm the messages of streams to their senders: [MC-MQSRM] 3.1.2.3, 3.1.5.1.6.3, 3.1.6.3.

One receipt covers all messages of a stream so far. It waits half a second for more of them, but at most ten
seconds after the first, and goes out at once after many: their sender keeps each one until it is confirmed.
"""

from collections.abc import Callable
from dataclasses import replace

from tiercel.engine.incoming_streams import IncomingStream
from tiercel.srmp.context import Context

_MANY = 256  # messages

Confirm = Callable[[IncomingStream], None]


class StreamReceipts:
    def __init__(self, context: Context, confirm: Confirm) -> None:
        self._context = context
        self._confirm = confirm
        self._pending: dict[bytes, _Pending] = {}

    def arrived(self, stream: IncomingStream) -> None:
        """A message of the stream was stored, or came again, perhaps because the receipt was lost."""
        pending = self._pending.get(stream.key)
        if pending is not None and pending.stream.sequence != stream.sequence:
            pending.send()  # the last of the old sequence (SRMP-132)
            pending = None
        if pending is None:
            pending = self._pending[stream.key] = _Pending(self._context, self._send)
        pending.arrived(stream)

    def _send(self, stream: IncomingStream) -> None:
        self._pending.pop(stream.key, None)
        if stream.answers_to:
            self._confirm(stream)


class _Pending:
    def __init__(self, context: Context, send: Confirm) -> None:
        self._context = context
        self._send = send
        self._latest = context.now + context.settings.receipt_delay_max_ms / 1000
        self._count = 0
        self.stream: IncomingStream

    def arrived(self, stream: IncomingStream) -> None:
        self.stream = replace(stream)  # as it is now: a new sequence may replace this one
        self._count += 1
        if self._count >= _MANY:
            self.send()
            return
        delay = self._context.settings.receipt_delay_ms / 1000
        self._context.timers.set(self.send, min(self._context.now + delay, self._latest))

    def send(self) -> None:
        self._context.timers.cancel(self.send)
        self._send(self.stream)
