"""The receiving machine: [MS-NMFMB] 3.3."""

from typing import Any

import pytest

from tiercel import nbfx
from tiercel.framing.addresses import Address
from tiercel.framing.binding import Binding
from tiercel.framing.body import write_body
from tiercel.framing.receiver import Receiver
from tiercel.framing.records import Encoding, Mode, Preamble
from tiercel.framing.requests import Abort, CloseQueue, CreateTransaction, Dequeue, OpenQueue
from tiercel.model.codes import QueueAccess, ShareMode
from tiercel.model.errors import (
    DecodeError,
    InvalidHandleError,
    MqError,
    TiercelError,
)
from tiercel.model.format_name import FormatName
from tiercel.model.message import Message

from .spy import Spy

ADDRESS = "net.msmq://srv/private/orders"


def statuses(kind: type[MqError]) -> list[type[MqError]]:
    """Every status that a queue manager can answer with."""
    return [kind, *(each for child in kind.__subclasses__() for each in statuses(child))]


def opened(spy: Spy, **binding: Any) -> Receiver:
    receiver = Receiver(Address.parse(ADDRESS), Binding(**binding))
    spy.run(receiver.open())
    return receiver


@pytest.mark.conformance("NMFMB-049", "NMFMB-050")
def test_the_queue_is_opened_by_its_direct_name_to_receive() -> None:
    """Also with the directory on; the text says SendAccess (NMFMB trap 6)."""
    spy = Spy()
    opened(spy, use_active_directory=True)
    name = FormatName.parse(r"DIRECT=OS:srv\private$\orders")
    assert spy.asked == [OpenQueue(name, QueueAccess.RECEIVE, ShareMode.DENY_NONE)]


@pytest.mark.conformance("NMFMB-049")
def test_nothing_is_received_before_the_queue_is_open() -> None:
    with pytest.raises(InvalidHandleError, match="not open"):
        Spy().run(Receiver(Address.parse(ADDRESS), Binding()).receive())


@pytest.mark.conformance("NMFMB-051", "NMFMB-052")
def test_a_message_is_taken_in_a_new_transaction() -> None:
    spy = Spy(queued=[Message(b"1"), Message(b"2")])
    receiver = opened(spy)
    first, second = spy.run(receiver.receive(2.0)), spy.run(receiver.receive(2.0))
    assert (first.message.body, second.message.body) == (b"1", b"2")
    assert first.transaction != second.transaction
    requests = spy.of(Dequeue)
    assert [request.timeout_s for request in requests] == [2.0, 2.0]
    assert [request.transaction for request in requests] == [first.transaction, second.transaction]


def test_best_effort_holds_without_a_transaction() -> None:
    spy = Spy(queued=[Message(b"1")])
    assert spy.run(opened(spy, exactly_once=False).receive()).transaction == "held"
    assert not spy.of(CreateTransaction)


@pytest.mark.parametrize("failure", [kind("q") for kind in statuses(MqError)], ids=lambda each: each.name)
@pytest.mark.conformance("NMFMB-051", "NMFMB-053")
def test_a_failure_to_dequeue_is_the_callers(failure: MqError) -> None:
    spy = Spy({Dequeue: failure}, queued=[Message(b"1")])
    receiver = opened(spy)
    with pytest.raises(type(failure)):
        spy.run(receiver.receive(0))
    assert isinstance(spy.asked[-1], Abort)


@pytest.mark.conformance("NMFMB-056")
def test_close() -> None:
    spy = Spy()
    receiver = opened(spy)
    spy.run(receiver.close())
    spy.run(receiver.close())
    assert len(spy.of(CloseQueue)) == 1
    spy = Spy({CloseQueue: TiercelError("no")})
    with pytest.raises(TiercelError, match="no"):
        spy.run(opened(spy).close())


def body(
    mode: Mode = Mode.SINGLETON_SIZED, via: str = ADDRESS, encoding: Encoding = Encoding.BINARY
) -> bytes:
    events: list[nbfx.Event] = [("start", "", "r", "", ()), nbfx.END]
    session = nbfx.WriterSession() if encoding is Encoding.BINARY_SESSION else None
    return write_body(Preamble(mode, via, encoding), [nbfx.encode(events, session)])


SESSION = body(Mode.SIMPLEX, encoding=Encoding.BINARY_SESSION)


@pytest.mark.parametrize(
    ("session", "data", "said"),
    [
        (False, SESSION, "the endpoint takes datagrams, and this is sessions"),
        (True, body(), "the endpoint takes sessions, and this is datagrams"),
        (False, body(via="net.msmq://srv/private/other"), "is not the address of this endpoint"),
        (False, body(via="net.tcp://srv/private/orders"), "is not the address of this endpoint"),
        (False, body()[:-5] + b"\x09" + body()[-4:], "the encoding must be 0 to 8, not 9"),
        (True, SESSION.replace(b"\x03\x08\x0c", b"\x03\x08"), "stands where a preamble end record must"),
    ],
)
@pytest.mark.conformance("NMFMB-027", "NMFMB-054")
def test_the_preamble_is_verified(session: bool, data: bytes, said: str) -> None:
    receiver = Receiver(Address.parse(ADDRESS), Binding(session=session))
    with pytest.raises(DecodeError) as caught:
        receiver.envelopes(data)
    assert said in str(caught.value)


@pytest.mark.conformance("NMFMB-055")
def test_envelopes_come_one_by_one() -> None:
    """The second is broken: the first is handed up all the same, before the error."""
    writer = nbfx.WriterSession()
    events: list[nbfx.Event] = [("start", "", nbfx.DictionaryString("own"), "", ()), nbfx.END]
    envelopes = [nbfx.encode(events, writer), nbfx.encode(events, writer), b"\xff"]
    data = write_body(Preamble(Mode.SIMPLEX, ADDRESS, Encoding.BINARY_SESSION), envelopes)
    found = Receiver(Address.parse(ADDRESS), Binding(session=True)).envelopes(data)
    assert [nbfx.to_text(next(found)) for _ in range(2)] == ["<own></own>", "<own></own>"]
    with pytest.raises(DecodeError):
        next(found)
