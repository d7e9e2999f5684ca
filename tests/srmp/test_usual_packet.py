"""Packets of usual messages are those that `encode_message` writes, whatever was written before them."""

from dataclasses import replace
from itertools import product
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId, TxSequenceId
from tiercel.model.message import Message
from tiercel.srmp.message import envelope_of, read_message
from tiercel.srmp.request import SrmpRequest, read_srmp, write_srmp
from tiercel.srmp.usual_packet import UsualPackets
from tiercel.wire.message import decode_message, encode_message
from tiercel.wire.user_message import UserMessage

from .strategies import ids, labels, messages, u32

NOW = 1_800_000_000
SENDER = UUID(int=1)


def request(message: Message) -> SrmpRequest:
    envelope = envelope_of(message, stream_sender=SENDER, receipts_url="http://h/msmq/q")
    return read_srmp(
        write_srmp(envelope, message.body or None, message.extension or None, content_guid=SENDER)
    )


def agrees(packets: UsualPackets, message: Message) -> bool:
    """Whether the message is usual; its packet must say what that of `encode_message` says."""
    received = request(message)
    written = packets.encode(received, NOW)
    expected = encode_message(read_message(received, NOW), over_http=True)
    if written is not None:
        assert len(written) == len(expected)
        assert decode_message(UserMessage(written)) == decode_message(UserMessage(expected))
        assert UserMessage(written).identity == UserMessage(expected).identity
    return written is not None


def usual(**properties: object) -> Message:
    name = FormatName.parse("DIRECT=HTTP://h/msmq/private$/q")
    defaults = {"destination_queue": name, "id": MessageId(SENDER, 7), "sent_time": NOW - 9, "label": "a"}
    return Message(b"body", **{**defaults, **properties})  # type: ignore[arg-type]


def in_stream(number: int, **properties: object) -> Message:
    place = {"transaction_id": 0, "tx_sequence_id": TxSequenceId(NOW, 5), "tx_sequence_number": number}
    return usual(**place, previous_tx_sequence_number=max(number - 2, 0), **properties)


PACKETS = UsualPackets()


@given(messages())
def test_any_message_has_the_same_packet(message: Message) -> None:
    agrees(PACKETS, message)


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
    agrees(PACKETS, message)


def test_messages_of_one_sender_have_packets_of_their_own() -> None:
    """Every pair of messages, in both orders: a frame of the first must not show in the second."""
    changes: tuple[dict[str, object], ...] = (
        {},
        {"label": ""},
        {"label": "größer"},
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
        packets = UsualPackets()
        assert agrees(packets, first)
        assert agrees(packets, second)


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
    ],
    ids=["traced", "with extension", "with response queue", "with receipts", "first of a stream", "empty"],
)
def test_unusual_messages_are_left_to_the_general_way(message: Message) -> None:
    assert not agrees(UsualPackets(), message)


def test_frames_do_not_fill_memory() -> None:
    packets = UsualPackets()
    for number in range(600):
        name = FormatName.parse(f"DIRECT=HTTP://h/msmq/private$/q{number}")
        assert agrees(packets, usual(destination_queue=name))
    assert len(packets._frames) <= 256
