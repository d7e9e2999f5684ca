"""The state of an outgoing stream, as it is stored: [MS-MQQB] 3.1.1.5."""

import struct
from dataclasses import dataclass, field
from typing import Final, Self
from uuid import UUID

from tiercel.model.identifiers import NULL_GUID

_STREAM: Final = struct.Struct("<QIIIIII16s")
_FORMAT_1: Final = struct.Struct("<QIIIII")  # without `sent` and `receiver`
UNIDENTIFIED: Final = UUID(int=2**128 - 1)  # a receiver whose GUID its transport does not learn
_REFUSED_MAX: Final = 8192  # as many as can be in flight
SIZES: Final = frozenset({_STREAM.size, _FORMAT_1.size})


@dataclass(slots=True)
class Stream:
    """OutgoingTransferInfo, reduced to what exactly-once in-order delivery needs (DMPR T-38).

    `sent` and `receiver` are the evidence for acknowledgements: only what was put on the wire can be
    acknowledged, and only by the queue manager that it was put on the wire for.
    """

    sequence: int = 0
    number: int = 0  # the last number assigned
    acked: int = 0  # the last number that the receiver confirmed
    ack_count: int = 0
    ack_time: int = 0
    unread: int = 0  # messages that await their final ack
    sent: int = 0  # the last number put on the wire for `receiver`
    receiver: UUID = NULL_GUID  # null until something was put on the wire
    # Numbers that the receiver refused without an OrderAck so far; in memory, because it would refuse again.
    refused: set[int] = field(default_factory=set)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Of a record with one of `SIZES`."""
        if len(data) == _FORMAT_1.size:
            stream = cls(*_FORMAT_1.unpack(data))
            stream.sent = stream.number  # any of them may have been sent
            return stream
        *numbers, receiver = _STREAM.unpack(data)
        stream = cls(*numbers)
        stream.receiver = UUID(bytes=receiver)
        return stream

    def encode(self) -> bytes:
        return _STREAM.pack(
            self.sequence,
            self.number,
            self.acked,
            self.ack_count,
            self.ack_time,
            self.unread,
            self.sent,
            self.receiver.bytes,
        )

    def begin(self, sequence: int) -> None:
        """Start a new sequence after the old one is complete (MQQB-134)."""
        self.sequence, self.number, self.acked, self.sent = sequence, 0, 0, 0
        self.refused.clear()

    def put_on_wire(self, number: int, receiver: UUID) -> bool:
        """Remember what was sent, and for which queue manager; False if that was known.

        Another receiver, as after a reinstallation, gets the stream from its first unconfirmed message on.
        """
        if receiver != self.receiver:
            is_first = self.receiver == NULL_GUID
            self.receiver, self.sent = receiver, max(self.sent, number) if is_first else number
            return True
        if number <= self.sent:
            return False
        self.sent = number
        return True

    def confirms(self, sequence: int, number: int) -> bool:
        """Whether the receiver is through with the message: it has it, or has refused it.

        A new sequence begins only after the old one is complete.
        """
        if sequence == self.sequence:
            return number <= self.acked or number in self.refused
        return sequence < self.sequence

    def refuse(self, number: int) -> None:
        """The receiver will never take the message, and may not confirm it by an OrderAck (MQQB T17)."""
        if number > self.acked and len(self.refused) < _REFUSED_MAX:
            self.refused.add(number)

    def forget_refused(self) -> None:
        """What is confirmed, too, need not be remembered."""
        self.refused = {number for number in self.refused if number > self.acked}

    def has_sent(self, sequence: int, number: int) -> bool:
        """Whether the message was put on the wire."""
        is_sent = sequence < self.sequence or (sequence == self.sequence and number <= self.sent)
        return is_sent and self.receiver != NULL_GUID
