r"""The table of all queues, by name, number and GUID, and how they are stored.

A queue has a slot, a number that is never used twice; its journal has the same slot with the highest bit set.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID, uuid5

from tiercel.engine.attributes import decode_attributes, encode_attributes
from tiercel.engine.core import Core, Counter
from tiercel.engine.queue_state import QueueState
from tiercel.engine.records import decode_stats, slot_key
from tiercel.engine.subscriptions import Subscriptions
from tiercel.engine.unpublished_rows import remove_unpublished
from tiercel.model.codes import OutgoingQueueState, QueueType
from tiercel.model.errors import MqError, QueueExistsError, StoreDamagedError
from tiercel.model.format_name import DirectFormatName, DirectProtocol, FormatName, PrivateFormatName
from tiercel.model.path_name import PathKind, PathName, SystemQueue
from tiercel.model.queue import OutgoingQueue, Queue
from tiercel.model.queue_manager import QueueManager
from tiercel.store.interface import Keyspace
from tiercel.wire.order_ack import ORDER_QUEUE_NUMBER

FIRST_SLOT = 16  # numbers up to it belong to the queues that every queue manager has
JOURNAL_SLOT = 0x8000_0000
ORDER_QUEUE = "order_queue$"
NOTIFY_QUEUE = "notify_queue$"
NOTIFY_QUEUE_NUMBER = 5
AWAITING_FINAL_ACK = "awaiting_final_ack$"
AWAITING_FINAL_ACK_NUMBER = 6
_SYSTEM_SLOTS = {SystemQueue.JOURNAL: 1, SystemQueue.DEADLETTER: 2, SystemQueue.DEADXACT: 3}
_INTERNAL_QUEUES = {
    ORDER_QUEUE: ORDER_QUEUE_NUMBER,
    NOTIFY_QUEUE: NOTIFY_QUEUE_NUMBER,
    AWAITING_FINAL_ACK: AWAITING_FINAL_ACK_NUMBER,
}


class Catalog:
    def __init__(self, core: Core, queue_manager: QueueManager) -> None:
        self._core = core
        self.queue_manager = queue_manager
        self.by_slot: dict[int, QueueState] = {}
        self._by_name: dict[str, QueueState] = {}
        self._by_number: dict[int, QueueState] = {}
        self._by_identifier: dict[UUID, QueueState] = {}
        self._outgoing: dict[FormatName, dict[str, QueueState]] = {}  # by the address that they are for
        # Outgoing queues, the oldest first.
        self.for_acknowledgements: dict[QueueState, None] = {}  # to administration queues
        self.for_final_acks: dict[QueueState, None] = {}
        self._slots = Counter(core, "slot")
        self.subscriptions = Subscriptions()

    # Finding.

    def find(self, path: PathName) -> QueueState | None:
        """The queue at a place on this computer; the computer of the path is not looked at."""
        return self._by_name.get(path.local_name.casefold())

    def by_number(self, number: int) -> QueueState | None:
        return self._by_number.get(number)

    def by_identifier(self, identifier: UUID) -> QueueState | None:
        return self._by_identifier.get(identifier)

    def outgoing(self, name: FormatName, answers_to: str = "") -> QueueState | None:
        return self._outgoing.get(name, {}).get(answers_to)

    def any_outgoing(self, name: FormatName) -> QueueState | None:
        """The outgoing queue that an administrator means by a name; the oldest, if there are several."""
        return next(iter(self._outgoing.get(name, {}).values()), None)

    def system(self, queue: SystemQueue) -> QueueState:
        return self.by_slot[_SYSTEM_SLOTS[queue]]

    @property
    def awaiting_final_ack(self) -> QueueState:
        """AwaitingFinalACKTable: messages that reached their queue, and whose end is still to be told."""
        return self.by_slot[AWAITING_FINAL_ACK_NUMBER]

    def all(self) -> Iterator[QueueState]:
        """Every queue, but for journals: those are reached through their queues."""
        return (state for state in self.by_slot.values() if state.slot < JOURNAL_SLOT)

    def format_name(self, state: QueueState) -> FormatName:
        """The name that a message to this queue carries."""
        queue = state.queue
        if isinstance(queue, OutgoingQueue):
            return queue.destination_format_name
        assert queue.pathname is not None
        return DirectFormatName(DirectProtocol.OS, queue.pathname)

    def is_visible(self, state: QueueState) -> bool:
        """Whether it is a queue of applications: not one of the system's, nor a part of another queue."""
        is_part = state.parent is not None or state.keeps_messages
        return not is_part and not self.is_internal(state)

    def is_internal(self, state: QueueState) -> bool:
        """Whether only the protocols may use the queue, as order_queue$."""
        return state.slot in _INTERNAL_QUEUES.values()

    # Making and unmaking.

    def create_system_queues(self, security: bytes) -> None:
        for system, slot in _SYSTEM_SLOTS.items():
            queue = self._new_queue(self._path(PathKind.SYSTEM, system), QueueType.SYSTEM, security=security)
            queue.transactional = system is SystemQueue.DEADXACT
            self.add(QueueState(slot, queue))
        for name, number in _INTERNAL_QUEUES.items():
            queue = self._new_queue(self._path(PathKind.PRIVATE, name), QueueType.PRIVATE)
            queue.private_queue_number = number
            self.add(QueueState(number, queue))

    def create(self, queue: Queue) -> QueueState:
        """Adds a queue that has all its attributes; the same name must not exist."""
        path = queue.pathname
        assert path is not None
        if self.find(path) is not None:
            raise QueueExistsError(f"queue {path}")
        slot = self.new_slot()
        if queue.queue_type is QueueType.PRIVATE:
            queue.private_queue_number = slot
        queue.qualified_pathname = path.with_computer(self.queue_manager.qualified_computer_name)
        queue.create_time = queue.modify_time = self._core.seconds
        return self.add(QueueState(slot, queue))

    def create_subqueue(self, parent: QueueState, name: str) -> QueueState:
        """A subqueue inherits from its queue, but has no journal and no subqueues ([MS-MQDMPR] 3.1.7.1.3)."""
        assert parent.queue.pathname is not None
        path = PathName(
            parent.queue.pathname.computer, parent.queue.pathname.kind, parent.queue.pathname.queue, name
        )
        queue = self._new_queue(path, parent.queue.queue_type)
        queue.transactional = parent.queue.transactional
        queue.security = parent.queue.security
        return self.add(QueueState(self.new_slot(), queue, parent))

    def create_outgoing(
        self,
        name: FormatName,
        *,
        is_multicast: bool,
        for_acknowledgements: bool = False,
        answers_to: str = "",
    ) -> QueueState:
        queue = OutgoingQueue(
            identifier=self._core.new_guid(),
            label=str(name),
            destination_format_name=name,
            multicast=is_multicast,
            create_time=self._core.seconds,
            modify_time=self._core.seconds,
        )
        self.set_hardened_state(queue)
        state = QueueState(self.new_slot(), queue)
        state.is_for_acknowledgements = for_acknowledgements
        state.answers_to = answers_to
        return self.add(state)

    def use_outgoing(self, state: QueueState) -> None:
        """An application sends to the queue: it no longer counts as one for acknowledgements."""
        if state.is_for_acknowledgements:
            state.is_for_acknowledgements = False
            self.for_acknowledgements.pop(state, None)
            self.for_final_acks.pop(state, None)
            self.save(state)

    def set_hardened_state(self, queue: OutgoingQueue) -> None:
        """In hardened mode nothing but HTTP leaves this computer ([MS-MQDMPR] 3.1.1.3)."""
        name = queue.destination_format_name
        is_http = isinstance(name, DirectFormatName) and name.is_http
        if self.queue_manager.hardened_security and not is_http:
            queue.state = OutgoingQueueState.LOCKED

    def add(self, state: QueueState) -> QueueState:
        self._index(state)
        self.save(state)
        return state

    def save(self, state: QueueState) -> None:
        parent = 0 if state.parent is None else state.parent.slot
        journal_epoch = 0 if state.journal is None else state.journal.epoch
        epochs = {"epoch": state.epoch, "journal_epoch": journal_epoch}
        kept: dict[str, object] = {name: epoch for name, epoch in epochs.items() if epoch}  # few are purged
        if state.is_for_acknowledgements:
            kept["for_acknowledgements"] = 1
        if state.answers_to:
            kept["answers_to"] = state.answers_to
        self.subscriptions.update(state)
        attributes = encode_attributes(state.queue, parent=parent, **kept)
        self._core.batch.put(Keyspace.QUEUES, slot_key(state.slot), attributes)

    def raise_epoch(self, state: QueueState) -> None:
        """Tells readers that keep a position in the queue that it was purged; a journal has no record."""
        state.epoch += 1
        self.save(state.parent if state.parent is not None and not state.is_subqueue else state)

    def remove(self, state: QueueState) -> None:
        state.is_deleted = True
        self.subscriptions.update(state)
        queue = state.queue
        self._core.life.queue_removed(state.slot, str(queue.pathname or self.format_name(state)))
        self.queue_manager.queue_collection.pop(queue.identifier, None)
        self._by_identifier.pop(queue.identifier, None)
        if isinstance(queue, OutgoingQueue):
            self._forget_outgoing(queue.destination_format_name, state)
            self.for_acknowledgements.pop(state, None)
            self.for_final_acks.pop(state, None)
        if queue.private_queue_number is not None:
            self._by_number.pop(queue.private_queue_number, None)
        if queue.pathname is not None:
            self._by_name.pop(queue.pathname.local_name.casefold(), None)
            if state.parent is not None:
                name = (queue.pathname.subqueue or "").casefold()
                state.parent.subqueues.pop(name, None)
                state.parent.queue.subqueues.pop(name, None)
        self.by_slot.pop(state.slot, None)
        self._core.batch.delete(Keyspace.QUEUES, slot_key(state.slot))
        self._core.batch.delete(Keyspace.STATS, slot_key(state.slot))
        self._core.batch.delete(Keyspace.SEQUENCES, slot_key(state.slot))
        first, end = slot_key(state.slot), slot_key(state.slot + 1)
        for key, _ in list(self._core.batch.range(Keyspace.INCOMING, first, end)):
            self._core.batch.delete(Keyspace.INCOMING, key)

    def _forget_outgoing(self, name: FormatName, state: QueueState) -> None:
        of_name = self._outgoing.get(name, {})
        of_name.pop(state.answers_to, None)
        if not of_name:
            self._outgoing.pop(name, None)

    def drop_empty_subqueue(self, state: QueueState) -> None:
        """A subqueue lasts while it has messages, handles, consumers or moves into it."""
        if not state.is_subqueue or state.is_deleted:
            return
        if not state.count and not state.handles and not state.pending_moves and not state.consumers:
            self.remove(state)

    # Starting.

    def load(self) -> None:
        """Reads every queue and its counts; messages are read on demand."""
        remove_unpublished(self._core.batch)
        children: list[tuple[int, StoredQueue]] = []
        for key, data in self._core.batch.range(Keyspace.QUEUES, b"", slot_key(JOURNAL_SLOT)):
            slot = int.from_bytes(key, "big")
            stored = _decode_queue(slot, data)
            if stored.parent:
                children.append((slot, stored))
            else:
                self._load_queue(slot, stored, None)
        for slot, stored in children:
            parent = self.by_slot.get(stored.parent)
            if parent is None:
                problem = f"queue number {stored.parent}, which it is a part of, is lost"
                raise StoreDamagedError(str(stored.queue), problem=problem)
            self._load_queue(slot, stored, parent)
        for state in list(self.by_slot.values()):
            stats = self._core.batch.get(Keyspace.STATS, slot_key(state.slot))
            state.stored_count, state.stored_bytes = decode_stats(stats) if stats else (0, 0)
            self._core.total_bytes += state.stored_bytes
            state.queue.message_count, state.queue.total_bytes = state.count, state.size_bytes
            if isinstance(state.queue, OutgoingQueue):
                self.set_hardened_state(state.queue)

    def _load_queue(self, slot: int, stored: "StoredQueue", parent: QueueState | None) -> None:
        state = QueueState(slot, stored.queue, parent)
        state.epoch = stored.epoch
        state.is_for_acknowledgements = stored.for_acknowledgements or _is_order_queue(stored.queue)
        state.answers_to = stored.answers_to
        self._index(state)
        self.subscriptions.update(state)
        if state.journal is not None:
            state.journal.epoch = stored.journal_epoch

    def _index(self, state: QueueState) -> None:
        queue = state.queue
        self.by_slot[state.slot] = state
        queue.queue_manager = self.queue_manager
        self.queue_manager.queue_collection[queue.identifier] = queue
        if isinstance(queue, OutgoingQueue):
            self._outgoing.setdefault(queue.destination_format_name, {})[state.answers_to] = state
            if state.is_for_acknowledgements:
                kind = self.for_final_acks if _is_order_queue(queue) else self.for_acknowledgements
                kind[state] = None
            return
        path = queue.pathname
        assert path is not None
        self._by_name[path.local_name.casefold()] = state
        self._by_identifier[queue.identifier] = state
        if queue.private_queue_number is not None:
            self._by_number[queue.private_queue_number] = state
        if state.parent is not None:
            name = (path.subqueue or "").casefold()
            state.parent.subqueues[name] = state
            state.parent.queue.subqueues[name] = queue
        elif queue.queue_type in {QueueType.PRIVATE, QueueType.PUBLIC}:
            self._index_journal(state, path)

    def _index_journal(self, state: QueueState, path: PathName) -> None:
        """The journal of a queue: a queue of its own that only the engine writes to."""
        journal_path = PathName(path.computer, path.kind, path.queue, journal=True)
        queue = state.queue
        journal = Queue(
            identifier=uuid5(queue.identifier, "journal"),  # the same at every start, and stored nowhere
            pathname=journal_path,
            queue_type=QueueType.SYSTEM,
            quota_kib=queue.journal_quota_kib,
            transactional=queue.transactional,
            security=queue.security,
            create_time=queue.create_time,
            modify_time=queue.create_time,
        )
        state.journal = QueueState(state.slot | JOURNAL_SLOT, journal, state)
        state.queue.journal_queue = journal
        self.by_slot[state.journal.slot] = state.journal
        self._by_name[journal_path.local_name.casefold()] = state.journal

    def _path(self, kind: PathKind, name: str) -> PathName:
        return PathName(self.queue_manager.computer_name, kind, name)

    def _new_queue(self, path: PathName, kind: QueueType, **attributes: Any) -> Queue:
        return Queue(
            identifier=self._core.new_guid(),
            pathname=path,
            queue_type=kind,
            create_time=self._core.seconds,
            modify_time=self._core.seconds,
            **attributes,
        )

    def new_slot(self) -> int:
        return FIRST_SLOT + self._slots.next()


class StoredQueue(NamedTuple):
    queue: Queue | OutgoingQueue
    parent: int  # the slot of the queue that it belongs to; 0 for none
    epoch: int
    journal_epoch: int
    for_acknowledgements: bool
    answers_to: str


def decode_queue(data: bytes) -> StoredQueue:
    values = decode_attributes(data)
    parent: int = values.pop("parent")
    epoch, journal_epoch = values.pop("epoch", 0), values.pop("journal_epoch", 0)
    for_acknowledgements = bool(values.pop("for_acknowledgements", 0))
    answers_to: str = values.pop("answers_to", "")
    queue = (OutgoingQueue if "destination_format_name" in values else Queue)(**values)
    return StoredQueue(queue, parent, epoch, journal_epoch, for_acknowledgements, answers_to)


def _is_order_queue(queue: Queue | OutgoingQueue) -> bool:
    """Whether only the protocols write to it; stores of 0.2 do not say so."""
    name = queue.destination_format_name if isinstance(queue, OutgoingQueue) else None
    return isinstance(name, PrivateFormatName) and name.number == ORDER_QUEUE_NUMBER


def _decode_queue(slot: int, data: bytes) -> StoredQueue:
    try:
        return decode_queue(data)
    except (ValueError, TypeError, KeyError, MqError) as problem:
        sentence = f"its attributes cannot be read ({problem})"
        raise StoreDamagedError(f"queue number {slot}", problem=sentence) from problem
