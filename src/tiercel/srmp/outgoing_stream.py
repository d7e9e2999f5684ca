"""The messages of a stream that wait for their stream receipt: [MC-MQSRM] 3.1.5.1.8, 3.1.6.2, 3.1.7.2.3."""

from collections import deque
from collections.abc import Callable

from tiercel.engine.outgoing import Outgoing
from tiercel.engine.queue_state import QueueState
from tiercel.engine.taken import Taken
from tiercel.model.queue import OutgoingQueue
from tiercel.srmp.context import Context

WAITING_MAX = 8192


class OutgoingStream:
    def __init__(
        self, context: Context, outgoing: Outgoing, queue: QueueState, resend: Callable[[], None]
    ) -> None:
        self._context = context
        self._outgoing = outgoing
        self._queue = queue
        self._resend = resend
        self._waiting: deque[Taken] = deque()  # answered with 200, in order
        self._is_overtaking = False  # whether messages before the one under way are to be sent again
        self._timeouts = 0  # since the last receipt that brought something new

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self) -> Taken | None:
        """The next message of the queue, of its stream or not, which leaves now: [MC-MQSRM] 3.1.7.2.3.

        None if there is none, or if too many wait for their receipts: each is kept in memory until then.
        """
        if len(self._waiting) >= WAITING_MAX:
            return None
        sent_before = self._outgoing.stream(self._queue).sent
        taken = self._take()
        if taken is not None and taken.number:
            if self._has_lost_its_first(taken, sent_before):
                self._outgoing.give_back((taken,))
                self._outgoing.begin_anew(self._queue)
                taken = self._take()
            self.start_timer()
        return taken

    def _take(self) -> Taken | None:
        self._is_overtaking = False
        run = self._outgoing.take(self._queue, 1)
        return run[0] if run else None

    def _has_lost_its_first(self, taken: Taken, sent_before: int) -> bool:
        """Whether all messages before this one have ended, and none arrived (SRMP-155).

        The receiver would never take it without a first one. If it was on the wire already, the first has had
        its answer, so the receiver has that one.
        """
        has_arrived = self._waiting or self._outgoing.stream(self._queue).acked
        return taken.number > 1 and not has_arrived and taken.number > sent_before

    def previous(self, taken: Taken) -> int:
        """The number that the receiver has for certain before this message (SRMP-154).

        Not always the number less one: messages that expired or were refused leave gaps. 0 only for the first
        of a stream. A later one that was on the wire before follows the first, which has had its answer then.
        """
        if taken.number == 1:
            return 0
        if self._waiting and self._waiting[-1].sequence == taken.sequence:
            return self._waiting[-1].number
        return self._outgoing.stream(self._queue).acked or 1

    def accepted(self, taken: Taken) -> None:
        """The request of the message was answered with 200; it is kept until its receipt."""
        if self._outgoing.stream(self._queue).confirms(taken.sequence, taken.number):
            self._outgoing.ordered((taken,))  # the receipt was faster than the answer
        elif self._is_overtaking:
            self._outgoing.give_back((taken,))
        else:
            self._waiting.append(taken)
            self.resume()  # the answer may have come after the time for the receipt

    def confirmed(self, number: int) -> None:
        """Receiving a Stream Receipt: [MC-MQSRM] 3.1.5.1.8. The caller has checked that it is believed."""
        before = self._outgoing.stream(self._queue).acked
        self._outgoing.order_acked(self._queue, number)
        stream = self._outgoing.stream(self._queue)
        if stream.acked > before:
            self._timeouts = 0  # the interval grows with time-outs, not with receipts (SRMP-107)
        through: list[Taken] = []
        while self._waiting and stream.confirms(self._waiting[0].sequence, self._waiting[0].number):
            through.append(self._waiting.popleft())
        self._outgoing.ordered(through)
        if not self._waiting:
            self._outgoing.finish_confirmed(self._queue)
            self.stop_timer()
        else:
            self.start_timer()

    def no_receipt_came(self) -> None:
        """Stream Receipt Wait Timer Event: [MC-MQSRM] 3.1.6.2. Send all again, in order (SRMP-106)."""
        self._timeouts += 1
        self.give_back()
        self._resend()

    def give_back(self) -> None:
        """Stop waiting: the messages are sent again, with their numbers, and so is the one under way."""
        self._is_overtaking = bool(self._waiting)
        self._outgoing.give_back(self._waiting)
        self._waiting.clear()

    def start_timer(self) -> None:
        self._context.after(self.no_receipt_came, self._interval_s * 1000)
        self._publish(self._outgoing.seconds + self._interval_s)

    def stop_timer(self) -> None:
        self._context.timers.cancel(self.no_receipt_came)
        self._publish(0)

    def resume(self) -> None:
        """Go on waiting for receipts, after a failure or a pause for example."""
        if self._waiting and not self._context.timers.is_set(self.no_receipt_came):
            self.start_timer()

    @property
    def _interval_s(self) -> int:
        table = self._context.settings.resend_table_s
        return table[min(self._timeouts, len(table) - 1)]

    def _publish(self, resend_time: int) -> None:
        """Update the state that management shows (SRMP-141)."""
        assert isinstance(self._queue.queue, OutgoingQueue)
        info = self._queue.queue.transfer_info
        info.eod_resend_count, info.eod_resend_interval_s = self._timeouts, self._interval_s
        info.eod_resend_time = resend_time
