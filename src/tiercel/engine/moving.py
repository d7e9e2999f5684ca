"""Moving messages between queues of this computer: [MS-MQDMPR] 3.1.7.1.16."""

from tiercel.engine.admission import Admission
from tiercel.engine.core import Core
from tiercel.engine.delivery import Delivery
from tiercel.engine.handles import OpenQueue
from tiercel.engine.life import LifeKind
from tiercel.engine.operations import Moved
from tiercel.engine.queue_state import Lock, QueueState
from tiercel.engine.reading import check_transaction
from tiercel.engine.records import Record
from tiercel.engine.transaction import Operation, Transaction
from tiercel.engine.transactions import Transactions
from tiercel.model.codes import MessageClass, QueueAccess, TransactionalOperationType
from tiercel.model.errors import MessageNotFoundError, UnsupportedOperationError
from tiercel.wire.user_message import UserMessage


class Moving:
    def __init__(
        self, core: Core, admission: Admission, delivery: Delivery, transactions: Transactions
    ) -> None:
        self._core = core
        self._admission = admission
        self._delivery = delivery
        self._transactions = transactions

    def move(
        self, opened: OpenQueue, lookup_id: int, target: OpenQueue, transaction: Transaction | None = None
    ) -> int | None:
        """Move Message ([MS-MQDMPR] 3.1.7.1.16), between a queue and its subqueues.

        Returns the new lookup id; None if a transaction has still to commit.
        """
        queue, goal = opened.queue_for(QueueAccess.RECEIVE), target.queue_for(QueueAccess.MOVE)
        if not queue.can_move_to(goal):
            problem = f"messages move only between a queue and its subqueues, not to {goal}"
            raise UnsupportedOperationError(str(queue), problem=problem, fix="name another subqueue")
        check_transaction(queue, transaction)
        record = self._available(queue, lookup_id)
        if transaction is None:
            self._core.reserve(len(record.packet))
            return self._transactions.move(queue, lookup_id, record, goal)
        queue.lock(lookup_id, Lock(transaction, opened))
        goal.pending_moves += 1  # keeps a subqueue that is still empty
        kind = TransactionalOperationType.MOVE
        transaction.operations.append(Operation(kind, queue, record, lookup_id, goal))
        return None

    def hand_over(self, opened: OpenQueue, lookup_id: int, target: OpenQueue) -> int | None:
        """Moves a message to any other queue of this computer without telling its sender.

        Returns the new lookup id. A copy out of a journal or dead-letter queue becomes a message again. None
        when the message would have to change in other ways: the caller then sends it anew and calls
        `take_away`.
        """
        queue, goal = opened.queue_for(QueueAccess.RECEIVE), target.queue_for(QueueAccess.SEND)
        record = self._available(queue, lookup_id)
        packet = UserMessage(record.packet)
        if not self.keeps_id(queue, packet, goal):
            return None
        self._admission.check_goal(goal, packet, record)
        if packet.is_recoverable:
            self._core.reserve(len(record.packet))
        if record.is_copy:
            record = _revived(record, packet, self._core.seconds)
        return self._transactions.move(queue, lookup_id, record, goal)

    def keeps_id(self, queue: QueueState, packet: UserMessage, goal: QueueState) -> bool:
        """Whether `hand_over` would move a message of one queue to the other."""
        misfit = self._admission.check_transaction(goal, is_transactional=packet.is_transactional)
        return not queue.is_outgoing and not goal.is_outgoing and misfit is None

    def take_away(self, opened: OpenQueue, lookup_id: int) -> None:
        """Ends a message that was sent anew elsewhere in the same batch.

        Its sender is told that it was received; if it was still on its way, nothing.
        """
        queue = opened.queue_for(QueueAccess.RECEIVE)
        record = self._available(queue, lookup_id)
        if queue.is_outgoing:
            self._delivery.detach(queue, lookup_id, record)
            self._core.life.add_one(LifeKind.RESENT, queue.slot, record.packet)
        else:
            self._delivery.finish(queue, lookup_id, record, MessageClass.ACK_RECEIVE)

    def throw_away(self, opened: OpenQueue, lookup_id: int, trash: OpenQueue) -> int:
        """Moves a message to the trash of its queue, where it keeps its lookup id; returns its size."""
        queue, goal = opened.queue_for(QueueAccess.RECEIVE), trash.queue_for(QueueAccess.MOVE)
        record = self._available(queue, lookup_id)
        self._relocate(queue, lookup_id, record, UserMessage(record.packet), goal, lookup_id)
        return len(record.packet)

    def put_back(self, opened: OpenQueue, lookup_id: int, goal: OpenQueue) -> bool:
        """Undoes `throw_away`; False if the message is not there any more.

        It gets its old place, the lookup id that it had. Where consumers claim messages by number, it gets a
        new one at the end: they would never see it behind the place that they have reached.
        """
        return self._put_back(opened, lookup_id, goal, lookup_id, None)

    def move_back(self, opened: OpenQueue, moved: Moved, goal: OpenQueue) -> bool:
        """The same for a move; what was a copy before it, is a copy again."""
        return self._put_back(opened, moved.lookup_id, goal, moved.place, moved if moved.is_copy else None)

    def _put_back(
        self, opened: OpenQueue, lookup_id: int, goal: OpenQueue, place: int, copy: Moved | None
    ) -> bool:
        queue, home = opened.queue_for(QueueAccess.RECEIVE), goal.queue_for(QueueAccess.MOVE)
        record = None if lookup_id in queue.locks else queue.get(self._core, lookup_id)
        if record is None:
            return False
        packet = UserMessage(record.packet)
        if copy is not None:
            record = _copy_again(record, packet, copy)
        if home.consumers:
            self._core.reserve(len(record.packet))
            self._delivery.transfer(queue, lookup_id, self._moved(record), packet, home)
        else:
            self._relocate(queue, lookup_id, record, packet, home, place)
        return True

    def _relocate(
        self,
        queue: QueueState,
        lookup_id: int,
        record: Record,
        packet: UserMessage,
        goal: QueueState,
        place: int,
    ) -> None:
        if packet.is_recoverable:
            self._core.reserve_to_move(1, len(record.packet))
        self._delivery.relocate(queue, lookup_id, self._moved(record), packet, goal, place)

    def _moved(self, record: Record) -> Record:
        return record._replace(move_count=record.move_count + 1, last_move_time=self._core.seconds)

    def _available(self, queue: QueueState, lookup_id: int) -> Record:
        record = None if lookup_id in queue.locks else queue.get(self._core, lookup_id)
        if record is None:
            raise MessageNotFoundError(f"message {lookup_id} of {queue}")
        return record


def _revived(record: Record, packet: UserMessage, now: int) -> Record:
    """A message again, which expires, is journaled and acknowledged; its time to be received starts anew."""
    return Record(
        packet.with_sent_time(now),
        record.arrival_time,
        dead_letter_queue=record.dead_letter_queue,
        verdict=record.verdict,
    )


def _copy_again(record: Record, packet: UserMessage, moved: Moved) -> Record:
    """Undoes `_revived`."""
    return record._replace(
        packet=packet.with_sent_time(moved.sent_time),
        abort_count=moved.abort_count,
        reason=moved.reason,
        is_copy=True,
    )
