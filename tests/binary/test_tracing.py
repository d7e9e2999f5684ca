"""[MS-MQQB] 3.1.5.8.9, 3.1.7.1.7: reports of traced messages."""

import re
from uuid import UUID

import pytest

from engine.harness import Box
from tiercel.model.codes import DeliveryGuarantee, MessageClass
from tiercel.model.identifiers import NULL_GUID
from tiercel.model.message import Message
from tiercel.wire.base_header import TRACING
from tiercel.wire.user_message import UserMessage

from .nodes import Hand, Net, Qm, reached_through

REPORTS = UUID("8E1C1B9A-0000-4000-8000-000000000001")  # on every computer, for there is no directory


def reports(qm: Qm) -> Box:
    """The public queue of the reports; without a directory each computer needs one of its own."""
    core = qm.engine._core
    core.new_guid, new_guid = lambda: REPORTS, core.new_guid
    box = qm.create(r".\reports")
    core.new_guid = new_guid
    return box


def send_through_a_router(net: Net) -> tuple[Qm, list[Box]]:
    source, router, destination = net.qm("SOURCE"), net.qm("ROUTER"), net.qm("DESTINATION")
    boxes = [reports(qm) for qm in (source, router, destination)]
    destination.create("q")
    box = reached_through(router, source, destination, "q")
    box.send(b"1", tracing=True, tracing_queue=REPORTS)
    net.settle()
    assert destination.box("q").bodies() == [b"1"]
    return source, boxes


def lines(message: Message) -> list[str]:
    text = message.body.decode("utf-16-le")
    assert text.endswith("\r\n")
    return text.split("\r\n")[:-1]


@pytest.mark.conformance("MQQB-187", "DMPR-084")
def test_one_at_each_arrival_and_each_departure(net: Net) -> None:
    _, boxes = send_through_a_router(net)
    messages = [box.messages() for box in boxes]
    assert [len(each) for each in messages] == [1, 2, 1]
    departures = [["NEXT HOP" in "".join(lines(each)) for each in some] for some in messages]
    assert departures == [[True], [False, True], [False]]
    kinds = {(each.message_class, each.delivery) for some in messages for each in some}
    assert kinds == {(MessageClass.REPORT, DeliveryGuarantee.EXPRESS)}


@pytest.mark.conformance("DMPR-084")
def test_no_tracing_is_the_default(net: Net) -> None:
    message = Message(b"1")
    assert (message.tracing, message.tracing_queue) == (False, NULL_GUID)
    source, router, destination = net.qm("SOURCE"), net.qm("ROUTER"), net.qm("DESTINATION")
    boxes = [reports(qm) for qm in (source, router, destination)]
    destination.create("q")
    reached_through(router, source, destination, "q").send(b"1")
    net.settle()
    assert destination.box("q").bodies() == [b"1"]
    assert [box.bodies() for box in boxes] == [[], [], []]


@pytest.mark.conformance("MQQB-187")
def test_none_without_a_queue_for_them(net: Net, here: Qm, hand: Hand) -> None:
    box = here.create("q")
    hand.call(here).send(hand.message(here.name_of("q"), b"1", tracing=True, tracing_queue=REPORTS))
    here.to(hand, "q").send(b"2", tracing=True, tracing_queue=REPORTS)
    net.settle()
    assert (box.bodies(), hand.bodies) == ([b"1"], [b"2"])


@pytest.mark.conformance("MQQB-188")
def test_the_label(net: Net) -> None:
    source, boxes = send_through_a_router(net)
    guid = str(source.guid).upper()
    for box, hops in zip(boxes, (["00"], ["00", "01"], ["01"]), strict=True):
        found = [re.fullmatch(LABEL, message.label) for message in box.messages()]
        assert [(each[1], each[3], each[4]) for each in found if each] == [
            (guid[:4], hop, guid) for hop in hops
        ]


LABEL = (
    r"([0-9A-F]{4}):([0-9A-F]{8}):([0-9A-F]{2}) received by ([0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12})"
    r" at \d\d:\d\d:\d\d (?:AM|PM) (?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),"
    r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d\d \d\d"
)


@pytest.mark.conformance("MQQB-188", "MQQB-189")
def test_the_number_and_the_tags(net: Net, here: Qm, hand: Hand) -> None:
    box = reports(here)
    name = here.create("q").name
    number = hand.message(name).id._replace(uniquifier=0x8EE)
    target = here.name_of("q")
    hand.call(here).send(hand.message(target, id=number, tracing=True, tracing_queue=REPORTS))
    here.to(hand, "q").send(b"2", tracing=True, tracing_queue=REPORTS)
    net.settle()
    arrival, departure = box.messages()
    assert arrival.label.split(":")[1] == "000008EE"
    assert lines(arrival) == [
        "<MESSAGE ID>000008EE</MESSAGE ID>",
        f"<TARGET QUEUE>{target}</TARGET QUEUE>",
    ]
    assert lines(departure) == [
        f"<MESSAGE ID>{hand.messages[0].id.uniquifier:08X}</MESSAGE ID>",
        f"<TARGET QUEUE>{hand.name_of('q')}</TARGET QUEUE>",
        f"<NEXT HOP>{hand.address}</NEXT HOP>",
        "<HOP COUNT>00 </HOP COUNT>",
    ]


def test_a_traced_message_without_a_report_queue_is_only_delivered(here: Qm, hand: Hand) -> None:
    here.create("q")
    data = hand.call(here).recoverable(here.name_of("q"), b"1").data
    flags = int.from_bytes(data[2:4], "little") | TRACING
    hand.send(UserMessage(data[:2] + flags.to_bytes(2, "little") + data[4:]))
    assert here.box("q").bodies() == [b"1"]
    assert here.discards() == []
