"""Queue managers on a network of the test's own: no sockets, and a clock that the test turns.

    net = Net()
    left, right = net.qm("LEFT"), net.qm("RIGHT")
    right.create("q")
    left.to(right, "q").send(b"1"); net.settle()
    assert right.box("q").bodies() == [b"1"]

A `Hand` is a queue manager that the test plays: it shakes hands, and then says only what it is told.

    hand = net.hand()
    left.to(hand, "q").send(b"1"); net.settle()
    hand.ack()
    hand.send(hand.message(left.name_of("q"), b"2"))
"""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, TypeVar
from uuid import UUID

from engine.harness import ALICE, ALL_ACKNOWLEDGEMENTS, NOW, Box, World
from tiercel.binary.actions import Action, Dial, Resolve, Unwrap
from tiercel.binary.certificate import Certificate
from tiercel.binary.protocol import BinaryProtocol
from tiercel.binary.settings import Settings
from tiercel.engine.engine import Engine
from tiercel.engine.identity import Identity
from tiercel.engine.machine import Close, Write
from tiercel.model.codes import Acknowledgements, ConnectionStatus, DeliveryGuarantee, MessageClass
from tiercel.model.errors import MqError
from tiercel.model.format_name import FormatName, PrivateFormatName
from tiercel.model.identifiers import MessageId, TxSequenceId
from tiercel.model.message import Message
from tiercel.model.queue import OutgoingQueue
from tiercel.server.node import Node
from tiercel.store.memory_store import Crash, MemoryStore
from tiercel.store.memory_store import Write as StoreWrite
from tiercel.wire.base_header import INTERNAL
from tiercel.wire.framer import Framer
from tiercel.wire.internal_packets import (
    ConnectionParameters,
    ConnectionParametersHeader,
    EstablishConnection,
    EstablishConnectionHeader,
    SessionAck,
)
from tiercel.wire.message import encode_message
from tiercel.wire.order_ack import FinalAck, OrderAck, build_final_ack, build_order_ack, recognise
from tiercel.wire.packet import decode_packet
from tiercel.wire.session_header import SessionHeader
from tiercel.wire.user_header import HOP_COUNT
from tiercel.wire.user_message import UserMessage

T = TypeVar("T")
SEQUENCE = TxSequenceId(1, 1)  # of a hand's transactional messages, unless it says otherwise


class Net:
    def __init__(self) -> None:
        self.now: float = NOW
        self.places: dict[str, Qm | Hand] = {}
        self.down: set[str] = set()  # addresses where nobody answers
        self.names: dict[str, list[str]] = {}  # the addresses of names; other names are addresses
        self._numbers = count(11)

    def qm(self, name: str = "HERE", *, settings: Settings | None = None, **options: Any) -> "Qm":
        return Qm(self, name, self._address(), settings or Settings(), **options)

    def hand(self, address: str = "") -> "Hand":
        return Hand(self, address or self._address())

    def _address(self) -> str:
        return f"192.0.2.{next(self._numbers)}"

    def settle(self) -> None:
        """Until nobody has anything to do any more."""
        while busy := [each for each in self.places.values() if isinstance(each, Qm) and each.actions]:
            for qm in busy:
                if qm.actions:
                    with suppress(Crash):
                        qm.perform(qm.actions.popleft())

    def sleep(self, seconds: float) -> None:
        """Lets time pass, from one deadline to the next."""
        self.settle()
        end = self.now + seconds
        while (due := self._next_deadline()) is not None and due <= end:
            self.now = due
            self._tick()
        self.now = end
        self._tick()

    def jump(self, seconds: float) -> None:
        """Lets time pass in which nobody was awake."""
        self.now += seconds
        self._tick()

    def _next_deadline(self) -> float | None:
        qms = [each for each in self.places.values() if isinstance(each, Qm)]
        deadlines = [at for qm in qms for at in qm.node.deadlines if at is not None and at > self.now]
        return min(deadlines, default=None)

    def _tick(self) -> None:
        for place in list(self.places.values()):
            if isinstance(place, Qm):
                with suppress(Crash):
                    place.run(lambda: None)
        self.settle()


@dataclass(eq=False)
class Line:
    """A connection between two places."""

    ends: "tuple[Qm | Hand, Qm | Hand]"
    is_up: bool = True

    def write(self, writer: "Qm | Hand", data: bytes) -> None:
        if self.is_up:
            self._other(writer).received(self, data)

    def cut(self, by: "Qm | Hand | None" = None) -> None:
        """Ends it; whoever did not do it hears of it."""
        if self.is_up:
            self.is_up = False
            for place in self.ends:
                if place is not by:
                    place.hung_up(self)

    def _other(self, place: "Qm | Hand") -> "Qm | Hand":
        return self.ends[1] if place is self.ends[0] else self.ends[0]


class Qm(World):
    """A queue manager with its protocol; see `World` for what one does with it."""

    certificate: Certificate | None = None

    def __init__(self, net: Net, name: str, address: str, settings: Settings, **options: Any) -> None:
        self.net = net
        self.address = address
        self.settings = settings
        self.actions: deque[Action] = deque()
        self.lines: dict[int, Line] = {}  # by the protocol's number of the connection
        net.places[address] = self
        super().__init__(name=name, **options)

    @property
    def now(self) -> float:
        return self.net.now

    @now.setter
    def now(self, now: float) -> None:
        self.net.now = now

    @property
    def guid(self) -> UUID:
        return self.engine.queue_manager.identifier

    # Its life.

    def start(self) -> None:
        identity = Identity(self.name, addresses=(self.address,))
        self.engine = Engine(self.store, identity, now=self.now, owner=ALICE, **self.options)
        self.protocol = BinaryProtocol(self.engine, self.settings)
        self.node = Node(self.engine, wall_clock=lambda: self.net.now, monotonic_clock=lambda: self.net.now)
        self.node.attach(self.protocol, self.actions.extend)
        self.run(self.protocol.start)

    def restart(self) -> None:
        self.run(self.protocol.stop)
        self.net.settle()
        self.effects = self.engine.stop()
        self.start()

    def kill(self) -> None:
        assert isinstance(self.store, MemoryStore)
        self.resume_from(self.store.crash())

    def crash_at(self, write: int, *, kept: bool = False) -> None:
        """Has it die before so many writes from now on; at a commit, `kept`, right after it."""
        assert isinstance(self.store, MemoryStore)
        fatal = self.store.writes + write

        def fault(_write: StoreWrite, number: int) -> None:
            if number == fatal:
                raise Crash(kept=kept)

        self.store.faults = fault

    @property
    def writes(self) -> int:
        assert isinstance(self.store, MemoryStore)
        return self.store.writes

    def backup(self) -> MemoryStore:
        assert isinstance(self.store, MemoryStore)
        return MemoryStore(self.store.spaces)

    def resume_from(self, store: MemoryStore) -> None:
        """Dies, and starts again from what a disk holds; what it has written is on its way all the same."""
        lines, self.lines = self.lines, {}
        actions = [*self.actions]
        self.actions.clear()
        self.store = store
        for action in actions:
            if isinstance(action, Write) and action.connection in lines:
                lines[action.connection].write(self, action.data)
        for line in lines.values():
            line.cut(self)
        self.start()

    def configure(self, **changes: Any) -> None:
        self.settings = replace(self.settings, **changes)
        self.run(lambda: self.protocol.change_settings(self.settings))

    def run(self, command: Callable[[], T]) -> T:
        try:
            self.node.begin()
            try:
                result = command()
            except MqError:
                self.effects = self.node.commit()
                raise
            self.effects = self.node.commit()
        except Crash:
            self.kill()
            raise
        return result

    # Names.

    def name_of(self, queue: str) -> FormatName:
        """A direct name of a queue of this computer, for others."""
        return FormatName.parse(rf"DIRECT=TCP:{self.address}\private$\{queue}")

    def private_name(self, queue: str) -> PrivateFormatName:
        number = self.box(queue).state.queue.private_queue_number
        assert number is not None
        return PrivateFormatName(self.guid, number)

    def to(self, place: "Qm | Hand", queue: str) -> Box:
        """A queue of another computer, by a direct name."""
        return Box(self, place.name_of(queue))

    def to_private(self, place: "Qm | Hand", number: int) -> Box:
        """The same by a private name."""
        return Box(self, PrivateFormatName(place.guid, number))

    def outgoing(self, box: Box) -> OutgoingQueue:
        queue = box.state.queue
        assert isinstance(queue, OutgoingQueue)
        return queue

    def send_together(self, *letters: tuple[Box, bytes], **properties: Any) -> None:
        """Sends in one transaction."""
        with self.transaction() as transaction:
            for box, body in letters:
                box.send(body, transaction=transaction, **properties)

    # The wire.

    def perform(self, action: Action) -> None:
        match action:
            case Resolve(host):
                addresses = self.net.names.get(host, [host])
                self.run(lambda: self.protocol.resolved(host, addresses))
            case Dial():
                self._dial(action)
            case Write(connection, data) if connection in self.lines:
                self.lines[connection].write(self, data)
            case Close(connection) if connection in self.lines:
                self.lines.pop(connection).cut(self)
            case Unwrap(connection, work):
                result = work()
                self.run(lambda: self.protocol.unwrapped(connection, result))

    def _dial(self, dial: Dial) -> None:
        connection, address = dial.connection, dial.address
        place = self.net.places.get(address)
        if place is None or address in self.net.down:
            self._was_refused(connection)
            return
        line = Line((self, place))
        try:
            place.called(line, self.address, self.certificate if dial.is_tls else None)
        except Crash:  # it dies with the call
            self._was_refused(connection)
            return
        self.lines[connection] = line
        certificate = place.certificate if dial.is_tls else None
        self.run(lambda: self.protocol.connected(connection, certificate))

    def _was_refused(self, connection: int) -> None:
        status = ConnectionStatus.CONNECTION_REFUSED
        self.run(lambda: self.protocol.connect_failed(connection, status))

    def called(self, line: Line, address: str, certificate: Certificate | None = None) -> None:
        self.lines[self.run(lambda: self.protocol.accepted(address, certificate))] = line

    def received(self, line: Line, data: bytes) -> None:
        connection = self._number(line)
        if connection is not None:
            self.run(lambda: self.protocol.received(connection, data))

    def hung_up(self, line: Line) -> None:
        connection = self._number(line)
        if connection is not None:
            del self.lines[connection]
            self.run(lambda: self.protocol.disconnected(connection))

    def cut(self) -> None:
        """All its connections are torn."""
        for line in list(self.lines.values()):
            line.cut()

    def _number(self, line: Line) -> int | None:
        return next((number for number, each in self.lines.items() if each is line), None)


class Hand:
    """A peer that does nothing by itself but shake hands; it notes everything that comes, and when."""

    certificate: Certificate | None = None  # with one, it connects over TLS

    def __init__(self, net: Net, address: str) -> None:
        self.net = net
        self.address = address
        self.guid = UUID(int=0xABCD_0000 + len(net.places), version=4)
        self.line: Line | None = None
        self.calls: list[UUID] = []  # the ClientGuids of those who called
        self.arrivals: list[tuple[float, UserMessage]] = []
        self.headers: list[SessionHeader] = []
        self._numbers = count(1)
        self._forget()
        net.places[address] = self

    def _forget(self) -> None:
        self._framer = Framer()
        self.sent = self.recoverable_sent = 0
        self.received_count = self.recoverable_received = self.recoverable_acked = 0

    @property
    def messages(self) -> list[UserMessage]:
        """What came, but for order and final acks."""
        return [packet for _, packet in self.arrivals if isinstance(recognise(packet), UserMessage)]

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    @property
    def order_acks(self) -> list[tuple[int, int]]:
        """The sequences and numbers that came."""
        acks = (recognise(packet) for _, packet in self.arrivals)
        bodies = [ack.body for ack in acks if isinstance(ack, OrderAck)]
        return [(whole(body.tx_sequence_id), body.tx_sequence_number) for body in bodies]

    @property
    def final_acks(self) -> list[tuple[int, int]]:
        """The messages and classes that came."""
        acks = (recognise(packet) for _, packet in self.arrivals)
        return [(ack.body.message_id, ack.message_class) for ack in acks if isinstance(ack, FinalAck)]

    def clear(self) -> None:
        self.arrivals.clear()
        self.headers.clear()

    def name_of(self, queue: str) -> FormatName:
        return FormatName.parse(rf"DIRECT=TCP:{self.address}\private$\{queue}")

    # The session.

    def call(self, qm: Qm) -> "Hand":
        """Connects to a queue manager."""
        self._forget()
        self.line = Line((self, qm))
        qm.called(self.line, self.address, self.certificate)
        self._write(EstablishConnection.of(EstablishConnectionHeader(self.guid)).encode())
        self.net.settle()
        self._write(ConnectionParameters.of(ConnectionParametersHeader(500, 20_000)).encode())
        self.net.settle()
        return self

    def hang_up(self) -> None:
        assert self.line is not None
        line, self.line = self.line, None
        line.cut(self)
        self.net.settle()

    @property
    def is_connected(self) -> bool:
        return self.line is not None and self.line.is_up

    def called(self, line: Line, _address: str, _certificate: Certificate | None = None) -> None:
        self._forget()
        self.line = line

    def hung_up(self, line: Line) -> None:
        if line is self.line:
            self.line = None

    def received(self, line: Line, data: bytes) -> None:
        if line is not self.line:
            return
        self._framer.receive(data)
        for packet in self._framer.packets():
            self._take(packet)

    def _take(self, data: bytes) -> None:
        if not data[2] & INTERNAL:
            self._note(UserMessage(data))
            return
        match decode_packet(data):
            case EstablishConnection(header=header) if self._is_callee:
                self.calls.append(header.client_guid)
                self._write(EstablishConnection.of(replace(header, server_guid=self.guid)).encode())
            case ConnectionParameters(header=parameters) if self._is_callee:
                self._write(ConnectionParameters.of(parameters).encode())
            case SessionAck(header=session):
                self.headers.append(session)

    @property
    def _is_callee(self) -> bool:
        return self.line is not None and self.line.ends[1] is self

    def _note(self, packet: UserMessage) -> None:
        self.received_count += 1
        self.recoverable_received += packet.is_recoverable
        if packet.session is not None:
            self.headers.append(packet.session)
        self.arrivals.append((self.net.now, packet.without_session()))

    def _write(self, data: bytes) -> None:
        if self.line is not None:
            self.line.write(self, data)

    # What it says.

    def send(self, *packets: UserMessage) -> None:
        for packet in packets:
            self.sent += 1
            self.recoverable_sent += packet.is_recoverable
            self._write(packet.data)
        self.net.settle()

    def ack(self, *, stored: int | None = None, window: int = 64) -> None:
        """A SessionAck for everything that came; `stored`: only so many recoverable ones are on disk."""
        last = self.recoverable_received if stored is None else stored
        new = last - self.recoverable_acked
        header = SessionHeader(
            self.received_count,
            self.recoverable_acked + 1 if new else 0,
            (1 << new) - 1,
            self.sent,
            self.recoverable_sent,
            window,
        )
        self.recoverable_acked = last
        self._write(SessionAck.of(header).encode())
        self.net.settle()

    def message(self, queue: FormatName, body: bytes = b"", **properties: Any) -> UserMessage:
        properties.setdefault("id", MessageId(self.guid, next(self._numbers)))
        properties.setdefault("sent_time", int(self.net.now))
        return UserMessage(encode_message(Message(body, destination_queue=queue, **properties)))

    def recoverable(self, queue: FormatName, body: bytes = b"", **properties: Any) -> UserMessage:
        return self.message(queue, body, delivery=DeliveryGuarantee.RECOVERABLE, **properties)

    def transactional(
        self,
        queue: FormatName,
        number: int,
        previous: int | None = None,
        body: bytes = b"",
        **properties: Any,
    ) -> UserMessage:
        """A message of a stream; its body is its number."""
        properties.setdefault("tx_sequence_id", SEQUENCE)
        return self.message(
            queue,
            body or b"%d" % number,
            transaction_id=1,
            tx_sequence_number=number,
            previous_tx_sequence_number=number - 1 if previous is None else previous,
            **properties,
        )

    def order_ack(self, packet: UserMessage, number: int | None = None) -> None:
        """Says that it has a transactional message and everything before it."""
        sequence, own = packet.sequence
        identifier = MessageId(self.guid, next(self._numbers))
        target = packet.source_queue_manager
        self.send(build_order_ack(identifier, int(self.net.now), target, sequence, number or own))

    def final_ack(self, packet: UserMessage, reason: MessageClass) -> None:
        identifier = MessageId(self.guid, next(self._numbers))
        self.send(build_final_ack(identifier, int(self.net.now), reason, packet))


def reached_through(router: Qm, source: Qm, destination: Qm, queue: str) -> Box:
    """A queue of `destination`, by its private name; `source` knows the way to the router alone."""
    source.configure(out_routing_servers=(router.address,))
    destination.configure(out_routing_servers=(router.address,))
    machines = {each.guid: (each.address,) for each in (source, destination)}
    router.configure(routing_server=True, machines=machines)
    return Box(source, destination.private_name(queue))


def asking(admin: Box, wanted: int = ALL_ACKNOWLEDGEMENTS) -> dict[str, Any]:
    """The properties of a message that wants to be told of in `admin`."""
    return {"administration_queue": admin.name, "acknowledgements": Acknowledgements(wanted)}


def whole(sequence: TxSequenceId = SEQUENCE) -> int:
    """A TxSequenceID as one number."""
    return sequence.timestamp << 32 | sequence.ordinal


def with_hop_count(packet: UserMessage, hops: int) -> UserMessage:
    flags = packet.flags & ~HOP_COUNT | hops
    return UserMessage(packet.data[:60] + flags.to_bytes(4, "little") + packet.data[64:])
