"""Reads that wait for a message, and how a message is taken and given back.

Waiters of a queue stand in one line in order of arrival, whichever handle they used (DMPR T-29): a new
message goes to everyone who peeks and to the first who receives, before anybody else can see it.
[MS-MQDMPR] 3.1.2.3, 3.1.7.3.1, 3.1.7.3.4 to 3.1.7.3.7.
"""

import heapq
from itertools import count
from typing import TYPE_CHECKING

from tiercel.engine.core import Completed, Core
from tiercel.engine.handles import Found, OpenQueue, Waiter
from tiercel.engine.life import LifeKind
from tiercel.engine.queue_state import Lock, QueueState
from tiercel.engine.records import Record
from tiercel.engine.transaction import Operation, Transaction
from tiercel.model.codes import MessageClass, TransactionalOperationType
from tiercel.model.errors import IoTimeoutError, MqError, OperationCancelledError
from tiercel.wire.user_message import UserMessage

if TYPE_CHECKING:
    from tiercel.engine.delivery import Delivery

_SPARE = 100
_ACK_RECEIVE = MessageClass.ACK_RECEIVE  # cached: enum lookup is slow here
_NACK_DELETED = MessageClass.NACK_DELETED


class Waiting:
    def __init__(self, core: Core, delivery: "Delivery") -> None:
        self._core = core
        self._delivery = delivery
        self._deadlines: list[tuple[float, int, Waiter]] = []
        self._order = count()
        self._timed = 0  # waits with a time-out that have not ended

    # Taking and giving back.

    def take(
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
        """Has a reader receive the message: for good, in a transaction, or in the first of two phases."""
        if transaction is not None:  # it wins over two phases (MQRR trap 13)
            queue.lock(lookup_id, Lock(transaction, opened, allow_peek))
            kind = TransactionalOperationType.DEQUEUE
            transaction.operations.append(Operation(kind, queue, record, lookup_id))
            self._core.life.add_one(LifeKind.HELD, queue.slot, record.packet)
        elif two_phase:
            packet = UserMessage(record.packet)
            self._core.life.add_one(LifeKind.HELD, queue.slot, record.packet)
            queue.lock(lookup_id, Lock(opened, opened, allow_peek, None, record, packet))
            return Found(queue, lookup_id, record, packet)
        else:
            # A message that an administrator takes out of an outgoing queue never reaches its destination.
            reason = _NACK_DELETED if queue.is_outgoing else _ACK_RECEIVE
            packet = UserMessage(record.packet)
            self._delivery.finish(queue, lookup_id, record, reason, packet)
            return Found(queue, lookup_id, record, packet)
        return Found(queue, lookup_id, record)

    def give_back(self, queue: QueueState, lookup_id: int, record: Record) -> None:
        """A message that was taken and not kept returns to its place, unless it expired or was purged."""
        lock = queue.locks.get(lookup_id)
        if lock is not None and lock.doom is not None:
            self._delivery.finish(queue, lookup_id, record, lock.doom)
            return
        queue.unlock(lookup_id)
        self._core.life.add_one(LifeKind.RETURNED, queue.slot, record.packet)
        if queue.is_outgoing:  # its carrier has waited for the reader
            self._core.ready[queue] = None
        returned = record._replace(abort_count=record.abort_count + 1)
        queue.rewrite(self._core, lookup_id, returned)
        self.offer(queue, lookup_id, returned)

    # Waiting.

    def deadline(self, timeout: float | None) -> float | None:
        return None if timeout is None else self._core.now + timeout

    def wait(self, queue: QueueState, waiter: Waiter) -> Waiter:
        """Wait For New Message ([MS-MQDMPR] 3.1.7.3.1); Waiting Message Read Timer Start (3.1.7.3.4)."""
        queue.waiters.append(waiter)
        waiter.actor = self._core.life.actor
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
        """Message Position Available ([MS-MQDMPR] 3.1.7.2.2), Release Next Reader (3.1.7.3.7).

        Everyone who peeks sees the message, the first who receives gets it.
        """
        if not queue.waiters or queue.is_hidden(lookup_id):
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
        life = self._core.life
        sender, life.actor = life.actor, waiter.actor
        found = self.take(
            waiter.opened,
            queue,
            lookup_id,
            record,
            waiter.transaction,
            two_phase=waiter.two_phase,
            allow_peek=waiter.allow_peek,
        )
        life.actor = sender
        self._complete(waiter, found=found)

    def _complete(self, waiter: Waiter, *, found: Found | None = None, error: MqError | None = None) -> None:
        """Waiting Message Read Satisfied ([MS-MQDMPR] 3.1.7.3.6) and Timer Stop (3.1.7.3.5)."""
        waiter.found, waiter.error = found, error
        self._timed -= waiter.deadline is not None
        self._core.effects.append(Completed(waiter))

    def stop(self, waiter: Waiter, error: MqError) -> None:
        """Ends a wait without a message, so that no reader waits for ever (DMPR T-07)."""
        queue = waiter.opened.state
        if queue is not None and waiter in queue.waiters:
            queue.waiters.remove(waiter)
            if waiter.cursor is not None:
                waiter.cursor.wait_expired(self._core)
            self._complete(waiter, error=error)

    def cancel(
        self, queue: QueueState, tag: int, error: MqError | None = None, *, opened: OpenQueue | None = None
    ) -> bool:
        """Cancel Waiting Message Read Request ([MS-MQDMPR] 3.1.7.1.17): whether there was one with that tag.

        Looks at the waits of one handle, or of all.
        """
        waiters = (each for each in queue.waiters if opened is None or each.opened is opened)
        waiter = next((each for each in waiters if each.tag == tag), None)
        if waiter is None:
            return False
        self.stop(waiter, error or OperationCancelledError(str(queue)))
        return True

    @property
    def next_deadline(self) -> float | None:
        while self._deadlines and self._deadlines[0][2].is_done:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def expire(self) -> None:
        """Waiting Message Read Timer Expired ([MS-MQDMPR] 3.1.6.3)."""
        while (deadline := self.next_deadline) is not None and deadline <= self._core.now:
            waiter = heapq.heappop(self._deadlines)[2]
            self.stop(waiter, IoTimeoutError(str(waiter.opened.state)))
