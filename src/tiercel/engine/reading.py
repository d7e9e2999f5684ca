"""Receiving, peeking and waiting: [MS-MQDMPR] 3.1.7.1.10 to 3.1.7.1.17 and 3.1.7.3.1 to 3.1.7.3.7.

A read gives a `Found` at once, or a `Waiter` that is told later. Waiters of a queue stand in one line in the
order of their coming, whichever handle they came through (DMPR T-29): a new message goes to everyone who
peeks and to the first who receives, before anybody else can see it.
"""

import heapq
from itertools import count

from tiercel.engine.core import Completed, Core
from tiercel.engine.cursor import Cursor
from tiercel.engine.delivery import Delivery
from tiercel.engine.handles import Found, OpenQueue, Waiter
from tiercel.engine.queue_state import START, Lock, QueueState
from tiercel.engine.records import LAST_LOOKUP_ID, Record
from tiercel.engine.transaction import Operation, Transaction, TransactionState
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
    MessageAlreadyReceivedError,
    MessageNotFoundError,
    MqError,
    OperationCancelledError,
    TransactionSequenceError,
    TransactionUsageError,
)

_PEEK = QueueAccess.RECEIVE | QueueAccess.PEEK


class Reading:
    def __init__(self, core: Core, delivery: Delivery) -> None:
        self._core = core
        self._delivery = delivery
        self._deadlines: list[tuple[float, int, Waiter]] = []
        self._order = count()
        delivery.offer = self.offer

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
        queue = opened.queue_for(QueueAccess.RECEIVE)
        _check_cursor(opened, cursor)
        check_transaction(queue, transaction)
        must_wait = timeout is None or timeout > 0
        if cursor is None:
            found = queue.next_available(self._core, START)
        else:
            found = cursor.receive(self._core, wait=must_wait)
        if found is not None:
            return self._take(opened, queue, *found, transaction, two_phase=two_phase, allow_peek=allow_peek)
        if not must_wait:
            raise IoTimeoutError(str(queue)) if cursor is None else MessageNotFoundError(str(queue))
        waiter = Waiter(
            opened, True, self._deadline(timeout), cursor, transaction, two_phase, allow_peek, tag
        )
        return self._wait(queue, waiter)

    def peek(
        self,
        opened: OpenQueue,
        timeout: float | None = None,
        *,
        cursor: Cursor | None = None,
        tag: int | None = None,
    ) -> Found | Waiter:
        """The first message, or the one under the cursor; it stays where it is."""
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
        queue = opened.queue_for(_PEEK)
        _check_cursor(opened, cursor)
        return self._peeked(opened, queue, cursor.peek_next(self._core), timeout, cursor, tag)

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
        queue = opened.queue_for(_PEEK if peek else QueueAccess.RECEIVE)
        if peek and transaction is not None:
            fix = "peek without a transaction, or receive"
            raise InvalidParameterError(str(queue), problem="a peek takes no transaction", fix=fix)
        check_transaction(queue, transaction)
        found = self._seek(queue, lookup_id, action, peek=peek)
        if peek:
            return Found(queue, *found)
        return self._take(opened, queue, *found, transaction, two_phase=two_phase, allow_peek=allow_peek)

    def end_receive(self, opened: OpenQueue, lookup_id: int, *, delete: bool) -> None:
        """The second phase of a two-phase read: the message is kept by its reader, or given back."""
        queue = opened.queue_for(QueueAccess.RECEIVE)
        lock = queue.locks.get(lookup_id)
        if lock is None or lock.owner is not opened:
            problem = f"no read of message {lookup_id} is open on this handle"
            raise TransactionSequenceError(str(queue), problem=problem)
        record = queue.get(self._core, lookup_id)
        if record is None:
            queue.unlock(lookup_id)
        elif delete and lock.doom != MessageClass.NACK_Q_PURGED:
            self._delivery.finish(queue, lookup_id, record, MessageClass.ACK_RECEIVE)
        else:
            self.give_back(queue, lookup_id, record)

    def reject(self, opened: OpenQueue, lookup_id: int) -> None:
        """The reader of a two-phase read refuses the message for good."""
        queue = opened.queue_for(QueueAccess.RECEIVE)
        lock = queue.locks.get(lookup_id)
        if lock is None or lock.owner is not opened:
            raise TransactionSequenceError(
                str(queue), problem=f"message {lookup_id} is not held by this handle"
            )
        record = queue.get(self._core, lookup_id)
        if record is not None:
            self._delivery.finish(queue, lookup_id, record, MessageClass.NACK_RECEIVE_REJECTED)

    # Taking and giving back.

    def _take(
        self,
        opened: OpenQueue,
        queue: QueueState,
        lookup_id: int,
        record: Record,
        transaction: Transaction | None,
        *,
        two_phase: bool,
        allow_peek: bool,
    ) -> Found:
        if transaction is not None:  # it wins over two phases (MQRR trap 13)
            queue.lock(lookup_id, Lock(transaction, allow_peek))
            kind = TransactionalOperationType.DEQUEUE
            transaction.operations.append(Operation(kind, queue, record, lookup_id))
        elif two_phase:
            queue.lock(lookup_id, Lock(opened, allow_peek))
        else:
            self._delivery.finish(queue, lookup_id, record, MessageClass.ACK_RECEIVE)
        return Found(queue, lookup_id, record)

    def give_back(self, queue: QueueState, lookup_id: int, record: Record) -> None:
        """A message that was taken and not kept returns to its old place, unless its end came meanwhile."""
        lock = queue.unlock(lookup_id)
        if lock is not None and lock.doom is not None:
            self._delivery.finish(queue, lookup_id, record, lock.doom)
            return
        if queue.is_deleted:
            return
        returned = record._replace(abort_count=record.abort_count + 1)
        queue.rewrite(self._core, lookup_id, returned)
        self.offer(queue, lookup_id, returned)

    def _seek(
        self, queue: QueueState, lookup_id: int, action: MessageSeekAction, *, peek: bool
    ) -> tuple[int, Record]:
        """Seek Available Message Position With Id; first and last need no id (DMPR T-03)."""
        found: tuple[int, Record] | None
        match action:
            case MessageSeekAction.SEEK_FIRST:
                found = queue.next_available(self._core, START, peek=peek)
            case MessageSeekAction.SEEK_LAST:
                found = queue.previous_available(self._core, LAST_LOOKUP_ID + 1, peek=peek)
            case MessageSeekAction.SEEK_NEXT:
                found = queue.next_available(self._core, lookup_id, peek=peek)
            case MessageSeekAction.SEEK_PREVIOUS:
                found = queue.previous_available(self._core, lookup_id, peek=peek)
            case MessageSeekAction.SEEK_CURRENT:
                found = self._exactly(queue, lookup_id, peek=peek)
        if found is None:
            raise MessageNotFoundError(f"message {lookup_id} of {queue}")
        return found

    def _exactly(self, queue: QueueState, lookup_id: int, *, peek: bool) -> tuple[int, Record] | None:
        record = queue.get(self._core, lookup_id)
        if record is None:
            return None
        lock = queue.locks.get(lookup_id)
        if lock is None or (peek and lock.allow_peek):
            return lookup_id, record
        if lock.doom is not None:
            raise MessageAlreadyReceivedError(f"message {lookup_id} of {queue}")
        if peek:
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
        return self._wait(queue, Waiter(opened, False, self._deadline(timeout), cursor, tag=tag))

    def _deadline(self, timeout: float | None) -> float | None:
        return None if timeout is None else self._core.now + timeout

    def _wait(self, queue: QueueState, waiter: Waiter) -> Waiter:
        queue.waiters.append(waiter)
        if waiter.deadline is not None:
            heapq.heappush(self._deadlines, (waiter.deadline, next(self._order), waiter))
        return waiter

    def offer(self, queue: QueueState, lookup_id: int, record: Record) -> None:
        """Message Position Available: everyone who peeks sees it, the first who receives gets it."""
        if not queue.waiters:
            return
        found = Found(queue, lookup_id, record)
        receiver = next((waiter for waiter in queue.waiters if waiter.is_receive), None)
        served = [waiter for waiter in queue.waiters if not waiter.is_receive or waiter is receiver]
        queue.waiters = [waiter for waiter in queue.waiters if waiter not in served]
        for waiter in served:
            if waiter.cursor is not None:
                waiter.cursor.message_available(lookup_id)
            if not waiter.is_receive:
                self._complete(waiter, found=found)
        if receiver is not None:
            self._give_to(receiver, queue, lookup_id, record)

    def _give_to(self, waiter: Waiter, queue: QueueState, lookup_id: int, record: Record) -> None:
        found = self._take(
            waiter.opened,
            queue,
            lookup_id,
            record,
            waiter.transaction,
            two_phase=waiter.two_phase,
            allow_peek=waiter.allow_peek,
        )
        self._complete(waiter, found=found)

    def _complete(self, waiter: Waiter, *, found: Found | None = None, error: MqError | None = None) -> None:
        waiter.found, waiter.error = found, error
        self._core.effects.append(Completed(waiter))

    def stop_waiting(self, waiter: Waiter, error: MqError) -> None:
        """Ends a wait without a message; nobody is ever left to wait for nothing (DMPR T-07)."""
        queue = waiter.opened.state
        if queue is not None and waiter in queue.waiters:
            queue.waiters.remove(waiter)
            if waiter.cursor is not None:
                waiter.cursor.wait_expired(self._core)
            self._complete(waiter, error=error)

    def cancel(self, opened: OpenQueue, tag: int, error: MqError | None = None) -> bool:
        """Ends the wait with that tag on a handle; whether there was one."""
        queue = opened.queue_for(_PEEK)
        waiter = next((each for each in queue.waiters if each.opened is opened and each.tag == tag), None)
        if waiter is None:
            return False
        self.stop_waiting(waiter, error or OperationCancelledError(str(queue)))
        return True

    @property
    def next_deadline(self) -> float | None:
        while self._deadlines and self._deadlines[0][2].is_done:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def expire_waits(self) -> None:
        while (deadline := self.next_deadline) is not None and deadline <= self._core.now:
            waiter = heapq.heappop(self._deadlines)[2]
            self.stop_waiting(waiter, IoTimeoutError(str(waiter.opened.state)))


def check_transaction(queue: QueueState, transaction: Transaction | None) -> None:
    """Whether a read in this transaction is possible."""
    if transaction is None:
        return
    if transaction.state is not TransactionState.ACTIVE:
        raise TransactionSequenceError(f"transaction {transaction.id}", problem="it has ended or is prepared")
    if not queue.queue.transactional:
        fix = "receive without a transaction, or make the queue transactional"
        raise TransactionUsageError(str(queue), problem="the queue is not transactional", fix=fix)


def _check_cursor(opened: OpenQueue, cursor: Cursor | None) -> None:
    if cursor is None:
        return
    if cursor.handle not in opened.cursors:
        problem = "the cursor was closed or belongs to another opening"
        raise InvalidHandleError("cursor", problem=problem, fix="open a cursor on this queue")
    if opened.cursors[cursor.handle] is not cursor:
        raise IllegalCursorActionError("cursor")
