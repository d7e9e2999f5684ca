"""Messages of one shape: what is recognised by its headers must be what decoding finds."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model.codes import MessageClass
from tiercel.model.errors import DecodeError
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId, TxSequenceId
from tiercel.model.limits import MAX_PACKET_SIZE
from tiercel.model.message import Message
from tiercel.model.sid import SecurityIdentifier
from tiercel.wire.alike import Alike, take_alike
from tiercel.wire.framer import Framer
from tiercel.wire.message import encode_message
from tiercel.wire.session_header import SessionHeader
from tiercel.wire.transaction_header import (
    CONNECTOR_GUID,
    FINAL_ACK_REQUIRED,
    FIRST_IN_TRANSACTION,
    LAST_IN_TRANSACTION,
)
from tiercel.wire.user_message import UserMessage

SENDER = UUID(int=7, version=4)
QUEUE = FormatName.parse(r"DIRECT=OS:host\private$\q")
SESSION = SessionHeader(1, 0, 0, 2, 2, 64)


def packet(number: int, body: bytes = b"body", **properties: Any) -> bytes:
    usual: dict[str, Any] = {"delivery": 1, "sent_time": 5, "destination_queue": QUEUE}
    return encode_message(Message(body, id=MessageId(SENDER, number), **usual | properties))


def in_order(number: int, previous: int, **properties: Any) -> bytes:
    return packet(
        number,
        transaction_id=1,
        tx_sequence_id=TxSequenceId(3, 4),
        tx_sequence_number=number,
        previous_tx_sequence_number=previous,
        **properties,
    )


def with_transaction_flag(packet: bytes, flag: int) -> bytes:
    at = UserMessage(packet).place_at - 12
    flags = int.from_bytes(packet[at : at + 4], "little") ^ flag
    return packet[:at] + flags.to_bytes(4, "little") + packet[at + 4 :]


def found(*packets: bytes) -> Alike:
    return take_alike(UserMessage(packets[0]), b"".join(packets), len(packets[0]))


def count(*packets: bytes) -> int:
    return len(found(*packets))


class TestShape:
    @pytest.mark.parametrize(
        "properties",
        [
            {"body": b"longer than the others"},
            {"body": b""},
            {"application_tag": 9},
            {"correlation_id": bytes(range(20))},
            {"body_type": 8},
        ],
        ids=lambda each: next(iter(each)),
    )
    def test_what_may_differ(self, properties: dict[str, Any]) -> None:
        assert count(packet(1), packet(2, **properties), packet(3)) == 3

    def test_the_text_of_a_label_may_differ(self) -> None:
        assert count(packet(1, label="order 1"), packet(2, label="order 2")) == 2

    @pytest.mark.parametrize(
        "properties",
        [
            {"priority": 7},
            {"delivery": 0},
            {"sent_time": 6},
            {"time_to_be_received": 10},
            {"time_to_reach_queue": 10},
            {"destination_queue": FormatName.parse(r"DIRECT=OS:host\private$\r")},
            {"destination_queue": FormatName.parse(r"DIRECT=OS:host\private$\longer")},
            {"response_queue": QUEUE},
            {"administration_queue": QUEUE},
            {"label": "other"},
            {"extension": b"more"},
            {"message_class": MessageClass.REPORT},
            {"acknowledgements": 1},
            {"positive_journaling": True},
            {"negative_journaling": True},
            {"sender_id": SecurityIdentifier.parse("S-1-1-0").encode()},
            {"transaction_id": 1},
        ],
        ids=lambda each: next(iter(each)),
    )
    def test_what_may_not(self, properties: dict[str, Any]) -> None:
        assert count(packet(1), packet(2, **properties), packet(3)) == 1
        assert count(packet(1), packet(2), packet(3, **properties), packet(4)) == 2

    @pytest.mark.parametrize("flag", [FIRST_IN_TRANSACTION, LAST_IN_TRANSACTION, 1 << 4, 1 << 23])
    def test_transactions_may_differ(self, flag: int) -> None:
        assert count(in_order(1, 0), with_transaction_flag(in_order(2, 1), flag), in_order(3, 2)) == 3

    def test_who_expects_a_final_ack_may_not_differ(self) -> None:
        marked = with_transaction_flag(in_order(2, 1), FINAL_ACK_REQUIRED)
        assert count(in_order(1, 0), marked) == 1
        assert count(marked, with_transaction_flag(in_order(3, 2), FINAL_ACK_REQUIRED)) == 2

    def test_a_connector_moves_the_headers_behind_it(self) -> None:
        assert count(in_order(1, 0), with_transaction_flag(in_order(2, 1), CONNECTOR_GUID)) == 1

    def test_another_sender(self) -> None:
        other = packet(2)
        assert count(packet(1), other[:16] + bytes(16) + other[32:]) == 1

    def test_a_packet_with_a_session_header_is_by_itself(self) -> None:
        with_session = UserMessage(packet(1)).with_session(SESSION)
        assert count(packet(1), with_session) == 1
        alike = found(with_session, packet(2))
        assert (len(alike), alike.session, alike.first.data) == (1, SESSION, packet(1))
        assert next(alike.singles()).session == SESSION

    def test_acknowledgements_are_by_themselves(self) -> None:
        kind = MessageClass.ACK_REACH_QUEUE
        assert count(packet(1, message_class=kind), packet(2, message_class=kind)) == 1

    def test_only_whole_packets(self) -> None:
        first, second = packet(1), packet(2)
        for end in range(len(second)):
            assert len(take_alike(UserMessage(first), first + second[:end], len(first))) == 1

    def test_a_size_that_is_a_lie(self) -> None:
        """A packet that says it is longer than its headers, or too long altogether, is decoded by itself."""
        first, second = packet(1), packet(2)
        for size in (0, len(second) + 4, MAX_PACKET_SIZE + 1, 0xFFFF_FFFF):
            lie = second[:8] + size.to_bytes(4, "little") + second[12:]
            assert count(first, lie, packet(3)) == 1

    def test_a_label_without_its_end(self) -> None:
        first, second = packet(1, label="ab"), packet(2, label="ab")
        end = UserMessage(second).label_end
        assert count(first, second[: end - 1] + b"x" + second[end:]) == 1


class TestValues:
    def test_identities(self) -> None:
        packets = [packet(number, bytes(number)) for number in range(1, 9)]
        alike = found(*packets)
        assert alike.identities == [UserMessage(each).identity for each in packets]
        assert [message.data for message in alike.messages()] == packets
        assert alike.size == sum(map(len, packets))
        assert [[each.first.data, *each.identities] for each in alike.singles()] == [
            [each, UserMessage(each).identity] for each in packets
        ]

    @pytest.mark.parametrize(
        ("places", "expected"),
        [
            ([(1, 0), (2, 1), (3, 2)], True),
            ([(4, 0), (9, 4)], True),  # those between have expired
            ([(4, 3), (9, 0)], True),
            ([(1, 0), (1, 0)], False),
            ([(2, 1), (1, 0)], False),
            ([(1, 0), (3, 2)], False),  # one is missing
        ],
    )
    def test_places(self, places: list[tuple[int, int]], expected: bool) -> None:
        alike = found(*(in_order(*place) for place in places))
        assert len(alike) == len(places)
        assert (alike.are_in_order, alike.last_number) == (expected, places[-1][0])


@given(
    st.lists(st.tuples(st.binary(max_size=9), st.sampled_from([{}, {}, {"priority": 1}])), min_size=1),
    st.integers(0, 400),
    st.one_of(st.none(), st.tuples(st.integers(0, 2000), st.integers(0, 255))),
)
def test_the_same_packets_as_without_it(
    messages: list[tuple[bytes, dict[str, Any]]], cut: int, broken: tuple[int, int] | None
) -> None:
    """Whatever the bytes: the same messages, and the same error, as when each is decoded."""
    data = b"".join(packet(n, body, **how) for n, (body, how) in enumerate(messages, 1))
    if broken is not None:
        at = broken[0] % len(data)
        data = data[:at] + bytes([broken[1]]) + data[at + 1 :]

    def packets(*, alike: bool) -> tuple[list[bytes], str]:
        framer = Framer()
        taken: list[bytes] = []
        try:
            for part in (data[:-cut], data[-cut:]) if cut else (data,):
                framer.receive(part)
                for each in framer.packets():
                    message = UserMessage(each)
                    taken += framer.take_alike(message).packets if alike else Alike(message).packets
        except DecodeError as problem:
            return taken, str(problem)
        return taken, f"{framer.buffered} {framer.wanted}"

    assert packets(alike=True) == packets(alike=False)
