"""Two queue managers with a wire between them: no sockets, and a clock that the test turns.

    pair = Pair()
    pair.left.send(b"1"); pair.settle()
    assert pair.right.bodies() == [b"1"]

`pair.drop` loses what it says yes to, and `pair.refuses` has every connection refused.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeVar
from uuid import UUID

from tiercel.binary.actions import Action, Dial, Resolve
from tiercel.binary.protocol import BinaryProtocol
from tiercel.binary.settings import Settings
from tiercel.engine.core import Effect
from tiercel.engine.engine import Engine
from tiercel.engine.identity import Identity
from tiercel.engine.machine import Close, Write
from tiercel.engine.queue_state import QueueState
from tiercel.model.codes import ConnectionStatus, OutgoingQueueState, QueueAccess
from tiercel.model.format_name import FormatName
from tiercel.model.message import Message
from tiercel.model.path_name import PathName
from tiercel.model.queue import OutgoingQueue
from tiercel.security.access import Token
from tiercel.server.node import Node
from tiercel.store.memory_store import MemoryStore

T = TypeVar("T")
NOW = 1_700_000_000.0
SYSTEM = Token.local_system()


class Side:
    def __init__(self, pair: "Pair", name: str, address: str) -> None:
        self.pair = pair
        self.address = address
        self.actions: deque[Action] = deque()
        self.ends: dict[int, int] = {}  # our number of a connection, and the one of the other side
        self.states: list[OutgoingQueueState] = []  # of the outgoing queue, each time that it changed
        self.engine = Engine(MemoryStore(), Identity(name, addresses=(address,)), now=NOW, owner=SYSTEM)
        self.protocol = BinaryProtocol(self.engine, Settings())
        self.node = Node(self.engine, wall_clock=lambda: pair.now, monotonic_clock=lambda: pair.now)
        self.node.attach(self.protocol, self.actions.extend)
        self.name = FormatName.parse(rf"DIRECT=TCP:{address}\private$\q")
        self.run(lambda: self.engine.queues.create(PathName.parse(r".\private$\q"), SYSTEM))
        self.run(
            lambda: self.engine.queues.create(PathName.parse(r".\private$\tx"), SYSTEM, transactional=True)
        )

    def run(self, command: Callable[[], T]) -> T:
        self.node.begin()
        result = command()
        self.effects: list[Effect] = self.node.commit()
        self._note()
        return result

    def _note(self) -> None:
        for each in self.engine.queues.all():
            if isinstance(each.queue, OutgoingQueue) and self.states[-1:] != [each.queue.state]:
                self.states.append(each.queue.state)

    @property
    def other(self) -> "Side":
        return self.pair.right if self is self.pair.left else self.pair.left

    def there(self, queue: str = "q") -> FormatName:
        """The name of a queue of the other side."""
        return FormatName.parse(rf"DIRECT=TCP:{self.other.address}\private$\{queue}")

    def outgoing(self, queue: str = "q") -> OutgoingQueue:
        found = self.engine.queues.get(self.there(queue)).queue
        assert isinstance(found, OutgoingQueue)
        return found

    def send(self, *bodies: bytes, queue: str = "q") -> None:
        opened = self.run(lambda: self.engine.opening.open(self.there(queue), QueueAccess.SEND, token=SYSTEM))
        if queue == "q":
            self.run(lambda: [self.engine.sending.send(opened, Message(body, delivery=1)) for body in bodies])
            return

        def send_together() -> None:
            transaction = self.engine.transactions.begin()
            for body in bodies:
                self.engine.sending.send(opened, Message(body), transaction)
            self.engine.transactions.commit(transaction.id)

        self.run(send_together)

    def state(self, queue: str = "q") -> QueueState:
        return self.engine.queues.get(FormatName.parse(rf"DIRECT=OS:.\private$\{queue}"))

    @property
    def identifier(self) -> UUID:
        return self.engine.queue_manager.identifier

    # What its protocol wants done.

    def perform(self, action: Action) -> None:
        pair, other = self.pair, self.other
        if pair.drop(self, action):
            return
        match action:
            case Resolve(host):
                self.run(lambda: self.protocol.resolved(host, [] if pair.is_nameless else [host]))
            case Dial(connection) if pair.refuses:
                status = ConnectionStatus.CONNECTION_REFUSED
                self.run(lambda: self.protocol.connect_failed(connection, status, 10061))
            case Dial(connection):
                end = other.run(lambda: other.protocol.accepted(self.address))
                self.ends[connection], other.ends[end] = end, connection
                self.run(lambda: self.protocol.connected(connection))
            case Write(connection, data) if connection in self.ends:
                other.run(lambda: other.protocol.received(self.ends[connection], data))
            case Close(connection) if connection in self.ends:
                end = self.ends.pop(connection)
                del other.ends[end]
                other.run(lambda: other.protocol.disconnected(end))


class Pair:
    def __init__(self) -> None:
        self.now = NOW
        self.refuses = self.is_nameless = False
        self.drop: Callable[[Side, Action], bool] = lambda _side, _action: False
        self.left = Side(self, "LEFT", "192.0.2.1")
        self.right = Side(self, "RIGHT", "192.0.2.2")

    def settle(self) -> None:
        """Until nobody has anything to do any more."""
        while self.left.actions or self.right.actions:
            for side in (self.left, self.right):
                if side.actions:
                    side.perform(side.actions.popleft())

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for side in (self.left, self.right):
            side.run(lambda: None)
        self.settle()

    def cut(self) -> None:
        """The wire is torn: both sides hear of it."""
        for side in (self.left, self.right):
            ends = list(side.ends)
            side.ends.clear()
            for connection in ends:
                side.run(partial(side.protocol.disconnected, connection))
