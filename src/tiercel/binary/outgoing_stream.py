"""The transactional messages of an outgoing queue that are in flight: [MS-MQQB] 3.1.5.6, 3.1.6.5."""

from bisect import bisect
from collections import deque
from collections.abc import Sequence

from tiercel.binary.context import Context
from tiercel.binary.flight import Entry
from tiercel.engine.outgoing import Outgoing
from tiercel.engine.queue_state import QueueState
from tiercel.engine.taken import Taken
from tiercel.model.queue import OutgoingQueue
from tiercel.wire.alike import with_previous_numbers

_ENTRIES_MAX = 8192


class OutgoingStream:
    def __init__(
        self,
        context: Context,
        outgoing: Outgoing,
        queue: QueueState,
    ) -> None:
        self._context = context
        self._outgoing = outgoing
        self._queue = queue
        self._entries: deque[Entry] = deque()
        self._count = 0  # messages in them that are not through
        self._resends = 0  # since the last OrderAck
        self.address = ""  # that its messages were sent to

    @property
    def room(self) -> int:
        """How many more may be in flight: each is kept in memory until its OrderAck arrives."""
        return _ENTRIES_MAX - self._count

    def add(self, entry: Entry, taken: Taken) -> Sequence[bytes]:
        """The packets to send, each with the number of the previous message that is still in flight.

        Not the number less one: a message that expired leaves a gap, which this bridges (MQQB-113, MQQB T27).
        """
        previous = 0
        if self._entries and (last := self._entries[-1].taken) is not None:
            newest = self._entries[-1].rest.bit_length() - 1
            previous = last.numbers[newest] if last.sequence == taken.sequence else 0
        self._entries.append(entry)
        self._count += len(taken)
        if not self._context.timers.is_set(self.no_order_ack_came):
            self._start_timer()
        return with_previous_numbers(taken.packets, taken.packet.place_at, taken.numbers, previous)

    def session_acked(self, entry: Entry, mask: int) -> None:
        if through := mask & entry.ordered:
            self._end([(entry, through)])

    def _end(self, through: list[tuple[Entry, int]]) -> None:
        """Messages with both acknowledgements."""
        for entry, mask in through:
            self._count -= mask.bit_count()
            if not entry.rest:
                self._entries.remove(entry)
        self._outgoing.ordered(entry.taken.part(mask) for entry, mask in through if entry.taken is not None)

    def order_acked(self, number: int) -> None:
        """Receiving an OrderAck Packet: [MS-MQQB] 3.1.5.6.

        `number` is of the current sequence; the caller has checked that (MQQB T05).
        """
        before = self._outgoing.stream(self._queue).acked
        self._outgoing.order_acked(self._queue, number)
        if self._outgoing.stream(self._queue).acked > before:
            self._resends = 0  # a busy stream is never complete, but it makes progress
        if not self._entries:
            self._outgoing.finish_confirmed(self._queue)
        stream = self._outgoing.stream(self._queue)
        through: list[tuple[Entry, int]] = []
        is_complete = True
        for entry in self._entries:
            taken = entry.taken
            assert taken is not None
            confirmed = (
                bisect(taken.numbers, stream.acked) if taken.sequence == stream.sequence else len(taken)
            )
            newly = ((1 << confirmed) - 1) & ~entry.ordered
            entry.ordered |= newly
            # Those without a session ack wait for it, or are sent again (MQQB T06).
            if newly & entry.acked:
                through.append((entry, newly & entry.acked))
            if confirmed < len(taken):
                is_complete = False
                break
        self._end(through)
        self._outgoing.wake(self._queue)
        if is_complete:
            self._resends = 0
            self._stop_timer()
        else:
            self._start_timer()

    def refused(self) -> None:
        """A message has ended without an OrderAck: the receiver is not silent, so do not wait longer."""
        self._resends = 0

    def no_order_ack_came(self) -> None:
        """Transactional Ack Wait Timer Event: [MS-MQQB] 3.1.6.5.

        Send everything again, at growing intervals (MQQB T07).
        """
        if not self._entries:  # all of it has ended without one
            self._stop_timer()
            return
        self._resends += 1
        self.give_back()
        self._start_timer()

    def give_back(self) -> None:
        """End the flight of all messages of the stream; they keep their numbers."""
        for entry in self._entries:
            entry.is_over = True
            if entry.taken is not None:
                self._outgoing.give_back((entry.taken.part(entry.rest),))
        self._entries.clear()
        self._count = 0

    def stop(self) -> None:
        self.give_back()
        self._stop_timer()

    def _start_timer(self) -> None:
        self._context.timers.set(self.no_order_ack_came, self._context.now + self._interval_s)
        self._publish(self._outgoing.seconds + self._interval_s)

    def _stop_timer(self) -> None:
        self._context.timers.cancel(self.no_order_ack_came)
        self._publish(0)

    @property
    def _interval_s(self) -> int:
        table = self._context.settings.resend_table_s
        return table[min(self._resends, len(table) - 1)]

    def _publish(self, resend_time: int) -> None:
        """Update the state that management shows (MQQB-146)."""
        assert isinstance(self._queue.queue, OutgoingQueue)
        info = self._queue.queue.transfer_info
        info.eod_resend_count, info.eod_resend_interval_s = self._resends, self._interval_s
        info.eod_resend_time = resend_time
