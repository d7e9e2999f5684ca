"""What holds for every structure and packet, drawn by hypothesis: round trips, and totality of decoding."""

import struct
from dataclasses import fields

from hypothesis import given, settings
from hypothesis import strategies as st

from tiercel.model.errors import DecodeError
from tiercel.wire.base_header import BaseHeader
from tiercel.wire.debug_header import DebugHeader
from tiercel.wire.extension_headers import (
    DeadLetterHeader,
    ExtendedAddressHeader,
    ExtensionHeader,
    SubqueueHeader,
)
from tiercel.wire.framer import Framer
from tiercel.wire.internal_packets import ConnectionParametersHeader, EstablishConnectionHeader
from tiercel.wire.key_blobs import PrivateKeyBlob, PublicKeyBlob, SimpleBlob
from tiercel.wire.message import decode_message
from tiercel.wire.message_properties_header import MessagePropertiesHeader
from tiercel.wire.multi_queue_format_header import (
    MQFAddressHeader,
    MQFDirectQueueFormatName,
    MQFSignatureHeader,
    MultiQueueFormatHeader,
)
from tiercel.wire.order_ack import FinalAck, FinalAckBody, OrderAck, OrderAckBody
from tiercel.wire.packet import decode_packet
from tiercel.wire.ping import Ping
from tiercel.wire.public_keys import MQDSPublicKeys
from tiercel.wire.queue_names import DirectQueueFormatName
from tiercel.wire.security_header import SecurityHeader
from tiercel.wire.session_header import SessionHeader
from tiercel.wire.soap_header import CompoundMessageHeader, SoapHeader, SRMPEnvelopeHeader
from tiercel.wire.structure import Structure
from tiercel.wire.transaction_header import TransactionHeader
from tiercel.wire.user_certificates import MQUserSignCerts
from tiercel.wire.user_header import UserHeader
from tiercel.wire.user_message import UserMessage

from .packets import frame, replaced
from .strategies import packets, structures, user_messages

STRUCTURES: list[type[Structure]] = [
    BaseHeader,
    DebugHeader,
    DeadLetterHeader,
    ExtendedAddressHeader,
    ExtensionHeader,
    SubqueueHeader,
    ConnectionParametersHeader,
    EstablishConnectionHeader,
    PrivateKeyBlob,
    PublicKeyBlob,
    SimpleBlob,
    MQDSPublicKeys,
    MQUserSignCerts,
    MessagePropertiesHeader,
    MQFAddressHeader,
    MQFDirectQueueFormatName,
    MQFSignatureHeader,
    MultiQueueFormatHeader,
    OrderAckBody,
    FinalAckBody,
    Ping,
    DirectQueueFormatName,
    SecurityHeader,
    SessionHeader,
    CompoundMessageHeader,
    SoapHeader,
    SRMPEnvelopeHeader,
    TransactionHeader,
    UserHeader,
]
sizes = st.sampled_from([0, 1, 2, 3, 4, 12, 15, 16, 0x64, 0xFA, 0xFB, 0xFF, 0xFFFF, 0x400001, 0xFFFFFFFF])


@st.composite
def mutations(draw: st.DrawFn, originals: st.SearchStrategy[bytes]) -> bytes:
    """Bytes that were valid before someone cut them, changed a size field or flipped bits."""
    data = bytearray(draw(originals))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        match draw(st.sampled_from(["cut", "grow", "byte", "bit", "size"])):
            case "cut":
                del data[at:]
            case "grow":
                data[at:at] = draw(st.binary(max_size=8))
            case "byte" if data:
                data[at] = draw(st.integers(0, 255))
            case "bit" if data:
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "size" if data:
                data[at : at + 4] = struct.pack("<I", draw(sizes))[: len(data) - at]
    if draw(st.booleans()) and len(data) >= 12:  # most of all, let PacketSize agree
        data[8:12] = struct.pack("<I", len(data))
    return bytes(data)


def check_structure(kind: type[Structure], data: bytes) -> None:
    try:
        value = kind.decode(data)
    except DecodeError:
        return
    assert value.encode() == data
    assert kind.decode(value.encode()) == value


def check_packet(data: bytes) -> None:
    try:
        packet = decode_packet(data)
    except DecodeError:
        return
    message = packet.message if isinstance(packet, OrderAck | FinalAck) else packet
    assert b"".join(header.encode() for header in message.headers()) == data
    if isinstance(message, UserMessage):
        read_completely(message)


def read_completely(message: UserMessage) -> None:
    """A packet that was accepted can be read: every property, every part of every header, the message."""
    for name in dir(UserMessage):
        if not name.startswith("__"):
            getattr(message, name)
    for header in message.headers():
        assert b"".join(part.data for part in header.parts()) == header.encode()
        for name in dir(type(header)):
            if not name.startswith("__"):
                getattr(header, name)
    decoded = decode_message(message)
    assert all(hasattr(decoded, field.name) for field in fields(decoded))


@given(structures)
def test_every_structure_survives(structure: Structure) -> None:
    data = structure.encode()
    assert type(structure).decode(data) == structure
    assert b"".join(part.data for part in structure.parts()) == data


@given(user_messages())
def test_every_packet_gives_its_headers_back(headers: tuple[Structure, ...]) -> None:
    message = UserMessage.build(*headers)
    base, *others = message.headers()
    assert isinstance(base, BaseHeader)
    assert base.packet_size == message.packet_size
    assert tuple(others) == headers[1:]
    read_completely(message)


@given(st.sampled_from(STRUCTURES), st.binary(max_size=200))
@settings(max_examples=400)
def test_random_bytes_give_a_structure_or_a_decode_error(kind: type[Structure], data: bytes) -> None:
    check_structure(kind, data)


@given(mutations(structures.map(lambda structure: structure.encode())), st.sampled_from(STRUCTURES))
@settings(max_examples=300)
def test_broken_structures_give_a_structure_or_a_decode_error(data: bytes, kind: type[Structure]) -> None:
    check_structure(kind, data)


@given(structures.flatmap(lambda one: st.tuples(st.just(type(one)), mutations(st.just(one.encode())))))
@settings(max_examples=300)
def test_a_broken_structure_read_as_itself(case: tuple[type[Structure], bytes]) -> None:
    check_structure(*case)


@given(st.binary(max_size=700))
@settings(max_examples=300)
def test_random_bytes_give_a_packet_or_a_decode_error(data: bytes) -> None:
    check_packet(data)
    check_packet(b"\x10\0\0\0LIOR" + struct.pack("<I", 16 + len(data)) + bytes(4) + data)


@given(mutations(packets | st.sampled_from([frame(number) for number in range(3, 9)])))
@settings(max_examples=500)
def test_broken_packets_give_a_packet_or_a_decode_error(data: bytes) -> None:
    check_packet(data)


@given(packets, st.integers(0, 31), st.integers(0, 31))
def test_other_flags_give_a_packet_or_a_decode_error(data: bytes, one: int, two: int) -> None:
    flags = int.from_bytes(data[60:64], "little") ^ 1 << one ^ 1 << two
    check_packet(replaced(data, 60, flags.to_bytes(4, "little")))


@given(st.lists(packets, max_size=4), st.integers(1, 600), mutations(packets))
def test_a_stream_gives_its_packets_before_what_is_broken(good: list[bytes], size: int, tail: bytes) -> None:
    stream = b"".join(good) + tail
    framer = Framer()
    found: list[bytes] = []
    try:
        for at in range(0, len(stream), size):
            framer.receive(stream[at : at + size])
            found += framer.packets()
    except DecodeError:
        pass
    assert found[: len(good)] == good
    assert stream.startswith(b"".join(found))
