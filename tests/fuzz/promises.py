"""What must hold for any bytes, parser by parser, and the inputs that a fuzzer starts from.

A check returns when the input is refused in the way that its parser promises, or when the value reads
completely and gives the same bytes back. Everything else is a finding.
"""

import struct
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

from basics import Target, read_properties, same
from body_promises import TARGETS as BODY_TARGETS
from column_promises import TARGETS as COLUMN_TARGETS
from logon_promises import TARGETS as LOGON_TARGETS
from pgm_promises import TARGETS as PGM_TARGETS
from remote_read_promises import TARGETS as REMOTE_READ_TARGETS
from rpc_promises import TARGETS as RPC_TARGETS
from security_promises import TARGETS as SECURITY_TARGETS
from srmp_promises import TARGETS as SRMP_TARGETS
from wcf_promises import TARGETS as WCF_TARGETS

from tiercel.admin.message_filter import Candidate, FilterError, parse_filter
from tiercel.model.errors import DecodeError, IllegalFormatNameError, IllegalQueuePathNameError
from tiercel.model.format_name import DirectFormatName, FormatName, PrivateFormatName, PublicFormatName
from tiercel.model.identifiers import MessageId, TxSequenceId
from tiercel.model.message import Message
from tiercel.model.path_name import PathName
from tiercel.model.sid import ADMINISTRATORS, SecurityIdentifier
from tiercel.wire.alike import Alike
from tiercel.wire.base_header import INTERNAL, BaseHeader
from tiercel.wire.capture import Capture, read_capture
from tiercel.wire.extension_headers import (
    DeadLetterHeader,
    ExtendedAddressHeader,
    ExtensionHeader,
    SubqueueHeader,
    read_extension_headers,
)
from tiercel.wire.framer import Framer
from tiercel.wire.key_blobs import PublicKeyBlob, SimpleBlob
from tiercel.wire.message import decode_message, encode_message
from tiercel.wire.message_properties_header import MessagePropertiesHeader
from tiercel.wire.multi_queue_format_header import MultiQueueFormatHeader
from tiercel.wire.order_ack import FinalAck, OrderAck, OrderAckBody
from tiercel.wire.packet import decode_packet
from tiercel.wire.ping import Ping
from tiercel.wire.queue_names import PrivateQueueFormatNameId
from tiercel.wire.session_header import SessionHeader
from tiercel.wire.soap_header import CompoundMessageHeader, SoapHeader, SRMPEnvelopeHeader, TextSection
from tiercel.wire.structure import Reader, Structure
from tiercel.wire.user_header import UserHeader
from tiercel.wire.user_message import UserMessage

VECTORS = Path(__file__).resolve().parent.parent / "vectors"
_GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")
_MP, _AH, _HH, _MQ = 1 << 21, 1 << 25, 1 << 28, 1 << 23


def _check_structure(kind: type[Structure], data: bytes) -> None:
    try:
        value = kind.decode(data)
    except DecodeError:
        return
    same(value.encode(), data)
    same(b"".join(part.data for part in value.parts()), data)
    read_properties(value)


# Packets


def check_user_message(data: bytes) -> None:
    try:
        message = UserMessage(data)
    except DecodeError:
        return
    _read_message(message)


def _read_message(message: UserMessage) -> None:
    """Whatever was accepted can be read: every header, every property, and the message itself."""
    headers = tuple(message.headers())
    same(b"".join(header.encode() for header in headers), message.data)
    for value in (message, *headers):
        read_properties(value)
    decoded = decode_message(message)
    for field in fields(decoded):
        str(getattr(decoded, field.name))


def check_packet(data: bytes) -> None:
    try:
        packet = decode_packet(data)
    except DecodeError:
        return
    if isinstance(packet, OrderAck | FinalAck):
        same(packet.body.encode(), packet.message.body)
        packet = packet.message
    same(b"".join(header.encode() for header in packet.headers()), data)
    if isinstance(packet, UserMessage):
        _read_message(packet)


def check_framer(data: bytes) -> None:
    """Two ways of cutting the same stream; the first byte says how long the chunks are."""
    whole, at_once = _frames(data[1:], len(data) or 1)
    pieces, in_pieces = _frames(data[1:], data[0] + 1 if data else 1)
    if whole != pieces or at_once != in_pieces:
        raise AssertionError(f"{whole} {at_once} at once, {pieces} {in_pieces} in chunks of {data[0] + 1}")
    if not data[1:].startswith(b"".join(whole)):
        raise AssertionError("the packets are not the stream")


def _frames(stream: bytes, chunk: int) -> tuple[list[bytes], str]:
    framer = Framer()
    found: list[bytes] = []
    try:
        for at in range(0, len(stream), chunk):
            framer.receive(stream[at : at + chunk])
            for packet in framer.packets():
                found.append(packet)  # noqa: PERF402 - what came before an error counts
    except DecodeError as error:
        return found, str(error)
    return found, ""


def check_alike(data: bytes) -> None:
    """What has the shape of the first message is what decoding finds, message by message."""
    framer = Framer()
    framer.receive(data)
    try:
        for packet in framer.packets():
            if not packet[2] & INTERNAL:
                _check_run(framer.take_alike(UserMessage(packet)))
    except DecodeError:
        return


def _check_run(alike: Alike) -> None:
    if len(alike) == 1:
        return
    messages = [UserMessage(packet) for packet in alike.packets]  # raises if one is not a message
    if alike.identities != [message.identity for message in messages]:
        raise AssertionError("other identities")
    if len({_shape(message) for message in messages}) > 1:
        raise AssertionError("other shapes")


def _shape(message: UserMessage) -> tuple[object, ...]:
    """What is decided by the first message."""
    return (
        message.base_flags,
        message.flags,
        message.source_bytes,
        message.address_bytes,
        message.admin_queue,
        message.response_queue,
        message.sent_time,
        message.time_to_reach_queue,
        message.time_to_be_received,
        message.acknowledgements,
        message.message_class,
        message.security_flags,
        message.sender,
        message.has_signature,
        message.trailer,
        message.is_transactional and (message.stream, message.wants_final_ack, message.place_at),
    )


def check_ping(data: bytes) -> None:
    _check_structure(Ping, data)


def check_public_key(data: bytes) -> None:
    _check_structure(PublicKeyBlob, data)


def check_simple_blob(data: bytes) -> None:
    _check_structure(SimpleBlob, data)


def check_multi_queue_format(data: bytes) -> None:
    _check_structure(MultiQueueFormatHeader, data)


def check_soap(data: bytes) -> None:
    _check_structure(SoapHeader, data)
    _check_structure(SRMPEnvelopeHeader, data)
    _check_structure(CompoundMessageHeader, data)


def check_extension_headers(data: bytes) -> None:
    reader = Reader(data)
    try:
        headers = tuple(read_extension_headers(reader))
    except DecodeError:
        return
    same(b"".join(header.encode() for header in headers), data[: reader.at])
    for header in headers:
        read_properties(header)


def check_capture(data: bytes) -> None:
    try:
        capture = read_capture(data)
    except DecodeError:
        return
    str(capture)
    for field in fields(Capture):
        str(getattr(capture, field.name))


# Names


def check_format_name(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    try:
        name = FormatName.parse(text)
    except IllegalFormatNameError as error:
        str(error)
        return
    read_properties(name)
    if FormatName.parse(str(name)) != name:
        raise AssertionError(f"{text!r} prints as {str(name)!r}, which is another name")


def check_filter(data: bytes) -> None:
    """Any text is a filter or is refused; a filter compares any message."""
    text = data.decode("utf-8", "replace")
    try:
        wanted = parse_filter(text)
    except FilterError as error:
        str(error)
        return
    for packet in _filtered():
        wanted.matches(Candidate(packet, 0, 0x8000, 1000))


@cache
def _filtered() -> list[bytes]:
    bodies = (b"", b"text", b'{"a": {"b": [1, "x"]}}', b"<a>1</a>", b"\xff\x00")
    goal = FormatName.parse(r"DIRECT=OS:host\private$\q")
    return [encode_message(Message(body, label="label", destination_queue=goal)) for body in bodies]


def check_path_name(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    try:
        name = PathName.parse(text)
    except IllegalQueuePathNameError as error:
        str(error)
        return
    read_properties(name)
    if PathName.parse(str(name)) != name:
        raise AssertionError(f"{text!r} prints as {str(name)!r}, which is another name")


def check_sid(data: bytes) -> None:
    try:
        sid = SecurityIdentifier.decode(data)
    except DecodeError:
        return
    same(sid.encode(), data)
    same(SecurityIdentifier.parse(str(sid)).encode(), data)


# What to begin with


def _vectors(pattern: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(VECTORS.glob(pattern))]


def _full_message() -> Message:
    return Message(
        b"body",
        label="label",
        extension=b"ext",
        tracing=True,
        tracing_queue=_GUID,
        destination_queue=PrivateFormatName(_GUID, 1),
        administration_queue=PublicFormatName(_GUID),
        response_queue=DirectFormatName.from_wire(r"OS:h\private$\q;s"),
        destination_queues=(DirectFormatName.from_wire(r"OS:h\q"), PublicFormatName(_GUID)),
        transaction_id=5,
        sender_id=ADMINISTRATORS.encode(),
        sender_id_type=1,
        signature=b"sign",
        authentication_provider_name="CSP",
        connector_type=_GUID,
        connector_queue_manager=_GUID,
    )


def _soap() -> tuple[SRMPEnvelopeHeader, CompoundMessageHeader, SoapHeader]:
    envelope = SRMPEnvelopeHeader.of(400, "<e/>")
    compound = CompoundMessageHeader(500, 0, 4, 2, 1, b"POST")
    return envelope, compound, SoapHeader(TextSection.of(0x320, "h"), TextSection.of(0x384, "bc"))


def _extension_headers() -> bytes:
    others: tuple[Structure, ...] = (
        SubqueueHeader(),
        DeadLetterHeader.of(r"h\dead"),
        ExtendedAddressHeader(),
    )
    data = b"".join(header.encode() for header in others)
    return ExtensionHeader(12, len(data), 0x13).encode() + data


def _user_messages() -> list[bytes]:
    body = OrderAckBody().encode()
    acknowledgement = MessagePropertiesHeader(
        label_length=16,
        message_class=0xFF,
        message_size=len(body),
        allocation_body_size=len(body),
        label="QM Ordering Ack",
        message_body=body,
    )
    flags = _MP | _AH | _HH | _MQ
    plain = MessagePropertiesHeader()
    to_order_queue = UserHeader(flags=_MP | 3 << 10, destination_queue=PrivateQueueFormatNameId(4))
    built = [
        UserMessage.build(BaseHeader(), to_order_queue, acknowledgement),
        UserMessage.build(BaseHeader(flags=0x10), UserHeader(), plain, SessionHeader()),
        UserMessage.build(BaseHeader(), UserHeader(flags=flags), plain, *_soap(), MultiQueueFormatHeader()),
    ]
    full = encode_message(_full_message())
    longest_label = Message(bytes(64), label="x" * 249, destination_queue=PublicFormatName(_GUID))
    return [
        full,
        _with_trailer(full, _extension_headers()),
        _with_trailer(encode_message(longest_label), bytes(16)),
        *(message.data for message in built),
        *_vectors("mqqb/frame7*"),
    ]


def _with_trailer(packet: bytes, trailer: bytes) -> bytes:
    return packet[:8] + struct.pack("<I", len(packet + trailer)) + packet[12:] + trailer


def _packets() -> list[bytes]:
    return _user_messages() + _vectors("mqqb/frame[34568]*")


def _streams() -> list[bytes]:
    packets = _packets()
    return [b"\x05" + b"".join(packets[i:]) for i in range(len(packets))]


def _names() -> list[bytes]:
    texts = [
        r"DIRECT=OS:host\private$\q;sub",
        r"DIRECT=TCP:10.0.0.1\q;JOURNAL",
        "DIRECT=HTTPS://[::1]:8443/msmq/private$/q",
        r"DIRECT=OS:h\SYSTEM$;DEADLETTER",
        f"PUBLIC={_GUID};JOURNAL,DL={_GUID}@domain",
        rf"PRIVATE={_GUID}\0000000a",
        f"MACHINE={_GUID};DEADXACT",
        f"CONNECTOR={_GUID};XACTONLY",
        "MULTICAST=234.1.1.1:8001",
    ]
    return [text.encode() for text in texts]


def _filters() -> list[bytes]:
    return [
        b'label:"order 7" priority>=5 age>1h size>10k body:Smith json.total>100 class:nack*',
        b"id:{05ede9a5-4f1b-4b0f-9d6c-0c5d6f1f2b11}\\7 -word",
        b'-"a \\" b" json.a.b.0=1 json.a!=2 age<1.5d',
    ]


def _paths() -> list[bytes]:
    return [
        rb"host\q",
        rb"host\private$\q;sub",
        rb".\system$;journal",
        rb"host\q\Journal$",
        rb"h\Deadletter$",
    ]


def _alike() -> list[bytes]:
    queue = FormatName.parse(r"DIRECT=OS:host\private$\q")
    place = {"transaction_id": 1, "tx_sequence_id": TxSequenceId(3, 4)}
    kinds: list[dict[str, Any]] = [{}, {"label": "order"}, {"sender_id": ADMINISTRATORS.encode()}, place]
    return [b"".join(_message(number, queue, kind) for number in (1, 2, 3)) for kind in kinds]


def _message(number: int, queue: FormatName, kind: dict[str, Any]) -> bytes:
    if "transaction_id" in kind:
        kind = kind | {"tx_sequence_number": number, "previous_tx_sequence_number": number - 1}
    message = Message(bytes(number), delivery=1, destination_queue=queue, id=MessageId(_GUID, number), **kind)
    return encode_message(message)


_TARGETS: dict[str, Target] = {
    "alike": Target(check_alike, _alike),
    "capture": Target(check_capture, lambda: _vectors("captures/*.pcap*")),
    "extension_headers": Target(check_extension_headers, lambda: [_extension_headers()]),
    "format_name": Target(check_format_name, _names),
    "framer": Target(check_framer, _streams),
    "multi_queue_format": Target(check_multi_queue_format, lambda: [MultiQueueFormatHeader().encode()]),
    "packet": Target(check_packet, _packets),
    "filter": Target(check_filter, _filters),
    "path_name": Target(check_path_name, _paths),
    "ping": Target(check_ping, lambda: _vectors("mqqb/frame[12]*")),
    "public_key": Target(check_public_key, lambda: [PublicKeyBlob.of(1 << 511, 65537).encode()]),
    "sid": Target(check_sid, lambda: [ADMINISTRATORS.encode()]),
    "simple_blob": Target(check_simple_blob, lambda: [SimpleBlob(encrypted_key=bytes(64)).encode()]),
    "soap": Target(check_soap, lambda: [header.encode() for header in _soap()]),
    "user_message": Target(check_user_message, _user_messages),
}

TARGETS: dict[str, Target] = dict(
    sorted(
        (
            _TARGETS
            | BODY_TARGETS
            | COLUMN_TARGETS
            | RPC_TARGETS
            | REMOTE_READ_TARGETS
            | LOGON_TARGETS
            | PGM_TARGETS
            | SRMP_TARGETS
            | SECURITY_TARGETS
            | WCF_TARGETS
        ).items()
    )
)
