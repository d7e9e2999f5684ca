"""Packets for remote readers, and the sections they are sent in: [MS-MQRR] 2.2.5 and 2.2.6.

A served packet is the stored one with four changes: TimeToReachQueue is absolute, the address is that of the
sender, extension headers follow the message, and it says what was verified of its signature, not what it
claims. The reader reverses the first three. A body over the reader's limit is truncated; then the parts
before and after the cut are two sections.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

from tiercel.engine.records import Record
from tiercel.message_security.verdict import decode_verdict
from tiercel.model.codes import QueueFormatType, SectionType
from tiercel.model.errors import DecodeError
from tiercel.model.limits import INFINITE, MAX_PACKET_SIZE
from tiercel.wire import user_header
from tiercel.wire.base_header import DEBUG_HEADER, BaseHeader
from tiercel.wire.debug_header import DebugHeader
from tiercel.wire.extension_headers import (
    DEAD_LETTER_HEADER,
    EXTENDED_ADDRESS_HEADER,
    IPV4,
    IPV6,
    SUBQUEUE_HEADER,
    DeadLetterHeader,
    ExtendedAddressHeader,
    ExtensionHeader,
    SubqueueHeader,
    encode_subqueue_name,
    read_extension_headers,
)
from tiercel.wire.message_properties_header import MessagePropertiesHeader
from tiercel.wire.security_header import ENCRYPTED_BODY, SecurityHeader
from tiercel.wire.soap_header import CompoundMessageHeader, SRMPEnvelopeHeader
from tiercel.wire.structure import Layout, Reader, Structure, align4
from tiercel.wire.transaction_header import TransactionHeader
from tiercel.wire.user_header import UserHeader
from tiercel.wire.user_message import UserMessage

# In BaseHeader and UserHeader, at the start of every packet.
_SIZE_AT, _ADDRESS_END = 8, 48
_PACKET_SIZE = slice(_SIZE_AT, 12)
_TIME_TO_REACH_QUEUE = slice(12, 16)
_SOURCE = slice(16, 32)
_ADDRESS = slice(32, _ADDRESS_END)
_SIZE_AND_TIME = struct.Struct("<II")
_USER_FLAGS = slice(60, 64)

_SHORT_ADDRESS_SIZE = 8
_CACHED = 1024
_CACHED_TRAILER_BYTES = 1024
_DIRECT = QueueFormatType.DIRECT  # cached: enum lookup is slow here
_FULL_PACKET = SectionType.FULL_PACKET
_NO_ADDRESS = bytes(16)
_MAIN_QUEUE = SubqueueHeader()
_FIRST = {SectionType.BINARY_FIRST_SECTION, SectionType.SRMP_FIRST_SECTION}
_SECOND_OF = {
    SectionType.BINARY_FIRST_SECTION: SectionType.BINARY_SECOND_SECTION,
    SectionType.SRMP_FIRST_SECTION: SectionType.SRMP_SECOND_SECTION,
}


class Section(NamedTuple):
    """SectionBuffer, [MS-MQRR] 2.2.6: a part of a packet, and its size before the body was cut."""

    type: SectionType
    size_alloc: int
    data: bytes

    @property
    def is_uncut(self) -> bool:
        return self.size_alloc == len(self.data)


@dataclass(frozen=True, slots=True)
class Address(Structure):
    """The overlay of QueueManagerAddress for a direct name, [MS-MQRR] 2.2.5.1: eight bytes of an address."""

    length: int = 0
    type: int = 0
    scope: int = 0
    address: bytes = bytes(_SHORT_ADDRESS_SIZE)

    LAYOUT = Layout(f"H H I {_SHORT_ADDRESS_SIZE}s")


# Serving.


def serve(packet: UserMessage, record: Record, *, subqueue: str = "", address: str = "") -> bytes:
    """The packet for a remote reader; `address` is that of the sending host, "" if unknown."""
    data = packet.with_authentication(decode_verdict(record.verdict).level)
    end = len(data) - len(packet.trailer)
    # Infinite stays infinite (MQRR trap 18).
    expires = min(packet.sent_time + packet.time_to_reach_queue, INFINITE)
    own_address = data[_ADDRESS]
    if packet.flags >> user_header.DESTINATION_SHIFT & 7 == _DIRECT:
        own_address = _overlay(address)
    elif not _names_need_address(packet.flags):
        own_address = data[_SOURCE]
    counters = record.abort_count, record.move_count, record.last_move_time
    trailers = _trailers(*counters, record.dead_letter_queue, subqueue, address)
    sizes = _SIZE_AND_TIME.pack(end + len(trailers), expires)
    parts = (data[:_SIZE_AT], sizes, data[_SOURCE], own_address, data[_ADDRESS_END:end], trailers)
    return b"".join(parts)


@lru_cache(_CACHED)
def _overlay(address: str) -> bytes:
    length, kind, scope, octets = _address_fields(address)
    return Address(length, kind, scope, octets[:_SHORT_ADDRESS_SIZE]).encode()


def _address_fields(text: str) -> tuple[int, int, int, bytes]:
    """Length, type, scope and sixteen octets of an address; all zero for none."""
    if not text:
        return 0, 0, 0, bytes(16)
    address = ip_address(text)
    scope = address.scope_id if isinstance(address, IPv6Address) else None
    number = int(scope) if scope is not None and scope.isdecimal() else 0
    packed = address.packed
    return len(packed), IPV6 if address.version == 6 else IPV4, number, packed.ljust(16, b"\0")


def _names_need_address(flags: int) -> bool:
    """Whether a queue name depends on the address: it is a number on the destination."""
    shifts = (user_header.DESTINATION_SHIFT, user_header.ADMIN_SHIFT, user_header.RESPONSE_SHIFT)
    return any(flags >> shift & 7 == QueueFormatType.PRIVATE_ON_DESTINATION for shift in shifts)


@lru_cache(_CACHED)  # the same for most messages of a queue
def _trailers(
    abort_count: int,
    move_count: int,
    last_move_time: int,
    dead_letter_queue: str,
    subqueue: str,
    address: str,
) -> bytes:
    """The headers after the message, [MS-MQRR] 2.2.5.2 to 2.2.5.5."""
    dead_letters = DeadLetterHeader.of(dead_letter_queue).encode() if dead_letter_queue else b""
    moved = SubqueueHeader(
        abort_counter=abort_count,
        move_counter=move_count,
        last_move_time=last_move_time,
        subqueue_name=encode_subqueue_name(subqueue),
    )
    extended = ExtendedAddressHeader(28, *_address_fields(address))
    rest = b"".join((moved.encode(), dead_letters, extended.encode()))
    flags = SUBQUEUE_HEADER | EXTENDED_ADDRESS_HEADER | (DEAD_LETTER_HEADER if dead_letters else 0)
    return ExtensionHeader(remaining_headers_size=len(rest), flags=flags).encode() + rest


def split(data: bytes, max_body_size: int, max_compound_message_size: int) -> tuple[Section, ...]:
    """The sections of a packet, its body cut to the limits: [MS-MQRR] 3.1.4.7, ppPacketSections."""
    size = len(data)
    is_srmp = int.from_bytes(data[_USER_FLAGS], "little") & user_header.ARRIVED_OVER_HTTP
    limit = max_compound_message_size if is_srmp else max_body_size
    if limit >= size or limit >= (body := _find_body(data)).size:
        return (Section(_FULL_PACKET, size, data),)
    kind = SectionType.SRMP_FIRST_SECTION if body.is_srmp else SectionType.BINARY_FIRST_SECTION
    # Padding counts as cut, so that the second section stays aligned (MQRR trap 22).
    first = Section(kind, body.end, data[: body.start + limit])
    rest = data[body.end :]
    return (first, Section(_SECOND_OF[kind], len(rest), rest)) if rest else (first,)


class _Body(NamedTuple):
    """The part of a packet that may be cut: its start and size, and the start of the next header."""

    start: int
    size: int
    end: int
    is_srmp: bool


def _find_body(data: bytes) -> _Body:
    """Reads only the headers before the body, so it works for a packet with a cut body, too."""
    reader = Reader(data)
    base, user = BaseHeader.read(reader), UserHeader.read(reader)
    if user.flags & user_header.TRANSACTION_HEADER:
        TransactionHeader.read(reader)
    is_encrypted = False
    if user.flags & user_header.SECURITY_HEADER:
        is_encrypted = bool(SecurityHeader.read(reader).flags & ENCRYPTED_BODY)
    if user.flags & user_header.ARRIVED_OVER_HTTP:
        return _find_compound_message(reader, base)
    properties = MessagePropertiesHeader(*reader.fixed(MessagePropertiesHeader))
    reader.take(2 * properties.label_length, "label")
    reader.take(properties.extension_size, "extension_data")
    reserved = max(properties.message_size, properties.allocation_body_size)
    size = reserved if is_encrypted else properties.message_size
    return _Body(reader.at, size, align4(reader.at + reserved), is_srmp=False)


def _find_compound_message(reader: Reader, base: BaseHeader) -> _Body:
    MessagePropertiesHeader.read(reader)
    if base.flags & DEBUG_HEADER:
        DebugHeader.read(reader)
    SRMPEnvelopeHeader.read(reader)
    # The limit applies to the data, not to the sixteen bytes before it (MQRR trap 22).
    compound = CompoundMessageHeader(*reader.fixed(CompoundMessageHeader))
    size = compound.http_body_size
    return _Body(reader.at, size, align4(reader.at + size), is_srmp=True)


# Reading.


class RemoteMessage(NamedTuple):
    """A received message: the packet as the server stores it, and the server's extension headers.

    Of a cut body the packet has `body_received` bytes, then zeros.
    """

    packet: UserMessage
    body_received: int
    body_size: int
    subqueue: SubqueueHeader = _MAIN_QUEUE
    dead_letter_queue: str = ""
    sender_address: str = ""

    @property
    def is_complete(self) -> bool:
        return self.body_received == self.body_size


def rebuild(sections: Sequence[Section]) -> RemoteMessage:
    """The message of a served packet; a DecodeError if it is invalid, and the reader owes an RR_NACK."""
    _check_sections(sections)
    first = sections[0]
    if first.type == _FULL_PACKET:
        return _read(first.data)
    body = _find_body(first.data)
    received = len(first.data) - body.start
    if body.is_srmp != (first.type == SectionType.SRMP_FIRST_SECTION):
        raise _wrong("SectionBufferType", "does not match the kind of the message")
    if received > body.size or body.end > MAX_PACKET_SIZE:
        raise _wrong("SectionSize", f"{received} bytes of a body of {body.size}")
    # The headers, not SectionSizeAlloc, say where the second section belongs (MQRR trap 22).
    data = first.data.ljust(body.end, b"\0") + b"".join(section.data for section in sections[1:])
    return _read(data, received, body.size)


def _check_sections(sections: Sequence[Section]) -> None:
    if len(sections) == 1 and sections[0].type == _FULL_PACKET and sections[0].is_uncut:
        return
    kinds = [section.type for section in sections]
    is_cut = bool(kinds) and kinds[0] in _FIRST
    if kinds != [SectionType.FULL_PACKET] and not (is_cut and kinds[1:] in ([], [_SECOND_OF[kinds[0]]])):
        raise _wrong("SectionBufferType", f"{[int(kind) for kind in kinds]} do not make a packet")
    for section in sections:
        size = len(section.data)
        if section.size_alloc < size or (section.size_alloc > size and section.type not in _FIRST):
            raise _wrong("SectionSizeAlloc", f"is {section.size_alloc}, SectionSize is {size}")


def _read(data: bytes, received: int | None = None, body_size: int = 0) -> RemoteMessage:
    """The message of a packet; without `received`, its body is complete."""
    # PacketSize includes the headers after the message; a packet where it does not is accepted as well.
    size = int.from_bytes(data[_PACKET_SIZE], "little")
    served = UserMessage(data[:size])
    trailer = served.trailer
    end = size - len(trailer)
    trailer += data[size:]
    remaining = INFINITE
    if served.time_to_reach_queue != INFINITE:
        remaining = max(served.time_to_reach_queue - served.sent_time, 0)
    overlay, own_address = _NO_ADDRESS, data[_ADDRESS]
    if served.flags >> user_header.DESTINATION_SHIFT & 7 == _DIRECT:
        overlay, own_address = own_address, overlay
    headers = _read_headers if len(trailer) <= _CACHED_TRAILER_BYTES else _read_headers.__wrapped__
    subqueue, dead_letters, address = headers(trailer, overlay)
    if received is None:
        is_srmp = served.flags & user_header.ARRIVED_OVER_HTTP
        received = body_size = _find_body(data).size if is_srmp else served.sent_body_size
    sizes = _SIZE_AND_TIME.pack(end, remaining)
    served.rewrite(b"".join((data[:_SIZE_AT], sizes, data[_SOURCE], own_address, data[_ADDRESS_END:end])))
    return RemoteMessage(served, received, body_size, subqueue, dead_letters, address)


@lru_cache(_CACHED)  # the same for most messages of a queue
def _read_headers(trailer: bytes, overlay: bytes) -> tuple[SubqueueHeader, str, str]:
    """Subqueue, dead-letter queue and sender address, from the headers after a message."""
    subqueue, dead_letters, extended = _MAIN_QUEUE, "", ExtendedAddressHeader()
    for header in read_extension_headers(Reader(trailer)) if trailer else ():
        match header:
            case SubqueueHeader():
                subqueue = header
            case DeadLetterHeader():
                dead_letters = header.path_name
            case ExtendedAddressHeader():
                extended = header
    return subqueue, dead_letters, _address_text(extended, Address.decode(overlay))


def _address_text(extended: ExtendedAddressHeader, overlay: Address) -> str:
    if extended.address_type == IPV6:
        scope = f"%{extended.address_scope}" if extended.address_scope else ""
        return f"{ip_address(extended.address)}{scope}"
    if extended.address_type == IPV4:
        return str(ip_address(extended.address[:4]))
    # An IPv6 address does not fit into the overlay.
    return str(ip_address(overlay.address[:4])) if overlay.type == IPV4 else ""


def _wrong(field: str, problem: str) -> DecodeError:
    return DecodeError("SectionBuffer", field, 0, problem)
