"""Packets of usual messages are those that `encode_message` writes, whatever came before them."""

from dataclasses import replace
from itertools import product
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model.codes import MessageClass
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import NULL_GUID, MessageId, TxSequenceId
from tiercel.model.message import Message
from tiercel.srmp.message import envelope_of, read_message
from tiercel.srmp.request import SrmpRequest, read_srmp, write_srmp
from tiercel.srmp.usual_message import Cut, UsualMessages, cut, cut_multicast
from tiercel.wire.message import encode_message
from tiercel.wire.user_message import UserMessage

from .strategies import ids, labels, messages, u32
from .vectors import load

NOW = 1_800_000_000
SENDER = UUID(int=1)


def request(message: Message) -> SrmpRequest:
    envelope = envelope_of(message, stream_sender=SENDER, receipts_url="http://h/msmq/q")
    return read_srmp(
        write_srmp(envelope, message.body or None, message.extension or None, content_guid=SENDER)
    )


def cut_of(received: SrmpRequest) -> Cut | None:
    content_type = received.http.head.header("Content-Type") or ""
    return cut(received.raw, len(received.raw) - len(received.http.body), content_type.encode())


def agrees(usual: UsualMessages, message: Message) -> bool:
    """Whether the message has a shape now; its packet must be that of `encode_message`."""
    received = request(message)
    expected = UserMessage(encode_message(read_message(received, NOW), over_http=True))
    parts = cut_of(received)
    if parts is None:
        return False
    if usual.shape_of(parts) is None:
        usual.learn(parts, received, expected)
    shape = usual.shape_of(parts)
    if shape is None:
        return False
    written = shape.packet(parts)
    assert written == expected.data
    assert shape.identity(parts, written) == expected.identity
    return True


def usual(**properties: object) -> Message:
    name = FormatName.parse("DIRECT=HTTP://h/msmq/private$/q")
    defaults = {"destination_queue": name, "id": MessageId(SENDER, 7), "sent_time": NOW - 9, "label": "a"}
    return Message(b"body", **{**defaults, **properties})  # type: ignore[arg-type]


def in_stream(number: int, **properties: object) -> Message:
    place = {"transaction_id": 0, "tx_sequence_id": TxSequenceId(NOW, 5), "tx_sequence_number": number}
    return usual(**place, previous_tx_sequence_number=max(number - 2, 0), **properties)


SHAPES = UsualMessages()


@given(messages())
def test_any_message_has_the_same_packet(message: Message) -> None:
    agrees(SHAPES, message)


@given(
    st.builds(
        usual,
        label=labels,
        id=ids,
        delivery=st.integers(0, 1),
        priority=st.integers(0, 7),
        sent_time=st.integers(0, NOW),
        time_to_reach_queue=st.integers(0, 10_000),
        application_tag=u32,
        message_class=st.integers(0, 0xFFFF),
        positive_journaling=st.booleans(),
        negative_journaling=st.booleans(),
    )
)
def test_any_usual_message_has_the_same_packet(message: Message) -> None:
    agrees(SHAPES, message)


def test_messages_of_one_sender_have_packets_of_their_own() -> None:
    """Every pair of messages, in both orders: the shape of the first must not show in the second."""
    changes: tuple[dict[str, object], ...] = (
        {},
        {"label": ""},
        {"label": "x" * 249},
        {"id": MessageId(SENDER, 8)},
        {"sent_time": NOW - 8},
        {"delivery": 1},
        {"priority": 7},
        {"destination_queue": FormatName.parse("DIRECT=HTTP://h/msmq/private$/q2")},
        {"time_to_reach_queue": 60},
        {"correlation_id": bytes(range(20))},
        {"application_tag": 9, "body_type": 8},
        {"negative_journaling": True},
    )
    variants = [usual(**each) for each in changes]
    variants += [
        in_stream(3),
        in_stream(4),
        in_stream(4, first_in_transaction=True, last_in_transaction=True),
    ]
    for first, second in product(variants, variants):
        shapes = UsualMessages()
        assert agrees(shapes, first)
        assert agrees(shapes, second)


@pytest.mark.parametrize(
    "message",
    [
        usual(tracing=True),
        usual(extension=b"more"),
        usual(response_queue=FormatName.parse("DIRECT=OS:h\\q")),
        usual(
            administration_queue=FormatName.parse("DIRECT=HTTP://h/msmq/private$/a"),
            acknowledgements=1,
        ),
        in_stream(1),
        replace(usual(), body=b""),
        usual(label="größer"),
        usual(label="a & b"),
        usual(id=MessageId(NULL_GUID, 1)),
        usual(message_class=MessageClass.NACK_DELETED),
        in_stream(4, negative_journaling=True),
    ],
    ids=[
        "traced",
        "with extension",
        "with response queue",
        "with receipts",
        "first of a stream",
        "empty",
        "not ASCII",
        "escaped",
        "without id",
        "a receipt",
        "awaits its final receipt",
    ],
)
def test_unusual_messages_are_left_to_the_general_way(message: Message) -> None:
    assert not agrees(UsualMessages(), message)


def test_shapes_do_not_fill_memory() -> None:
    shapes = UsualMessages()
    for number in range(600):
        name = FormatName.parse(f"DIRECT=HTTP://h/msmq/private$/q{number}")
        assert agrees(shapes, usual(destination_queue=name))
    assert len(shapes._shapes) <= 256


LARGE = usual(id=MessageId(SENDER, 4_000_000_000))
REQUEST = request(LARGE).raw
FAULTS = (
    (b"Content-Length: 4\r\n", b"Content-Length: 5\r\n"),
    (b"body--MSMQ", b"body--MSMX"),
    (b"</se:Envelope>--MSMQ - SOAP boundary, 0", b"</se:Envelope>--MSMQ - SOAP boundary, 1"),
    (b"--\r\n", b"--\r\n\r\n"),
    (b"<id>uuid:4000000000@", b"<id>uuid:5000000000@"),
    (b"<id>uuid:4000000000@", b"<id>uuid:+000000000@"),
    (b"MSMQ:a</action>", b"MSMQ:\0</action>"),
    (b"MSMQ:a</action>", b"MSMQ:&</action>"),
    (b"AAA=</Correlation>", b"AA==</Correlation>"),
    (b'boundary, 0"', b'boundary, 1"'),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault[1].decode())
def test_a_request_with_a_fault_is_not_cut(fault: tuple[bytes, bytes]) -> None:
    broken = REQUEST.replace(*fault)
    assert broken != REQUEST
    assert cut_of(request(LARGE)) is not None
    head, _, _ = broken.partition(b"\r\n\r\n")
    content_type = next(line for line in head.split(b"\r\n") if line.startswith(b"Content-Type: "))
    assert cut(broken, len(head) + 4, content_type[14:]) is None


@pytest.mark.parametrize(
    "fault", [(b"Content-Length: 1", b"Content-Length: 2"), (b"POST ", b"PUT "), (b"/1.1", b"/1.0")]
)
def test_a_multicast_with_a_fault_in_its_head_is_not_cut(fault: tuple[bytes, bytes]) -> None:
    whole = load("05_pgm")
    assert cut_multicast(whole) is not None
    assert cut_multicast(whole.replace(*fault, 1)) is None
