"""Messages sent on a session that are not acknowledged yet: [MS-MQQB] 3.1.5.5, 3.1.7.1.3.

Messages that left together are one entry. What became of each of them is a bit in a mask, the first one's the
lowest. Numbers on the wire have 16 bits and wrap; all comparisons are of distances (MQQB T60).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from tiercel.binary.receipts import FLAGS
from tiercel.engine.taken import Taken
from tiercel.wire.session_header import SessionHeader

_WRAP = 0xFFFF
_BEHIND = 0x8000
FLIGHT_BYTES = 64 << 20  # a large window of large messages must not fill the memory
_UNSTORED_MAX = 4096  # far below half of the 16-bit numbers, or distances would be ambiguous


@dataclass(slots=True, eq=False)
class Entry:
    """OutgoingMessagePosition: messages on one session, one after the other."""

    taken: Taken | None  # None for an acknowledgement of the protocol itself
    is_recoverable: bool
    first_number: int = 0  # of the recoverable messages, or of all; see `Flight`
    acked: int = 0  # mask: acknowledged on this session
    ordered: int = 0  # mask: confirmed by an OrderAck
    is_over: bool = False  # given back, to be sent again: acknowledgements of this attempt no longer count

    def __len__(self) -> int:
        return 1 if self.taken is None else len(self.taken)

    @property
    def rest(self) -> int:
        """The mask of messages that lack an acknowledgement of the session or of the order."""
        return self.all & ~(self.acked & self.ordered)

    @property
    def lead(self) -> int:
        """How many messages are acknowledged before the first that is not."""
        return (~self.acked & self.acked + 1).bit_length() - 1

    @property
    def size(self) -> int:
        """In bytes."""
        return 0 if self.taken is None else self.taken.size

    @property
    def all(self) -> int:
        """The mask of all messages."""
        return (1 << len(self)) - 1


Acked = tuple[Entry, int]  # messages of an entry, by their mask


class Flight:
    """Entries with recoverable messages have RecoverableSequenceNumbers, the others MessageSentCounts."""

    __slots__ = ("_acked", "_bytes", "_express", "_unstored", "_unstored_count", "recoverable_sent", "sent")

    def __init__(self) -> None:
        self.sent = 0  # MessageSentCount
        self.recoverable_sent = 0
        self._acked = 0
        self._express: deque[Entry] = deque()  # not covered by AckSequenceNumber yet
        self._unstored: deque[Entry] = deque()  # recoverable, and not acknowledged as stored yet
        self._unstored_count = 0  # messages in them
        self._bytes = 0  # of all entries that are not complete

    @property
    def size(self) -> int:
        """UnAckedMessageCount: only messages in flight, or a long queue would never start (MQQB T09)."""
        return self.sent - self._acked

    @property
    def is_overdue(self) -> bool:
        """Whether the peer acknowledges our messages without storing them: each one takes memory here."""
        return self._unstored_count > _UNSTORED_MAX or self._bytes >= FLIGHT_BYTES

    @property
    def is_empty(self) -> bool:
        return self.sent == self._acked and not self._unstored

    def add(self, run: Sequence[Entry]) -> None:
        for entry in run:
            count = len(entry)
            if entry.is_recoverable:
                entry.first_number = self.recoverable_sent + 1
                self.recoverable_sent += count
                self._unstored.append(entry)
                self._unstored_count += count
            else:
                entry.first_number = self.sent + 1
                self._express.append(entry)
            self.sent += count
            self._bytes += entry.size

    def acknowledge(self, header: SessionHeader) -> list[Acked]:
        """Mark Acknowledged Messages ([MS-MQQB] 3.1.5.5.1): returns those that are complete now, in order."""
        done: list[Acked] = []
        newly = (header.ack_sequence_number - self._acked) & _WRAP
        if newly <= self.size:  # otherwise the number is stale or invalid
            self._acked += newly
            while self._express and (count := self._acked - self._express[0].first_number + 1) > 0:
                self._mark(self._express[0], (1 << count) - 1, done)
                if self._express[0].acked != self._express[0].all:
                    break
                self._express.popleft()
        if header.recoverable_msg_ack_seq_number:
            self._take_stored(header, done)
        return done

    def _take_stored(self, header: SessionHeader, done: list[Acked]) -> None:
        """What is before the first number, or has it, is stored; after it the flags tell."""
        first, flags = header.recoverable_msg_ack_seq_number, header.recoverable_msg_ack_flags | 1
        kept: list[Entry] = []
        while self._unstored:
            entry = self._unstored[0]
            lead = entry.lead
            distance = (entry.first_number + lead - first) & _WRAP
            if FLAGS <= distance < _BEHIND:
                break
            self._unstored.popleft()
            before = _WRAP + 1 - distance if distance >= _BEHIND else 0  # messages before the first number
            stored = flags << before | (1 << before) - 1 if before else flags >> distance
            self._unstored_count -= self._mark(entry, stored << lead, done)
            if entry.acked != entry.all:
                kept.append(entry)
        self._unstored.extendleft(reversed(kept))

    def _mark(self, entry: Entry, mask: int, done: list[Acked]) -> int:
        """How many of the messages were not acknowledged before."""
        newly = mask & entry.all & ~entry.acked
        if newly:
            entry.acked |= newly
            done.append((entry, newly))
            if entry.acked == entry.all:
                self._bytes -= entry.size
        return newly.bit_count()

    def land(self) -> list[Acked]:
        """Everything still unacknowledged when the session ends."""
        rest = [(entry, entry.all & ~entry.acked) for entry in (*self._express, *self._unstored)]
        self._express.clear()
        self._unstored.clear()
        self._unstored_count = self._bytes = 0
        self._acked = self.sent
        return rest
