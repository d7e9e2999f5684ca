"""A queue manager to play with: commands at an explicit time, restarts and crashes.

    orders = world.create("orders", transactional=True)
    orders.send(b"one"); world.sleep(5); world.restart()
    assert orders.bodies() == [b"one"]

Every command is a batch of its own: `world.effects` holds what left with the commit of the last one. A `Box`
names a queue and opens it when it is used, so it stays valid over a restart.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import pytest

from tiercel.client.translate import message_of
from tiercel.engine.core import Completed, Effect, Removed
from tiercel.engine.cursor import Cursor
from tiercel.engine.discards import Discard
from tiercel.engine.engine import Engine
from tiercel.engine.handles import Found, OpenQueue, Waiter
from tiercel.engine.identity import Identity
from tiercel.engine.queue_state import QueueState
from tiercel.engine.transaction import Transaction
from tiercel.model.codes import (
    Acknowledgements,
    DeliveryGuarantee,
    MessageClass,
    MessageSeekAction,
    QueueAccess,
    ShareMode,
)
from tiercel.model.errors import IoTimeoutError, MqError
from tiercel.model.format_name import FormatName, MulticastFormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message
from tiercel.model.path_name import PathName
from tiercel.model.queue_name import parse_queue_name
from tiercel.model.sid import SecurityIdentifier
from tiercel.security.access import Token
from tiercel.store.lmdb_store import LmdbStore
from tiercel.store.memory_store import MemoryStore
from tiercel.wire.message import encode_message
from tiercel.wire.user_message import UserMessage

T = TypeVar("T")
NOW = 1_700_000_000
SYSTEM = Token.local_system()
ALICE = Token.for_user(SecurityIdentifier.parse("S-1-5-21-1-2-3-1001"))
BOB = Token.for_user(SecurityIdentifier.parse("S-1-5-21-1-2-3-1002"))
RECOVERABLE = DeliveryGuarantee.RECOVERABLE
ALL_ACKNOWLEDGEMENTS = Acknowledgements(0xF)


class World:
    def __init__(
        self,
        directory: Path | None = None,
        *,
        name: str = "HERE",
        store: MemoryStore | None = None,
        **options: Any,
    ) -> None:
        self.directory = directory
        self.name = name
        self.options = options
        self.now: float = NOW
        self.effects: list[Effect] = []
        self.store: MemoryStore | LmdbStore = (
            store or MemoryStore() if directory is None else self._open(directory)
        )
        self.start()

    @staticmethod
    def _open(directory: Path) -> LmdbStore:
        return LmdbStore.open(directory, max_bytes=64 * 2**20)

    # Its life.

    def start(self) -> None:
        identity = Identity(self.name, f"{self.name.lower()}.example.test", ("192.0.2.1",))
        self.engine = Engine(
            self.store, identity, now=self.now, owner=ALICE, tells_removed=True, **self.options
        )

    def restart(self) -> None:
        """An orderly stop and a new start on the same store."""
        self.effects = self.engine.stop()
        if self.directory is not None:
            self.store.close()
            self.store = self._open(self.directory)
        self.start()

    def kill(self) -> None:
        """Kill -9: only what was committed is there at the next start."""
        if isinstance(self.store, MemoryStore):
            self.store = self.store.crash()
        else:
            self.store.close()
            assert self.directory is not None
            self.store = self._open(self.directory)
        self.start()

    def run(self, command: Callable[[], T]) -> T:
        self.engine.begin(self.now)
        try:
            return command()
        finally:
            self.effects = self.engine.commit()

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.run(lambda: None)

    # What is in it.

    def create(self, name: str, token: Token = SYSTEM, **attributes: Any) -> "Box":
        path = PathName.parse(name if "\\" in name else rf".\private$\{name}")
        self.run(lambda: self.engine.queues.create(path, token, **attributes))
        return self.box(str(path))

    def box(self, name: str) -> "Box":
        return Box(self, parse_queue_name(name if "\\" in name or "=" in name else rf".\private$\{name}"))

    def left_outgoing(self, name: FormatName) -> None:
        """An outgoing queue that was made when its name could still be opened."""
        is_multicast = isinstance(name, MulticastFormatName)
        self.run(lambda: self.engine._catalog.create_outgoing(name, is_multicast=is_multicast))

    @property
    def journal(self) -> "Box":
        return self.box(r".\system$;JOURNAL")

    @property
    def dead_letters(self) -> "Box":
        return self.box(r".\system$;DEADLETTER")

    @property
    def transactional_dead_letters(self) -> "Box":
        return self.box(r".\system$;DEADXACT")

    def discards(self) -> list[Discard]:
        return self.run(lambda: list(self.engine.ledger.lines()))

    def discarded(self) -> list[int]:
        return [line.message_class for line in self.discards()]

    def removed(self) -> list[MessageClass]:
        """Why messages left their queues with the last command."""
        return [effect.reason for effect in self.effects if isinstance(effect, Removed)]

    def completed(self) -> list[Waiter]:
        """The waits that ended with the last command, in order."""
        return [effect.waiter for effect in self.effects if isinstance(effect, Completed)]

    @property
    def total_bytes(self) -> int:
        return self.engine._core.total_bytes

    def set(self, **attributes: Any) -> None:
        """Changes the queue manager itself."""
        self.run(lambda: self.engine.administration.set_properties(**attributes))

    # Transactions.

    def begin(self) -> Transaction:
        return self.run(self.engine.transactions.begin)

    def commit(self, transaction: Transaction) -> None:
        self.run(lambda: self.engine.transactions.commit(transaction.id))

    def abort(self, transaction: Transaction) -> None:
        self.run(lambda: self.engine.transactions.abort(transaction.id))

    def prepare(self, transaction: Transaction) -> None:
        self.run(lambda: self.engine.transactions.prepare(transaction.id))

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        transaction = self.begin()
        yield transaction
        self.commit(transaction)


class Box:
    """A queue by its name."""

    def __init__(self, world: World, name: FormatName) -> None:
        self.world = world
        self.name = name
        self._handles: dict[tuple[Engine, QueueAccess], OpenQueue] = {}

    @property
    def state(self) -> QueueState:
        return self.world.engine.queues.get(self.name)

    @property
    def journal(self) -> "Box":
        return self.world.box(f"{self.name};JOURNAL")

    def subqueue(self, name: str) -> "Box":
        return self.world.box(f"{self.name};{name}")

    def open(
        self, access: QueueAccess, share: ShareMode = ShareMode.DENY_NONE, token: Token = SYSTEM
    ) -> OpenQueue:
        """An opening of its own."""
        return self.world.run(lambda: self.world.engine.opening.open(self.name, access, share, token=token))

    def handle(self, access: QueueAccess) -> OpenQueue:
        """The opening that the methods below use."""
        key = (self.world.engine, access)
        opened = self._handles.get(key)
        if opened is None or not opened.is_open or opened.state is None or opened.state.is_deleted:
            opened = self._handles[key] = self.open(access)
        return opened

    @property
    def receiving(self) -> OpenQueue:
        return self.handle(QueueAccess.RECEIVE)

    def close(self) -> None:
        for (engine, _), opened in self._handles.items():
            if engine is self.world.engine:
                self.world.run(lambda opened=opened: self.world.engine.opening.close(opened))  # type: ignore[misc]
        self._handles.clear()

    def delete(self) -> None:
        self.world.run(lambda: self.world.engine.queues.delete(self.state, SYSTEM))

    def set(self, **attributes: Any) -> None:
        self.world.run(lambda: self.world.engine.queues.set_properties(self.state, SYSTEM, **attributes))

    # Messages.

    def send(
        self, body: bytes = b"", *, transaction: Transaction | None = None, **properties: Any
    ) -> MessageId:
        properties.setdefault("delivery", RECOVERABLE)
        message = Message(body, **properties)
        opened = self.handle(QueueAccess.SEND)
        return self.world.run(lambda: self.world.engine.sending.send(opened, message, transaction))

    def send_all(self, *bodies: bytes, **properties: Any) -> None:
        for body in bodies:
            self.send(body, **properties)

    def start_receive(self, timeout: float | None = None, **how: Any) -> Found | Waiter:
        opened = how.pop("opened", None) or self.receiving
        return self.world.run(lambda: self.world.engine.reading.receive(opened, timeout, **how))

    def wait(self, timeout: float | None = None, **how: Any) -> Waiter:
        """A receive that has to wait."""
        result = self.start_receive(timeout, **how)
        assert isinstance(result, Waiter)
        return result

    def wait_to_peek(self, timeout: float | None = None, **how: Any) -> Waiter:
        opened = how.pop("opened", None) or self.receiving
        result = self.world.run(lambda: self.world.engine.reading.peek(opened, timeout, **how))
        assert isinstance(result, Waiter)
        return result

    def receive(self, **how: Any) -> Message:
        """A message that is there; `IoTimeoutError` when there is none."""
        return found(self.start_receive(0, **how))

    def take(self, **how: Any) -> Message:
        """The first phase of a two-phase read."""
        return self.receive(two_phase=True, **how)

    def end(self, message: Message, *, delete: bool) -> None:
        opened = self.receiving
        self.world.run(
            lambda: self.world.engine.reading.end_receive(opened, message.lookup_id, delete=delete)
        )

    def peek(self, **how: Any) -> Message:
        opened = self.receiving
        return found(self.world.run(lambda: self.world.engine.reading.peek(opened, 0, **how)))

    def lookup(
        self, lookup_id: int, action: MessageSeekAction = MessageSeekAction.SEEK_CURRENT, **how: Any
    ) -> Message:
        how.setdefault("peek", True)
        opened = self.receiving
        read = self.world.engine.reading.read_by_lookup_id
        return found(self.world.run(lambda: read(opened, lookup_id, action, **how)))

    def move(self, message: Message, target: "Box", transaction: Transaction | None = None) -> None:
        source, goal = self.receiving, target.handle(QueueAccess.MOVE)
        self.world.run(lambda: self.world.engine.moving.move(source, message.lookup_id, goal, transaction))

    def hand_over(self, message: Message, target: "Box") -> None:
        source, goal = self.receiving, target.handle(QueueAccess.SEND)
        assert self.world.run(lambda: self.world.engine.moving.hand_over(source, message.lookup_id, goal))

    def purge(self) -> int:
        opened = self.receiving
        return self.world.run(lambda: self.world.engine.purging.purge(opened))

    def arrive(self, body: bytes = b"", **properties: Any) -> MessageClass | None:
        """A message that another queue manager sends here."""
        packet = foreign_packet(body, destination_queue=self.name, **properties)
        queue = self.world.engine.queues.find(self.name)
        return self.world.run(lambda: self.world.engine.delivery.arrive(packet, queue, str(self.name)))

    # What is in it.

    def messages(self) -> list[Message]:
        """All that can be seen, in order."""
        cursor = Walk(self)
        seen = []
        try:
            seen.append(cursor.peek())
            while True:
                seen.append(cursor.peek_next())
        except IoTimeoutError:
            return seen
        finally:
            cursor.close()

    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages()]

    def drain(self) -> list[Message]:
        drained = []
        while True:
            try:
                drained.append(self.receive())
            except IoTimeoutError:
                return drained

    def classes(self) -> list[int]:
        """The classes of the acknowledgements that came here since the last time."""
        return [message.message_class for message in self.drain()]


class Walk:
    """A cursor of a box."""

    def __init__(self, box: Box, opened: OpenQueue | None = None) -> None:
        self.world = box.world
        self.box = box
        self.opened = opened or box.receiving
        self.cursor: Cursor = self.world.run(lambda: self.world.engine.opening.open_cursor(self.opened))

    def start_peek(self, timeout: float | None = 0) -> Found | Waiter:
        read = self.world.engine.reading.peek
        return self.world.run(lambda: read(self.opened, timeout, cursor=self.cursor))

    def start_peek_next(self, timeout: float | None = 0) -> Found | Waiter:
        read = self.world.engine.reading.peek_next
        return self.world.run(lambda: read(self.opened, timeout, self.cursor))

    def start_receive(self, timeout: float | None = 0, **how: Any) -> Found | Waiter:
        read = self.world.engine.reading.receive
        return self.world.run(lambda: read(self.opened, timeout, cursor=self.cursor, **how))

    def peek(self) -> Message:
        return found(self.start_peek())

    def peek_next(self) -> Message:
        return found(self.start_peek_next())

    def receive(self, **how: Any) -> Message:
        return found(self.start_receive(**how))

    def close(self) -> None:
        self.world.run(lambda: self.world.engine.opening.close_cursor(self.opened, self.cursor))


@contextmanager
def refused(code: int) -> Iterator[None]:
    """The block is refused with this code."""
    with pytest.raises(MqError) as caught:
        yield
    assert f"{caught.value.code:#010x}" == f"{code:#010x}", caught.value


def found(result: Found | Waiter) -> Message:
    assert isinstance(result, Found), "the read waits"
    return message_of(result)


def result_of(waiter: Waiter) -> Message:
    """The message that ended a wait."""
    return message_of(waiter.result())


def foreign_packet(body: bytes = b"", **properties: Any) -> UserMessage:
    """A message of another queue manager, as it comes over the wire."""
    properties.setdefault("id", MessageId(UUID(int=0xBEEF), 7))
    properties.setdefault("sent_time", NOW)
    return UserMessage(encode_message(Message(body, **properties)))
