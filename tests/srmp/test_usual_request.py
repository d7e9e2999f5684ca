"""Requests of usual messages are those that `write_srmp` writes, whatever was written before them."""

from itertools import product
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId, TxSequenceId
from tiercel.model.message import Message
from tiercel.srmp.message import envelope_of
from tiercel.srmp.request import write_srmp
from tiercel.srmp.usual_request import UsualRequests
from tiercel.wire.message import decode_message, encode_message
from tiercel.wire.user_message import UserMessage

from .strategies import ids, labels, messages, u32

NOW = 1_800_000_000
SENDER = UUID(int=1)


def write(message: Message) -> bytes:
    envelope = envelope_of(message, stream_sender=SENDER)
    return write_srmp(
        envelope,
        message.body or None,
        message.extension or None,
        content_guid=SENDER,
        boundary=message.id.uniquifier,
    ).encode()


def agrees(requests: UsualRequests, message: Message) -> bool:
    """Whether the message is usual; its request must be the general one, the first time and the next."""
    packet = UserMessage(encode_message(message))
    number = message.tx_sequence_number
    place = (number, message.previous_tx_sequence_number) if packet.is_transactional else None
    written = requests.write(packet, place)
    if written is None:
        return False
    expected = write(decode_message(packet))
    assert written == expected
    assert requests.write(packet, place) == expected
    return True


def usual(**properties: object) -> Message:
    name = FormatName.parse("DIRECT=HTTP://h/msmq/private$/q")
    defaults = {"destination_queue": name, "id": MessageId(SENDER, 7), "sent_time": NOW - 9, "label": "a"}
    return Message(**{"body": b"body", **defaults, **properties})  # type: ignore[arg-type]


def in_stream(number: int, previous: int, **properties: object) -> Message:
    place = {"transaction_id": 0, "tx_sequence_id": TxSequenceId(NOW, 5), "tx_sequence_number": number}
    return usual(**place, previous_tx_sequence_number=previous, **properties)


REQUESTS = UsualRequests(write)


@given(messages())
def test_any_message_has_the_same_request(message: Message) -> None:
    agrees(REQUESTS, message)


@given(
    st.builds(
        usual,
        body=st.binary(min_size=1, max_size=40).filter(lambda body: b"MSMQ" not in body),
        label=labels,
        id=ids,
        delivery=st.integers(0, 1),
        priority=st.integers(0, 7),
        sent_time=st.integers(0, NOW),
        time_to_reach_queue=st.integers(0, 10_000),
        time_to_be_received=st.integers(0, 10_000),
        application_tag=u32,
        positive_journaling=st.booleans(),
        negative_journaling=st.booleans(),
    )
)
def test_any_usual_message_has_the_same_request(message: Message) -> None:
    assert agrees(REQUESTS, message)


def test_messages_of_one_queue_have_requests_of_their_own() -> None:
    """Every pair of messages, in both orders: what was written for the first must not show in the second."""
    changes: tuple[dict[str, object], ...] = (
        {},
        {"body": b"another"},
        {"label": ""},
        {"label": "größer & <b>"},
        {"id": MessageId(SENDER, 8)},
        {"sent_time": NOW - 8},
        {"delivery": 1},
        {"priority": 7},
        {"destination_queue": FormatName.parse("DIRECT=HTTP://h/msmq/private$/q2")},
        {"response_queue": FormatName.parse("DIRECT=OS:h\\q")},
        {"time_to_reach_queue": 60},
        {"time_to_be_received": 60},
        {"correlation_id": bytes(range(20))},
        {"application_tag": 9, "body_type": 8},
        {"negative_journaling": True},
        {
            "administration_queue": FormatName.parse("DIRECT=HTTP://h/msmq/private$/a"),
            "acknowledgements": 1,
        },
    )
    variants = [usual(**each) for each in changes]
    variants += [in_stream(3, 1), in_stream(4, 3), in_stream(4, 3, first_in_transaction=True)]
    for first, second in product(variants, variants):
        requests = UsualRequests(write)
        assert agrees(requests, first)
        assert agrees(requests, second)


@pytest.mark.parametrize(
    "message",
    [
        usual(tracing=True),
        usual(extension=b"more"),
        usual(body=b""),
        usual(body=b"it has MSMQ - SOAP boundary, 7 in it"),
        usual(signature=b"signed"),
        in_stream(1, 0),
    ],
    ids=["traced", "with extension", "empty", "with a boundary", "signed", "first of a stream"],
)
def test_unusual_messages_are_left_to_the_general_way(message: Message) -> None:
    assert not agrees(UsualRequests(write), message)


def test_frames_do_not_fill_memory() -> None:
    requests = UsualRequests(write)
    for number in range(600):
        name = FormatName.parse(f"DIRECT=HTTP://h/msmq/private$/q{number}")
        assert agrees(requests, usual(destination_queue=name))
    assert 0 < len(requests._frames) <= 256
