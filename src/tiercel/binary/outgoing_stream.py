"""The transactional messages of an outgoing queue that are in flight: [MS-MQQB] 3.1.5.6, 3.1.6.5."""

from collections import deque

from tiercel.binary.context import Context
from tiercel.binary.flight import Entry
from tiercel.engine.outgoing import Outgoing, Taken
from tiercel.engine.queue_state import QueueState
from tiercel.model.queue import OutgoingQueue

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
        self._resends = 0  # since the last OrderAck
        self.address = ""  # that its messages were sent to

    @property
    def room(self) -> int:
        """How many more may be in flight: each is kept in memory until its OrderAck arrives."""
        return _ENTRIES_MAX - len(self._entries)

    def add(self, entry: Entry, taken: Taken) -> bytes:
        """The packet to send, with the number of the previous message that is still in flight.

        Not the number less one: a message that expired leaves a gap, which this bridges (MQQB-113, MQQB T27).
        """
        previous = 0
        if self._entries and (last := self._entries[-1].taken) is not None:
            previous = last.number if last.sequence == taken.sequence else 0
        self._entries.append(entry)
        if not self._context.timers.is_set(self.no_order_ack_came):
            self._start_timer()
        packet = taken.packet
        return packet.data if packet.previous_number == previous else packet.with_previous(previous)

    def session_acked(self, entry: Entry, taken: Taken) -> None:
        entry.is_session_acked = True
        if entry.is_order_acked:
            self._entries.remove(entry)
            self._outgoing.ordered((taken,))

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
        kept: list[Entry] = []
        through: list[Taken] = []
        while self._entries:
            entry = self._entries[0]
            taken = entry.taken
            assert taken is not None
            if not self._outgoing.stream(self._queue).confirms(taken.sequence, taken.number):
                break
            self._entries.popleft()
            entry.is_order_acked = True
            if entry.is_session_acked:
                through.append(taken)
            else:  # its session ack will arrive, or it is sent again (MQQB T06)
                kept.append(entry)
        self._outgoing.ordered(through)
        self._outgoing.wake(self._queue)
        is_through = not self._entries
        self._entries.extendleft(reversed(kept))
        if is_through:
            self._resends = 0
            self._stop_timer()
        else:
            self._start_timer()

    def no_order_ack_came(self) -> None:
        """Transactional Ack Wait Timer Event: [MS-MQQB] 3.1.6.5.

        Send everything again, at growing intervals (MQQB T07).
        """
        self._resends += 1
        self.give_back()
        self._start_timer()

    def give_back(self) -> None:
        """End the flight of all messages of the stream; they keep their numbers."""
        for entry in self._entries:
            entry.is_over = True
        self._outgoing.give_back(entry.taken for entry in self._entries if entry.taken is not None)
        self._entries.clear()

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
