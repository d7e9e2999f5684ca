"""The engine on a store in memory, driven one batch per call, with plain names going in and coming out."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import NamedTuple, TypeVar

from tiercel.engine.claim_records import ClaimRow, decode_claim, is_claim_key, split_claimed
from tiercel.engine.core import Completed, Removed
from tiercel.engine.engine import Engine
from tiercel.engine.handles import OpenQueue, Waiter
from tiercel.engine.identity import Identity
from tiercel.engine.queue_state import QueueState
from tiercel.engine.records import Record, decode_record, message_key, split_message_key
from tiercel.engine.transaction import Transaction, TransactionState
from tiercel.model.codes import (
    DeliveryGuarantee,
    MessageClass,
    QueueAccess,
    ShareMode,
    TransactionalOperationType,
)
from tiercel.model.errors import InsufficientResourcesError, TransactionUsageError
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message
from tiercel.model.path_name import PathName
from tiercel.model.queue_name import parse_queue_name
from tiercel.security.access import Token
from tiercel.store import Keyspace, MemoryStore
from tiercel.wire.message import decode_message, encode_message
from tiercel.wire.structure import encode_guid
from tiercel.wire.user_message import UserMessage

from .reference import Letter

T = TypeVar("T")
OWNER = Token.local_system()
KIB = 1024
ACCESS = {
    "receive": QueueAccess.RECEIVE,
    "peek": QueueAccess.PEEK,
    "send": QueueAccess.SEND,
    "move": QueueAccess.MOVE,
}


def path_of(name: str) -> str:
    return f".\\system$;{name[7:]}" if name.startswith("system;") else f".\\private$\\{name}"


def name_of(state: QueueState) -> str:
    """What the reference calls the queue."""
    local = state.queue.pathname.local_name if state.queue.pathname is not None else ""
    return local.replace("system$;", "system;").removeprefix("private$\\")


@dataclass(frozen=True)
class Seen:
    """One message in one queue, as it lies there."""

    lookup_id: int
    name: str
    size: int
    priority: int
    is_recoverable: bool
    aborts: int
    moves: int
    is_locked: bool
    is_copy: bool


class Gone(NamedTuple):
    """A message, and no copy of one, that left its queue for good."""

    queue: str
    name: str
    reason: int


class Line(NamedTuple):
    """A line of the ledger."""

    queue: str
    name: str
    reason: int


@dataclass
class Fates:
    """What became of every message that was sent; copies for journals and dead-letter queues do not count."""

    sent: set[str] = field(default_factory=set)
    given: Counter[str] = field(default_factory=Counter)  # to a reader, to keep or not
    received: Counter[str] = field(default_factory=Counter)
    discarded: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)  # express messages at a restart
    withdrawn: Counter[str] = field(default_factory=Counter)  # with the transaction that sent them


class EngineWorld:
    def __init__(self, now: float) -> None:
        self.store = MemoryStore()
        self.now = now
        self.fates = Fates()
        self.completed: list[Waiter] = []
        self.removed: list[Gone] = []
        self._names: dict[bytes, str] = {}  # of the messages, by what an acknowledgement of them carries
        self.ever_stored: set[bytes] = set()  # ids of messages that the store has had
        self._ledger_seen = b"\0"
        self._looks: dict[int, list[Seen]] = {}  # one look per queue and step is enough
        self._start()

    def _start(self) -> None:
        self.engine = Engine(
            self.store, Identity("host"), now=self.now, owner=OWNER, tells_removed=True, life_bytes=1 << 30
        )

    def run(self, command: Callable[[], T]) -> T:
        """One batch; `completed` and `removed` are what the commit let out."""
        self._looks.clear()
        self.engine.begin(self.now)
        try:
            return command()
        finally:
            self._let_out(self.engine.commit())

    def _let_out(self, effects: Sequence[object]) -> None:
        self.completed = [effect.waiter for effect in effects if isinstance(effect, Completed)]
        self.removed = [
            Gone(name_of(effect.queue), self.name(effect.record), effect.reason)
            for effect in effects
            if isinstance(effect, Removed)
        ]

    # Restarting.

    def express_names(self) -> list[str]:
        seen = [each for state in self.states() for each in self.look_at(state, express_only=True)]
        return [each.name for each in seen if not each.is_copy]

    def crash(self, express: list[str] | None = None) -> None:
        """The plug is pulled; what the last commit holds is what there is, without the express messages."""
        lost = self.express_names() if express is None else express
        self.store = self.store.crash()
        self._after_end(lost)

    def stop(self) -> None:
        lost = self.express_names()
        self._let_out(self.engine.stop())
        self.store.close()
        self.store = MemoryStore(self.store.spaces)
        self._after_end(lost)

    def _after_end(self, lost: list[str]) -> None:
        self.fates.lost.update(lost)
        before = Counter(self._stored_names())
        for tx in self.engine.transactions._living.values():
            if tx.state is TransactionState.ACTIVE:
                self.withdrawn(tx)
        self._start()
        self.run(lambda: None)
        # What the start itself lets out is not told to anybody, so what ended there is found by looking.
        ended = before - Counter(self._stored_names())
        self.removed = [Gone(*each, MessageClass.NACK_RECEIVE_TIMEOUT) for each in ended.elements()]

    def _stored_names(self) -> Iterator[tuple[str, str]]:
        for state in self.states():
            for _, record in self.stored(state):
                if not record.is_copy:
                    yield name_of(state), self.name(record)

    def withdrawn(self, tx: Transaction) -> None:
        """What an aborted transaction wanted to send was never sent."""
        sends = [op for op in tx.operations if op.kind == TransactionalOperationType.ENQUEUE]
        self.fates.withdrawn.update(self.name(operation.record) for operation in sends)

    # Calls that need more than a line.

    def create_queue(
        self, name: str, *, transactional: bool, journaling: bool, quota_kib: int, journal_quota_kib: int
    ) -> None:
        self.engine.queues.create(
            PathName.parse(path_of(name)),
            OWNER,
            transactional=transactional,
            journaling=journaling,
            quota_kib=quota_kib,
            journal_quota_kib=journal_quota_kib,
        )

    def delete_queue(self, name: str) -> None:
        self.engine.queues.delete(self.engine.queues.get(parse_queue_name(path_of(name))), OWNER)

    def open(self, name: str, access: str, *, deny: bool = False) -> OpenQueue:
        share = ShareMode.DENY_RECEIVE if deny else ShareMode.DENY_NONE
        return self.engine.opening.open(parse_queue_name(path_of(name)), ACCESS[access], share, token=OWNER)

    def send(self, opened: OpenQueue, letter: Letter, body: bytes, transaction: Transaction | None) -> None:
        message = message_of(letter, body, self.now)
        try:
            identifier = self.engine.sending.send(opened, message, transaction)
        except (InsufficientResourcesError, TransactionUsageError):
            self.fates.sent.add(letter.name)  # and refused: the ledger has it
            raise
        self._names[encode_guid(identifier.lineage) + identifier.uniquifier.to_bytes(4, "little")] = (
            letter.name
        )
        self.fates.sent.add(letter.name)

    def size_of(self, queue: str, letter: Letter, body: bytes) -> int:
        """How long the packet will be; the codec has its own tests."""
        message = message_of(letter, body, self.now)
        message.destination_queue = parse_queue_name(path_of(queue))
        message.id = MessageId(self.engine.queue_manager.identifier, 1)
        message.transaction_id = 1 if letter.transactional else None
        return len(encode_message(message)) + _added_by_the_engine()

    # Looking.

    def name(self, record: Record) -> str:
        label, message_class, correlation = _identity(record.packet)
        if message_class == MessageClass.NORMAL:
            return label
        return f"{message_class:04x} {self._names[correlation]}"

    def states(self) -> list[QueueState]:
        """Every queue but those that only the protocols use."""
        catalog = self.engine._catalog
        return [state for state in catalog.by_slot.values() if not catalog.is_internal(state.parent or state)]

    def state(self, name: str) -> QueueState:
        return next(state for state in self.states() if name_of(state) == name)

    def claims(self) -> dict[tuple[str, str], tuple[int, int, dict[int, tuple[str, int, int]]]]:
        """Of each consumer and queue: the floor, the highest number, and what is held; past the engine."""
        queues = {state.slot: name_of(state) for state in self.states()}
        found: dict[tuple[str, str], tuple[int, int, dict[int, tuple[str, int, int]]]] = {}
        for row in self.claim_rows():
            held = {seq: self._seen_of(record) for seq, record in self.claimed(row)}
            found[row.consumer, queues[row.queue_slot]] = (row.floor, row.hi, held)
        return found

    def claim_rows(self) -> list[ClaimRow]:
        rows = self.store.spaces[Keyspace.CONSUMERS].items()
        return [decode_claim(key, data) for key, data in rows if is_claim_key(key)]

    def claimed(self, row: ClaimRow) -> Iterator[tuple[int, Record]]:
        space = self.store.spaces[Keyspace.CLAIMED]
        for key in space.irange(message_key(row.slot, 0), message_key(row.slot + 1, 0), (True, False)):
            yield split_message_key(key)[1], decode_record(split_claimed(space[key])[2])

    def _seen_of(self, record: Record) -> tuple[str, int, int]:
        return self.name(record), record.abort_count, record.move_count

    def look_at(self, state: QueueState, *, express_only: bool = False) -> list[Seen]:
        """The whole queue in its order, read past the engine."""
        if not express_only and state.slot in self._looks:
            return self._looks[state.slot]
        records = dict(state.express)
        if not express_only:
            records |= dict(self.stored(state))
        found: list[Seen] = []
        if not express_only:
            self._looks[state.slot] = found
        for lookup_id, record in sorted(records.items()):
            packet = UserMessage(record.packet)
            found.append(
                Seen(
                    lookup_id,
                    self.name(record),
                    len(record.packet),
                    packet.priority,
                    lookup_id not in state.express,
                    record.abort_count,
                    record.move_count,
                    lookup_id in state.locks,
                    record.is_copy,
                )
            )
        return found

    def stored(self, state: QueueState) -> Iterator[tuple[int, Record]]:
        first, beyond = state.slot.to_bytes(4, "big"), (state.slot + 1).to_bytes(4, "big")
        messages = self.store.spaces[Keyspace.MESSAGES]
        for key in messages.irange(first, beyond, (True, False)):
            yield split_message_key(key)[1], decode_record(messages[key])

    def new_discards(self) -> tuple[list[Line], list[Line]]:
        """The lines of the ledger since the last call: of messages, and of copies that found no room."""
        rows = self.store.spaces[Keyspace.DISCARDS]
        new = list(rows.irange(self._ledger_seen, inclusive=(False, True)))
        self._ledger_seen = new[-1] if new else self._ledger_seen
        lines: list[Line] = []
        copies: list[Line] = []
        for key in new:
            values = json.loads(rows[key])
            line = Line(_short(values["queue"]), values["label"], values["message_class"])
            (copies if values["reason"].startswith("no copy") else lines).append(line)
        return lines, copies


@cache
def _added_by_the_engine() -> int:
    """Who sent the message: the engine adds that, and it makes each packet as much longer."""
    world, letter = EngineWorld(0.0), Letter("probe", 0)
    world.run(
        lambda: world.create_queue(
            "c", transactional=False, journaling=False, quota_kib=1, journal_quota_kib=1
        )
    )
    world.run(lambda: world.send(world.open("c", "send"), letter, b"", None))
    (sent,) = (seen for state in world.states() for seen in world.look_at(state))
    message = message_of(letter, b"", 0.0)
    message.destination_queue = parse_queue_name(path_of("c"))
    message.id = MessageId(world.engine.queue_manager.identifier, 1)
    return sent.size - len(encode_message(message))


def message_of(letter: Letter, body: bytes, now: float) -> Message:
    delivery = DeliveryGuarantee.RECOVERABLE if letter.recoverable else DeliveryGuarantee.EXPRESS
    message = Message(
        body,
        label=letter.name,
        priority=letter.priority,
        delivery=delivery,
        acknowledgements=letter.acks,
        positive_journaling=letter.keep_copy,
        negative_journaling=letter.keep_dead,
    )
    if letter.deadline is not None:
        message.time_to_be_received = int(letter.deadline - int(now))
    if letter.admin is not None:
        own = path_of(letter.admin).replace(".", "host", 1)  # as the engine sends it
        message.administration_queue = parse_queue_name(own)
    if letter.dead_letter_queue is not None:
        message.dead_letter_queue = PathName.parse(path_of(letter.dead_letter_queue))
    return message


@lru_cache(4096)
def _identity(packet: bytes) -> tuple[str, int, bytes]:
    message = decode_message(UserMessage(packet))
    return message.label, message.message_class, message.correlation_id


def _short(queue: str) -> str:
    local = queue.rpartition(" ")[2].partition("\\")[2]
    return local.replace("system$;", "system;").removeprefix("private$\\")
