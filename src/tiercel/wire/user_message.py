"""UserMessage: the packet of every message, read only as far as somebody asks. [MS-MQMQ] 2.2.20.

Decoding checks that every header lies inside the packet and reads what routing and storing need: the fixed
words, the queue names, the sizes. Security data, label, extension and body are only measured. Cutting them
out later cannot fail, so a packet that was once accepted can always be read.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import NoReturn, Self, TypeVar
from uuid import UUID

from tiercel.model.codes import DeliveryGuarantee
from tiercel.model.errors import DecodeError
from tiercel.model.identifiers import MessageId
from tiercel.model.limits import MAX_PACKET_SIZE
from tiercel.wire import base_header, user_header
from tiercel.wire.base_header import BaseHeader
from tiercel.wire.debug_header import DebugHeader
from tiercel.wire.extension_headers import ExtensionHeader, read_extension_headers
from tiercel.wire.message_properties_header import ACKNOWLEDGEMENTS, MessagePropertiesHeader
from tiercel.wire.multi_queue_format_header import DESTINATION, MultiQueueFormatHeader
from tiercel.wire.queue_names import STRUCTURE_OF_KIND, DirectQueueFormatName, QueueName
from tiercel.wire.security_header import SecurityHeader
from tiercel.wire.session_header import SessionHeader
from tiercel.wire.soap_header import CompoundMessageHeader, SoapHeader, SRMPEnvelopeHeader
from tiercel.wire.structure import Part, Reader, Structure, align4, decode_guid, decode_text
from tiercel.wire.transaction_header import CONNECTOR_GUID, TransactionHeader
from tiercel.wire.user_header import UserHeader

H = TypeVar("H", bound=Structure)

# BaseHeader and the fixed part of UserHeader in one go: the codec is the hot path of the whole product.
FIXED = struct.Struct("<BBHIII16s16sIIII")
PROPERTIES = struct.Struct("<BBH20sIIIIIIII")
_SECURITY = struct.Struct("<HHHHII")

_DIRECT = 7
_CACHED_NAME_BYTES = 512
# Every allowed (RQ, AQ, DQ) as the nine bits that stand side by side in the flags.
_ALLOWED_NAMES = frozenset(
    response << 6 | admin << 3 | destination
    for response, admin, destination in product(
        user_header.RESPONSE_KINDS, user_header.ADMIN_KINDS, user_header.DESTINATION_KINDS
    )
)
_RARE_HEADERS = (
    user_header.ARRIVED_OVER_HTTP | user_header.SOAP_HEADER | user_header.MULTI_QUEUE_FORMAT_HEADER
)
_SESSION_SIZE = SessionHeader.LAYOUT.size


@dataclass(frozen=True, slots=True)
class UnknownTrailer(Structure):
    """Bytes after the last known header: Windows accepts them, and so do we."""

    data: bytes = b""

    def variable(self) -> Iterator[Part]:
        yield Part("data", self.data, self.data)


class UserMessage:
    """One message packet and the SessionHeader that may ride on it; `data` is both, untouched."""

    __slots__ = (
        "_end",
        "_fixed",
        "_properties",
        "_properties_at",
        "_security_at",
        "_transaction_at",
        "admin_queue",
        "data",
        "destination_queue",
        "others",
        "response_queue",
    )

    _fixed: tuple[int, int, int, int, int, int, bytes, bytes, int, int, int, int]
    _properties: tuple[int, int, int, bytes, int, int, int, int, int, int, int, int]
    admin_queue: QueueName | None
    destination_queue: QueueName | None
    response_queue: QueueName | None
    # The seldom headers after the properties, in wire order.
    others: tuple[Structure, ...]

    def __init__(self, data: bytes) -> None:
        self.data = data
        if len(data) < FIXED.size:
            _raise_cut_short(data)
        self._fixed = fixed = FIXED.unpack_from(data)
        size, flags = fixed[4], fixed[11]
        if fixed[0] != base_header.VERSION or fixed[3] != base_header.SIGNATURE or size > MAX_PACKET_SIZE:
            BaseHeader.read(Reader(data))
        end = size
        if fixed[2] & base_header.SESSION_HEADER and len(data) == size:
            end = size - _SESSION_SIZE  # a peer that counts the SessionHeader in (MQQB T50)
        elif len(data) != size + (_SESSION_SIZE if fixed[2] & base_header.SESSION_HEADER else 0):
            raise DecodeError("BaseHeader", "packet_size", 8, f"is {size}, the packet has {len(data)} bytes")
        if flags >> 10 & 0x1FF not in _ALLOWED_NAMES or not flags & user_header.MESSAGE_PROPERTIES_HEADER:
            UserHeader.read(Reader(data, 16))
        self._walk(data, fixed[2], flags, end)

    def _walk(self, data: bytes, base_flags: int, flags: int, end: int) -> None:
        """Finds where each header starts and that it ends inside the packet."""
        self.destination_queue, at = _name(data, FIXED.size, end, flags >> user_header.DESTINATION_SHIFT & 7)
        self.admin_queue, at = _name(data, at, end, flags >> user_header.ADMIN_SHIFT & 7)
        self.response_queue, at = _name(data, at, end, flags >> user_header.RESPONSE_SHIFT & 7)
        if flags & user_header.CONNECTOR_TYPE:
            at += 16
        self._transaction_at = at
        if flags & user_header.TRANSACTION_HEADER and at < end:
            at += 36 if data[at] & CONNECTOR_GUID else 20
        self._security_at = at
        if flags & user_header.SECURITY_HEADER and at + _SECURITY.size <= end:
            _, sender, key, signature, certificate, provider = _SECURITY.unpack_from(data, at)
            at += (
                16 + align4(sender) + align4(key) + align4(signature) + align4(certificate) + align4(provider)
            )
        self._properties_at = at
        if at + PROPERTIES.size > end:
            self._raise_overrun(end)
        self._properties = properties = PROPERTIES.unpack_from(data, at)
        label_end = at + PROPERTIES.size + 2 * properties[1]
        at = align4(label_end + properties[11] + max(properties[6], properties[7]))
        if at > end or (properties[1] and data[label_end - 2 : label_end] != b"\0\0"):
            self._raise_overrun(end)
        self.others = ()
        if flags & _RARE_HEADERS or base_flags & base_header.DEBUG_HEADER:
            reader = Reader(data, at, end)
            self.others = tuple(_read_others(reader, base_flags, flags))
            at = reader.at
        self._end = at

    def _raise_overrun(self, end: int) -> NoReturn:
        """Reads the headers one by one, until the one that does not fit says so."""
        reader = Reader(self.data, 16, end)
        flags = UserHeader.read(reader).flags
        if flags & user_header.TRANSACTION_HEADER:
            TransactionHeader.read(reader)
        if flags & user_header.SECURITY_HEADER:
            SecurityHeader.read(reader)
        MessagePropertiesHeader.read(reader)
        raise AssertionError("a packet that was called too short is not")

    @classmethod
    def build(cls, *headers: Structure) -> Self:
        """The packet of these headers, the first a BaseHeader; PacketSize is set, the rest is the caller's."""
        base, *others = headers
        if not isinstance(base, BaseHeader):
            raise TypeError(f"a packet begins with a BaseHeader, not with a {type(base).__name__}")
        data = b"".join(header.encode() for header in others)
        session = sum(_SESSION_SIZE for header in others if isinstance(header, SessionHeader))
        size = BaseHeader.LAYOUT.size + len(data) - session
        return cls(replace(base, packet_size=size).encode() + data)

    # What routing and storing need.

    @property
    def has_base_flags(self) -> bool:
        """Whether any flag of the BaseHeader is set but the one that says a SessionHeader rides along."""
        return bool(self._fixed[2] & ~base_header.SESSION_HEADER)

    @property
    def packet_size(self) -> int:
        return self._fixed[4]

    @property
    def priority(self) -> int:
        """0 for a transactional message, whatever the packet says ([MS-MQDMPR] 3.1.7.1.32)."""
        return 0 if self.is_transactional else self._fixed[2] & base_header.PRIORITY

    @property
    def is_traced(self) -> bool:
        return bool(self._fixed[2] & base_header.TRACING)

    @property
    def time_to_reach_queue(self) -> int:
        return self._fixed[5]

    @property
    def source_queue_manager(self) -> UUID:
        return decode_guid(self._fixed[6])

    @property
    def queue_manager_address(self) -> UUID:
        return decode_guid(self._fixed[7])

    @property
    def time_to_be_received(self) -> int:
        return self._fixed[8]

    @property
    def sent_time(self) -> int:
        return self._fixed[9]

    @property
    def id(self) -> MessageId:
        return MessageId(decode_guid(self._fixed[6]), self._fixed[10])

    @property
    def flags(self) -> int:
        """UserHeader.Flags; the masks are in `user_header`."""
        return self._fixed[11]

    def kind_of(self, shift: int) -> int:
        """How the flags say that a queue is named; `shift` is one of `user_header`."""
        return self._fixed[11] >> shift & 7

    @property
    def hop_count(self) -> int:
        return self._fixed[11] & user_header.HOP_COUNT

    @property
    def is_recoverable(self) -> bool:
        return (self._fixed[11] >> user_header.DELIVERY_SHIFT & 3) != DeliveryGuarantee.EXPRESS

    @property
    def is_transactional(self) -> bool:
        return bool(self._fixed[11] & user_header.TRANSACTION_HEADER)

    @property
    def acknowledgements(self) -> int:
        return self._properties[0] & ACKNOWLEDGEMENTS

    @property
    def message_class(self) -> int:
        return self._properties[2]

    @property
    def body_size(self) -> int:
        return self._properties[6]

    # What applications ask for.

    @property
    def label(self) -> str:
        start = self._properties_at + PROPERTIES.size
        return decode_text(self.data[start : start + 2 * max(self._properties[1] - 1, 0)])

    @property
    def extension(self) -> bytes:
        start = self._properties_at + PROPERTIES.size + 2 * self._properties[1]
        return self.data[start : start + self._properties[11]]

    @property
    def body(self) -> bytes:
        """The body; of an encrypted message the ciphertext, which may be longer than `body_size`."""
        start = self._properties_at + PROPERTIES.size + 2 * self._properties[1] + self._properties[11]
        encrypted = self.flags & user_header.SECURITY_HEADER and self.security_flags & 0x20
        return self.data[start : start + (self._properties[7] if encrypted else self._properties[6])]

    @property
    def correlation_id(self) -> bytes:
        return self._properties[3]

    @property
    def body_type(self) -> int:
        return self._properties[4]

    @property
    def application_tag(self) -> int:
        return self._properties[5]

    @property
    def privacy_level(self) -> int:
        return self._properties[8]

    @property
    def hash_algorithm(self) -> int:
        return self._properties[9]

    @property
    def encryption_algorithm(self) -> int:
        return self._properties[10]

    # The headers as structures.

    @property
    def base(self) -> BaseHeader:
        return BaseHeader.read(Reader(self.data))

    @property
    def user(self) -> UserHeader:
        return UserHeader.read(Reader(self.data, BaseHeader.LAYOUT.size))

    @property
    def transaction(self) -> TransactionHeader | None:
        if not self.is_transactional:
            return None
        return TransactionHeader.read(Reader(self.data, self._transaction_at))

    @property
    def security(self) -> SecurityHeader | None:
        if not self.flags & user_header.SECURITY_HEADER:
            return None
        return SecurityHeader.read(Reader(self.data, self._security_at))

    @property
    def security_flags(self) -> int:
        if not self.flags & user_header.SECURITY_HEADER:
            return 0
        return int.from_bytes(self.data[self._security_at : self._security_at + 2], "little")

    @property
    def properties(self) -> MessagePropertiesHeader:
        return MessagePropertiesHeader.read(Reader(self.data, self._properties_at))

    @property
    def session(self) -> SessionHeader | None:
        if not self._fixed[2] & base_header.SESSION_HEADER:
            return None
        return SessionHeader.read(Reader(self.data, len(self.data) - _SESSION_SIZE))

    def other(self, kind: type[H]) -> H | None:
        """The seldom header of that kind, if the packet has it."""
        return next((header for header in self.others if isinstance(header, kind)), None)

    @property
    def trailer(self) -> bytes:
        """What stands between the last known header and the end of the packet."""
        end = len(self.data) - (_SESSION_SIZE if self._fixed[2] & base_header.SESSION_HEADER else 0)
        return self.data[self._end : end]

    def headers(self) -> Iterator[Structure]:
        """Every structure of the packet in wire order; joined, they are the packet again."""
        found = (self.base, self.user, self.transaction, self.security, self.properties)
        yield from (header for header in found if header)
        yield from self.others
        yield from _read_trailer(self.trailer)
        if self.session:
            yield self.session


def _name(data: bytes, at: int, end: int, kind: int) -> tuple[QueueName | None, int]:
    """The queue name of a kind at `at`, and where the next one starts."""
    if kind == _DIRECT and at + 2 <= end:
        after = at + align4(2 + int.from_bytes(data[at : at + 2], "little"))
        if after - at <= _CACHED_NAME_BYTES and after <= end:
            return _direct_name(data[at:after]), after
    structure = STRUCTURE_OF_KIND.get(kind)
    if structure is None:
        return None, at
    reader = Reader(data, at, end)
    return structure.read(reader), reader.at


@lru_cache(1024)  # a sender names the same queue in every message
def _direct_name(data: bytes) -> DirectQueueFormatName:
    return DirectQueueFormatName.read(Reader(data))


def _read_others(reader: Reader, base_flags: int, flags: int) -> Iterator[Structure]:
    if base_flags & base_header.DEBUG_HEADER:
        yield DebugHeader.read(reader)
    if flags & user_header.ARRIVED_OVER_HTTP:
        yield SRMPEnvelopeHeader.read(reader)
        yield CompoundMessageHeader.read(reader)
    soap = bool(flags & user_header.SOAP_HEADER)
    multi_queue = bool(flags & user_header.MULTI_QUEUE_FORMAT_HEADER)
    # The specifications print Soap first, one sender writes it last: whichever it is says so itself.
    if (
        soap
        and multi_queue
        and reader.data[reader.at + 4 : reader.at + 6] == DESTINATION.to_bytes(2, "little")
    ):
        yield MultiQueueFormatHeader.read(reader)
        multi_queue = False
    if soap:
        yield SoapHeader.read(reader)
    if multi_queue:
        yield MultiQueueFormatHeader.read(reader)


def _read_trailer(data: bytes) -> Iterator[Structure]:
    """The extension headers of a message for remote readers, or bytes that nobody knows."""
    if data[:4] == ExtensionHeader.LAYOUT.size.to_bytes(4, "little"):
        reader = Reader(data)
        try:
            headers = tuple(read_extension_headers(reader))
        except DecodeError:
            pass
        else:
            yield from headers
            data = data[reader.at :]
    if data:
        yield UnknownTrailer(data)


def _raise_cut_short(data: bytes) -> NoReturn:
    reader = Reader(data)
    BaseHeader.read(reader)
    UserHeader.read(reader)
    raise AssertionError("a packet without room for its headers had room for them")
