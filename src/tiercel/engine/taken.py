"""Messages that a carrier has taken to send them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

from tiercel.engine.queue_state import QueueState
from tiercel.wire.user_message import UserMessage


@dataclass(slots=True, eq=False)
class Taken:
    """Messages in flight: one or more of one queue and of one shape (`wire/alike.py`), in order.

    The packets are those for the wire: the body of one may be encrypted, that of its record is not.
    """

    queue: QueueState
    lookup_ids: Sequence[int]
    packets: Sequence[bytes]
    packet: UserMessage  # the first; what is decided about it holds for all of them
    size: int  # of all of them as they are stored, in bytes
    sequence: int = 0  # of our stream; 0 if they are not in one
    numbers: Sequence[int] = ()  # their positions in it

    def __len__(self) -> int:
        return len(self.lookup_ids)

    @property
    def number(self) -> int:
        """The position of the first in our stream, 0 if it is not in one."""
        return self.numbers[0] if self.numbers else 0

    def singles(self) -> "Iterator[Taken]":
        """Each message by itself."""
        return (self.part(1 << index) for index in range(len(self)))

    def part(self, mask: int) -> Self:
        """The messages whose bits are set, the first one's is the lowest."""
        if mask == (1 << len(self.lookup_ids)) - 1:
            return self
        start, end = (mask & -mask).bit_length() - 1, mask.bit_length()
        if mask == (1 << end) - (1 << start):  # neighbours, as nearly always
            return self._of(slice(start, end))
        indices = [index for index in range(start, end) if mask >> index & 1]
        packets = [self.packets[index] for index in indices]
        return replace(
            self,
            lookup_ids=[self.lookup_ids[index] for index in indices],
            packets=packets,
            packet=UserMessage(packets[0]),
            size=sum(map(len, packets)),
            numbers=[self.numbers[index] for index in indices] if self.numbers else (),
        )

    def _of(self, some: slice) -> Self:
        packets = self.packets[some]
        packet = UserMessage(packets[0]) if some.start else self.packet
        size = sum(map(len, packets))
        return type(self)(
            self.queue, self.lookup_ids[some], packets, packet, size, self.sequence, self.numbers[some]
        )
