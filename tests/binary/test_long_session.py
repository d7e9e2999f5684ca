"""[MS-MQQB] 3.1.1.3.1: session counters have 16 bits, and a session may live longer (MQQB T60)."""

from collections import deque
from collections.abc import Sequence
from uuid import uuid4

import pytest

from tiercel.binary.context import Context
from tiercel.binary.flight import Acked, Entry, Flight
from tiercel.binary.receipts import Receipts
from tiercel.binary.session import Arrived, Session
from tiercel.binary.settings import Settings
from tiercel.engine.machine import Close, Write
from tiercel.model.codes import ConnectionStatus
from tiercel.model.queue_manager import QueueManager
from tiercel.wire.alike import Alike
from tiercel.wire.user_message import UserMessage

from .site import letter

MESSAGES = 70_000


class End:
    """One side of a session, with no queue manager behind it: it counts what was sent, came and was acked."""

    def __init__(self, *, is_initiator: bool, recoverable: bool) -> None:
        self.context = Context(Settings(), QueueManager(identifier=uuid4(), computer_name="END"))
        self.session = Session(self.context, self, 1, "192.0.2.1", is_initiator=is_initiator)
        self.message = UserMessage(letter(1, recoverable=recoverable))
        self.in_flight: deque[Entry] = deque()
        self.arrivals = self.acked = 0

    def pump(self) -> None:
        room = min(self.session.room, MESSAGES - self.session.flight.sent)
        if room > 0:
            run = [Entry(None, self.message.is_recoverable) for _ in range(room)]
            self.in_flight.extend(run)
            self.session.send([(entry, (self.message.data,)) for entry in run])

    def say(self, other: "End") -> bool:
        """Gives the other side what this one wants to say; whether that was anything."""
        actions = self.context.take_actions()
        assert not any(isinstance(action, Close) for action in actions)
        data = b"".join(action.data for action in actions if isinstance(action, Write))
        other.session.receive(data)
        return bool(data)

    # What the session tells.

    def is_full(self, session: Session) -> bool:
        return session is not self.session

    def must_wait(self, _session: Session, _packet: UserMessage) -> bool:
        return False

    def established(self, session: Session, status: ConnectionStatus) -> None: ...

    def opened(self, session: Session) -> None:
        assert session is self.session
        self.pump()

    def arrived(self, session: Session, run: Sequence[Arrived]) -> Sequence[Arrived]:
        assert session is self.session
        for packet in run:
            assert isinstance(packet, Alike)
            self.arrivals += len(packet)
        return run

    def acknowledged(self, session: Session, done: list[Acked]) -> None:
        assert session is self.session
        assert done == [(self.in_flight.popleft(), 1) for _ in done]  # all of them, and in order
        self.acked += len(done)
        self.pump()

    def closed(self, session: Session) -> None:
        raise AssertionError(session)


@pytest.mark.conformance("MQQB-089")
@pytest.mark.parametrize("recoverable", [False, True])
def test_it_goes_on_after_65535_messages(recoverable: bool) -> None:
    left = End(is_initiator=True, recoverable=recoverable)
    right = End(is_initiator=False, recoverable=recoverable)
    left.session.establish()
    settle(left, right)
    for end in (left, right):
        end.session.ack_is_due()  # of the rest that fills no half of a window
    settle(left, right)
    assert [(end.arrivals, end.acked) for end in (left, right)] == [(MESSAGES, MESSAGES)] * 2


def settle(left: End, right: End) -> None:
    while any([left.say(right), right.say(left)]):
        assert left.acked <= right.arrivals
        assert right.acked <= left.arrivals


@pytest.mark.conformance("MQQB-089")
@pytest.mark.parametrize(("first", "others"), [(1, 1), (2, 2), (5, 5), (31, 32), (32, 32)])
def test_no_number_is_mistaken_for_none(first: int, others: int) -> None:
    """However the acknowledgements fall: 0 means that nothing was stored, and is also a number."""
    flight, receipts = Flight(), Receipts()
    acked = 0
    while acked < MESSAGES:
        for _ in range(others if acked else first):
            if not receipts.room:
                acked += len(flight.acknowledge(receipts.acknowledge(0, 0, 64)))
            flight.add([Entry(None, is_recoverable=True)])
            receipts.count(1, recoverable=True)
        acked += len(flight.acknowledge(receipts.acknowledge(0, 0, 64)))
        assert flight.is_empty
    assert acked == flight.sent
