"""Listings: nothing is left out, nothing is said twice, and values are told in the specification's words."""

import json
import struct

import pytest
from hypothesis import given

from tiercel.wire.dump import AnyPacket, Field, as_json, list_packet, quote, reencode, render, summary
from tiercel.wire.extension_headers import (
    EXTENDED_ADDRESS_HEADER,
    SUBQUEUE_HEADER,
    ExtendedAddressHeader,
    ExtensionHeader,
    SubqueueHeader,
    encode_subqueue_name,
)
from tiercel.wire.internal_packets import CONNECTION_REFUSED, EstablishConnection, EstablishConnectionHeader
from tiercel.wire.order_ack import FinalAck, OrderAck
from tiercel.wire.packet import decode_packet
from tiercel.wire.ping import Ping
from tiercel.wire.security_header import SecurityHeader, encode_provider_info

from .packets import (
    GUID_A,
    MQ,
    PLAIN,
    SESSION,
    SH,
    TRANSACTIONAL,
    WIRE_A,
    WIRE_B,
    aq,
    direct,
    dq,
    frame,
    packet,
    properties,
    rq,
    user,
)
from .strategies import packets

ORDER_ACK_BODY = struct.pack("<IIII", 7, 9, 3, 2) + bytes(20)
FINAL_ACK_BODY = struct.pack("<IIII", 7, 9, 3, 2) + bytes.fromhex(WIRE_A) + struct.pack("<I", 42)


def decode(data: bytes) -> AnyPacket:
    return Ping.decode(data) if len(data) == 24 else decode_packet(data)


def field(data: bytes, structure: str, name: str) -> Field:
    """The one field of that name."""
    (found,) = (
        field
        for listing in list_packet(decode(data))
        for field in listing.fields
        if (listing.name, field.name) == (structure, name)
    )
    return found


def line(data: bytes, name: str, *, whole: bool = False) -> str:
    """What the listing shows after the name of a field."""
    (found,) = (
        text for text in render(list_packet(decode(data)), whole=whole) if text.split()[2:3] == [name]
    )
    return found.split(maxsplit=3)[3]


def ack(message_class: int, body: bytes) -> bytes:
    to_order_queue = user(dq(3), struct.pack("<I", 4), address=bytes.fromhex(WIRE_B))
    return packet(
        to_order_queue, properties(label="QM Ordering Ack", body=body, message_class=message_class), flags=0
    )


def assert_without_holes(data: bytes) -> None:
    at = 0
    for listing in list_packet(decode(data)):
        assert listing.offset == at
        for found in listing.fields:
            assert found.offset == at
            assert found.data == data[at : at + found.size]
            at += found.size
        assert at == listing.offset + listing.size
    assert at == len(data)


class TestListing:
    @pytest.mark.parametrize("number", range(1, 9))
    def test_the_frames_have_no_holes(self, number: int) -> None:
        assert_without_holes(frame(number))

    @given(packets)
    def test_no_message_has_holes(self, data: bytes) -> None:
        assert_without_holes(data)
        assert reencode(decode(data)) == data

    @given(packets)
    def test_every_message_can_be_shown(self, data: bytes) -> None:
        listings = list_packet(decode(data))
        for text in (*render(listings), *render(listings, whole=True), summary(decode(data), len(data))):
            assert text.isprintable()
        assert json.loads(json.dumps(as_json(listings))) == as_json(listings)

    @pytest.mark.parametrize(("kind", "body"), [(0x00FF, ORDER_ACK_BODY), (0x4000, FINAL_ACK_BODY)])
    def test_the_body_of_an_acknowledgement_is_opened(self, kind: int, body: bytes) -> None:
        data = ack(kind, body)
        assert isinstance(decode(data), OrderAck | FinalAck)
        assert_without_holes(data)
        assert field(data, "MessagePropertiesHeader", "message_body.tx_sequence_number").value == 3
        sequence = field(data, "MessagePropertiesHeader", "message_body.tx_sequence_id")
        assert sequence.meaning == "timestamp 9, ordinal 7"

    def test_what_is_reserved_behind_such_a_body_is_listed_too(self) -> None:
        body = properties(
            label="QM Ordering Ack",
            body=ORDER_ACK_BODY,
            allocated=ORDER_ACK_BODY + b"rest",
            message_class=0x00FF,
        )
        data = packet(user(dq(3), struct.pack("<I", 4), address=bytes.fromhex(WIRE_B)), body, flags=0)
        assert isinstance(decode(data), OrderAck)
        assert_without_holes(data)
        assert field(data, "MessagePropertiesHeader", "message_body.rest").value == b"rest"

    def test_structures_are_named_in_wire_order(self) -> None:
        names = [
            listing.name
            for listing in list_packet(decode(packet(user(), properties(), flags=19, session=SESSION)))
        ]
        assert names == ["BaseHeader", "UserHeader", "MessagePropertiesHeader", "SessionHeader"]


class TestMeanings:
    def test_flags_by_their_names(self) -> None:
        flags = field(frame(7), "UserHeader", "flags")
        assert flags.meaning == "DQ=7(DIRECT) SH=1 MP=1"
        assert flags.flags is not None
        assert flags.flags["AQ"] == 0

    def test_kinds_of_queues_and_delivery(self) -> None:
        data = packet(user(dq(7) | aq(2) | rq(1) | 1 << 5, direct("OS:h\\q") + bytes(4)), properties())
        expected = (
            "DM=1(RECOVERABLE) DQ=7(DIRECT) AQ=2(PRIVATE_ON_SOURCE) RQ=1(SAME_AS_ADMINISTRATION_QUEUE) MP=1"
        )
        assert field(data, "UserHeader", "flags").meaning == expected

    def test_bits_without_a_name_are_not_hidden(self) -> None:
        assert field(frame(1), "Ping", "flags").meaning == "RC=1 unnamed 0x7d00"

    def test_times(self) -> None:
        data = packet(user(sent_time=86400, time_to_be_received=90061), properties())
        assert field(data, "UserHeader", "sent_time").meaning == "1970-01-02 00:00:00 UTC"
        assert field(data, "UserHeader", "time_to_be_received").meaning == "1 d 1 h 1 min 1 s"
        assert field(data, "BaseHeader", "time_to_reach_queue").meaning == "INFINITE"
        assert line(data, "sent_time") == "86400  1970-01-02 00:00:00 UTC"

    def test_the_latest_time(self) -> None:
        data = packet(user(sent_time=2**32 - 1), properties())
        assert field(data, "UserHeader", "sent_time").meaning == "2106-02-07 06:28:15 UTC"

    @pytest.mark.parametrize(
        ("name", "meaning"),
        [
            ("message_class", "NORMAL"),
            ("hash_algorithm", "SHA1"),
            ("encryption_algorithm", "RC4"),
            ("body_type", "BSTR"),
        ],
    )
    def test_known_codes(self, name: str, meaning: str) -> None:
        assert field(frame(7), "MessagePropertiesHeader", name).meaning == meaning

    def test_an_unknown_code_is_shown_as_its_number(self) -> None:
        assert line(packet(user(), properties(message_class=0x1234)), "message_class") == "0x1234"

    def test_the_sender_as_a_sid(self) -> None:
        expected = "S-1-5-21-3181267629-1039849782-3663111779-1000"
        assert line(frame(7), "security_id") == expected

    def test_the_sender_as_a_queue_manager(self) -> None:
        header = SecurityHeader.of(2, security_id=bytes.fromhex(WIRE_A)).encode()
        assert line(packet(user(SH), header, properties()), "security_id") == str(GUID_A)

    @pytest.mark.parametrize("flags", [0, 1, 2])
    def test_a_sender_that_is_neither(self, flags: int) -> None:
        header = SecurityHeader.of(flags, security_id=b"nobody").encode()
        assert line(packet(user(SH), header, properties()), "security_id") == "6e6f626f6479  |nobody|"

    def test_a_sid_that_is_not_called_one(self) -> None:
        header = SecurityHeader.of(0, security_id=bytes.fromhex("01 01 000000000005 12000000")).encode()
        assert line(packet(user(SH), header, properties()), "security_id").startswith("0101000000000005")

    def test_the_provider(self) -> None:
        header = SecurityHeader.of(0, provider_info=encode_provider_info(1, "Base")).encode()
        assert line(packet(user(SH), header, properties()), "provider_info") == 'type 1, "Base"'

    def test_the_headers_for_remote_readers(self) -> None:
        subqueue = SubqueueHeader(
            word=0x4000 << 1, last_move_time=60, subqueue_name=encode_subqueue_name("s")
        )
        address = ExtendedAddressHeader(address_type=1, address=bytes([10, 0, 0, 9]) + bytes(12))
        flags = SUBQUEUE_HEADER | EXTENDED_ADDRESS_HEADER
        extension = ExtensionHeader(12, len(subqueue.encode()) + len(address.encode()), flags)
        data = packet(user(), properties(), extension.encode(), subqueue.encode(), address.encode())
        assert field(data, "SubqueueHeader", "word").meaning == "AcknowledgementClass=16384(ACK_RECEIVE)"
        assert field(data, "SubqueueHeader", "last_move_time").meaning == "1970-01-01 00:01:00 UTC"
        assert line(data, "subqueue_name") == '"s"'
        assert line(data, "address") == "10.0.0.9"

    def test_the_message_that_is_answered(self) -> None:
        plain = packet(user(), properties())
        at = 16 + 48 + 4
        data = plain[:at] + bytes.fromhex(WIRE_A) + struct.pack("<I", 77) + plain[at + 20 :]
        assert line(data, "correlation_id") == f"{{{GUID_A}}}\\77"


class TestText:
    def test_a_long_body_is_cut_and_says_so(self) -> None:
        rows = list(render(list_packet(decode(frame(7)))))
        assert "                ... 1936 more bytes, --body shows them" in rows

    def test_or_shown_whole(self) -> None:
        rows = list(render(list_packet(decode(frame(7))), whole=True))
        assert sum(row.endswith("|a.a.a.a.a.a.a.a.|") for row in rows) == 125
        assert not any("more bytes" in row for row in rows)

    def test_every_byte_of_a_body_is_shown_in_hexadecimal_and_ascii(self) -> None:
        body = bytes(range(256))
        rows = list(render(list_packet(decode(packet(user(), properties(body=body)))), whole=True))
        shown = [row for row in rows if row.endswith("|") and row.startswith("  0x")]
        assert b"".join(bytes.fromhex(row[16:63]) for row in shown) == body
        assert "|0123456789:;<=>?|" in shown[3]
        assert "|................|" in shown[0]

    def test_bytes_that_are_all_the_same_are_told_in_words(self) -> None:
        assert line(frame(3), "padding") == "512 bytes, each 0x5a"
        assert line(frame(3), "padding", whole=True) == "512 bytes"

    def test_a_long_text_is_cut(self) -> None:
        data = packet(user(dq(7), direct("OS:" + "x" * 300)), properties())
        name = "destination_queue.direct_format_name"
        assert line(data, name).endswith('x" and 103 more characters')
        assert line(data, name, whole=True) == f'"OS:{"x" * 300}"'

    def test_absent_fields_take_no_line(self) -> None:
        assert not any("encryption_key " in row for row in render(list_packet(decode(frame(7)))))

    def test_no_line_is_wider_than_a_terminal(self) -> None:
        for number in range(1, 9):
            for row in render(list_packet(decode(frame(number)))):
                assert len(row) <= 110

    @pytest.mark.parametrize(
        ("text", "quoted"),
        [
            ("plain", '"plain"'),
            ("Grüße", '"Grüße"'),
            (r"OS:host\q", r'"OS:host\q"'),
            ('say "hi"', r'"say \"hi\""'),
            ("a\nb\x1b[31m", r'"a\nb\x1b[31m"'),
            ("\u202egnp", r'"\u202egnp"'),
            ("\ud800", r'"\ud800"'),
        ],
    )
    def test_quotes_hold_a_text_on_its_line(self, text: str, quoted: str) -> None:
        assert quote(text) == quoted


class TestJson:
    def test_keys_and_types(self) -> None:
        base, user_header, *_ = as_json(list_packet(decode(frame(7))))
        assert base["fields"][2] == {
            "offset": 2,
            "size": 2,
            "name": "flags",
            "value": 3,
            "flags": {"PR": 3, "IN": 0, "SH": 0, "DH": 0, "TR": 0},
            "meaning": "PR=3",
        }
        assert user_header["name"] == "UserHeader"
        assert user_header["fields"][0]["value"] == "557358d1-9150-9595-4997-b6e611ea26c6"
        assert user_header["fields"][-2]["value"] == "OS:a04bm02\\q"

    def test_bodies_are_whole(self) -> None:
        values = {
            field["name"]: field["value"] for field in as_json(list_packet(decode(frame(7))))[-1]["fields"]
        }
        assert bytes.fromhex(values["message_body"]) == b"a\0" * 1000
        assert values["padding"] == "0000"

    def test_a_sequence_is_an_object(self) -> None:
        value = as_json(list_packet(decode(TRANSACTIONAL)))[2]["fields"][1]["value"]
        assert value == {"timestamp": 0, "ordinal": 0}


class TestSummary:
    @pytest.mark.parametrize(
        ("data", "words"),
        [
            (frame(1), ["Ping", "24 bytes", "from 557358d1..", "cookie 4"]),
            (Ping(flags=2).encode(), ["Ping", "24 bytes", "from 00000000..", "cookie 0", "refused"]),
            (frame(3), ["EstablishConnection", "572 bytes", "557358d1.. -> 43cd8907.."]),
            (
                frame(5),
                [
                    "ConnectionParameters",
                    "32 bytes",
                    "window 64",
                    "acknowledge within 120 s",
                    "recoverable within 1.496 s",
                ],
            ),
            (
                frame(7),
                [
                    "UserMessage",
                    "2224 bytes",
                    r"557358d1.. -> DIRECT=OS:a04bm02\q",
                    '"mqsender label"',
                    "NORMAL",
                    "express",
                ],
            ),
            (frame(8), ["SessionAck", "36 bytes", "received 1", "stored 0", "window 64"]),
            (
                ack(0xC002, FINAL_ACK_BODY),
                [
                    "FinalAck",
                    "192 bytes",
                    r"00112233.. -> PRIVATE=b0b1b2b3-b4b5-b6b7-b8b9-babbbcbdbebf\00000004",
                    '"QM Ordering Ack"',
                    "NACK_RECEIVE_TIMEOUT",
                    "express",
                    "for number 3",
                ],
            ),
        ],
    )
    def test_says_what_the_packet_is(self, data: bytes, words: list[str]) -> None:
        assert summary(decode(data), len(data)).split("  ") == words

    def test_a_refused_connection(self) -> None:
        refused = EstablishConnection.of(EstablishConnectionHeader(), refused=True)
        assert refused.internal.flags & CONNECTION_REFUSED
        assert summary(refused, 572).endswith("refused")

    @pytest.mark.parametrize(
        ("header", "destination"),
        [
            (user(dq(5), bytes.fromhex(WIRE_B)), "PUBLIC=b0b1b2b3-b4b5-b6b7-b8b9-babbbcbdbebf"),
            (user(), "no queue"),
            (user(dq(7), direct("OS:a\x1b[2J")), r"DIRECT=OS:a\x1b[2J"),
        ],
    )
    def test_destinations(self, header: bytes, destination: str) -> None:
        data = packet(header, properties())
        assert f" -> {destination}  " in summary(decode(data), len(data))

    def test_many_destinations(self) -> None:
        empty = b"".join(struct.pack("<IHHI", 12, kind, 0, 0) for kind in (0x64, 0xC8, 0x12C))
        data = packet(user(MQ), properties(), empty + struct.pack("<HHI", 0x15E, 0, 0))
        assert "-> 0 queues" in summary(decode(data), len(data))

    @pytest.mark.parametrize(("data", "delivery"), [(PLAIN, "express"), (TRANSACTIONAL, "transactional")])
    def test_delivery(self, data: bytes, delivery: str) -> None:
        assert summary(decode(data), len(data)).endswith(delivery)
