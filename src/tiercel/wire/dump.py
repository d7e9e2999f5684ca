"""Packet listings for people and scripts: every structure and field, with offset and meaning.

The fields come from `Structure.parts`, which also encodes them, so a listing is complete and matches the
wire. Only the meanings are added here: names of codes and flags, times in UTC, security identifiers.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address
from typing import Any, NamedTuple
from uuid import UUID

from tiercel.model import codes
from tiercel.model.errors import DecodeError
from tiercel.model.identifiers import MessageId, TxSequenceId
from tiercel.model.limits import INFINITE
from tiercel.model.sid import SecurityIdentifier
from tiercel.wire.extension_headers import IPV4, IPV6, ExtendedAddressHeader, decode_subqueue_name
from tiercel.wire.internal_packets import (
    CONNECTION_PARAMETERS,
    ESTABLISH_CONNECTION,
    SESSION_ACK,
    ConnectionParameters,
    EstablishConnection,
    SessionAck,
)
from tiercel.wire.multi_queue_format_header import MultiQueueFormatHeader
from tiercel.wire.order_ack import FinalAck, OrderAck
from tiercel.wire.packet import Packet
from tiercel.wire.ping import Ping
from tiercel.wire.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
)
from tiercel.wire.security_header import SENDER_ID_TYPE, SecurityHeader
from tiercel.wire.structure import Part, Structure, decode_guid
from tiercel.wire.user_message import UserMessage

AnyPacket = Packet | Ping

_ROW_BYTES = 16
_SHOWN_ROWS = 4
_INLINE_BYTES = 20
_SHOWN_CHARACTERS = 200
_NAME_WIDTH = 44


class Field(NamedTuple):
    """One field; `offset` counts from the start of the packet."""

    offset: int
    name: str
    data: bytes
    value: object
    # The named bits of a flag word.
    flags: dict[str, int] | None
    # The meaning of the value, where a table or the specification gives it.
    meaning: str | None

    @property
    def size(self) -> int:
        return len(self.data)


class Listing(NamedTuple):
    """One structure and its fields."""

    offset: int
    name: str
    fields: tuple[Field, ...]

    @property
    def size(self) -> int:
        return sum(field.size for field in self.fields)


def structures(packet: AnyPacket) -> Iterator[Structure]:
    """The structures of any packet in wire order."""
    match packet:
        case Ping():
            yield packet
        case OrderAck() | FinalAck():
            yield from packet.message.headers()
        case _:
            yield from packet.headers()


def reencode(packet: AnyPacket) -> bytes:
    """The packet encoded from its structures; a difference from the original bytes is a bug here."""
    return b"".join(structure.encode() for structure in structures(packet))


def list_packet(packet: AnyPacket) -> list[Listing]:
    """Everything in the packet; the fields are contiguous."""
    listings = []
    at = 0
    for structure in structures(packet):
        start = at
        fields = []
        for part in _parts(packet, structure):
            fields.append(_field(structure, part, at))
            at += len(part.data)
        listings.append(Listing(start, type(structure).__name__, tuple(fields)))
    return listings


def _parts(packet: AnyPacket, structure: Structure) -> Iterator[Part]:
    """The parts of a structure; the body of an acknowledgement is listed as a structure of its own."""
    for part in structure.parts():
        if part.name == "message_body" and isinstance(packet, OrderAck | FinalAck):
            yield from (inner._replace(name=f"{part.name}.{inner.name}") for inner in packet.body.parts())
            rest = part.data[packet.body.LAYOUT.size :]
            yield Part("message_body.rest", rest, rest)
        else:
            yield part


def _field(structure: Structure, part: Part, at: int) -> Field:
    bits = structure.FLAGS.get(part.name)
    if bits is None or not isinstance(part.value, int):
        return Field(at, part.name, part.data, part.value, None, _meaning(structure, part))
    flags = {bit.name: bit.of(part.value) for bit in bits}
    meaning = [_flag(type(structure).__name__, name, value) for name, value in flags.items() if value]
    unnamed = part.value & ~sum((1 << bit.width) - 1 << bit.shift for bit in bits)
    if unnamed:
        meaning.append(f"unnamed 0x{unnamed:x}")
    return Field(at, part.name, part.data, part.value, flags, " ".join(meaning) or None)


# Meanings


class PacketType(IntEnum):
    """InternalHeader.Flags.PT in the words of [MS-MQQB] 2.2.1."""

    SESSION_ACK = SESSION_ACK
    ESTABLISH_CONNECTION = ESTABLISH_CONNECTION
    CONNECTION_PARAMETERS = CONNECTION_PARAMETERS


_CODES_OF_FLAGS: dict[tuple[str, str], type[IntEnum]] = {
    ("InternalHeader", "PT"): PacketType,
    ("UserHeader", "DM"): codes.DeliveryGuarantee,
    ("UserHeader", "DQ"): codes.QueueFormatType,
    ("UserHeader", "AQ"): codes.QueueFormatType,
    ("UserHeader", "RQ"): codes.QueueFormatType,
    ("SecurityHeader", "ST"): codes.SenderIdType,
    ("SecurityHeader", "AS"): codes.AuthenticationLevel,
    ("SubqueueHeader", "AcknowledgementClass"): codes.MessageClass,
}

_CODES: dict[str, type[IntEnum]] = {
    "message_class": codes.MessageClass,
    "body_type": codes.BodyType,
    "privacy_level": codes.PrivacyLevel,
    "hash_algorithm": codes.HashAlgorithm,
    "encryption_algorithm": codes.EncryptionAlgorithm,
    "format_type": codes.QueueFormatKind,
}


def _code(enum: type[IntEnum], value: int) -> str | None:
    try:
        return enum(value).name
    except ValueError:
        return None


def _flag(structure: str, name: str, value: int) -> str:
    enum = _CODES_OF_FLAGS.get((structure, name))
    code = None if enum is None else _code(enum, value)
    return f"{name}={value}" + (f"({code})" if code else "")


def _utc(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _seconds(value: int) -> str:
    if value == INFINITE:
        return "INFINITE"
    units = (value // 86400, "d"), (value // 3600 % 24, "h"), (value // 60 % 60, "min"), (value % 60, "s")
    return " ".join(f"{count} {unit}" for count, unit in units if count) or "0 s"


def _milliseconds(value: int) -> str:
    return f"{value / 1000:g} s"


def _signature(value: int) -> str | None:
    text = value.to_bytes(4, "little").rstrip(b"\0")
    return quote(text.decode()) if text.isalpha() else None


_MEANINGS: dict[str, Callable[[int], str | None]] = {
    "sent_time": _utc,
    "last_move_time": _utc,
    "time_to_reach_queue": _seconds,
    "time_to_be_received": _seconds,
    "ack_timeout": _milliseconds,
    "recoverable_ack_timeout": _milliseconds,
    "signature": _signature,
}


def _meaning(structure: Structure, part: Part) -> str | None:
    name = part.name.rpartition(".")[2]
    match part.value:
        case int() as value if name in _CODES:
            return _code(_CODES[name], value)
        case int() as value if name in _MEANINGS:
            return _MEANINGS[name](value)
        case TxSequenceId(timestamp, ordinal):
            return f"timestamp {timestamp}, ordinal {ordinal}"
        case bytes() as data if data:
            return _meaning_of_bytes(structure, name, data)
    return None


def _meaning_of_bytes(structure: Structure, name: str, data: bytes) -> str | None:
    match structure, name:
        case SecurityHeader(), "security_id":
            return _sender(structure.flags & SENDER_ID_TYPE, data)
        case SecurityHeader(), "provider_info":
            kind, provider = structure.provider
            return f"type {kind}, {quote(provider)}" if provider else None
        case ExtendedAddressHeader(address_type=kind), "address":
            addresses = {IPV4: lambda: str(IPv4Address(data[:4])), IPV6: lambda: str(IPv6Address(data))}
            return addresses[kind]() if kind in addresses else None
        case _, "subqueue_name" | "target_subqueue_name" if any(data):
            return quote(decode_subqueue_name(data))
        case _, "correlation_id" if any(data):
            return str(MessageId(decode_guid(data[:16]), int.from_bytes(data[16:], "little")))
    return None


def _sender(kind: int, data: bytes) -> str | None:
    if kind == codes.SenderIdType.QM and len(data) == 16:
        return str(decode_guid(data))
    if kind != codes.SenderIdType.SID:
        return None
    try:
        return str(SecurityIdentifier.decode(data))
    except DecodeError:
        return None


# Text


def quote(text: str) -> str:
    """Quoted text on one line; control and invisible characters are escaped."""
    return '"' + "".join(_escape(character) for character in text) + '"'


def _escape(character: str) -> str:
    if character in '"\\':
        return "\\" + character if character == '"' else character
    return (
        character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode()
    )


def render(listings: list[Listing], *, whole: bool = False) -> Iterator[str]:
    """The lines of a listing; bytes and texts are cut unless `whole`."""
    fields = [field for listing in listings for field in listing.fields if field.size]
    width = min(max((len(field.name) for field in fields), default=0), _NAME_WIDTH)
    yield f"  offset  size  {'field':{width}}  value"
    for listing in listings:
        yield f"{listing.name} at {listing.offset:#06x}, {listing.size} bytes"
        for field in listing.fields:
            if field.size:  # absent items are visible by their size field
                value, rows = _value(field, whole=whole)
                yield f"  {field.offset:#06x}  {field.size:4}  {field.name:{width}}  {value}".rstrip()
                yield from rows


def _value(field: Field, *, whole: bool) -> tuple[str, list[str]]:
    """The value on the field's line, and the rows of a hex dump below it."""
    match field.value:
        case int() as number:
            shown = f"0x{number:0{2 * field.size}x}" if _is_hexadecimal(field) else f"{number}"
            return f"{shown}  {field.meaning}" if field.meaning else shown, []
        case str() as text:
            return _cut_text(text, whole=whole), []
        case bytes():
            return _bytes(field, whole=whole)
        case UUID() as guid:
            return str(guid), []
    return field.meaning or str(field.value), []


def _is_hexadecimal(field: Field) -> bool:
    """Whether the specification writes the number in hexadecimal."""
    name = field.name.rpartition(".")[2]
    return field.flags is not None or name in {
        "version_number",
        "signature",
        "message_class",
        "hash_algorithm",
        "encryption_algorithm",
        "header_id",
        "id",
        "recoverable_msg_ack_flags",
        "private_queue_identifier",
    }


def _cut_text(text: str, *, whole: bool) -> str:
    if whole or len(text) <= _SHOWN_CHARACTERS:
        return quote(text)
    return f"{quote(text[:_SHOWN_CHARACTERS])} and {len(text) - _SHOWN_CHARACTERS} more characters"


def _bytes(field: Field, *, whole: bool) -> tuple[str, list[str]]:
    data = field.data
    if field.meaning:
        return field.meaning, []
    if len(data) <= 4:
        return data.hex(" "), []
    if not data.strip(data[:1]) and (not whole or len(data) <= _INLINE_BYTES):
        return f"{len(data)} bytes, each 0x{data[0]:02x}", []
    if len(data) <= _INLINE_BYTES:
        return f"{data.hex()}  |{_ascii(data)}|", []
    shown = len(data) if whole else min(len(data), _ROW_BYTES * _SHOWN_ROWS)
    rows = [
        _row(field.offset + at, data[at : min(at + _ROW_BYTES, shown)]) for at in range(0, shown, _ROW_BYTES)
    ]
    if shown < len(data):
        rows.append(f"{'':16}... {len(data) - shown} more bytes, --body shows them")
    return f"{len(data)} bytes", rows


def _row(offset: int, data: bytes) -> str:
    return f"  {offset:#06x}{'':8}{data.hex(' '):{3 * _ROW_BYTES - 1}}  |{_ascii(data)}|"


def _ascii(data: bytes) -> str:
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in data)


# Values for scripts


def as_json(listings: list[Listing]) -> list[dict[str, Any]]:
    """The listing in JSON types: GUIDs and texts as strings, bytes in hexadecimal."""
    return [
        {
            "offset": listing.offset,
            "size": listing.size,
            "name": listing.name,
            "fields": [
                {
                    "offset": field.offset,
                    "size": field.size,
                    "name": field.name,
                    "value": _json_value(field),
                    "flags": field.flags,
                    "meaning": field.meaning,
                }
                for field in listing.fields
            ],
        }
        for listing in listings
    ]


def _json_value(field: Field) -> object:
    match field.value:
        case TxSequenceId() as sequence:
            return sequence._asdict()
        case UUID() as guid:
            return str(guid)
        case bytes():
            return field.data.hex()
    return field.value


# One line


def summary(packet: AnyPacket, size: int) -> str:
    """A summary of the packet of `size` bytes, in one line."""
    return "  ".join((type(packet).__name__, f"{size} bytes", *_words(packet)))


def _words(packet: AnyPacket) -> Iterator[str]:
    match packet:
        case Ping():
            yield f"from {_short(packet.qm_guid)}"
            yield f"cookie {packet.cookie}"
            if packet.is_refused:
                yield "refused"
        case EstablishConnection(internal=internal, header=header):
            yield f"{_short(header.client_guid)} -> {_short(header.server_guid)}"
            if internal.is_refused:
                yield "refused"
        case ConnectionParameters(header=header):
            yield f"window {header.window_size}"
            yield f"acknowledge within {_milliseconds(header.ack_timeout)}"
            yield f"recoverable within {_milliseconds(header.recoverable_ack_timeout)}"
        case SessionAck(header=header):
            yield f"received {header.ack_sequence_number}"
            yield f"stored {header.recoverable_msg_ack_seq_number}"
            yield f"window {header.window_size}"
        case UserMessage():
            yield from _message(packet)
        case OrderAck(message, body) | FinalAck(message, body):
            yield from _message(message)
            yield f"for number {body.tx_sequence_number}"


def _message(message: UserMessage) -> Iterator[str]:
    yield f"{_short(message.source_queue_manager)} -> {_destination(message)}"
    yield _cut_text(message.label, whole=False)
    yield _code(codes.MessageClass, message.message_class) or f"class 0x{message.message_class:04x}"
    if message.is_transactional:
        yield "transactional"
    else:
        yield "recoverable" if message.is_recoverable else "express"


def _short(guid: UUID) -> str:
    return f"{str(guid)[:8]}.."


def _destination(message: UserMessage) -> str:
    match message.destination_queue:
        case DirectQueueFormatName(direct_format_name=name):
            return quote(f"DIRECT={name}")[1:-1]
        case PublicQueueFormatName(guid):
            return f"PUBLIC={guid}"
        case PrivateQueueFormatName(guid, number):
            return f"PRIVATE={guid}\\{number:08x}"
        case PrivateQueueFormatNameId(number):
            return f"PRIVATE={message.queue_manager_address}\\{number:08x}"
    lists = message.other(MultiQueueFormatHeader)
    return "no queue" if lists is None else f"{lists.destination.element_count} queues"
