"""The engine on a store in memory, driven one batch per call, with plain names going in and coming out."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

from tiercel.client.driver import format_name
from tiercel.engine.core import Completed, Removed
from tiercel.engine.engine import Engine, Identity
from tiercel.engine.handles import OpenQueue, Waiter
from tiercel.engine.queue_state import QueueState
from tiercel.engine.records import Record, decode_record, split_message_key
from tiercel.engine.transaction import Transaction
from tiercel.model.codes import DeliveryGuarantee, MessageClass, QueueAccess, ShareMode
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message
from tiercel.model.path_name import PathName
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


@dataclass
class Fates:
    """What became of every message that was sent; copies for journals and dead-letter queues do not count."""

    sent: set[str] = field(default_factory=set)
    received: Counter[str] = field(default_factory=Counter)
    discarded: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)  # express messages and open transactions at a restart


class EngineWorld:
    def __init__(self, now: float) -> None:
        self.store = MemoryStore()
        self.now = now
        self.fates = Fates()
        self.completed: list[Waiter] = []
        self.removed: list[tuple[str, str, int]] = []
        self._names: dict[bytes, str] = {}  # of the messages, by what an acknowledgement of them carries
        self._ledger_seen = b"\0"
        self._start()

    def _start(self) -> None:
        self.engine = Engine(self.store, Identity("host"), now=self.now, owner=OWNER)

    def run(self, command: Callable[[], T]) -> T:
        """One batch; `completed` and `removed` are what the commit let out."""
        self.engine.begin(self.now)
        try:
            return command()
        finally:
            self._let_out(self.engine.commit())

    def _let_out(self, effects: list[object]) -> None:
        self.completed = [effect.waiter for effect in effects if isinstance(effect, Completed)]
        self.removed = [
            (name_of(effect.queue), self.name(effect.record), int(effect.reason))
            for effect in effects
            if isinstance(effect, Removed)
        ]

    # Restarting.

    def crash(self) -> None:
        """The plug is pulled; what the last commit holds is what there is."""
        self.store = self.store.crash()
        self._after_end()

    def stop(self) -> None:
        self._let_out(self.engine.stop())
        self.store.close()
        self.store = MemoryStore(self.store.spaces)
        self._after_end()

    def _after_end(self) -> None:
        before = {
            seen.name: seen.is_recoverable
            for state in self.states()
            if not is_for_copies(state)
            for seen in self.look_at(state, express_only=True)
        }
        self.fates.lost.update(name for name in before if name in self.fates.sent)
        pending = [tx for tx in self.engine.transactions._living.values() if tx.state.value == "active"]
        for tx in pending:
            self.fates.lost.update(
                self.name(op.record) for op in tx.operations if op.kind.name == "ENQUEUE"
            )
        self._start()

    # Calls that need more than a line.

    def create_queue(
        self, name: str, *, transactional: bool, journaling: bool, quota_kib: int, journal_quota_kib: int
    ) -> None:
        self.engine.create_queue(
            PathName.parse(path_of(name)),
            OWNER,
            transactional=transactional,
            journaling=journaling,
            quota_kib=quota_kib,
            journal_quota_kib=journal_quota_kib,
        )

    def delete_queue(self, name: str) -> None:
        self.engine.delete_queue(self.engine.queue_state(format_name(path_of(name))), OWNER)

    def open(self, name: str, access: str, *, deny: bool = False) -> OpenQueue:
        share = ShareMode.DENY_RECEIVE if deny else ShareMode.DENY_NONE
        return self.engine.open_queue(format_name(path_of(name)), ACCESS[access], share, token=OWNER)

    def send(self, opened: OpenQueue, letter: Letter, body: bytes, transaction: Transaction | None) -> None:
        message = message_of(letter, body, self.now)
        identifier = self.engine.send(opened, message, transaction)
        self._names[encode_guid(identifier.lineage) + identifier.uniquifier.to_bytes(4, "little")] = letter.name
        self.fates.sent.add(letter.name)

    def size_of(self, queue: str, letter: Letter, body: bytes) -> int:
        """How long the packet will be; the codec has its own tests."""
        message = message_of(letter, body, self.now)
        message.destination_queue = format_name(path_of(queue))
        message.id = MessageId(self.engine.queue_manager.identifier, 1)
        message.transaction_id = 1 if letter.transactional else None
        return len(encode_message(message))

    # Looking.

    def name(self, record: Record) -> str:
        label, message_class, correlation = _identity(record.packet)
        if message_class == MessageClass.NORMAL:
            return label
        return f"{message_class:04x} {self._names[correlation]}"

    def states(self) -> list[QueueState]:
        """Every queue but those that only the protocols use."""
        catalog = self.engine._catalog
        return [state for state in catalog.by_slot.values() if not catalog.is_internal(state)]

    def look_at(self, state: QueueState, *, express_only: bool = False) -> list[Seen]:
        """The whole queue in its order, read past the engine."""
        records = dict(state.express)
        if not express_only:
            records |= dict(self.stored(state))
        found = []
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
                )
            )
        return found

    def stored(self, state: QueueState) -> Iterator[tuple[int, Record]]:
        first, beyond = state.slot.to_bytes(4, "big"), (state.slot + 1).to_bytes(4, "big")
        messages = self.store.spaces[Keyspace.MESSAGES]
        for key in messages.irange(first, beyond, (True, False)):
            yield split_message_key(key)[1], decode_record(messages[key])

    def new_discards(self) -> list[tuple[str, str, int]]:
        """The lines of the ledger since the last call: queue, message, class."""
        rows = self.store.spaces[Keyspace.DISCARDS]
        new = list(rows.irange(self._ledger_seen, inclusive=(False, True)))
        self._ledger_seen = new[-1] if new else self._ledger_seen
        return [_discard(rows[key]) for key in new]


def is_for_copies(state: QueueState) -> bool:
    return state.keeps_messages or name_of(state).startswith("dead")


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
        message.administration_queue = format_name(path_of(letter.admin))
    if letter.dead_letter_queue is not None:
        message.dead_letter_queue = PathName.parse(path_of(letter.dead_letter_queue))
    return message


@lru_cache(4096)
def _identity(packet: bytes) -> tuple[str, int, bytes]:
    message = decode_message(UserMessage(packet))
    return message.label, message.message_class, message.correlation_id


def _discard(line: bytes) -> tuple[str, str, int]:
    import json

    values = json.loads(line)
    queue = values["queue"].rpartition(" ")[2]
    local = queue.partition("\\")[2] if "\\" in queue else queue
    name = local.replace("system$;", "system;").removeprefix("private$\\")
    return name, values["label"], values["message_class"]
