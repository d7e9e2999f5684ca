"""Messages of a transaction that are in the store before its commit, and hidden until then.

Storing a large batch takes a second, in which others must have their turns. So it is stored in slices, under
the lookup ids that the messages keep, and the commit only ends the hiding. Until then readers see the queue
as if nothing had come since (`QueueState.hidden_from`): none reads past messages that are still to appear.
"""

from collections import deque
from collections.abc import Sequence

from tiercel.engine.core import Core
from tiercel.engine.delivery import Delivery, priority_of_plain
from tiercel.engine.life import HEAD_BYTES
from tiercel.engine.queue_state import QueueState
from tiercel.engine.transaction import Operation, give_places
from tiercel.engine.unpublished_rows import UnpublishedRow
from tiercel.model.errors import QueueDeletedError
from tiercel.model.identifiers import lookup_id

_SLICE_BYTES = 1 << 20  # stored in one turn, but for the last message


def is_plain(operation: Operation) -> bool:
    """Whether a send may be stored before the commit: nobody is told of its arrival, and it never expires."""
    queue, record = operation.queue, operation.record
    if queue.is_outgoing:  # it stays for the commit
        return True
    plain = priority_of_plain(record.packet, queue)
    return plain is not None and plain[1] and not record.dead_letter_queue and not record.verdict


class Unpublished:
    """The sends of a transaction to one queue; each has its sequence, and with a `place` its number."""

    def __init__(
        self,
        core: Core,
        queue: QueueState,
        operations: Sequence[Operation],
        sequences: range,
        place: tuple[int, int] | None,
    ) -> None:
        """`place`: of transactional messages, their stream and the last number that it has given out."""
        self.queue = queue
        self._core = core
        self._operations = deque(operations)  # that are not stored yet
        self._heads: list[bytes] = []  # of the packets that are
        self._size = 0
        self._sequences = sequences
        self._place = place
        self._is_over = False
        self._row = UnpublishedRow(queue.slot, sequences[0], sequences[-1])
        self._row.put(core.batch)
        queue.hide(sequences[0])

    @property
    def is_stored(self) -> bool:
        return not self._operations

    def store(self, limit: int) -> None:
        """Stores the next messages, at most `limit`."""
        if self._is_over:
            problem = "it was deleted while messages were published to it"
            raise QueueDeletedError(str(self.queue), problem=problem, fix="create it, and publish again")
        start, operations, size = len(self._heads), list[Operation](), 0
        while self._operations and len(operations) < limit and size < _SLICE_BYTES:
            operations.append(self._operations.popleft())
            size += len(operations[-1].record.packet)
        if self._place is not None:
            stream, last = self._place
            give_places(operations, stream, last + start, begins=start == 0, ends=self.is_stored)
        packets = [operation.record.packet for operation in operations]
        sequences = self._sequences[start : start + len(packets)]
        priorities = [_priority(packet, self.queue) for packet in packets]
        self.queue.release(self._core, size)
        self.queue.insert_hidden(self._core, list(map(lookup_id, priorities, sequences)), packets)
        self._heads += [packet[:HEAD_BYTES] for packet in packets]
        self._size += size

    def finish(self) -> None:
        """Stores what is left; raises when the messages cannot be published."""
        while self._is_over or not self.is_stored:
            self.store(len(self._operations))

    def publish(self, delivery: Delivery) -> None:
        """All messages are stored: they appear, together with those that came after them."""
        self._is_over = True
        self._row.delete(self._core.batch)
        self.queue.show(self._sequences[0], len(self._heads), self._size)
        delivery.appeared(self.queue, self._heads, self._sequences[0])

    def undo(self) -> None:
        """The transaction has ended without its commit, or the queue is deleted."""
        if self._is_over:
            return
        self._is_over = True
        self.queue.release(self._core, sum(len(each.record.packet) for each in self._operations))
        count, size = self._row.remove_messages(self._core.batch)
        self._row.delete(self._core.batch)
        self.queue.remove_hidden(self._core, self._sequences[0], count, size)


def _priority(packet: bytes, queue: QueueState) -> int:
    plain = priority_of_plain(packet, queue)
    assert plain is not None
    return plain[0]
