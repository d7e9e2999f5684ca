"""Receiving and peeking: [MS-MQDMPR] 3.1.7.1.10 to 3.1.7.1.15.

A read returns a `Found` at once, or a `Waiter` that is completed later.
"""

from collections.abc import Iterable

from tiercel.engine.core import Core
from tiercel.engine.cursor import Cursor
from tiercel.engine.delivery import Delivery
from tiercel.engine.handles import Found, OpenQueue, Waiter
from tiercel.engine.queue_state import START, Lock, QueueState
from tiercel.engine.records import LAST_LOOKUP_ID, Record
from tiercel.engine.transaction import Operation, Transaction
from tiercel.engine.waiting import Waiting
from tiercel.model.codes import (
    MessageClass,
    MessageSeekAction,
    QueueAccess,
    TransactionalOperationType,
)
from tiercel.model.errors import (
    IllegalCursorActionError,
    InvalidHandleError,
    InvalidParameterError,
    IoTimeoutError,
    MessageNotFoundError,
    TransactionSequenceError,
    TransactionUsageError,
)
from tiercel.wire.user_message import UserMessage

_SPARE = 100
# cached: enum lookup is slow here
_RECEIVE = QueueAccess.RECEIVE
_ACK_RECEIVE = MessageClass.ACK_RECEIVE
_NACK_DELETED = MessageClass.NACK_DELETED
_NACK_Q_PURGED = MessageClass.NACK_Q_PURGED
_PEEK = QueueAccess.RECEIVE | QueueAccess.PEEK


class Reading:
    def __init__(self, core: Core, delivery: Delivery, waiting: Waiting) -> None:
        self._core = core
        self._delivery = delivery
        self._waiting = waiting

    # The reads.

    def receive(
        self,
        opened: OpenQueue,
        timeout: float | None = None,
        *,
        cursor: Cursor | None = None,
        transaction: Transaction | None = None,
        two_phase: bool = False,
        allow_peek: bool = False,
        tag: int | None = None,
    ) -> Found | Waiter:
        """Dequeue Message ([MS-MQDMPR] 3.1.7.1.10), with `two_phase` Dequeue Message Begin (3.1.7.1.11).

        Without a time-out it waits for ever; `tag` names the wait for `Waiting.cancel`.
        """
        queue = opened.queue_for(_RECEIVE)
        if cursor is not None:
            _check_cursor(opened, cursor)
        if transaction is not None:
            check_transaction(queue, transaction)
        must_wait = timeout is None or timeout > 0
        if cursor is None and transaction is None and not two_phase and queue.stored_count:
            received = self._receive_first(queue, 1)
            if received:
                return received[0]
        if cursor is None:
            found = queue.next_available(self._core, START)
        else:
            found = cursor.receive(self._core, wait=must_wait)
        if found is not None:
            return self._waiting.take(
                opened, queue, *found, transaction, two_phase=two_phase, allow_peek=allow_peek
            )
        if not must_wait:
            if cursor is None:
                raise IoTimeoutError(str(queue))
            problem = "no message is left where the cursor stands"
            raise MessageNotFoundError(str(queue), problem=problem, fix="wait for one, or use a new cursor")
        waiter = Waiter(
            opened, True, self._waiting.deadline(timeout), cursor, transaction, two_phase, allow_peek, tag
        )
        return self._waiting.wait(queue, waiter)

    def receive_many(
        self, opened: OpenQueue, limit: int, transaction: Transaction | None = None
    ) -> list[Found]:
        """The first available messages, at most `limit`."""
        queue = opened.queue_for(_RECEIVE)
        if transaction is not None:
            check_transaction(queue, transaction)
        received: list[Found] = []
        if transaction is None:
            received = self._receive_first(queue, limit)
        while len(received) < limit and (found := queue.next_available(self._core, START)) is not None:
            received.append(
                self._waiting.take(opened, queue, *found, transaction, two_phase=False, allow_peek=False)
            )
        return received

    def _receive_first(self, queue: QueueState, limit: int) -> list[Found]:
        """At most `limit` messages of a simple queue; none of any other."""
        if not queue.stored_count or not queue.is_simple:
            return []
        return [Found(queue, *each) for each in self._delivery.receive_first(queue, limit)]

    def peek(
        self,
        opened: OpenQueue,
        timeout: float | None = None,
        *,
        cursor: Cursor | None = None,
        tag: int | None = None,
    ) -> Found | Waiter:
        """Peek Message ([MS-MQDMPR] 3.1.7.1.15): the first one, or the one under the cursor."""
        queue = opened.queue_for(_PEEK)
        _check_cursor(opened, cursor)
        if cursor is None:
            found = queue.next_available(self._core, START, peek=True)
        else:
            found = cursor.peek(self._core)
        return self._peeked(opened, queue, found, timeout, cursor, tag)

    def peek_next(
        self, opened: OpenQueue, timeout: float | None, cursor: Cursor, *, tag: int | None = None
    ) -> Found | Waiter:
        """Peek Next Message ([MS-MQDMPR] 3.1.7.1.14)."""
        queue = opened.queue_for(_PEEK)
        _check_cursor(opened, cursor)
        return self._peeked(opened, queue, cursor.peek_next(self._core), timeout, cursor, tag)

    def wait_for_news(self, opened: OpenQueue, timeout: float | None) -> Waiter:
        """Waits for the next message that comes or comes back; those already there do not count."""
        queue = opened.queue_for(_PEEK)
        return self._waiting.wait(queue, Waiter(opened, False, self._waiting.deadline(timeout)))

    def read_by_lookup_id(
        self,
        opened: OpenQueue,
        lookup_id: int,
        action: MessageSeekAction,
        *,
        peek: bool,
        transaction: Transaction | None = None,
        two_phase: bool = False,
        allow_peek: bool = False,
    ) -> Found:
        """Read Message By Lookup Identifier ([MS-MQDMPR] 3.1.7.1.13)."""
        queue = opened.queue_for(_PEEK if peek else QueueAccess.RECEIVE)
        if peek and transaction is not None:
            fix = "peek without a transaction, or receive"
            raise InvalidParameterError(str(queue), problem="a peek takes no transaction", fix=fix)
        check_transaction(queue, transaction)
        found = self._seek(queue, lookup_id, action, peek=peek)
        if peek:
            return Found(queue, *found)
        return self._waiting.take(
            opened, queue, *found, transaction, two_phase=two_phase, allow_peek=allow_peek
        )

    def end_receive(self, opened: OpenQueue, lookup_id: int, *, delete: bool) -> None:
        """Dequeue Message End ([MS-MQDMPR] 3.1.7.1.12): the message is received, or given back."""
        queue, lock, record = self._held(opened, lookup_id)
        if isinstance(lock.owner, Transaction):
            if not delete:  # else the transaction decides (DMPR-209, T-13)
                self.leave_transaction(queue, lookup_id, lock.owner)
        elif delete and lock.doom != _NACK_Q_PURGED:
            self._delivery.finish(queue, lookup_id, record, _ACK_RECEIVE, lock.packet)
        else:
            self._waiting.give_back(queue, lookup_id, record)

    def end_received(self, reads: Iterable[tuple[OpenQueue, int]]) -> set[tuple[OpenQueue, int]]:
        """`end_receive` with `delete` for many reads that need nothing special; returns those it has ended.

        None may come twice.
        """
        ended: set[tuple[OpenQueue, int]] = set()
        runs: dict[QueueState, list[tuple[int, Record, UserMessage]]] = {}
        for opened, lookup_id in reads:
            queue = opened.state
            lock = None if queue is None else queue.locks.get(lookup_id)
            if queue is None or lock is None or lock.record is None or lock.packet is None:
                continue  # not held, or in a transaction
            is_special = lock.opened is not opened or lock.doom is not None or queue.is_outgoing
            if not is_special and lookup_id not in queue.express:
                runs.setdefault(queue, []).append((lookup_id, lock.record, lock.packet))
                ended.add((opened, lookup_id))
        for queue, run in runs.items():
            self._delivery.finish_received(queue, run)
        return ended

    def keep(self, opened: OpenQueue, lookup_id: int) -> None:
        """Ends a two-phase read as received, even if the message was purged meanwhile."""
        queue = opened.queue_for(QueueAccess.RECEIVE)
        lock, record = queue.locks.get(lookup_id), queue.get(self._core, lookup_id)
        if lock is not None and lock.owner is opened and record is not None:
            self._delivery.finish(queue, lookup_id, record, MessageClass.ACK_RECEIVE)

    def reject(self, opened: OpenQueue, lookup_id: int) -> None:
        """The reader of a two-phase read refuses the message for good."""
        queue, lock, record = self._held(opened, lookup_id)
        if isinstance(lock.owner, Transaction):
            self._drop_operation(queue, lookup_id, lock.owner)
        self._delivery.finish(queue, lookup_id, record, MessageClass.NACK_RECEIVE_REJECTED)

    def reject_at_commit(self, opened: OpenQueue, lookup_id: int) -> None:
        """Marks a message that was received in a transaction: its commit refuses it, its abort does not."""
        queue, lock, _ = self._held(opened, lookup_id)
        if not isinstance(lock.owner, Transaction):
            problem = "the message was not received in a transaction"
            raise TransactionUsageError(f"message {lookup_id} of {queue}", problem=problem)
        self._operation(queue, lookup_id, lock.owner).is_rejected = True

    def lock_on(self, opened: OpenQueue, lookup_id: int) -> Lock | None:
        """The lock on the message, None if it is free; an error when it is not in the queue."""
        queue = opened.queue_for(QueueAccess.RECEIVE)
        if queue.get(self._core, lookup_id) is None:
            raise MessageNotFoundError(f"message {lookup_id} of {queue}")
        return queue.locks.get(lookup_id)

    def leave_transaction(self, queue: QueueState, lookup_id: int, transaction: Transaction) -> None:
        """Takes one receive out of a transaction and gives the message back."""
        operation = self._drop_operation(queue, lookup_id, transaction)
        self._waiting.give_back(queue, lookup_id, operation.record)

    def _drop_operation(self, queue: QueueState, lookup_id: int, transaction: Transaction) -> Operation:
        operation = self._operation(queue, lookup_id, transaction)
        transaction.operations.remove(operation)
        return operation

    @staticmethod
    def _operation(queue: QueueState, lookup_id: int, transaction: Transaction) -> Operation:
        """The receive of the message in a transaction that has not ended."""
        transaction.check_active()
        for operation in transaction.operations:
            is_it = operation.queue is queue and operation.lookup_id == lookup_id
            if is_it and operation.kind == TransactionalOperationType.DEQUEUE:
                return operation
        problem = "the transaction moves the message"
        raise TransactionSequenceError(f"message {lookup_id} of {queue}", problem=problem)

    def _held(self, opened: OpenQueue, lookup_id: int) -> tuple[QueueState, Lock, Record]:
        queue = opened.queue_for(_RECEIVE)
        lock = queue.locks.get(lookup_id)
        record = lock.record if lock is not None else None
        if record is None:
            record = queue.get(self._core, lookup_id)
        if lock is None or record is None or lock.opened is not opened:
            problem = f"no read of message {lookup_id} is open on this handle"
            raise TransactionSequenceError(str(queue), problem=problem)
        return queue, lock, record

    def _seek(
        self, queue: QueueState, lookup_id: int, action: MessageSeekAction, *, peek: bool
    ) -> tuple[int, Record]:
        """Seek Available Message Position With Id ([MS-MQDMPR] 3.1.7.3.3; DMPR T-03)."""
        found: tuple[int, Record] | None
        match action:
            case MessageSeekAction.SEEK_FIRST:
                found = queue.next_available(self._core, START, peek=peek)
            case MessageSeekAction.SEEK_LAST:
                found = queue.previous_available(self._core, LAST_LOOKUP_ID + 1, peek=peek)
            case MessageSeekAction.SEEK_NEXT if queue.get(self._core, lookup_id) is not None:
                found = queue.next_available(self._core, lookup_id, peek=peek)
            case MessageSeekAction.SEEK_PREVIOUS if queue.get(self._core, lookup_id) is not None:
                found = queue.previous_available(self._core, lookup_id, peek=peek)
            case MessageSeekAction.SEEK_CURRENT:
                found = self._exactly(queue, lookup_id, peek=peek)
            case _:
                found = None  # there is no message to start from
        if found is None:
            raise MessageNotFoundError(f"message {lookup_id} of {queue}")
        return found

    def _exactly(self, queue: QueueState, lookup_id: int, *, peek: bool) -> tuple[int, Record] | None:
        record = None if queue.is_hidden(lookup_id) else queue.get(self._core, lookup_id)
        if record is None:
            return None
        lock = queue.locks.get(lookup_id)
        if lock is None or (peek and lock.is_visible):
            return lookup_id, record
        if peek and lock.doom is None:
            problem = "another reader holds the message"
            raise TransactionUsageError(f"message {lookup_id} of {queue}", problem=problem)
        return None

    # Waiting.

    def _peeked(
        self,
        opened: OpenQueue,
        queue: QueueState,
        found: tuple[int, Record] | None,
        timeout: float | None,
        cursor: Cursor | None,
        tag: int | None,
    ) -> Found | Waiter:
        if found is not None:
            return Found(queue, *found)
        if timeout is not None and timeout <= 0:
            if cursor is not None:
                cursor.wait_expired(self._core)
            raise IoTimeoutError(str(queue))
        return self._waiting.wait(
            queue, Waiter(opened, False, self._waiting.deadline(timeout), cursor, tag=tag)
        )


def check_transaction(queue: QueueState, transaction: Transaction | None) -> None:
    """Whether a read in this transaction is possible."""
    if transaction is None:
        return
    transaction.check_active()
    if not queue.queue.transactional:
        fix = "use it without a transaction, or use a queue that was made transactional"
        raise TransactionUsageError(str(queue), problem="the queue is not transactional", fix=fix)


def _check_cursor(opened: OpenQueue, cursor: Cursor | None) -> None:
    if cursor is None:
        return
    if cursor.handle not in opened.cursors:
        problem = "the cursor was closed or belongs to another opening"
        raise InvalidHandleError("cursor", problem=problem, fix="open a cursor on this queue")
    if opened.cursors[cursor.handle] is not cursor:
        raise IllegalCursorActionError("cursor")
