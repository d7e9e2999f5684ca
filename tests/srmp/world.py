"""Queue managers with SRMP, and a network between them that the test controls.

here, there = Net().worlds("here", "there")
here.to("there", "q").send(b"one"); net.settle()
"""

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from engine.harness import Box, World
from tiercel.engine.machine import Close, Write
from tiercel.model.codes import ConnectionStatus
from tiercel.model.queue import OutgoingQueue
from tiercel.server.node import Node
from tiercel.srmp.actions import Action, Dial, HttpEvent
from tiercel.srmp.http_response import ResponseParser
from tiercel.srmp.protocol import SrmpProtocol
from tiercel.srmp.settings import Settings

T = TypeVar("T")


class Side(World):
    """A queue manager with SRMP; its actions wait in `actions` until the network takes them."""

    def __init__(self, *, settings: Settings | None = None, **options: Any) -> None:
        self.actions: list[Action] = []
        self.events: list[HttpEvent] = []
        self.settings = settings
        super().__init__(**options)

    def start(self) -> None:
        super().start()
        self.__dict__.pop("node", None)
        settings = self.settings or Settings(http_url=f"http://{self.name.lower()}")
        self.srmp = SrmpProtocol(self.engine, settings, self.is_welcome, self.refusal)
        self.node = Node(self.engine, wall_clock=lambda: self.now, monotonic_clock=lambda: self.now)
        self.node.attach(self.srmp, self._perform)
        self.actions.clear()
        self.run(self.engine.outgoing.start)

    @staticmethod
    def is_welcome(_address: str) -> bool:
        return True

    @staticmethod
    def refusal(_senders: set[UUID], _address: str) -> str:
        return ""

    def _perform(self, actions: list[Action]) -> None:
        self.events += [each for each in actions if isinstance(each, HttpEvent)]
        self.actions += [each for each in actions if not isinstance(each, HttpEvent)]

    def run(self, command: Callable[[], T]) -> T:
        if not hasattr(self, "node"):
            return super().run(command)
        self.node.begin()
        try:
            return command()
        finally:
            self.effects = self.node.commit()

    def to(self, host: str, queue: str) -> Box:
        return self.box(f"DIRECT=HTTP://{host}/msmq/private$/{queue}")

    def outgoing(self, box: Box) -> OutgoingQueue:
        queue = box.state.queue
        assert isinstance(queue, OutgoingQueue)
        return queue

    # As a server.

    def post(self, *requests: bytes) -> int:
        """The status of the answer to the last request of a connection."""
        connection = self.run(lambda: self.srmp.accepted("192.0.2.7"))
        for request in requests:
            self.run(lambda request=request: self.srmp.received(connection, request))  # type: ignore[misc]
        answers = [each for each in self.actions if isinstance(each, Write) and each.connection == connection]
        self.actions = [
            each
            for each in self.actions
            if not isinstance(each, Write | Close) or each.connection != connection
        ]
        self.run(lambda: self.srmp.disconnected(connection))
        return ResponseParser().receive(b"".join(each.data for each in answers))[-1].status

    # As a client of a server that the test plays.

    def dialled(self) -> Dial:
        (found,) = [each for each in self.actions if isinstance(each, Dial)]
        self.actions.remove(found)
        return found

    def connect(self) -> int:
        """The server accepts the connection."""
        number = self.dialled().connection
        self.run(lambda: self.srmp.connected(number, "192.0.2.8"))
        return number

    def sent(self) -> list[bytes]:
        """The requests that were written since the last call."""
        writes = [each for each in self.actions if isinstance(each, Write)]
        self.actions = [each for each in self.actions if not isinstance(each, Write)]
        return [each.data for each in writes]

    def closed(self) -> list[int]:
        closes = [each for each in self.actions if isinstance(each, Close)]
        self.actions = [each for each in self.actions if not isinstance(each, Close)]
        return [each.connection for each in closes]

    def answer(self, connection: int, status: int = 200, *, close: bool = False) -> None:
        head = f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n" + ("Connection: close\r\n" if close else "")
        self.run(lambda: self.srmp.received(connection, f"{head}\r\n".encode()))


class Net:
    """Carries bytes between queue managers; every step is one batch of one of them."""

    def __init__(self) -> None:
        self.sides: dict[str, Side] = {}
        self.down: set[str] = set()
        self._links: dict[tuple[str, int], tuple[str, int]] = {}
        self.requests: list[bytes] = []  # everything that was carried, in order
        self.lose: Callable[[str, bytes], bool] = lambda _to, _data: False

    def add(self, name: str, **options: Any) -> Side:
        side = self.sides[name] = Side(name=name.upper(), **options)
        return side

    def settle(self) -> None:
        while self._step():
            pass

    def sleep(self, seconds: float, step: float = 0.1) -> None:
        for _ in range(round(seconds / step)):
            for side in self.sides.values():
                side.sleep(step)
            self.settle()

    def _step(self) -> bool:
        for name, side in self.sides.items():
            if side.actions:
                self._carry(name, side, side.actions.pop(0))
                return True
        return False

    def _carry(self, name: str, side: Side, action: Action) -> None:
        match action:
            case Dial(number, host, _, _):
                self._dial(name, side, number, host)
            case Write(number, data) if (other := self._links.get((name, number))) is not None:
                self.requests.append(data)
                if not self.lose(other[0], data):
                    peer = self.sides[other[0]]
                    peer.run(lambda: peer.srmp.received(other[1], data))
                else:
                    self.cut(name, number)
            case Close(number):
                self.cut(name, number, tell=False)

    def _dial(self, name: str, side: Side, number: int, host: str) -> None:
        if host not in self.sides or host in self.down:
            status = ConnectionStatus.SOCKET_CONNECT_FAILURE
            side.run(lambda: side.srmp.connect_failed(number, status))
            return
        peer = self.sides[host]
        there = peer.run(lambda: peer.srmp.accepted("192.0.2.9"))
        self._links[name, number] = host, there
        self._links[host, there] = name, number
        side.run(lambda: side.srmp.connected(number, "192.0.2.9"))

    def cut(self, name: str, number: int, *, tell: bool = True) -> None:
        """End a connection at both sides; the one that closed it is not told."""
        other = self._links.pop((name, number), None)
        if other is None:
            return
        self._links.pop(other, None)
        peer, side = self.sides[other[0]], self.sides[name]
        peer.run(lambda: peer.srmp.disconnected(other[1]))
        if tell:
            side.run(lambda: side.srmp.disconnected(number))

    def forget(self, name: str) -> None:
        """The queue manager was started anew: its connections are gone, and its peers see that."""
        for key in [key for key in self._links if key[0] == name]:
            other = self._links.pop(key, None)
            if other is not None and self._links.pop(other, None) is not None:
                peer = self.sides[other[0]]
                peer.run(lambda peer=peer, other=other: peer.srmp.disconnected(other[1]))  # type: ignore[misc]
