from uuid import UUID

import pytest

from tiercel.message_security.hash_input import READINGS, Reading, SignedFields
from tiercel.model.codes import Acknowledgements, AuthenticationLevel, DeliveryGuarantee
from tiercel.model.format_name import DirectFormatName, PrivateFormatName, PublicFormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message
from tiercel.wire.message import encode_message
from tiercel.wire.user_message import UserMessage

from . import vectors

SIG10, SIG20, SIG30 = AuthenticationLevel.SIG10, AuthenticationLevel.SIG20, AuthenticationLevel.SIG30
SIGNED = [name for name in vectors.names("security/*") if "hash_input" in vectors.load(name)]
SOURCE = UUID("00112233-4455-6677-8899-aabbccddeeff")
WIRE_SOURCE = "33221100 5544 7766 8899aabbccddeeff"
OTHER = UUID(int=(1 << 128) - 1)


def everything() -> Message:
    """Every field that a signature can cover has a value of its own."""
    return Message(
        b"the body",
        id=MessageId(SOURCE, 7),
        correlation_id=bytes(range(20)),
        application_tag=0x01020304,
        label="x",
        body_type=0x0A0B0C0D,
        message_class=0x1234,
        extension=b"more",
        priority=5,
        delivery=DeliveryGuarantee.RECOVERABLE,
        positive_journaling=True,
        acknowledgements=Acknowledgements.FULL_REACH_QUEUE,
        destination_queue=DirectFormatName.from_wire("OS:a\\q"),
        administration_queue=PublicFormatName(SOURCE),
        response_queue=PrivateFormatName(OTHER, 9),
        destination_queues=(DirectFormatName.from_wire("OS:a\\q"), PublicFormatName(SOURCE)),
        connector_type=SOURCE,
    )


def joined(message: Message, reading: Reading) -> bytes:
    packet = UserMessage(encode_message(message))
    return SignedFields(packet, packet.body).joined(reading)


BEGIN = f"{bytes(range(20)).hex()} 04030201 {b'the body'.hex()}"
LABEL = "7800 0000"
RESPONSE = "ffffffff ffff ffff ffffffffffffffff 09000000"
ADMIN = WIRE_SOURCE
HEADER = f"{WIRE_SOURCE} 01 05 02 05 3412 0d0c0b0a {WIRE_SOURCE}"
DESTINATION = "0e00 4f00 5300 3a00 6100 5c00 7100 0000"
LIST = f"0300 4f00 5300 3a00 6100 5c00 7100 0000 0100 0000 {WIRE_SOURCE}"


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        (Reading(SIG10), [BEGIN, LABEL, RESPONSE, ADMIN]),
        (Reading(SIG20), [BEGIN, LABEL, RESPONSE, ADMIN, HEADER, DESTINATION]),
        (Reading(SIG30), [BEGIN, LABEL, RESPONSE, ADMIN, b"more".hex(), LIST, HEADER]),
        (Reading(SIG20, label_nul=False), [BEGIN, "7800", RESPONSE, ADMIN, HEADER, DESTINATION]),
    ],
    ids=["1.0", "2.0", "3.0", "2.0 without NUL"],
)
def test_the_fields_of_each_version(reading: Reading, expected: list[str]) -> None:
    """[MS-MQMQ] 2.5.1, 2.5.2, 2.5.3."""
    assert joined(everything(), reading).hex() == bytes.fromhex("".join(expected)).hex()


def test_padded_names() -> None:
    message = Message(b"", destination_queue=DirectFormatName.from_wire("OS:ab\\q"), id=MessageId(SOURCE, 1))
    exact, padded = joined(message, Reading(SIG20)), joined(message, Reading(SIG20, padded_names=True))
    assert padded == exact + b"\0\0"


def test_names_that_are_absent_have_no_bytes() -> None:
    message = Message(b"", destination_queue=DirectFormatName.from_wire("OS:a\\q"))
    assert joined(message, Reading(SIG10)) == bytes(24)
    same = Message(b"", destination_queue=DirectFormatName.from_wire("OS:a\\q"))
    same.administration_queue = same.response_queue = PublicFormatName(SOURCE)
    assert len(joined(same, Reading(SIG10))) in {24 + 16, 24 + 32}


@pytest.mark.parametrize("name", SIGNED)
def test_the_pieces_of_the_vectors(name: str) -> None:
    known = vectors.load(name)
    level = SIG10 if known["signature_version"] == "1.0" else SIG20
    body = bytes.fromhex(known["body"])
    fields = SignedFields(vectors.packet(name), body)
    assert fields.joined(Reading(level)).hex() == known["hash_input_joined"]
    assert fields.digest(Reading(level), int(known["hash_algorithm"], 16)).hex() == known["hash"]


def test_every_reading_covers_the_body_first() -> None:
    packet = UserMessage(encode_message(everything()))
    for reading in READINGS:
        assert SignedFields(packet, b"BODY").joined(reading)[24:28] == b"BODY"


def test_readings_are_stored_by_position() -> None:
    """A stored verdict has the position, so the list may only grow at its end."""
    assert [str(reading) for reading in READINGS] == [
        "MSMQ 2.0",
        "MSMQ 1.0",
        "MSMQ 3.0",
        "MSMQ 2.0, padded names",
        "MSMQ 1.0, padded names",
        "MSMQ 3.0, padded names",
        "MSMQ 2.0, label without NUL",
        "MSMQ 1.0, label without NUL",
        "MSMQ 3.0, label without NUL",
    ]
    assert [reading.is_expected for reading in READINGS] == [True] * 3 + [False] * 6
