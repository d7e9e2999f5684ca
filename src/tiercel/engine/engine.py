"""The queue manager's rules behind one door.

    engine = Engine(store, identity)
    engine.begin(now); ...commands...; effects = engine.commit()

Commands check before they change anything: one that raises has done nothing. Between `begin` and `commit`
many commands may run; their results count, and their effects leave, only when `commit` has returned.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any
from uuid import UUID, uuid4

from tiercel.engine import restoring
from tiercel.engine.access import Access, system_descriptor
from tiercel.engine.attributes import (
    SETTABLE,
    SETTABLE_OF_MANAGER,
    change,
    check_attributes,
    decode_queue_manager,
    encode_attributes,
)
from tiercel.engine.browsing import Browsing
from tiercel.engine.catalog import Catalog
from tiercel.engine.claims import Claims
from tiercel.engine.core import Core, Effect, earliest
from tiercel.engine.cursor import Cursor
from tiercel.engine.delivery import Delivery, refusal_error
from tiercel.engine.discards import Discard
from tiercel.engine.dispatch import Dispatch
from tiercel.engine.expiry import SLICE, Expiry
from tiercel.engine.final_acks import FinalAcks
from tiercel.engine.handles import OpenQueue, Waiter
from tiercel.engine.opening import Opening
from tiercel.engine.outgoing import Outgoing
from tiercel.engine.peers import Peers
from tiercel.engine.publication import Sending
from tiercel.engine.queue_state import START, Lock, QueueState
from tiercel.engine.reading import Reading, check_transaction
from tiercel.engine.records import Record
from tiercel.engine.resource_manager import Outcome, ResourceManager
from tiercel.engine.stages import Stages
from tiercel.engine.transaction import Operation, Transaction
from tiercel.engine.transactions import Transactions
from tiercel.model.codes import (
    DeliveryGuarantee,
    MessageClass,
    OutgoingQueueState,
    QueueAccess,
    QueueAccessMask,
    QueueManagerState,
    QueueType,
    SenderIdType,
    TransactionalOperationType,
)
from tiercel.model.errors import (
    IllegalOperationError,
    IllegalPropertyVariantTypeError,
    IllegalQueuePathNameError,
    InsufficientResourcesError,
    MessageNotFoundError,
    MissingConnectorTypeError,
    MqError,
    OperationCancelledError,
    PropertyNotAllowedError,
    QueueDeletedError,
    QueueNotFoundError,
    ServiceNotAvailableError,
    StoreDamagedError,
    StoreFailedError,
    UnsupportedOperationError,
)
from tiercel.model.format_name import DirectFormatName, FormatName
from tiercel.model.identifiers import NULL_GUID, MessageId, lookup_id_sequence
from tiercel.model.limits import INFINITE, LONG_LIVED, TIME_TO_REACH_QUEUE_DEFAULT_S
from tiercel.model.message import Message
from tiercel.model.path_name import PathKind, PathName, SystemQueue
from tiercel.model.queue import OutgoingQueue, Queue
from tiercel.model.queue_manager import QueueManager
from tiercel.security.access import Token
from tiercel.store.interface import Batch, Keyspace, Store
from tiercel.wire.message import encode_message
from tiercel.wire.user_message import UserMessage

_QUEUE_MANAGER = b"queue_manager"
_WRITE = QueueAccessMask.WRITE_MESSAGE
_SEND = QueueAccess.SEND  # naming a member of an enum costs a call
_SID = int(SenderIdType.SID)
_RECOVERABLE = int(DeliveryGuarantee.RECOVERABLE)
_READY = QueueManagerState.READY
_TYPE_OF_KIND = {PathKind.PRIVATE: QueueType.PRIVATE, PathKind.PUBLIC: QueueType.PUBLIC}


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this computer is; the engine itself asks nobody."""

    computer_name: str
    qualified_computer_name: str = ""
    addresses: tuple[str, ...] = ()

    @property
    def names(self) -> Iterable[str]:
        return filter(None, (self.computer_name, self.qualified_computer_name, *self.addresses))


class Engine:
    def __init__(
        self,
        store: Store,
        identity: Identity,
        *,
        now: float,
        owner: Token,
        new_guid: Callable[[], UUID] = uuid4,
        long_lived_s: int = TIME_TO_REACH_QUEUE_DEFAULT_S,
        everyone_may_send: bool = True,
        outcome_of: Callable[[UUID], Outcome] | None = None,
        tells_removed: bool = False,
    ) -> None:
        """`outcome_of` asks a coordinator how a transaction ended; without one, what is in doubt stays so.

        With `tells_removed`, every message that leaves its queue is an effect too.
        """
        self._core = Core(store, new_guid, tells_removed=tells_removed)
        self._core.advance(now)
        restoring.leap(self._core.batch)
        self._long_lived_s = long_lived_s
        self.queue_manager = self._load_queue_manager(identity)
        self.queue_manager.queue_manager_state = QueueManagerState.INITIALIZING
        self._catalog = Catalog(self._core, self.queue_manager)
        self._expiry = Expiry(self._core)
        self._delivery = Delivery(self._core, self._catalog, self._expiry)
        self._reading = Reading(self._core, self._delivery)
        self.outgoing = Outgoing(self._core, self._catalog, self._delivery, self._expiry)
        self._transactions = Transactions(
            self._core, self._catalog, self._delivery, self._reading, self.outgoing
        )
        self.browsing = Browsing(self._core, self._delivery)
        self.claims = Claims(self._core, self._catalog, self._delivery, self._expiry)
        self.peers = Peers(self._core)
        self.final_acks = FinalAcks(self._core, self.queue_manager, self._delivery, self.peers)
        self.resource_manager = ResourceManager(self._core, self._transactions)
        self._access = Access(self._catalog, everyone_may_send=everyone_may_send)
        self._delivery.may_write = self._access.may_write
        self.dispatch = Dispatch(self._core)
        self._opening = Opening(
            self._core, self._catalog, self._delivery, self._reading, self._access, identity.names
        )
        self._catalog.load()
        if SystemQueue.JOURNAL not in self._system_queues():
            self._catalog.create_system_queues(system_descriptor(owner))
        self.claims.load()
        self._transactions.load()
        self.outgoing.load()
        sending = Sending(self._core, self._transactions, self._opening, self.send_many)
        self.stages = Stages(self._core, self._delivery, sending)
        if outcome_of is not None:
            self.resource_manager.reenlist(outcome_of)
        for state in list(self._catalog.all()):
            self._catalog.drop_empty_subqueue(state)
        self._set_system_queues()
        self.queue_manager.queue_manager_state = QueueManagerState.READY
        self.begin(now)
        self._core.effects = self.commit()  # what ended while nobody ran: the first commit tells of it

    # Batches and time.

    def begin(self, now: float) -> None:
        """Starts a batch."""
        if self._core.failure is not None:
            raise self._core.failure
        if self.queue_manager.queue_manager_state is not _READY:
            state = self.queue_manager.queue_manager_state.value
            raise ServiceNotAvailableError(str(self.queue_manager), present=state)
        self._core.advance(now)
        self._expire()

    def commit(self) -> list[Effect]:
        """Makes the batch durable and gives what may leave now."""
        self._expire()
        return self._core.commit()

    @property
    def has_changes(self) -> bool:
        """Whether the batch has changed a queue, so that its commit has to be made durable in any case."""
        return self._core.has_changes

    @property
    def batch(self) -> Batch:
        """The open batch of the store: protocols keep their own state in keyspaces of their own."""
        return self._core.batch

    def check_room(self, size: int) -> None:
        """Raises when the queue manager could not keep so many bytes more."""
        self._delivery.check_manager_quota(size)
        self._core.reserve(size)

    def set_aside(self, space: Keyspace, key: bytes, data: bytes, what: str, problem: object) -> None:
        """Takes a damaged row of a protocol away and says so."""
        self._core.set_aside_row(space, key, data, what, problem)

    @property
    def total_bytes(self) -> int:
        """Of all messages: what the quota of the queue manager limits."""
        return self._core.total_bytes

    @property
    def seconds(self) -> int:
        return self._core.seconds

    @property
    def has_failed(self) -> bool:
        return self._core.failure is not None

    @property
    def failure(self) -> StoreFailedError | None:
        return self._core.failure

    def end_waits(self) -> list[Waiter]:
        """Ends every wait with the failure of the engine; nobody is left to wait for what cannot come."""
        waiters = [waiter for state in self._catalog.by_slot.values() for waiter in state.waiters]
        for waiter in waiters:
            waiter.error = self._core.failure
        for state in self._catalog.by_slot.values():
            state.waiters.clear()
        return waiters

    def fail(self, problem: str) -> None:
        """For whoever drives the engine: a command ended half-way, and nothing of its batch may count."""
        self._core.fail(problem)

    def stop(self) -> list[Effect]:
        """Ends every wait and closes the queue manager for commands; what is durable stays."""
        if self._core.failure is not None:
            return []
        self.queue_manager.queue_manager_state = QueueManagerState.STOPPING
        states = list(self._catalog.by_slot.values())
        for state in states:  # first: what is given back below must not go to one that waits
            for waiter in list(state.waiters):
                self._reading.stop_waiting(waiter, OperationCancelledError(str(state)))
        for state in states:
            for opened in list(state.handles.values()):
                self._opening.close(opened)
        effects = self._core.commit()
        self.queue_manager.queue_manager_state = QueueManagerState.STOPPED
        return effects

    @property
    def next_deadline(self) -> float | None:
        """When something will happen by itself; call `begin` and `commit` then."""
        return earliest(self._expiry.next_deadline, self._reading.next_deadline, self.stages.next_deadline)

    def _expire(self) -> None:
        self._reading.expire_waits()
        self.stages.reap_due()
        deadline = self._expiry.next_deadline
        if deadline is None or deadline > self._core.now:
            return
        for due in self._expiry.due():
            for slot, lookup_id, is_purged in due:
                queue = self._catalog.by_slot.get(slot)
                record = None if queue is None else queue.get(self._core, lookup_id)
                if queue is not None and record is not None:
                    self._end_message(queue, lookup_id, record, is_purged=is_purged)
                else:
                    self._expiry.drop(slot, lookup_id)
            if len(due) >= SLICE:
                self._core.checkpoint()  # a backlog of a million goes in slices, not in one batch

    def _end_message(self, queue: QueueState, lookup_id: int, record: Record, *, is_purged: bool) -> None:
        reason = MessageClass.NACK_RECEIVE_TIMEOUT
        if is_purged:
            reason = MessageClass.NACK_DELETED if queue.is_outgoing else MessageClass.NACK_Q_PURGED
        elif queue.is_outgoing:
            reason = MessageClass.NACK_REACH_QUEUE_TIMEOUT
        lock = queue.locks.get(lookup_id)
        if lock is None:
            self._expiry.forget_purge(queue, lookup_id)
            self._delivery.finish(queue, lookup_id, record, reason)
        elif lock.doom is None:
            lock.doom = reason

    # Queues.

    def create_queue(
        self, path: PathName, token: Token, *, transactional: bool = False, **attributes: Any
    ) -> QueueState:
        """Create Queue ([MS-MQDMPR] 3.1.7.1.3) with the defaults of 3.1.7.1.33."""
        kind = _TYPE_OF_KIND.get(path.kind)
        if kind is None or path.subqueue is not None or path.journal:
            problem = "only private and public queues are created; the others come by themselves"
            raise IllegalQueuePathNameError(f"path name {path}", problem=problem)
        if path.computer.casefold() not in self._opening.local_names:
            problem = "queues are created on this computer only"
            raise IllegalQueuePathNameError(f"path name {path}", problem=problem, fix="use . as the computer")
        check_attributes(path, attributes, SETTABLE)
        if type(transactional) is not bool:
            kind = type(transactional).__name__
            raise IllegalPropertyVariantTypeError(f"transactional of {path}", present=kind, limit="bool")
        local = path.with_computer(self.queue_manager.computer_name)
        security = self._access.default_descriptor(token, attributes.pop("security", None))
        queue = Queue(
            identifier=self._core.new_guid(),
            pathname=local,
            queue_type=kind,
            transactional=transactional,
            security=security,
            **attributes,
        )
        self._core.reserve(len(security) + 4096)
        return self._catalog.create(queue)

    def set_queue_properties(self, state: QueueState, token: Token, **attributes: Any) -> None:
        check_attributes(state, attributes, SETTABLE)
        needed = QueueAccessMask.SET_QUEUE_PROPERTIES
        if "security" in attributes:
            needed |= QueueAccessMask.CHANGE_QUEUE_PERMISSIONS
        self._access.check(state, needed, token)
        queue = state.queue
        change(queue, attributes, self._core.seconds)
        if state.journal is not None:
            state.journal.queue.quota_kib = queue.journal_quota_kib
            state.journal.queue.security = queue.security
        for child in state.subqueues.values():
            child.queue.security = queue.security
            self._catalog.save(child)
        self._catalog.save(state)

    def delete_queue(self, state: QueueState, token: Token) -> None:
        """Delete Queue: every message in it ends, every wait on it is told, every handle goes stale."""
        self._access.check(state, QueueAccessMask.DELETE_QUEUE, token)
        if state.keeps_messages or self._catalog.is_internal(state):
            fix = "purge it, or delete the queue that it belongs to"
            raise IllegalOperationError(str(state), problem="a system queue cannot be deleted", fix=fix)
        doomed = [*state.subqueues.values(), *([state.journal] if state.journal else []), state]
        if any(self._transactions.is_in_doubt(each) for each in doomed):
            problem = "a prepared transaction will still do something with it"
            raise IllegalOperationError(str(state), problem=problem, fix="have it committed or aborted first")
        # First, so that nothing that comes of it, an acknowledgement say, goes back there.
        for each in doomed:
            self._catalog.remove(each)
        for each in doomed:
            self._empty(each)

    def _empty(self, state: QueueState) -> None:
        for waiter in list(state.waiters):
            self._reading.stop_waiting(waiter, QueueDeletedError(str(state)))
        for lookup_id in list(state.locks):  # a transaction that holds one tolerates this (DMPR T-21)
            record = state.get(self._core, lookup_id)
            if record is not None:
                self._delivery.finish(state, lookup_id, record, MessageClass.NACK_Q_DELETED)
        self._finish_available(state, MessageClass.NACK_Q_DELETED, self._delivery.newest_sequence)
        self.claims.queue_deleted(state)

    def _finish_available(
        self, state: QueueState, reason: MessageClass, newest: int, limit: float = inf
    ) -> int:
        """Ends every message that can be had now, and none that comes of it; how many there were."""
        if state.is_outgoing:
            reason = MessageClass.NACK_DELETED
        count, at = 0, START
        while count < limit and (found := state.next_available(self._core, at)) is not None:
            at = found[0]
            if lookup_id_sequence(at) <= newest:
                self._delivery.finish(state, *found, reason)
                count += 1
        return count

    def is_local(self, name: FormatName) -> bool:
        return self._opening.is_local(name)

    def find(self, name: FormatName) -> QueueState | None:
        """The queue of this computer, local or outgoing, that a name means."""
        return self._opening.find(name) if self._opening.is_local(name) else self._catalog.outgoing(name)

    def local_queue(self, name: FormatName) -> QueueState | None:
        """The queue that takes what peers send to the name; which computer it names is not looked at."""
        if name.is_read_only or (isinstance(name, DirectFormatName) and name.subqueue is not None):
            return None
        state = self._opening.find(name)
        return state if state is not None and self._catalog.is_visible(state) else None

    def queue_state(self, name: FormatName) -> QueueState:
        state = self.find(name)
        if state is None:
            raise QueueNotFoundError(str(name))
        return state

    def format_name(self, state: QueueState) -> FormatName:
        return self._catalog.format_name(state)

    def queue_path(self, name: FormatName) -> tuple[str, str]:
        """Get Queue Path: the path name and the computer of a queue."""
        return self._opening.queue_path(name)

    def queues(self) -> Iterator[QueueState]:
        return self._catalog.all()

    def is_visible(self, state: QueueState) -> bool:
        """Whether it is a queue of applications: not one of the system's, nor a part of another queue."""
        return self._catalog.is_visible(state)

    def is_internal(self, state: QueueState) -> bool:
        """Whether only the protocols use the queue: to others it is not there."""
        return self._catalog.is_internal(state)

    def discards(self) -> Iterator[Discard]:
        return self._core.ledger.lines()

    @property
    def discard_counts(self) -> Mapping[int, int]:
        """How many messages ended without being received since the start, by class."""
        return self._core.ledger.counts

    @property
    def dead_letter_counts(self) -> Mapping[int, int]:
        """How many of them became dead letters here."""
        return self._delivery.dead_letters

    def newest_discards(self, before: int | None, limit: int) -> Iterator[tuple[int, Discard]]:
        return self._core.ledger.newest(before, limit)

    # Handles.

    @property
    def open_queue(self) -> Callable[..., OpenQueue]:
        return self._opening.open

    def close_queue(self, opened: OpenQueue) -> None:
        self._opening.close(opened)

    def open_cursor(self, opened: OpenQueue) -> Cursor:
        state = opened.queue_for(QueueAccess.RECEIVE | QueueAccess.PEEK)
        cursor = Cursor(self._opening.new_handle(), state)
        opened.cursors[cursor.handle] = cursor
        return cursor

    def close_cursor(self, opened: OpenQueue, cursor: Cursor) -> None:
        self._opening.close_cursor(opened, cursor)

    # Messages.

    def send(self, opened: OpenQueue, message: Message, transaction: Transaction | None = None) -> MessageId:
        """Enqueue Message To An Open Queue: gives the message its id and time, and a place in the queue."""
        if opened.children:
            return self._send_to_each(opened, message, transaction)
        queue = opened.queue_for(_SEND)
        if transaction is not None:
            transaction.check_active()
        self._address(opened, message, self._delivery.new_message_id(), transaction)
        packet = encode_message(message)
        self._refuse_misfits(queue, transaction, (message,), (packet,))
        recoverable = message.is_recoverable
        self._check_room(queue, len(packet), (packet,), recoverable=recoverable)
        dead_letters = "" if message.dead_letter_queue is None else str(message.dead_letter_queue)
        record = Record(packet, self._core.seconds, 0, 0, 0, dead_letters)
        if transaction is not None:
            queue.hold(self._core, len(packet))
            transaction.operations.append(Operation(TransactionalOperationType.ENQUEUE, queue, record))
        elif _is_plain(message) and not queue.is_outgoing:
            self._delivery.accept_plain(queue, record, message.priority, recoverable=recoverable)
        else:
            self._delivery.accept(queue, record)
        return message.id

    def send_many(
        self, opened: OpenQueue, messages: Sequence[Message], transaction: Transaction | None = None
    ) -> list[MessageId]:
        """Sends all the messages, in their order, or none of them."""
        if not messages:
            return []
        if not opened.children and all(map(_is_ordinary, messages)):
            queue = opened.queue_for(_SEND)
            if transaction is not None or not (queue.is_outgoing or queue.waiters):
                return self._send_ordinary(opened, queue, messages, transaction)
        return self._send_together(opened, messages, transaction)

    def _send_ordinary(
        self,
        opened: OpenQueue,
        queue: QueueState,
        messages: Sequence[Message],
        transaction: Transaction | None,
    ) -> list[MessageId]:
        if transaction is not None:
            transaction.check_active()
        ids = self._delivery.new_message_ids(len(messages))
        for message, identifier in zip(messages, ids, strict=True):
            self._address(opened, message, identifier, transaction)
        packets = [encode_message(message) for message in messages]
        self._refuse_misfits(queue, transaction, messages, packets)
        size = sum(map(len, packets))
        self._check_room(queue, size, packets, recoverable=True)
        if transaction is None:
            self._delivery.accept_all_plain(queue, packets, [message.priority for message in messages])
        else:
            queue.hold(self._core, size)
            transaction.send(queue, packets, self._core.seconds)
        return ids

    def _send_together(
        self, opened: OpenQueue, messages: Sequence[Message], transaction: Transaction | None
    ) -> list[MessageId]:
        within = transaction or self._transactions.begin_group()
        before = len(within.operations)
        try:
            ids = [self.send(opened, message, within) for message in messages]
        except MqError:
            self._transactions.take_back(within, before)
            if transaction is None:
                self._transactions.abort(within.id)
            raise
        if transaction is None:
            self._transactions.commit(within.id)
        return ids

    def _check_room(
        self, queue: QueueState, size: int, packets: Sequence[bytes], *, recoverable: bool
    ) -> None:
        """Quotas and the store; what a quota refuses stands in the ledger."""
        try:
            self._delivery.check_quota(queue, size)
        except InsufficientResourcesError:
            for packet in packets:
                self._core.ledger.add(str(queue), UserMessage(packet), MessageClass.NACK_Q_EXCEED_QUOTA)
            raise
        if recoverable:
            self._core.reserve(size, len(packets))

    def _refuse_misfits(
        self,
        queue: QueueState,
        transaction: Transaction | None,
        messages: Sequence[Message],
        packets: Sequence[bytes],
    ) -> None:
        """Refuses what the queue does not take; the ledger says so, as of every message that ends."""
        is_transactional = transaction is not None and transaction.number is not None
        if self._delivery.takes_all(queue, is_transactional=is_transactional):
            return
        for message, packet in zip(messages, packets, strict=True):
            reason = self._delivery.check_transaction(queue, is_transactional=is_transactional)
            if reason is None:
                reason = self._delivery.check_protection(
                    queue, is_signed=bool(message.signature), is_encrypted=bool(message.privacy_level)
                )
            if reason is not None:
                self._core.ledger.add(str(queue), UserMessage(packet), reason)
                raise refusal_error(queue, reason)

    def _check_seldom(self, opened: OpenQueue, message: Message) -> None:
        """What only the queue manager sets, and who may write to the dead-letter queue of a message."""
        if message.soap_envelope or message.soap_compound_message or message.soap_header or message.soap_body:
            raise PropertyNotAllowedError(
                "message soap properties", problem="SRMP sets them", fix="leave them"
            )
        if message.transaction_status_queue is not None or message.allow_peek_when_locked:
            problem = "the queue manager sets transaction_status_queue and allow_peek_when_locked"
            raise PropertyNotAllowedError("message", problem=problem, fix="leave them")
        if _is_protected_by_itself(message) and message.connector_type == NULL_GUID:
            message.check()
            problem = "only a connector signs, encrypts and names a provider by itself"
            fix = "clear its signature, symmetric_key and provider, or set connector_type"
            raise MissingConnectorTypeError("message", problem=problem, fix=fix)
        if type(message.time_to_reach_queue) is not int or message.time_to_reach_queue >> 32:
            message.check()
        if message.dead_letter_queue is None:
            return
        if type(message.dead_letter_queue) is not PathName:
            message.check()
        own = self._delivery.own_dead_letter_queue(message.dead_letter_queue)
        if own is not None:
            self._access.check(own, _WRITE, opened.token)

    def _address(
        self, opened: OpenQueue, message: Message, identifier: MessageId, transaction: Transaction | None
    ) -> None:
        """Gives a message that may be sent what the queue manager adds to it."""
        self._check_seldom(opened, message)
        message.destination_queue = opened.format_name
        message.transaction_id = None if transaction is None else transaction.number
        message.id = identifier
        message.sent_time = self._core.seconds
        if not message.sender_id and message.sender_id_type == _SID:
            message.sender_id = opened.sender_id
        if message.time_to_reach_queue > self._long_lived_s or message.time_to_reach_queue == LONG_LIVED:
            message.time_to_reach_queue = self._long_lived_s

    def _send_to_each(
        self, opened: OpenQueue, message: Message, transaction: Transaction | None
    ) -> MessageId:
        """One copy for each queue of the list; the first that fails ends it (DMPR-194)."""
        message.destination_queues = tuple(child.format_name for child in opened.children)
        for child in opened.children:
            copy = replace(message)
            self.send(child, copy, transaction)
            message.id, message.sent_time = copy.id, copy.sent_time
        return message.id

    def arrive(self, packet: UserMessage, queue: QueueState | None, name: str = "") -> MessageClass | None:
        """A message from another queue manager; gives the class with which it was refused, if it was."""
        return self._delivery.arrive(queue, packet, name)

    def way_to(self, name: FormatName) -> QueueState:
        """The queue that takes what goes to this name: the queue itself, or an outgoing one to it."""
        return self._opening.destination(name)

    def refuse(self, packet: UserMessage, reason: MessageClass, name: str) -> None:
        """A message that cannot go on; its sender is told as it has asked for."""
        self._delivery.refuse(name, packet, reason, Record(packet.data, self._core.seconds))

    def post(self, packet: UserMessage, name: FormatName) -> None:
        """Sends a packet that the queue manager itself has made."""
        self._delivery.accept(
            self._opening.destination(name), Record(packet.data, self._core.seconds), packet
        )

    def new_message_id(self) -> MessageId:
        return self._delivery.new_message_id()

    @property
    def reading(self) -> Reading:
        """Receive, peek, lookup, two-phase reads, cancel."""
        return self._reading

    def purge(self, opened: OpenQueue, *, newest: int | None = None, limit: float = inf) -> int:
        """Purge Queue: what is available ends now, what is taken ends when it is given back (DMPR T-22).

        What a consumer has claimed it keeps, as a subqueue keeps what was moved there. A long queue can be
        purged in parts, `limit` messages at a time, and nothing ends whose sequence is above `newest`.
        """
        state = opened.queue_for(QueueAccess.RECEIVE)
        newest = self._delivery.newest_sequence if newest is None else newest
        taken = [each for each in state.locks.items() if lookup_id_sequence(each[0]) <= newest]
        doomed = [each for each in taken if each[1].doom is None]
        for lookup_id, lock in doomed:
            lock.doom = MessageClass.NACK_DELETED if state.is_outgoing else MessageClass.NACK_Q_PURGED
            self._expiry.purge_later(state, lookup_id)
        count = self._finish_available(state, MessageClass.NACK_Q_PURGED, newest, limit)
        if (count or doomed) and not state.is_deleted:  # a subqueue may go with its last message
            self._catalog.raise_epoch(state)
        return count

    def move(
        self, opened: OpenQueue, lookup_id: int, target: OpenQueue, transaction: Transaction | None = None
    ) -> None:
        """Move Message, between a queue and its subqueues."""
        queue, goal = opened.queue_for(QueueAccess.RECEIVE), target.queue_for(QueueAccess.MOVE)
        if not queue.can_move_to(goal):
            problem = f"messages move between a queue and its subqueues only, not to {goal}"
            raise UnsupportedOperationError(str(queue), problem=problem, fix="name another subqueue")
        check_transaction(queue, transaction)
        record = None if lookup_id in queue.locks else queue.get(self._core, lookup_id)
        if record is None:
            raise MessageNotFoundError(f"message {lookup_id} of {queue}")
        if transaction is None:
            self._core.reserve(len(record.packet))
            self._transactions.move(queue, lookup_id, record, goal)
            return
        queue.lock(lookup_id, Lock(transaction, opened))
        goal.pending_moves += 1  # keeps a subqueue that is still empty
        kind = TransactionalOperationType.MOVE
        transaction.operations.append(Operation(kind, queue, record, lookup_id, goal))

    def hand_over(self, opened: OpenQueue, lookup_id: int, target: OpenQueue) -> bool:
        """Takes a message to another queue of this computer as it is, and its sender hears nothing of it.

        False when it would have to become another message there: it is to be sent anew, and then taken.
        """
        queue, goal = opened.queue_for(QueueAccess.RECEIVE), target.queue_for(_SEND)
        record = None if lookup_id in queue.locks else queue.get(self._core, lookup_id)
        if record is None:
            raise MessageNotFoundError(f"message {lookup_id} of {queue}")
        packet = UserMessage(record.packet)
        is_misfit = self._delivery.check_transaction(goal, is_transactional=packet.is_transactional)
        if queue.is_outgoing or goal.is_outgoing or is_misfit is not None:
            return False
        self._delivery.check_goal(goal, packet)
        if packet.is_recoverable:
            self._core.reserve(len(record.packet))
        self._transactions.move(queue, lookup_id, record, goal)
        return True

    def take_away(self, opened: OpenQueue, lookup_id: int) -> None:
        """Ends a message that was sent anew elsewhere in this very batch: its sender hears that it was
        received; of one that was still on its way, nothing.
        """
        queue = opened.queue_for(QueueAccess.RECEIVE)
        record = None if lookup_id in queue.locks else queue.get(self._core, lookup_id)
        if record is None:
            raise MessageNotFoundError(f"message {lookup_id} of {queue}")
        if queue.is_outgoing:
            self._delivery.detach(queue, lookup_id, record)
        else:
            self._delivery.finish(queue, lookup_id, record, MessageClass.ACK_RECEIVE)

    # Transactions.

    @property
    def transactions(self) -> Transactions:
        """Begin, prepare, commit, abort."""
        return self._transactions

    # Administration.

    def pause(self, state: QueueState) -> None:
        self._outgoing_queue(state).state = OutgoingQueueState.ON_HOLD
        self.outgoing.paused(state, True)

    def resume(self, state: QueueState) -> None:
        self._outgoing_queue(state).state = OutgoingQueueState.INACTIVE
        self.outgoing.paused(state, False)
        self.dispatch.send()

    def _outgoing_queue(self, state: QueueState) -> OutgoingQueue:
        if not isinstance(state.queue, OutgoingQueue):
            problem = "only outgoing queues can be paused and resumed"
            raise IllegalOperationError(str(state), problem=problem)
        return state.queue

    def begin_flow_control(self) -> None:
        self.queue_manager.throttled = True

    def end_flow_control(self) -> None:
        self.queue_manager.throttled = False

    def take_offline(self) -> None:
        self.queue_manager.connection_active = False

    def bring_online(self) -> None:
        self.queue_manager.connection_active = True

    def set_properties(self, **attributes: Any) -> None:
        """Changes attributes of the queue manager, for good."""
        check_attributes(self.queue_manager, attributes, SETTABLE_OF_MANAGER)
        change(self.queue_manager, attributes, self._core.seconds)
        self._save_queue_manager()

    # Starting.

    def _load_queue_manager(self, identity: Identity) -> QueueManager:
        stored = self._core.batch.get(Keyspace.META, _QUEUE_MANAGER)
        if stored is not None:
            return _stored_queue_manager(stored)
        name = identity.computer_name.partition(".")[0][:15].upper()
        manager = QueueManager(
            identifier=self._core.new_guid(),
            computer_name=name,
            qualified_computer_name=identity.qualified_computer_name or identity.computer_name,
            create_time=self._core.seconds,
            modify_time=self._core.seconds,
        )
        self._core.batch.put(Keyspace.META, _QUEUE_MANAGER, encode_attributes(manager))
        return manager

    def _save_queue_manager(self) -> None:
        self._core.batch.put(Keyspace.META, _QUEUE_MANAGER, encode_attributes(self.queue_manager))

    def _system_queues(self) -> dict[SystemQueue, QueueState]:
        found = {}
        for system in SystemQueue:
            state = self._catalog.find(PathName(".", PathKind.SYSTEM, system))
            if state is not None:
                found[system] = state
        return found

    def _set_system_queues(self) -> None:
        system = self._system_queues()
        self.queue_manager.system_journal_queue = system[SystemQueue.JOURNAL].queue
        self.queue_manager.system_deadletter_queue = system[SystemQueue.DEADLETTER].queue
        self.queue_manager.system_transactional_deadletter_queue = system[SystemQueue.DEADXACT].queue


def _stored_queue_manager(data: bytes) -> QueueManager:
    try:
        return decode_queue_manager(data)
    except (ValueError, TypeError, MqError) as problem:
        sentence = f"its attributes cannot be read ({problem})"
        raise StoreDamagedError("queue manager", problem=sentence) from problem


def _is_protected_by_itself(message: Message) -> bool:
    return bool(
        message.signature
        or message.symmetric_key
        or message.multiple_destination_signature
        or message.authentication_provider_type
        or message.authentication_provider_name
    )


def _is_plain(message: Message) -> bool:
    """Whether nothing comes of the message but that it lies in its queue: nobody must read its packet."""
    return (
        message.time_to_be_received == INFINITE
        and not message.acknowledgements
        and not message.positive_journaling
    )


def _is_ordinary(message: Message) -> bool:
    """Whether all there is to a message is its packet in the store."""
    return message.delivery == _RECOVERABLE and message.dead_letter_queue is None and _is_plain(message)
