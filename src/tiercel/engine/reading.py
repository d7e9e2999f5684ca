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
from tiercel.engine.transaction import Operation, Transaction
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
    MqError,
    OperationCancelledError,
    TransactionSequenceError,
    TransactionUsageError,
)
from tiercel.wire.user_message import UserMessage

_SPARE = 100
# By names of their own: naming a member of an enum costs a call.
_RECEIVE = QueueAccess.RECEIVE
_ACK_RECEIVE = MessageClass.ACK_RECEIVE
_NACK_DELETED = MessageClass.NACK_DELETED
_NACK_Q_PURGED = MessageClass.NACK_Q_PURGED
_PEEK = QueueAccess.RECEIVE | QueueAccess.PEEK


class Reading:
    def __init__(self, core: Core, delivery: Delivery) -> None:
        self._core = core
        self._delivery = delivery
        self._deadlines: list[tuple[float, int, Waiter]] = []
        self._order = count()
        self._timed = 0  # waits with a time-out that have not ended
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
            return self._take(opened, queue, *found, transaction, two_phase=two_phase, allow_peek=allow_peek)
        if not must_wait:
            if cursor is None:
                raise IoTimeoutError(str(queue))
            problem = "no message is left where the cursor stands"
            raise MessageNotFoundError(str(queue), problem=problem, fix="wait for one, or use a new cursor")
        waiter = Waiter(
            opened, True, self._deadline(timeout), cursor, transaction, two_phase, allow_peek, tag
        )
        return self._wait(queue, waiter)

    def receive_many(
        self, opened: OpenQueue, limit: int, transaction: Transaction | None = None
    ) -> list[Found]:
        """The first messages that are there, not more than `limit`."""
        queue = opened.queue_for(_RECEIVE)
        if transaction is not None:
            check_transaction(queue, transaction)
        received: list[Found] = []
        if transaction is None:
            received = self._receive_first(queue, limit)
        while len(received) < limit and (found := queue.next_available(self._core, START)) is not None:
            received.append(self._take(opened, queue, *found, transaction, two_phase=False, allow_peek=False))
        return received

    def _receive_first(self, queue: QueueState, limit: int) -> list[Found]:
        """At the most so many, and none where it is not that simple."""
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

    def wait_for_news(self, opened: OpenQueue, timeout: float | None) -> Waiter:
        """Waits for the next message that comes, or comes back, whatever is there already."""
        queue = opened.queue_for(_PEEK)
        return self._wait(queue, Waiter(opened, False, self._deadline(timeout)))

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
        queue, lock, record = self._held(opened, lookup_id)
        if isinstance(lock.owner, Transaction):
            if not delete:  # the transaction decides of what stays in it (DMPR-209, T-13)
                self.leave_transaction(queue, lookup_id, lock.owner)
        elif delete and lock.doom != _NACK_Q_PURGED:
            self._delivery.finish(queue, lookup_id, record, _ACK_RECEIVE, lock.packet)
        else:
            self.give_back(queue, lookup_id, record)

    def keep(self, opened: OpenQueue, lookup_id: int) -> None:
        """Ends a two-phase read whose message the application has: it counts as received, come what may."""
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
        """Who holds the message, if anybody does; an error when it is not in the queue."""
        queue = opened.queue_for(QueueAccess.RECEIVE)
        if queue.get(self._core, lookup_id) is None:
            raise MessageNotFoundError(f"message {lookup_id} of {queue}")
        return queue.locks.get(lookup_id)

    def leave_transaction(self, queue: QueueState, lookup_id: int, transaction: Transaction) -> None:
        """Takes one receive out of a transaction, as if it had never been in it."""
        operation = self._drop_operation(queue, lookup_id, transaction)
        self.give_back(queue, lookup_id, operation.record)

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
            queue.lock(lookup_id, Lock(transaction, opened, allow_peek))
            kind = TransactionalOperationType.DEQUEUE
            transaction.operations.append(Operation(kind, queue, record, lookup_id))
        elif two_phase:
            packet = UserMessage(record.packet)
            queue.lock(lookup_id, Lock(opened, opened, allow_peek, None, record, packet))
            return Found(queue, lookup_id, record, packet)
        else:
            # What an administrator takes out of an outgoing queue will never reach its destination.
            reason = _NACK_DELETED if queue.is_outgoing else _ACK_RECEIVE
            packet = UserMessage(record.packet)
            self._delivery.finish(queue, lookup_id, record, reason, packet)
            return Found(queue, lookup_id, record, packet)
        return Found(queue, lookup_id, record)

    def give_back(self, queue: QueueState, lookup_id: int, record: Record) -> None:
        """A message that was taken and not kept returns to its old place, unless its end came meanwhile."""
        lock = queue.locks.get(lookup_id)
        if lock is not None and lock.doom is not None:
            self._delivery.finish(queue, lookup_id, record, lock.doom)
            return
        queue.unlock(lookup_id)
        if queue.is_outgoing:  # its protocol waited for whoever held it
            self._core.ready[queue] = None
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
            case MessageSeekAction.SEEK_NEXT if queue.get(self._core, lookup_id) is not None:
                found = queue.next_available(self._core, lookup_id, peek=peek)
            case MessageSeekAction.SEEK_PREVIOUS if queue.get(self._core, lookup_id) is not None:
                found = queue.previous_available(self._core, lookup_id, peek=peek)
            case MessageSeekAction.SEEK_CURRENT:
                found = self._exactly(queue, lookup_id, peek=peek)
            case _:
                found = None  # there is no message to go on from
        if found is None:
            raise MessageNotFoundError(f"message {lookup_id} of {queue}")
        return found

    def _exactly(self, queue: QueueState, lookup_id: int, *, peek: bool) -> tuple[int, Record] | None:
        record = queue.get(self._core, lookup_id)
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
        return self._wait(queue, Waiter(opened, False, self._deadline(timeout), cursor, tag=tag))

    def _deadline(self, timeout: float | None) -> float | None:
        return None if timeout is None else self._core.now + timeout

    def _wait(self, queue: QueueState, waiter: Waiter) -> Waiter:
        queue.waiters.append(waiter)
        if waiter.transaction is not None:
            waiter.transaction.waiters.append(waiter)
        if waiter.deadline is not None:
            self._timed += 1
            if len(self._deadlines) > 2 * self._timed + _SPARE:  # mostly waits that have ended
                self._deadlines = [entry for entry in self._deadlines if not entry[2].is_done]
                heapq.heapify(self._deadlines)
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
        self._timed -= waiter.deadline is not None
        self._core.effects.append(Completed(waiter))

    def stop_waiting(self, waiter: Waiter, error: MqError) -> None:
        """Ends a wait without a message; nobody is ever left to wait for nothing (DMPR T-07)."""
        queue = waiter.opened.state
        if queue is not None and waiter in queue.waiters:
            queue.waiters.remove(waiter)
            if waiter.cursor is not None:
                waiter.cursor.wait_expired(self._core)
            self._complete(waiter, error=error)

    def cancel(
        self, queue: QueueState, tag: int, error: MqError | None = None, *, opened: OpenQueue | None = None
    ) -> bool:
        """Ends the wait with that tag, on one handle or on any; whether there was one."""
        waiters = (each for each in queue.waiters if opened is None or each.opened is opened)
        waiter = next((each for each in waiters if each.tag == tag), None)
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
