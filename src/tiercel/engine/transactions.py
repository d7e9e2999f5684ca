"""Internal transactions, and those that an external coordinator decides: [MS-MQDMPR] 3.1.4.3 to 3.1.4.5.

Operations are kept in memory until the commit; then all of them go into one batch of the store, wholly or not
at all. Only a prepared transaction is stored before that: it must outlive a crash, because its coordinator
knows the outcome. A message that is sent in a transaction gets its place in the queue
at the commit, so that a cursor which has read on never misses it.
"""

import struct
from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from uuid import UUID

from tiercel.engine.catalog import Catalog
from tiercel.engine.core import Core, Counter
from tiercel.engine.delivery import Delivery
from tiercel.engine.numbering import Numbering
from tiercel.engine.outgoing import Outgoing
from tiercel.engine.queue_state import Lock, QueueState
from tiercel.engine.records import Record, slot_key
from tiercel.engine.transaction import (
    BEGAN,
    SEQUENCE,
    TRANSACTION_HEAD,
    Operation,
    Transaction,
    TransactionState,
    decode_operation,
    give_places,
)
from tiercel.engine.unpublished import Unpublished
from tiercel.engine.waiting import Waiting
from tiercel.model.codes import MessageClass, TransactionalOperationType
from tiercel.model.errors import QueueDeletedError, StoreDamagedError, TransactionSequenceError
from tiercel.model.identifiers import TxSequenceId
from tiercel.model.limits import TRANSACTION_ID_MAX
from tiercel.store.interface import Keyspace
from tiercel.wire.structure import encode_tx_sequence_id
from tiercel.wire.user_message import UserMessage

_ENQUEUE = TransactionalOperationType.ENQUEUE
_MOVE = TransactionalOperationType.MOVE


class Transactions:
    def __init__(
        self,
        core: Core,
        catalog: Catalog,
        delivery: Delivery,
        waiting: Waiting,
        outgoing: Outgoing,
        numbering: Numbering,
    ) -> None:
        self._core = core
        self._catalog = catalog
        self._delivery = delivery
        self._waiting = waiting
        self._outgoing = outgoing
        self._numbering = numbering
        self._living: dict[UUID, Transaction] = {}
        self._numbers = Counter(core, "transaction_number")

    def begin(self, identifier: UUID | None = None) -> Transaction:
        """Create Transaction ([MS-MQDMPR] 3.1.7.1.8)."""
        identifier = identifier or self._core.new_guid()
        if identifier in self._living:
            raise TransactionSequenceError(f"transaction {identifier}", problem="it was begun already")
        return self._begin(identifier, self._numbers.next() % (TRANSACTION_ID_MAX + 1))

    def begin_group(self) -> Transaction:
        """Groups sends that happen together, of messages that belong to no transaction."""
        return self._begin(self._core.new_guid(), None)

    def _begin(self, identifier: UUID, number: int | None) -> Transaction:
        transaction = Transaction(identifier, number, began=self._core.seconds)
        self._living[identifier] = transaction
        return transaction

    def find(self, identifier: UUID) -> Transaction:
        try:
            return self._living[identifier]
        except KeyError:
            problem = "it has ended already, or was never begun here"
            raise TransactionSequenceError(
                f"transaction {identifier}", problem=problem, fix="begin a new one"
            ) from None

    def living(self) -> Iterator[Transaction]:
        """The transactions that have not ended."""
        return iter(self._living.values())

    def in_doubt(self) -> Iterator[Transaction]:
        """The prepared transactions, whose outcome only their coordinator knows."""
        return (each for each in self._living.values() if each.state is TransactionState.PREPARED)

    def is_in_doubt(self, queue: QueueState) -> bool:
        """Whether a prepared transaction will still do something with the queue."""
        operations = (operation for each in self.in_doubt() for operation in each.operations)
        return any(queue in {operation.queue, operation.target} for operation in operations)

    def prepare(self, identifier: UUID) -> None:
        """Transaction Prepare ([MS-MQDMPR] 3.1.4.3): stores the operations; it may still commit or abort."""
        transaction = self.find(identifier)
        if transaction.state is TransactionState.PREPARED:
            return
        queues = (queue for each in transaction.operations for queue in (each.queue, each.target))
        if gone := next((queue for queue in queues if queue is not None and queue.is_deleted), None):
            problem = "it was deleted while the transaction used it"
            raise QueueDeletedError(str(gone), problem=problem, fix="abort the transaction")
        # Once in the transaction's own records, and once in the queues while those are still there.
        self._core.reserve(_size_of_sends(transaction))
        self._stop_waiting(transaction)
        transaction.single_phase = False
        transaction.state = TransactionState.PREPARED
        head = b"" if transaction.began is None else BEGAN.pack(transaction.began)
        self._core.batch.put(Keyspace.TRANSACTIONS, _operation_key(identifier, TRANSACTION_HEAD), head)
        for index, operation in enumerate(transaction.operations):
            key = _operation_key(identifier, index)
            self._core.batch.put(Keyspace.TRANSACTIONS, key, operation.encode())

    def commit(self, identifier: UUID) -> None:
        """Transaction Commit ([MS-MQDMPR] 3.1.4.4)."""
        transaction = self.find(identifier)
        if transaction.state is TransactionState.ACTIVE:
            moves = sum(len(each.record.packet) for each in transaction.operations if each.kind == _MOVE)
            self._core.reserve(moves)  # the sends are counted as pending already
        stored = transaction.stored or ()
        for each in stored:
            each.finish()
        self._end(identifier)
        if transaction.number is not None:
            self._number_streams(transaction)
        for queue, operations in groupby(transaction.operations, _goal_of_send):
            if queue is None:
                for operation in operations:
                    self._commit(operation)
            else:
                self._commit_sends(queue, list(operations))
        for each in stored:
            each.publish(self._delivery)

    def store_ahead(self, transaction: Transaction, limit: int) -> bool:
        """Stores the next sends, at most `limit`, hidden until the commit; True when none is left.

        Of a transaction that has only plain sends, and gets no others from now on. Those to outgoing queues
        are stored by the commit.
        """
        if transaction.stored is None:
            transaction.stored = self._begin_to_store(transaction)
        unfinished = next((each for each in transaction.stored if not each.is_stored), None)
        if unfinished is not None:
            unfinished.store(limit)
        return unfinished is None

    def _begin_to_store(self, transaction: Transaction) -> list[Unpublished]:
        here: dict[QueueState, list[Operation]] = {}
        left: list[Operation] = []
        for queue, operations in groupby(transaction.operations, attrgetter("queue")):
            is_left = queue.is_outgoing or queue.is_deleted
            (left if is_left else here.setdefault(queue, [])).extend(operations)
        transaction.operations = left
        is_transactional = transaction.number is not None
        return [
            Unpublished(
                self._core,
                queue,
                operations,
                self._numbering.new_sequences(len(operations)),
                self._reserve_places(queue, len(operations)) if is_transactional else None,
            )
            for queue, operations in here.items()
        ]

    def drop_stored(self, queue: QueueState) -> None:
        """The queue is deleted: what was to appear there never will."""
        for transaction in self._living.values():
            for each in transaction.stored or ():
                if each.queue is queue:
                    each.undo()

    def take_back(self, transaction: Transaction, count: int) -> None:
        """Forgets the sends after the first `count` operations."""
        for operation in transaction.operations[count:]:
            self._release(operation)
        del transaction.operations[count:]

    def abort_if_active(self, transaction: Transaction) -> None:
        if transaction.state is TransactionState.ACTIVE:
            self.abort(transaction.id)

    def abort(self, identifier: UUID) -> None:
        """Transaction Abort ([MS-MQDMPR] 3.1.4.5)."""
        transaction = self._end(identifier)
        for each in transaction.stored or ():
            each.undo()
        for operation in transaction.operations:
            self._release(operation)
            if operation.kind != _ENQUEUE:
                self._give_back(operation)
            if operation.target is not None:
                self._catalog.drop_empty_subqueue(operation.target)

    def _end(self, identifier: UUID) -> Transaction:
        transaction = self.find(identifier)
        del self._living[identifier]
        self._stop_waiting(transaction)
        if transaction.state is TransactionState.PREPARED:
            end = identifier.bytes + b"\xff" * 5
            stored = list(self._core.batch.range(Keyspace.TRANSACTIONS, identifier.bytes, end))
            for key, _ in stored:
                self._core.batch.delete(Keyspace.TRANSACTIONS, key)
        transaction.state = TransactionState.ENDED
        return transaction

    def _commit(self, operation: Operation) -> None:
        queue, record = operation.queue, operation.record
        self._release(operation)
        if queue.is_deleted:
            return  # the message ended with its queue, and its sender was told (DMPR T-21)
        if operation.kind != _MOVE:
            self._delivery.finish(queue, operation.lookup_id, record, operation.reason)
        elif operation.target is not None and not operation.target.is_deleted:
            self.move(queue, operation.lookup_id, record, operation.target)
        else:
            self._give_back(operation)

    def _release(self, operation: Operation) -> None:
        """Releases the room or the subqueue that was kept for a send or a move."""
        if operation.kind == _ENQUEUE:
            operation.queue.release(self._core, len(operation.record.packet))
        elif operation.target is not None:
            operation.target.pending_moves -= 1

    def _stop_waiting(self, transaction: Transaction) -> None:
        for waiter in transaction.waiters:
            problem = "it ended while the read waited"
            error = TransactionSequenceError(f"transaction {transaction.id}", problem=problem)
            self._waiting.stop(waiter, error)
        transaction.waiters.clear()

    def _commit_sends(self, queue: QueueState, operations: list[Operation]) -> None:
        queue.release(self._core, sum(len(operation.record.packet) for operation in operations))
        sent = [operation.record for operation in operations]
        if not queue.is_deleted:
            run = ((record.packet, record.dead_letter_queue, record.verdict) for record in sent)
            self._delivery.accept(queue, run)
            return
        for record in sent:
            self._delivery.refuse(UserMessage(record.packet), MessageClass.NACK_BAD_DST_Q, str(queue), record)

    def _give_back(self, operation: Operation) -> None:
        if operation.lookup_id in operation.queue.locks:
            self._waiting.give_back(operation.queue, operation.lookup_id, operation.record)

    def move(self, queue: QueueState, lookup_id: int, record: Record, target: QueueState) -> int:
        """Gives a message a place in another queue: a new lookup id, and no acknowledgement (DMPR T-09)."""
        packet = UserMessage(record.packet)
        moved = record._replace(move_count=record.move_count + 1, last_move_time=self._core.seconds)
        return self._delivery.transfer(queue, lookup_id, moved, packet, target)

    def _number_streams(self, transaction: Transaction) -> None:
        streams: dict[QueueState, list[Operation]] = {}
        for operation in transaction.operations:
            if operation.kind == _ENQUEUE and not operation.queue.is_deleted:
                streams.setdefault(operation.queue, []).append(operation)
        for queue, operations in streams.items():
            self._number(queue, operations)

    def _number(self, queue: QueueState, operations: list[Operation]) -> None:
        if queue.is_outgoing:
            self._outgoing.number(queue, operations)
        else:
            self._number_here(queue, operations)

    def _number_here(self, queue: QueueState, operations: list[Operation]) -> None:
        """Gives the messages of one stream their numbers, and marks its ends."""
        give_places(operations, *self._reserve_places(queue, len(operations)))

    def _reserve_places(self, queue: QueueState, count: int) -> tuple[int, int]:
        """The stream of the queue and its last number; `count` more are given out, durably (MQQB T02)."""
        key = slot_key(queue.slot)
        stored = self._core.batch.get(Keyspace.SEQUENCES, key)
        created = self._catalog.queue_manager.create_time & 0xFFFF_FFFF
        first = encode_tx_sequence_id(TxSequenceId(created, queue.slot))
        if stored is not None and len(stored) != SEQUENCE.size:
            raise StoreDamagedError(f"stream of {queue}", present=f"{len(stored)} bytes", limit=SEQUENCE.size)
        sequence, number = SEQUENCE.unpack(stored) if stored else (first, 0)
        self._core.batch.put(Keyspace.SEQUENCES, key, SEQUENCE.pack(sequence, number + count))
        return sequence, number

    def load(self) -> None:
        """Loads the prepared transactions with their locks and held bytes (DMPR T-24)."""
        rows = list(self._core.batch.range(Keyspace.TRANSACTIONS, b"", b"\xff" * 21))
        for key, data in rows:
            try:
                self._load(key, data)
            except (StoreDamagedError, struct.error, ValueError) as problem:
                what = f"operation {key[16:].hex()} of the prepared transaction {key[:16].hex()}"
                self._core.set_aside_row(Keyspace.TRANSACTIONS, key, data, what, problem)

    def _load(self, key: bytes, data: bytes) -> None:
        identifier = UUID(bytes=key[:16])
        transaction = self._living.get(identifier) or self.begin(identifier)
        transaction.state, transaction.single_phase = TransactionState.PREPARED, False
        if key == _operation_key(identifier, TRANSACTION_HEAD):
            transaction.began = BEGAN.unpack(data)[0] if data else None
            return
        operation = decode_operation(data, self._catalog.by_slot.get)
        if operation is not None:
            self._restore(transaction, operation)

    def _restore(self, transaction: Transaction, operation: Operation) -> None:
        if operation.kind == _ENQUEUE:
            operation.queue.hold(self._core, len(operation.record.packet))
        else:
            record = operation.queue.get(self._core, operation.lookup_id)
            if record is None:
                return
            operation.record = record
            operation.queue.lock(operation.lookup_id, Lock(transaction))
            if operation.target is not None:
                operation.target.pending_moves += 1
        transaction.operations.append(operation)


def _goal_of_send(operation: Operation) -> QueueState | None:
    return operation.queue if operation.kind == _ENQUEUE else None


def _operation_key(identifier: UUID, index: int) -> bytes:
    return identifier.bytes + index.to_bytes(4, "big")


def _size_of_sends(transaction: Transaction) -> int:
    sends = (operation for operation in transaction.operations if operation.kind == _ENQUEUE)
    return sum(len(operation.record.packet) for operation in sends)
