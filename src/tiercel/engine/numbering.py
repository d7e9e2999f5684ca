"""The numbers that the queue manager gives out: message identifiers and lookup identifiers."""

from collections.abc import Sequence
from uuid import UUID

from tiercel.engine.core import Core, Counter
from tiercel.model.identifiers import MessageId, lookup_id


class Numbering:
    def __init__(self, core: Core, queue_manager: UUID) -> None:
        self._queue_manager = queue_manager
        self._sequential_id = Counter(core, "sequential_id")
        self._message_ordinal = Counter(core, "message_ordinal")

    def new_message_id(self) -> MessageId:
        # 32 bits in the packet, never 0; numbers repeat after four billion messages.
        return MessageId(self._queue_manager, (self._message_ordinal.next() - 1) % 0xFFFF_FFFF + 1)

    @property
    def unassigned(self) -> MessageId:
        """The id of a message of this queue manager that has none yet."""
        return MessageId(self._queue_manager, 0)

    def new_message_ids(self, count: int) -> list[MessageId]:
        queue_manager, numbers = self._queue_manager, self._message_ordinal.next_many(count)
        return [MessageId(queue_manager, (number - 1) % 0xFFFF_FFFF + 1) for number in numbers]

    @property
    def newest_sequence(self) -> int:
        """The sequence of the last message that entered any queue; see `lookup_id_sequence`."""
        return self._sequential_id.last

    def new_lookup_id(self, priority: int) -> int:
        return lookup_id(priority, self._sequential_id.next())

    def new_sequences(self, count: int) -> range:
        """The lower parts of lookup ids, for messages that are stored one by one and appear together."""
        return self._sequential_id.next_many(count)

    def new_lookup_ids(self, priorities: Sequence[int]) -> list[int]:
        return list(map(lookup_id, priorities, self._sequential_id.next_many(len(priorities))))
