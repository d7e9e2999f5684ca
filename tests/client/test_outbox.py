"""The session that only sends, against the other end of a session and a clock of the test's own."""

from collections.abc import Sequence
from uuid import UUID

from tiercel.binary.context import Context
from tiercel.binary.flight import Acked, Entry
from tiercel.binary.session import Arrived, Session
from tiercel.binary.settings import Settings
from tiercel.client.outbox import Outbox
from tiercel.engine.machine import Write
from tiercel.model.codes import ConnectionStatus
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message
from tiercel.model.queue_manager import QueueManager
from tiercel.wire.alike import Alike
from tiercel.wire.message import encode_message
from tiercel.wire.user_message import UserMessage

OWN, OTHER = UUID(int=1), UUID(int=2)


def packet(body: bytes, delivery: int = 0) -> UserMessage:
    queue = FormatName.parse(r"DIRECT=OS:srv\private$\q")
    message = Message(body, delivery=delivery, destination_queue=queue, id=MessageId(OWN, 1))
    return UserMessage(encode_message(message))


class Peer:
    """A queue manager that takes everything."""

    def __init__(self) -> None:
        self.context = Context(Settings(), QueueManager(identifier=OTHER, computer_name="PEER"))
        self.session = Session(self.context, self, 1, "192.0.2.1")
        self.bodies: list[bytes] = []
        self.refuses = False

    def is_full(self, _session: Session) -> bool:
        return self.refuses

    def must_wait(self, _session: Session, _packet: UserMessage) -> bool:
        return False

    def established(self, session: Session, status: ConnectionStatus) -> None:
        """Not asked for."""

    def opened(self, session: Session) -> None:
        """Not asked for."""

    def arrived(self, _session: Session, run: Sequence[Arrived]) -> Sequence[Arrived]:
        for packet in run:
            assert isinstance(packet, Alike)
            self.bodies += [message.body for message in packet.messages()]
        return run

    def acknowledged(self, session: Session, done: list[Acked]) -> None:
        """Not asked for."""

    def closed(self, session: Session) -> None:
        """Not asked for."""

    def answer(self, data: bytes) -> bytes:
        self.session.receive(data)
        return b"".join(each.data for each in self.context.take_actions() if isinstance(each, Write))


class World:
    def __init__(self) -> None:
        self.peer = Peer()
        self.outbox = Outbox(OWN, "192.0.2.2", 0)

    def talk(self) -> list[bytes]:
        """Until neither has more to say; gives what was acknowledged."""
        while data := self.outbox.take_data():
            self.outbox.receive(self.peer.answer(data), 0)
        return [each.body for each in self.outbox.take_acknowledged()]

    def send(self, *packets: UserMessage) -> None:
        for each in packets:
            self.outbox.send(each, 0)


def test_nothing_goes_out_before_the_session_stands() -> None:
    world = World()
    world.send(packet(b"early"))
    assert not world.outbox.is_open
    assert world.talk() == [b"early"]
    assert world.outbox.is_open
    assert world.peer.bodies == [b"early"]


def test_every_message_is_acknowledged_without_a_timer() -> None:
    world = World()
    world.talk()
    for delivery in 0, 1:
        world.send(packet(b"one", delivery))
        assert world.talk() == [b"one"]


def test_many_in_order() -> None:
    world = World()
    bodies = [b"%d" % number for number in range(20)]
    world.send(*(packet(body, number % 2) for number, body in enumerate(bodies)))
    assert sorted(world.talk()) == sorted(bodies)
    assert world.peer.bodies == bodies


def test_what_was_withdrawn_before_it_went_out() -> None:
    world = World()
    unwanted = packet(b"unwanted")
    world.send(packet(b"wanted"), unwanted)
    world.outbox.withdraw(unwanted)
    world.outbox.withdraw(unwanted)
    assert world.talk() == [b"wanted"]


def test_a_line_that_takes_no_more() -> None:
    world = World()
    world.talk()
    world.outbox.writable(is_writable=False)
    world.send(packet(b"held"))
    assert world.talk() == []
    world.outbox.writable(is_writable=True)
    assert world.talk() == [b"held"]


def test_a_peer_that_refuses() -> None:
    world = World()
    world.peer.refuses = True
    world.talk()
    assert world.outbox.is_closed
    assert world.outbox.reason == "the peer refused the session"


def test_a_peer_that_says_nothing_more() -> None:
    world = World()
    world.talk()
    world.send(packet(b"lost"))
    world.outbox.take_data()
    while (deadline := world.outbox.next_deadline) is not None:
        world.outbox.tick(deadline)
    world.outbox.take_data()
    assert world.outbox.is_closed
    assert "says nothing" in world.outbox.reason


def test_what_comes_to_us_is_counted_and_dropped() -> None:
    """As by any queue manager without such a queue; the peer must not wait for its acknowledgement."""
    world = World()
    world.talk()
    for delivery in 0, 1:
        sent = packet(b"for nobody", delivery)
        world.peer.session.send([(Entry(None, sent.is_recoverable), (sent.data,))])
    world.outbox.receive(world.peer.answer(b""), 0)
    assert world.talk() == []
    assert world.peer.session.flight.is_empty
