"""A transaction and its operations: [MS-MQDMPR] 3.1.1.13 and 3.1.1.14."""

import struct
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING
from uuid import UUID

from tiercel.engine.records import Record, decode_record
from tiercel.model.codes import MessageClass, TransactionalOperationType
from tiercel.model.errors import TransactionSequenceError
from tiercel.wire.transaction_header import FIRST_IN_TRANSACTION, LAST_IN_TRANSACTION
from tiercel.wire.user_message import placed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tiercel.engine.core import Core
    from tiercel.engine.handles import Waiter
    from tiercel.engine.queue_state import QueueState
    from tiercel.engine.unpublished import Unpublished

TRANSACTION_HEAD = 0xFFFF_FFFF  # the number of the record that stands for a prepared transaction itself
BEGAN = struct.Struct(">Q")  # in that record: seconds; older versions wrote nothing
SEQUENCE = struct.Struct("<QI")  # of the messages to one queue: which it is, and the last number given out
_ENQUEUE = TransactionalOperationType.ENQUEUE  # cached: enum lookup is slow here
_OPERATION = struct.Struct(">BIQI")
_REJECTED = b"\1"  # after a receive whose message is refused


class TransactionState(Enum):
    ACTIVE = "active"
    PREPARED = "prepared"
    ENDED = "ended"


@dataclass(slots=True)
class Operation:
    """One send, receive or move; a move has a target, and only a send has no lookup id yet."""

    kind: TransactionalOperationType
    queue: "QueueState"
    record: Record
    lookup_id: int = 0
    target: "QueueState | None" = None
    is_rejected: bool = False  # of a receive: the commit refuses the message (DequeueReason)

    def encode(self) -> bytes:
        target = 0 if self.target is None else self.target.slot
        head = _OPERATION.pack(self.kind, self.queue.slot, self.lookup_id, target)
        if self.kind == _ENQUEUE:
            return head + self.record.encode()
        return head + (_REJECTED if self.is_rejected else b"")

    @property
    def reason(self) -> MessageClass:
        """How a committed receive ends the message: DequeueReason."""
        return MessageClass.NACK_RECEIVE_REJECTED if self.is_rejected else MessageClass.ACK_RECEIVE


def decode_operation(data: bytes, queue_of: "Callable[[int], QueueState | None]") -> Operation | None:
    """The operation, or None when its queue is gone and there is nothing left to do."""
    kind, slot, lookup_id, target_slot = _OPERATION.unpack_from(data)
    queue = queue_of(slot)
    if queue is None:
        return None
    rest = data[_OPERATION.size :]
    is_rejected = rest == _REJECTED
    record = decode_record(rest) if rest and not is_rejected else Record(b"", 0)
    target = queue_of(target_slot) if target_slot else None
    return Operation(TransactionalOperationType(kind), queue, record, lookup_id, target, is_rejected)


@dataclass(slots=True, eq=False)
class Transaction:
    id: UUID
    # TransactionHeader.ID: 20 bits, unique among the living transactions of this queue manager. None for a
    # group: its messages come into their queues together, but belong to no transaction.
    number: int | None
    operations: list[Operation] = field(default_factory=list)
    state: TransactionState = TransactionState.ACTIVE
    single_phase: bool = True  # False when an outside coordinator decides
    waiters: list["Waiter"] = field(default_factory=list)  # reads in it that have found nothing yet
    began: int | None = None  # seconds; None for one that an older version prepared
    stored: "list[Unpublished] | None" = None  # sends that are in the store before the commit

    def check_active(self) -> None:
        if self.state is not TransactionState.ACTIVE:
            problem = (
                f"it is {self.state.value}" if self.state is TransactionState.PREPARED else "it has ended"
            )
            raise TransactionSequenceError(f"transaction {self.id}", problem=problem, fix="begin a new one")

    def send(self, core: "Core", queue: "QueueState", record: Record) -> None:
        """Adds a message that comes into the queue with the commit; until then it counts as held."""
        queue.hold(core, len(record.packet))
        self.operations.append(Operation(_ENQUEUE, queue, record))


def give_places(
    operations: "Sequence[Operation]", sequence: int, last: int, *, begins: bool = True, ends: bool = True
) -> int:
    """Writes the places of the messages in their stream into their packets; gives the last number.

    `begins` and `ends`: whether the first and the last of them are those of the transaction.
    """
    first_of_all = operations[0] if begins else None
    last_of_all = operations[-1] if ends else None
    for operation in operations:
        flags = FIRST_IN_TRANSACTION if operation is first_of_all else 0
        flags |= LAST_IN_TRANSACTION if operation is last_of_all else 0
        record = operation.record
        operation.record = Record(placed(record.packet, sequence, last + 1, last, flags), *record[1:])
        last += 1
    return last
