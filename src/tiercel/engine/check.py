"""`tiercel check`: whether the records of a store are valid, each by itself and all together.

Everything is read once and in order, and related records are looked up by key: memory grows with the
number of queues, never with the number of messages. Nothing is written.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from uuid import UUID

from tiercel.engine.attributes import decode_queue_manager
from tiercel.engine.audit import broken_links
from tiercel.engine.catalog import AWAITING_FINAL_ACK_NUMBER, FIRST_SLOT, JOURNAL_SLOT, decode_queue
from tiercel.engine.check_claims import ClaimChecker
from tiercel.engine.discards import Discard
from tiercel.engine.life import TAIL_KEY, is_damaged, tail_row
from tiercel.engine.problem import UNREADABLE, Problem, amount, named, why
from tiercel.engine.queue_state import QueueState
from tiercel.engine.records import (
    Record,
    decode_record,
    decode_stats,
    expiry_key,
    message_key,
    slot_key,
    split_expiry_key,
    split_message_key,
)
from tiercel.engine.stage_check import check_published, check_stages
from tiercel.engine.stream import SIZES, Stream
from tiercel.engine.transaction import BEGAN, SEQUENCE, TRANSACTION_HEAD, decode_operation
from tiercel.engine.unpublished_rows import check_unpublished
from tiercel.model.codes import QueueType, TransactionalOperationType
from tiercel.model.identifiers import LOOKUP_SEQUENCE_BITS, NULL_GUID, lookup_id_sequence
from tiercel.model.limits import INFINITE
from tiercel.model.queue import OutgoingQueue, Queue
from tiercel.store.interface import MAX_KEY_SIZE, Keyspace, View
from tiercel.wire.message import decode_message
from tiercel.wire.user_message import UserMessage

_LOWEST, _HIGHEST = b"", b"\xff" * (MAX_KEY_SIZE + 1)
_COUNTERS = ("slot", "sequential_id", "message_ordinal", "tx_timestamp", "consumer_epoch")
_PLACE_SIZE = 12
_AWAITING_SIZES = _PLACE_SIZE, _PLACE_SIZE + 16
_INCOMING_SIZES = 28, 20  # of a key, and of a value at least: the name of the queue follows
_IDENTITY_SIZE = 20  # of a message in the history, after the time
_MESSAGES = Keyspace.MESSAGES.encode()  # precedes the key of a message that was set aside


@dataclass(slots=True)
class _Queue:
    name: str
    is_outgoing: bool = False
    keeps_messages: bool = False
    parent: int = 0
    is_readable: bool = True
    count: int = 0
    size_bytes: int = 0
    has_damaged: bool = False


@dataclass(slots=True)
class Counts:
    """Counts of the store."""

    queues: int = 0
    messages: int = 0
    message_bytes: int = 0
    claimed: int = 0
    transactions: int = 0
    discards: int = 0
    stages: int = 0
    set_aside: int = 0


@dataclass(slots=True)
class Checker:
    """Use once: iterate over `problems`, then read `counts`."""

    view: View
    counts: Counts = field(default_factory=Counts)
    _queues: dict[int, _Queue] = field(default_factory=dict)
    _counters: dict[str, int] = field(default_factory=dict)
    _identifier: UUID | None = None

    def problems(self) -> Iterator[Problem]:
        yield from self._check_meta()
        yield from self._check_queues()
        yield from self._check_messages()
        yield from self._check_stats()
        yield from self._check_expiries()
        yield from self._check_transactions()
        yield from self._check_sequences()
        yield from self._check_incoming()
        yield from self._check_awaiting()
        yield from self._check_history()
        yield from self._check_peers()
        yield from self._check_claims()
        yield from self._check_discards()
        yield from (Problem("audit", text) for text in broken_links(self.view))
        yield from self._check_life()
        yield from self._check_staged_sends()
        yield from self._list_damaged()

    def _records(self, space: Keyspace) -> Iterator[tuple[bytes, bytes]]:
        return self.view.range(space, _LOWEST, _HIGHEST)

    def _name(self, slot: int) -> str:
        queue = self._queues.get(slot)
        return f"number {slot}" if queue is None else queue.name

    # The queue manager and its counters.

    def _check_meta(self) -> Iterator[Problem]:
        data = self.view.get(Keyspace.META, b"queue_manager")
        if data is None:
            if self.view.count(Keyspace.QUEUES):
                yield Problem("meta", "the record of the queue manager is missing")
        else:
            try:
                self._identifier = decode_queue_manager(data).identifier
            except UNREADABLE as error:
                yield Problem("meta", f"the record of the queue manager cannot be read ({why(error)})")
        for name in _COUNTERS:
            value = self.view.get(Keyspace.META, name.encode()) or bytes(8)
            if len(value) != 8:
                yield Problem("meta", f"the counter {name} has {len(value)} bytes instead of 8")
            self._counters[name] = int.from_bytes(value, "big")

    def _check_counter(self, name: str, value: int, problem: Problem) -> Iterator[Problem]:
        """Every number in use must have been reserved, or it would be given out again."""
        if value > self._counters[name]:
            text = f"{name} {value} is beyond the {self._counters[name]} that the counter has reserved"
            yield problem._replace(text=text)

    # Queues.

    def _check_queues(self) -> Iterator[Problem]:
        for key, data in self._records(Keyspace.QUEUES):
            if len(key) != 4:
                yield Problem("queues", f"the key {key.hex()} is none of a queue")
                continue
            slot = int.from_bytes(key, "big")
            self.counts.queues += 1
            try:
                self._add_queue(slot, data)
            except UNREADABLE as error:
                self._queues[slot] = _Queue(f"number {slot}", is_readable=False)
                self._queues[slot | JOURNAL_SLOT] = _Queue(f"number {slot};JOURNAL", is_readable=False)
                yield Problem("queues", f"its record cannot be read ({why(error)})", f"number {slot}")
            problem = Problem("queues", "", self._name(slot))
            yield from self._check_counter("slot", slot - FIRST_SLOT, problem)
        for queue in self._queues.values():
            if queue.parent and queue.parent not in self._queues:
                yield Problem(
                    "queues", f"the queue that it belongs to, {queue.parent}, is missing", queue.name
                )

    def _add_queue(self, slot: int, data: bytes) -> None:
        queue, parent = decode_queue(data)[:2]
        if isinstance(queue, OutgoingQueue):
            self._queues[slot] = _Queue(str(queue.destination_format_name), is_outgoing=True)
            return
        name = str(queue.pathname)
        is_system = queue.queue_type is QueueType.SYSTEM
        self._queues[slot] = _Queue(name, keeps_messages=is_system, parent=parent)
        if not parent and not is_system:
            self._queues[slot | JOURNAL_SLOT] = _Queue(f"{name};JOURNAL", keeps_messages=True)

    # Messages.

    def _check_messages(self) -> Iterator[Problem]:
        for key, data in self._records(Keyspace.MESSAGES):
            self.counts.messages += 1
            if len(key) != 12:
                yield Problem("messages", f"the key {key.hex()} is none of a message")
                continue
            slot, lookup_id = split_message_key(key)
            queue = self._queues.get(slot)
            problem = Problem("messages", "", self._name(slot), lookup_id)
            if queue is None:
                yield problem._replace(text="the message belongs to no queue")
                queue = self._queues[slot] = _Queue(f"number {slot}", is_readable=False)
            queue.count += 1
            try:
                record = decode_record(data)
            except UNREADABLE as error:
                queue.has_damaged = True
                yield named(problem, data)._replace(text=f"the record is damaged ({why(error)})")
                continue
            queue.size_bytes += len(record.packet)
            self.counts.message_bytes += len(record.packet)
            yield from self._check_message(problem, slot, queue, record)

    def _check_message(self, problem: Problem, slot: int, queue: _Queue, record: Record) -> Iterator[Problem]:
        lookup_id = problem.lookup_id or 0
        try:
            packet = UserMessage(record.packet)
            message = decode_message(packet)
        except UNREADABLE as error:
            yield problem._replace(text=f"the packet cannot be read ({why(error)})")
            return
        problem = problem._replace(message_id=str(message.id), label=message.label)
        if lookup_id >> LOOKUP_SEQUENCE_BITS != 7 - packet.priority:
            yield problem._replace(text=f"it does not stand where its priority {packet.priority} belongs")
        if not packet.is_recoverable:
            yield problem._replace(text="an express message is stored")
        yield from self._check_counter("sequential_id", lookup_id_sequence(lookup_id), problem)
        if message.id.lineage == self._identifier:
            yield from self._check_counter("message_ordinal", message.id.uniquifier, problem)
        if packet.is_transactional and message.id.lineage == self._identifier and queue.is_outgoing:
            yield from self._check_counter("tx_timestamp", message.tx_sequence_id.timestamp, problem)
        place = message_key(slot, lookup_id)
        if slot == AWAITING_FINAL_ACK_NUMBER and self._awaiting_at(packet.number_bytes) != place:
            yield problem._replace(text="it waits for its final ack, which would not find it")
        deadline = _deadline(queue, record, packet)
        if deadline is not None:
            key = expiry_key(deadline, slot, lookup_id)
            if self.view.get(Keyspace.EXPIRIES, key) is None:
                yield problem._replace(text="its time is limited, but no expiry is stored")

    def _check_stats(self) -> Iterator[Problem]:
        for key, data in self._records(Keyspace.STATS):
            if key == TAIL_KEY:
                continue
            slot = int.from_bytes(key, "big")
            queue = self._queues.get(slot)
            if len(key) != 4 or queue is None:
                yield Problem("stats", "the count belongs to no queue", self._name(slot))
                continue
            try:
                count, size = decode_stats(data)
            except UNREADABLE:
                yield Problem("stats", "the count cannot be read", queue.name)
                continue
            yield from self._compare(queue, count, size)
        for slot, queue in self._queues.items():
            if queue.count and self.view.get(Keyspace.STATS, slot_key(slot)) is None:
                yield from self._compare(queue, 0, 0)

    def _compare(self, queue: _Queue, count: int, size: int) -> Iterator[Problem]:
        # The size that a damaged record counted for is unknown.
        if count != queue.count or (size != queue.size_bytes and not queue.has_damaged):
            stored, there = amount(count, size), amount(queue.count, queue.size_bytes)
            yield Problem("stats", f"{stored} are counted, {there} are there", queue.name)

    # References to queues and messages.

    def _check_expiries(self) -> Iterator[Problem]:
        for key, mark in self._records(Keyspace.EXPIRIES):
            if len(key) != 20:
                yield Problem("expiries", f"the key {key.hex()} is none of an expiry")
                continue
            deadline, slot, lookup_id = split_expiry_key(key)
            problem = Problem("expiries", "", self._name(slot), lookup_id)
            data = self.view.get(Keyspace.MESSAGES, message_key(slot, lookup_id))
            if data is None:
                # The deadline of a record that was set aside is unreadable; the key goes when it is due.
                if not self._is_set_aside(message_key(slot, lookup_id)):
                    yield problem._replace(text="the message that is to end is not there")
                continue
            if deadline == 0 and mark:
                continue  # purged while a reader held it: ends when given back, or at the next start
            try:
                record = decode_record(data)
                packet = UserMessage(record.packet)
            except UNREADABLE:
                continue  # told of already
            queue = self._queues.get(slot)
            if queue is not None and queue.is_readable and deadline != _deadline(queue, record, packet):
                yield named(problem, data)._replace(text=f"the message does not end at {deadline}")

    def _check_transactions(self) -> Iterator[Problem]:
        """Operations are numbered from 0, and a record with the highest number says that it is all."""
        identifier, expected = b"", TRANSACTION_HEAD
        for key, data in self._records(Keyspace.TRANSACTIONS):
            if len(key) != 20:
                yield Problem("transactions", f"the key {key.hex()} is none of an operation")
                continue
            if key[:16] != identifier:
                yield from self._check_head(identifier, expected)
                identifier, expected = key[:16], 0
                self.counts.transactions += 1
            index = int.from_bytes(key[16:], "big")
            what = f"operation {index} of transaction {UUID(bytes=identifier)}"
            if index == TRANSACTION_HEAD:
                expected = TRANSACTION_HEAD
                if len(data) not in {0, BEGAN.size}:
                    yield Problem(
                        "transactions", f"the head of transaction {UUID(bytes=identifier)} is damaged"
                    )
                continue
            if index != expected:
                yield Problem("transactions", f"{what}: operation {expected} before it is missing")
            expected = index + 1
            yield from self._check_operation(what, data)
        yield from self._check_head(identifier, expected)

    def _check_head(self, identifier: bytes, expected: int) -> Iterator[Problem]:
        if expected != TRANSACTION_HEAD:
            yield Problem("transactions", f"the head of transaction {UUID(bytes=identifier)} is missing")

    def _check_operation(self, what: str, data: bytes) -> Iterator[Problem]:
        slots: list[int] = []

        def note(slot: int) -> QueueState:
            slots.append(slot)
            return QueueState(slot, Queue(identifier=NULL_GUID))

        try:
            operation = decode_operation(data, note)
            assert operation is not None
            if operation.kind == TransactionalOperationType.ENQUEUE:
                decode_message(UserMessage(operation.record.packet))
        except UNREADABLE as error:
            yield Problem("transactions", f"{what} cannot be read ({why(error)})")
            return
        for slot in slots:
            # A queue may have been deleted since the transaction was prepared; that leaves nothing to do.
            if slot not in self._queues and (slot & ~JOURNAL_SLOT) - FIRST_SLOT > self._counters["slot"]:
                yield Problem("transactions", f"{what} names the queue {slot}, which there never was")
        kind, lookup_id = operation.kind, operation.lookup_id
        if kind != TransactionalOperationType.ENQUEUE and slots[0] in self._queues:
            key = message_key(slots[0], lookup_id)
            if self.view.get(Keyspace.MESSAGES, key) is None and not self._is_set_aside(key):
                queue = self._name(slots[0])
                yield Problem("transactions", f"{what}: the message is not there", queue, lookup_id)

    def _check_sequences(self) -> Iterator[Problem]:
        for key, data in self._records(Keyspace.SEQUENCES):
            slot = int.from_bytes(key, "big")
            if len(key) != 4 or slot not in self._queues:
                yield Problem("sequences", "the sequence belongs to no queue", self._name(slot))
            queue = self._queues.get(slot)
            sizes = SIZES if queue is not None and queue.is_outgoing else {SEQUENCE.size}
            if len(data) not in sizes:
                text = f"it has {len(data)} bytes instead of {max(sizes)}"
                yield Problem("sequences", text, self._name(slot))
            elif sizes is SIZES:
                problem = Problem("sequences", "", self._name(slot))
                yield from self._check_counter("tx_timestamp", Stream.decode(data).sequence >> 32, problem)

    def _check_incoming(self) -> Iterator[Problem]:
        key_size, value_size = _INCOMING_SIZES
        for key, data in self._records(Keyspace.INCOMING):
            slot = int.from_bytes(key[:4], "big")
            is_left = slot == 0  # by a deleted queue, for one of the same name
            if len(key) != key_size or (slot not in self._queues and not is_left):
                yield Problem("incoming", f"the stream {key.hex()} leads into no queue")
            elif len(data) < value_size or not _is_text(data[value_size:]):
                yield Problem("incoming", f"the stream {key.hex()} cannot be read", self._name(slot))
        for key, data in self._records(Keyspace.ORPHANS):
            if len(key) != key_size - 4 or len(data) < value_size or not _is_text(data[value_size:]):
                yield Problem("incoming", f"the stream {key.hex()} into no queue cannot be read")

    def _awaiting_at(self, number: bytes) -> bytes | None:
        place = self.view.get(Keyspace.AWAITING, number)
        return place and place[:_PLACE_SIZE]

    def _check_awaiting(self) -> Iterator[Problem]:
        """The index by number, of the messages whose end is still to be told."""
        for number, place in self._records(Keyspace.AWAITING):
            if len(number) != 4 or len(place) not in _AWAITING_SIZES:
                yield Problem("awaiting", f"the entry {number.hex()} cannot be read")
                continue
            place = place[:_PLACE_SIZE]  # noqa: PLW2901  # the receiver may follow
            slot, lookup_id = split_message_key(place)
            problem = Problem("awaiting", "", self._name(slot), lookup_id)
            data = self.view.get(Keyspace.MESSAGES, place)
            if data is None:
                if not self._is_set_aside(place):
                    yield problem._replace(text=f"message {number.hex()} is not where it is said to be")
                continue
            try:
                found = UserMessage(decode_record(data).packet).number_bytes
            except UNREADABLE:
                continue  # told of already
            if found != number:
                yield named(problem, data)._replace(text=f"it is taken for message {number.hex()}")

    def _check_history(self) -> Iterator[Problem]:
        for key, data in self._records(Keyspace.HISTORY):
            if len(key) != 8 or len(data) <= 8 or (len(data) - 8) % _IDENTITY_SIZE:
                yield Problem("history", f"the entry {key.hex()} with {len(data)} bytes cannot be read")

    def _check_peers(self) -> Iterator[Problem]:
        for key, data in self._records(Keyspace.PEERS):
            if len(key) != 16 or data[:1] not in {b"D", b"R"} or not _is_text(data[1:]):
                yield Problem("peers", f"the record of queue manager {key.hex()} cannot be read")

    def _check_claims(self) -> Iterator[Problem]:
        names = {slot: queue.name for slot, queue in self._queues.items()}
        claims = ClaimChecker(self.view, names, self._identifier, self._check_counter)
        yield from claims.problems()
        self.counts.claimed = claims.count

    def _check_discards(self) -> Iterator[Problem]:
        for key, data in self._records(Keyspace.DISCARDS):
            self.counts.discards += 1
            try:
                Discard(**json.loads(data))
            except UNREADABLE as error:
                yield Problem("discards", f"line {int.from_bytes(key, 'big')} cannot be read ({why(error)})")

    def _check_life(self) -> Iterator[Problem]:
        if is_damaged(tail_row(self.view)):
            yield Problem("life", "the newest events cannot be read")
        for key, row in self._records(Keyspace.LIFE):
            if is_damaged(row):
                yield Problem("life", f"row {int.from_bytes(key, 'big')} cannot be read")

    def _check_staged_sends(self) -> Iterator[Problem]:
        self.counts.stages = self.view.count(Keyspace.STAGES)
        for text in check_unpublished(self.view):
            yield Problem(Keyspace.UNPUBLISHED, text)
        for keyspace, text in chain(check_stages(self.view), check_published(self.view)):
            yield Problem(keyspace, text)

    def _list_damaged(self) -> Iterator[Problem]:
        for key, data in self._records(Keyspace.DAMAGED):
            self.counts.set_aside += 1
            problem = Problem(
                "damaged", f"a damaged record of {len(data)} bytes was set aside (key {key.hex()})"
            )
            of_message = key.removeprefix(_MESSAGES)
            if len(of_message) == 12 and of_message != key:
                slot, lookup_id = split_message_key(of_message)
                problem = named(problem._replace(queue=self._name(slot), lookup_id=lookup_id), data)
            yield problem

    def _is_set_aside(self, key: bytes) -> bool:
        return self.view.get(Keyspace.DAMAGED, _MESSAGES + key) is not None


def _deadline(queue: _Queue, record: Record, packet: UserMessage) -> int | None:
    """When the message expires."""
    if queue.keeps_messages or not queue.is_readable or record.is_copy:
        return None
    limit = packet.time_to_be_received
    if queue.is_outgoing:
        limit = min(limit, packet.time_to_reach_queue)
        return None if limit == INFINITE else packet.sent_time + limit + 1
    return None if limit == INFINITE else packet.sent_time + limit


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
