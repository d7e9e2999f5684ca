"""Messages sent on a session that are not acknowledged yet: [MS-MQQB] 3.1.5.5, 3.1.7.1.3.

Numbers on the wire have 16 bits and wrap; all comparisons are of distances (MQQB T60).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from tiercel.binary.receipts import FLAGS
from tiercel.engine.outgoing import Taken
from tiercel.wire.session_header import SessionHeader

_WRAP = 0xFFFF
_BEHIND = 0x8000
_UNSTORED_MAX = 4096  # far below half of the 16-bit numbers, or distances would be ambiguous


@dataclass(slots=True, eq=False)
class Entry:
    """OutgoingMessagePosition: one message on one session."""

    taken: Taken | None  # None for acknowledgements of the protocol itself
    is_recoverable: bool
    recoverable_number: int = 0  # RecoverableSequenceNumber; 0 for express messages
    is_session_acked: bool = False
    is_order_acked: bool = False
    is_over: bool = False  # given back, to be sent again: acknowledgements of this attempt no longer count


class Flight:
    __slots__ = ("_acked", "_uncounted", "_unstored", "recoverable_sent", "sent")

    def __init__(self) -> None:
        self.sent = 0  # MessageSentCount
        self.recoverable_sent = 0
        self._acked = 0
        self._uncounted: deque[Entry] = deque()  # not covered by AckSequenceNumber yet
        self._unstored: deque[Entry] = deque()  # recoverable, and not acknowledged as stored yet

    @property
    def size(self) -> int:
        """UnAckedMessageCount: only messages in flight, or a long queue would never start (MQQB T09)."""
        return len(self._uncounted)

    @property
    def is_overdue(self) -> bool:
        """Whether the peer acknowledges our messages without storing them: each one takes memory here."""
        return len(self._unstored) > _UNSTORED_MAX

    @property
    def is_empty(self) -> bool:
        return not self._uncounted and not self._unstored

    def add(self, run: Sequence[Entry]) -> None:
        self.sent += len(run)
        self._uncounted.extend(run)
        recoverable = [entry for entry in run if entry.is_recoverable]
        self._unstored.extend(recoverable)
        for entry in recoverable:
            self.recoverable_sent += 1
            entry.recoverable_number = self.recoverable_sent

    def acknowledge(self, header: SessionHeader) -> list[Entry]:
        """Mark Acknowledged Messages ([MS-MQQB] 3.1.5.5.1): returns the completed entries, in order."""
        done: list[Entry] = []
        newly = (header.ack_sequence_number - self._acked) & _WRAP
        if newly <= len(self._uncounted):  # otherwise the number is stale or invalid
            self._acked += newly
            for _ in range(newly):
                entry = self._uncounted.popleft()
                if not entry.recoverable_number:
                    done.append(entry)
        if header.recoverable_msg_ack_seq_number:
            self._take_stored(header, done)
        return done

    def _take_stored(self, header: SessionHeader, done: list[Entry]) -> None:
        first, flags = header.recoverable_msg_ack_seq_number, header.recoverable_msg_ack_flags
        kept: list[Entry] = []
        while self._unstored:
            distance = (self._unstored[0].recoverable_number - first) & _WRAP
            if FLAGS <= distance < _BEHIND:
                break
            entry = self._unstored.popleft()
            is_stored = distance == 0 or distance >= _BEHIND or flags >> distance & 1
            (done if is_stored else kept).append(entry)
        self._unstored.extendleft(reversed(kept))

    def land(self) -> list[Entry]:
        """Everything still unacknowledged when the session ends."""
        rest = dict.fromkeys([*self._uncounted, *self._unstored])
        self._uncounted.clear()
        self._unstored.clear()
        return list(rest)
