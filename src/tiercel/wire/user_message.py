"""UserMessage: the packet of every message, decoded on demand. [MS-MQMQ] 2.2.20.

Decoding checks that every header is inside the packet, and reads what routing and storing need: the fixed
fields, queue names and sizes. Security data, label, extension and body are only measured. Extracting them
later cannot fail, so an accepted packet can always be read.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product, takewhile
from typing import NoReturn, Self, TypeVar
from uuid import UUID
from zlib import crc32

from tiercel.model.errors import DecodeError
from tiercel.model.identifiers import MessageId
from tiercel.model.limits import MAX_PACKET_SIZE
from tiercel.wire.base_header import (
    DEBUG_HEADER,
    PRIORITY,
    SESSION_HEADER,
    SIGNATURE,
    VERSION,
    BaseHeader,
)
from tiercel.wire.debug_header import DebugHeader
from tiercel.wire.extension_headers import ExtensionHeader, read_extension_headers
from tiercel.wire.message_properties_header import (
    ACKNOWLEDGEMENTS,
    LABEL_LENGTH_MAX,
    MessagePropertiesHeader,
)
from tiercel.wire.multi_queue_format_header import MultiQueueFormatHeader
from tiercel.wire.queue_names import STRUCTURE_OF_KIND, DirectQueueFormatName, QueueName
from tiercel.wire.security_header import (
    CLAIMS_OF_AUTHENTICATION,
    ENCRYPTED_BODY,
    SENDER_ID_TYPE,
    SIGNATURE_TYPE_SHIFT,
    SecurityHeader,
)
from tiercel.wire.session_header import SessionHeader
from tiercel.wire.soap_header import (
    HEADER_SECTION,
    CompoundMessageHeader,
    SoapHeader,
    SRMPEnvelopeHeader,
    measure_srmp_headers,
)
from tiercel.wire.structure import Part, Reader, Structure, decode_guid, decode_text
from tiercel.wire.transaction_header import CONNECTOR_GUID, FINAL_ACK_REQUIRED, TransactionHeader
from tiercel.wire.user_header import (
    ADMIN_KINDS,
    ARRIVED_OVER_HTTP,
    CONNECTOR_TYPE,
    DELIVERY,
    DESTINATION_KINDS,
    DESTINATION_SHIFT,
    HOP_COUNT,
    MESSAGE_PROPERTIES_HEADER,
    MULTI_QUEUE_FORMAT_HEADER,
    NEGATIVE_JOURNALING,
    POSITIVE_JOURNALING,
    RESPONSE_KINDS,
    SECURITY_HEADER,
    SOAP_HEADER,
    TRANSACTION_HEADER,
    UserHeader,
)

H = TypeVar("H", bound=Structure)

# BaseHeader and the fixed part of UserHeader at once: this is the hot path.
FIXED = struct.Struct("<BBHIII16s16sIIII")
_REWRITTEN = struct.Struct("<8xII16s16s")  # the fields that `rewrite` may change
PROPERTIES = struct.Struct("<BBH20sIIIIIIII")
# The sizes in the properties and in the security header.
_PROPERTY_SIZES = struct.Struct("<BBH28xII12xI")
_SECURITY_SIZES = struct.Struct("<HHHHII")  # after the flags
_ENCRYPTION = struct.Struct("<40xI4xI")  # PrivacyLevel and EncryptionAlgorithm
_BODY_SIZES_AT = 32
_BODY_SIZES = struct.Struct("<III")  # MessageSize, AllocationBodySize, PrivacyLevel

_SEQUENCE = struct.Struct("<QI")
# TimeToBeReceived, SentTime and UserHeader.Flags of a valid packet, without decoding the rest.
packet_summary = struct.Struct("<II4xI").unpack_from
SUMMARY_AT = 48
SOURCE_AT, UNIQUIFIER_AT = 16, 56  # of SourceQueueManager and MessageID, which form the id of a message
_PRIORITY = struct.Struct("<2xH56xI").unpack_from  # both flags
_PLACE = TransactionHeader.LAYOUT.struct
_NO_GUID = bytes(16)
_DIRECT = 7
_CACHED_NAME_BYTES = 512
# Every allowed (RQ, AQ, DQ), as the nine adjacent bits of the flags.
_ALLOWED_NAMES = frozenset(
    response << 6 | admin << 3 | destination
    for response, admin, destination in product(RESPONSE_KINDS, ADMIN_KINDS, DESTINATION_KINDS)
)
RARE_HEADERS = ARRIVED_OVER_HTTP | SOAP_HEADER | MULTI_QUEUE_FORMAT_HEADER
_HTTP_HEADERS = ARRIVED_OVER_HTTP | SOAP_HEADER
_SESSION_SIZE = SessionHeader.LAYOUT.size
_SECURITY_HEADER_SIZE = SecurityHeader.LAYOUT.size


def packet_priority(packet: bytes) -> int:
    """`UserMessage.priority` of a valid packet, without decoding the rest."""
    base_flags, flags = _PRIORITY(packet)
    return 0 if flags & TRANSACTION_HEADER else base_flags & PRIORITY


def packet_has_id(packet: bytes, wanted: MessageId) -> bool:
    """Whether a valid packet is that message, without decoding the rest."""
    number = packet[UNIQUIFIER_AT : UNIQUIFIER_AT + 4]
    return (
        number == wanted.uniquifier.to_bytes(4, "little")
        and packet[SOURCE_AT : SOURCE_AT + 16] == wanted.lineage.bytes_le
    )


@dataclass(frozen=True, slots=True)
class UnknownTrailer(Structure):
    """Bytes after the last known header, accepted as Windows does."""

    data: bytes = b""

    def variable(self) -> Iterator[Part]:
        yield Part("data", self.data, self.data)


class UserMessage:
    """One message packet, with its SessionHeader if it has one; `data` is both, unchanged."""

    __slots__ = (
        "_address",
        "_destination_end",
        "_end",
        "_extension_size",
        "_label_length",
        "_number",
        "_others",
        "_others_at",
        "_request_body_at",
        "_reserved_body_size",
        "_security_at",
        "_source",
        "_transaction_at",
        "acknowledgements",
        "admin_queue",
        "base_flags",
        "body_size",
        "data",
        "destination_queue",
        "flags",
        "message_class",
        "packet_size",
        "properties_at",
        "response_queue",
        "security_flags",
        "sent_time",
        "time_to_be_received",
        "time_to_reach_queue",
    )

    data: bytes
    _source: bytes
    _address: bytes
    _number: int
    base_flags: int  # BaseHeader.Flags; the masks are in `base_header`
    packet_size: int
    time_to_reach_queue: int
    time_to_be_received: int
    sent_time: int
    acknowledgements: int
    message_class: int
    body_size: int
    flags: int  # UserHeader.Flags; the masks are in `user_header`
    security_flags: int  # SecurityHeader.Flags; 0 without one
    destination_queue: QueueName | None
    admin_queue: QueueName | None
    response_queue: QueueName | None
    _others: tuple[Structure, ...] | None  # None: not read yet
    _request_body_at: int  # of a message over HTTP; 0 for others

    def __init__(self, data: bytes) -> None:
        self.data = data
        if len(data) < FIXED.size:
            _raise_cut_short(data)
        (
            version,
            _,
            self.base_flags,
            signature,
            self.packet_size,
            self.time_to_reach_queue,
            self._source,
            self._address,
            self.time_to_be_received,
            self.sent_time,
            self._number,
            self.flags,
        ) = FIXED.unpack_from(data)
        size = end = self.packet_size
        if version != VERSION or signature != SIGNATURE or size > MAX_PACKET_SIZE:
            BaseHeader.read(Reader(data))
        if self.base_flags & SESSION_HEADER:
            if len(data) == size:  # the peer included the SessionHeader (MQQB T50)
                end = size - _SESSION_SIZE
            size = end + _SESSION_SIZE
        if len(data) != size:
            problem = f"is {self.packet_size}, the packet has {len(data)} bytes"
            raise DecodeError("BaseHeader", "packet_size", 8, problem)
        self._walk(data, end)

    def rewrite(self, data: bytes) -> None:
        """Replace the bytes by others with the same layout.

        Only fixed fields of BaseHeader and UserHeader may differ, and bytes after the last header may go.
        """
        self.data = data
        self.packet_size, self.time_to_reach_queue, self._source, self._address = _REWRITTEN.unpack_from(data)

    def _walk(self, data: bytes, end: int) -> None:
        """Find the start of each header, and check that it ends inside the packet."""
        flags = self.flags
        kinds = flags >> DESTINATION_SHIFT & 0x1FF
        if kinds not in _ALLOWED_NAMES or not flags & MESSAGE_PROPERTIES_HEADER:
            UserHeader.read(Reader(data, BaseHeader.LAYOUT.size))
        self.destination_queue, at = _read_name(data, FIXED.size, end, kinds & 7)
        self._destination_end = at
        self.admin_queue = self.response_queue = None
        if kinds > _DIRECT:
            self.admin_queue, at = _read_name(data, at, end, kinds >> 3 & 7)
            self.response_queue, at = _read_name(data, at, end, kinds >> 6)
        if flags & CONNECTOR_TYPE:
            at += 16
        self._transaction_at = at
        if flags & TRANSACTION_HEADER and at < end:
            at += 36 if data[at] & CONNECTOR_GUID else 20
        self._security_at = at
        self.security_flags = 0
        if flags & SECURITY_HEADER and at + _SECURITY_HEADER_SIZE <= end:
            self.security_flags, sender, key, signature, certificate, provider = _SECURITY_SIZES.unpack_from(
                data, at
            )
            at += _SECURITY_HEADER_SIZE + (sender + 3 & ~3)
            if key or signature or certificate or provider:  # most messages are not signed
                at += sum([size + 3 & ~3 for size in (key, signature, certificate, provider)])
        self.properties_at = at
        if at + PROPERTIES.size > end:
            self._raise_overrun(end)
        at = self._measure_properties(data, at, end)
        self._others_at = at
        self._request_body_at = 0
        if flags & RARE_HEADERS or self.base_flags & DEBUG_HEADER:
            at = self._measure_others(data, at, end)
        else:
            self._others = ()
        self._end = at

    def _measure_others(self, data: bytes, at: int, end: int) -> int:
        """The end of the rare headers; the usual ones of a message over HTTP are only measured."""
        if self.flags & RARE_HEADERS == _HTTP_HEADERS and not self.base_flags & DEBUG_HEADER:
            found = measure_srmp_headers(data, at, end)
            if found is not None:
                self._others = None
                self._request_body_at, self.body_size, after = found
                return after
        reader = Reader(data, at, end)
        self._others = tuple(_read_others(reader, self.base_flags, self.flags))
        if self.flags & ARRIVED_OVER_HTTP:
            request = self.other(CompoundMessageHeader)
            assert request is not None
            self.body_size = request.msg_body_size
            at += sum(len(each.encode()) for each in self._others_before_request())
            self._request_body_at = at + CompoundMessageHeader.LAYOUT.size + request.msg_body_offset
        return reader.at

    def _others_before_request(self) -> Iterator[Structure]:
        return takewhile(lambda each: not isinstance(each, CompoundMessageHeader), self.others)

    @property
    def others(self) -> tuple[Structure, ...]:
        """The rare headers after the properties, in wire order."""
        if self._others is None:
            reader = Reader(self.data, self._others_at, self._end)
            self._others = tuple(_read_others(reader, self.base_flags, self.flags))
        return self._others

    def _measure_properties(self, data: bytes, at: int, end: int) -> int:
        acknowledgements, label_length, self.message_class, size, reserved, extension = (
            _PROPERTY_SIZES.unpack_from(data, at)
        )
        self.acknowledgements = acknowledgements & ACKNOWLEDGEMENTS
        self._label_length, self.body_size, self._extension_size = label_length, size, extension
        if size > reserved:  # noqa: PLR1730  # max() is slower, and this is the hot path
            reserved = size
        self._reserved_body_size = reserved
        label_end = at + PROPERTIES.size + 2 * label_length
        at = label_end + extension + reserved + 3 & ~3
        if at > end or (label_length and not _is_label(data, label_length, label_end)):
            self._raise_overrun(end)
        return at

    def _raise_overrun(self, end: int) -> NoReturn:
        """Read the headers one by one; the one that does not fit raises its error."""
        reader = Reader(self.data, 16, end)
        flags = UserHeader.read(reader).flags
        if flags & TRANSACTION_HEADER:
            TransactionHeader.read(reader)
        if flags & SECURITY_HEADER:
            SecurityHeader.read(reader)
        MessagePropertiesHeader.read(reader)
        raise AssertionError("the packet is not too short")

    @classmethod
    def build(cls, *headers: Structure) -> Self:
        """The packet of these headers, the first a BaseHeader; only PacketSize is set here."""
        base, *others = headers
        if not isinstance(base, BaseHeader):
            raise TypeError(f"a packet must start with a BaseHeader, not with {type(base).__name__}")
        data = b"".join(header.encode() for header in others)
        session = sum(_SESSION_SIZE for header in others if isinstance(header, SessionHeader))
        size = BaseHeader.LAYOUT.size + len(data) - session
        return cls(replace(base, packet_size=size).encode() + data)

    # For routing and storing, beside the plain attributes above.

    @property
    def priority(self) -> int:
        """0 for a transactional message, whatever the packet says ([MS-MQDMPR] 3.1.7.1.32)."""
        return 0 if self.flags & TRANSACTION_HEADER else self.base_flags & PRIORITY

    @property
    def is_recoverable(self) -> bool:
        """Always true for a transactional message, whatever the packet says."""
        return bool(self.flags & (DELIVERY | TRANSACTION_HEADER))

    @property
    def is_transactional(self) -> bool:
        return bool(self.flags & TRANSACTION_HEADER)

    @property
    def is_over_http(self) -> bool:
        """Whether it contains the HTTP request that brought it, or that is to carry it away."""
        return bool(self.flags & ARRIVED_OVER_HTTP)

    @property
    def hop_count(self) -> int:
        return self.flags & HOP_COUNT

    @property
    def source_bytes(self) -> bytes:
        """SourceQueueManager as it is in the packet."""
        return self._source

    @property
    def source_queue_manager(self) -> UUID:
        return decode_guid(self._source)

    @property
    def queue_manager_address(self) -> UUID:
        return decode_guid(self._address)

    @property
    def id(self) -> MessageId:
        return MessageId(decode_guid(self._source), self._number)

    # For applications.

    @property
    def label(self) -> str:
        start = self.properties_at + PROPERTIES.size
        return (
            decode_text(self.data[start : start + 2 * self._label_length - 2]) if self._label_length else ""
        )

    @property
    def extension(self) -> bytes:
        start = self.properties_at + PROPERTIES.size + 2 * self._label_length
        return self.data[start : start + self._extension_size]

    @property
    def body(self) -> bytes:
        """The body; of an encrypted message the ciphertext, which may be longer than `body_size`.

        That of a message over HTTP is in its request ([MS-MQRR] 2.2.5.1.2.2).
        """
        if self.flags & ARRIVED_OVER_HTTP:
            return self.data[self._request_body_at : self._request_body_at + self.body_size]
        at = self.body_at
        return self.data[at : at + self.sent_body_size]

    @property
    def label_end(self) -> int:
        """Where the label ends, with its NUL; 0 without a label."""
        return self.body_at - self._extension_size if self._label_length else 0

    @property
    def body_at(self) -> int:
        """Where the body begins; not that of a message over HTTP."""
        return int(self.properties_at + PROPERTIES.size + 2 * self._label_length + self._extension_size)

    @property
    def sent_body_size(self) -> int:
        """The size of `body`."""
        is_longer = self.security_flags & ENCRYPTED_BODY and not self.flags & ARRIVED_OVER_HTTP
        return self._reserved_body_size if is_longer else self.body_size

    @property
    def wants_final_ack(self) -> bool:
        """Whether the sender of a transactional message expects a FinalAck ([MS-MQQB] 3.1.7.2.2)."""
        return bool(
            self.flags & (NEGATIVE_JOURNALING | POSITIVE_JOURNALING)
            or self.data[self._transaction_at] & FINAL_ACK_REQUIRED
        )

    @property
    def sequence(self) -> tuple[int, int]:
        """Of a transactional message: its TxSequenceID as one number (MQQB-152), and its TxSequenceNumber."""
        sequence, number = _SEQUENCE.unpack_from(self.data, self._transaction_at + 4)
        return sequence, number

    @property
    def place_at(self) -> int:
        """Where a transactional message has its TxSequenceNumber, and after it PreviousTxSequenceNumber."""
        return int(self._transaction_at + 12)

    @property
    def previous_number(self) -> int:
        return int.from_bytes(self.data[self._transaction_at + 16 : self._transaction_at + 20], "little")

    @property
    def number_bytes(self) -> bytes:
        """MessageID, big-endian, so that it sorts."""
        return self._number.to_bytes(4, "big")

    @property
    def identity(self) -> bytes:
        """Identifies the message: its source queue manager, its MessageID, and a checksum of its content.

        The checksum is there because ids are easy to guess: a stranger could use those of another sender for
        messages of its own, and what the sender then sent would pass for duplicates. The HTTP request does
        not count: proxies change its head.
        """
        data = self.data
        if self.flags & ARRIVED_OVER_HTTP:
            properties = data[self.properties_at : self._properties_end]
            checksum = crc32(self.body, crc32(properties, self.sent_time))
        else:
            checksum = crc32(data[self.properties_at : self._end], self.sent_time)
        return b"".join((data[16:28], data[56:60], checksum.to_bytes(4, "little")))

    @property
    def identity_without_encryption(self) -> bytes:
        """`identity` of a message that came encrypted: the algorithm does not count, nor does the key."""
        data, at = self.data, self.properties_at
        checksum = crc32(data[at : at + 40], self.sent_time)  # as far as PrivacyLevel
        checksum = crc32(data[at + 52 : self._end], checksum)
        return b"".join((data[16:28], data[56:60], checksum.to_bytes(4, "little")))

    @property
    def identity_without_checksum(self) -> bytes:
        """As stores of format 1 have it."""
        return self.data[16:32] + self.data[56:60]

    @property
    def _properties_end(self) -> int:
        size: int = 2 * self._label_length + self._extension_size + self._reserved_body_size
        return self.properties_at + PROPERTIES.size + size

    @property
    def destination_bytes(self) -> bytes:
        """The destination queue, as on the wire."""
        return self.data[FIXED.size : self._destination_end]

    @property
    def address_bytes(self) -> bytes:
        """The destination queue manager and queue, as on the wire."""
        return self._address + self.data[FIXED.size : self._destination_end]

    def comes_from(self, queue_manager: bytes) -> bool:
        return self._source == queue_manager

    def is_addressed_to(self, queue_manager: bytes) -> bool:
        """Always true for a direct name, which has no address (MQQB T01)."""
        return self._address in {_NO_GUID, queue_manager}

    @property
    def stream(self) -> bytes:
        """Of a transactional message: its sender and TxSequenceID, common to all messages of a stream."""
        at = self._transaction_at
        return self._source + self.data[at + 4 : at + 12]

    @property
    def transaction_flags(self) -> int:
        """Of a transactional message: TransactionHeader.Flags; the masks are in `transaction_header`."""
        at = self._transaction_at
        return int.from_bytes(self.data[at : at + 4], "little")

    # The packet with one change.

    def with_time_to_be_received(self, seconds: int) -> bytes:
        return b"".join((self.data[:48], seconds.to_bytes(4, "little"), self.data[52:]))

    def with_sent_time(self, seconds: int) -> bytes:
        return b"".join((self.data[:52], seconds.to_bytes(4, "little"), self.data[56:]))

    def with_previous(self, previous: int) -> bytes:
        at = self._transaction_at + 16
        return b"".join((self.data[:at], previous.to_bytes(4, "little"), self.data[at + 4 :]))

    def count_hop(self) -> None:
        """In place, without decoding the packet again."""
        self.flags += 1
        self.data = b"".join((self.data[:60], self.flags.to_bytes(4, "little"), self.data[64:]))

    def with_session(self, header: SessionHeader) -> bytes:
        """With a SessionHeader, which PacketSize excludes (MQQB T50)."""
        flags = (self.base_flags | SESSION_HEADER).to_bytes(2, "little")
        return b"".join((self.data[:2], flags, self.data[4:], header.encode()))

    def without_session(self) -> "UserMessage":
        """The message as it is stored: a SessionHeader belongs to the session."""
        if not self.base_flags & SESSION_HEADER:
            return self
        flags = (self.base_flags & ~SESSION_HEADER).to_bytes(2, "little")
        size = len(self.data) - _SESSION_SIZE
        parts = (self.data[:2], flags, self.data[4:8], size.to_bytes(4, "little"), self.data[12:size])
        return UserMessage(b"".join(parts))

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
        if not self.flags & SECURITY_HEADER:
            return None
        return SecurityHeader.read(Reader(self.data, self._security_at))

    def security_data(self) -> tuple[bytes, bytes, bytes, bytes, bytes]:
        """Sender, key, signature, certificate and provider, as in the SecurityHeader."""
        at, items = self._security_at + _SECURITY_HEADER_SIZE, []
        for size in _SECURITY_SIZES.unpack_from(self.data, self._security_at)[1:]:
            items.append(self.data[at : at + size])
            at += size + 3 & ~3
        sender, key, signature, certificate, provider = items
        return sender, key, signature, certificate, provider

    def with_authentication(self, level: int) -> bytes:
        """The packet with the level that was verified in AS, whatever it claims; AU is 0 (DMPR T-15)."""
        flags = self.security_flags & ~CLAIMS_OF_AUTHENTICATION | level << SIGNATURE_TYPE_SHIFT
        if flags == self.security_flags or not self.flags & SECURITY_HEADER:
            return self.data
        at = self._security_at
        return self.data[:at] + flags.to_bytes(2, "little") + self.data[at + 2 :]

    @property
    def sender(self) -> tuple[int, bytes]:
        """The claimed sender: the kind of its identifier, and the identifier."""
        if not self.flags & SECURITY_HEADER:
            return 0, b""
        at = self._security_at
        size = int.from_bytes(self.data[at + 2 : at + 4], "little")
        start = at + _SECURITY_HEADER_SIZE
        return self.data[at] & SENDER_ID_TYPE, self.data[start : start + size]

    @property
    def has_signature(self) -> bool:
        """Whether its SecurityHeader has a signature; nothing is verified."""
        at = self._security_at + 6  # SignatureSize
        return bool(self.flags & SECURITY_HEADER) and self.data[at : at + 2] != b"\0\0"

    @property
    def is_to_be_encrypted(self) -> bool:
        """Whether the body is still to be encrypted: the packet asks for it, but has no key."""
        return bool(self.security_flags & ENCRYPTED_BODY) and not self.symmetric_key

    @property
    def symmetric_key(self) -> bytes:
        """EncryptionKey of the SecurityHeader."""
        start, size = self._symmetric_key_place()
        return self.data[start : start + size]

    def _symmetric_key_place(self) -> tuple[int, int]:
        """Where it begins, and its size."""
        _, sender, size, *_ = _SECURITY_SIZES.unpack_from(self.data, self._security_at)
        return self._security_at + _SECURITY_HEADER_SIZE + (sender + 3 & ~3), size

    @property
    def encryption(self) -> tuple[int, int]:
        """PrivacyLevel and EncryptionAlgorithm in the properties."""
        level, algorithm = _ENCRYPTION.unpack_from(self.data, self.properties_at)
        return level, algorithm

    def with_body(
        self, body: bytes, size: int, encryption: tuple[int, int], flags: int, key: bytes, provider: bytes
    ) -> "UserMessage":
        """The packet with another body, and with what belongs to its encryption.

        `size` is that of the clear body. The bytes are cut and joined here, because decoding and encoding all
        headers takes ten times as long.
        """
        data, at = self.data, self.properties_at
        sender, _, signature, certificate, _ = self.security_data()
        items = (sender, key, signature, certificate, provider)
        after = self.body_at
        level, algorithm = encryption
        parts = (
            data[12 : self._security_at],
            _SECURITY_SIZES.pack(flags, *map(len, items)),
            *(item + bytes(-len(item) & 3) for item in items),
            data[at : at + _BODY_SIZES_AT],
            _BODY_SIZES.pack(size, len(body), level),
            data[at + 44 : at + 48],  # HashAlgorithm
            algorithm.to_bytes(4, "little"),
            data[at + 52 : after],
            body,
            bytes(-(after - at + len(body)) & 3),
            data[self._others_at :],
        )
        rest = b"".join(parts)
        packet_size = self.packet_size + 12 + len(rest) - len(data)
        return UserMessage(b"".join((data[:8], packet_size.to_bytes(4, "little"), rest)))

    def decrypted(self, body: bytes) -> "UserMessage":
        """The packet with its clear body and without its key; the privacy level says how it came."""
        data, security, at, after = self.data, self._security_at, self.properties_at, self.body_at
        key, size = self._symmetric_key_place()
        flags = self.security_flags & ~ENCRYPTED_BODY
        rest = b"".join(
            (
                data[12:security],
                flags.to_bytes(2, "little"),
                data[security + 2 : security + 4],  # SenderIdSize
                b"\0\0",  # EncryptionKeySize
                data[security + 6 : key],
                data[key + (size + 3 & ~3) : at + _BODY_SIZES_AT],
                len(body).to_bytes(4, "little") * 2,  # MessageSize, AllocationBodySize
                data[at + _BODY_SIZES_AT + 8 : after],
                body,
                bytes(-(after - at + len(body)) & 3),
                data[self._others_at :],
            )
        )
        packet_size = self.packet_size + 12 + len(rest) - len(data)
        return UserMessage(b"".join((data[:8], packet_size.to_bytes(4, "little"), rest)))

    def with_clear_body(self) -> bytes:
        """The packet without the flag that its body is to be encrypted."""
        at = self._security_at
        flags = self.security_flags & ~ENCRYPTED_BODY
        return self.data[:at] + flags.to_bytes(2, "little") + self.data[at + 2 :]

    @property
    def properties(self) -> MessagePropertiesHeader:
        return MessagePropertiesHeader.read(Reader(self.data, self.properties_at))

    @property
    def session(self) -> SessionHeader | None:
        if not self.base_flags & SESSION_HEADER:
            return None
        return SessionHeader.read(Reader(self.data, len(self.data) - _SESSION_SIZE))

    def other(self, kind: type[H]) -> H | None:
        """The rare header of that kind, if the packet has it."""
        return next((header for header in self.others if isinstance(header, kind)), None)

    @property
    def trailer(self) -> bytes:
        """The bytes between the last known header and the end of the packet."""
        end = len(self.data) - (_SESSION_SIZE if self.base_flags & SESSION_HEADER else 0)
        return self.data[self._end : end]

    def headers(self) -> Iterator[Structure]:
        """Every structure of the packet in wire order; their encodings joined are the packet."""
        found = (self.base, self.user, self.transaction, self.security, self.properties)
        yield from (header for header in found if header)
        yield from self.others
        yield from _read_trailer(self.trailer)
        if self.session:
            yield self.session


def placed(packet: bytes, sequence_id: int, number: int, previous: int, flags: int) -> bytes:
    """A transactional packet with its position in its stream; `flags` are added. The size stays."""
    at = _transaction_at(packet)
    flags |= int.from_bytes(packet[at : at + 4], "little")
    header = _PLACE.pack(flags, sequence_id, number, previous)
    return b"".join((packet[:at], header, packet[at + 20 :]))


def _transaction_at(packet: bytes) -> int:
    flags: int = packet_summary(packet, SUMMARY_AT)[2]
    if flags >> DESTINATION_SHIFT & 0x1FF == _DIRECT and not flags & CONNECTOR_TYPE:  # the usual case
        return _after_direct_name(packet, FIXED.size)
    return UserMessage(packet)._transaction_at  # noqa: SLF001  # same module


def _after_direct_name(data: bytes, at: int) -> int:
    return at + (data[at] | data[at + 1] << 8) + 5 & ~3


def _read_name(data: bytes, at: int, end: int, kind: int) -> tuple[QueueName | None, int]:
    """The queue name of a kind at `at`, and where the next one starts."""
    if kind == _DIRECT and at + 2 <= end:
        after = _after_direct_name(data, at)
        if after <= end and after - at <= _CACHED_NAME_BYTES:
            return _direct_name(data[at:after]), after
    structure = STRUCTURE_OF_KIND.get(kind)
    if structure is None:
        return None, at
    after = at + structure.LAYOUT.size
    if kind != _DIRECT and after <= end:
        return _fixed_name(kind, data[at:after]), after
    reader = Reader(data, at, end)
    return structure.read(reader), reader.at


@lru_cache(1024)  # senders repeat their destinations
def _direct_name(data: bytes) -> DirectQueueFormatName:
    return DirectQueueFormatName.read(Reader(data))


@lru_cache(1024)
def _fixed_name(kind: int, data: bytes) -> QueueName:
    return STRUCTURE_OF_KIND[kind].read(Reader(data))


def _is_label(data: bytes, length: int, end: int) -> bool:
    return length <= LABEL_LENGTH_MAX and data[end - 2 : end] == b"\0\0"


def _read_others(reader: Reader, base_flags: int, flags: int) -> Iterator[Structure]:
    if base_flags & DEBUG_HEADER:
        yield DebugHeader.read(reader)
    if flags & ARRIVED_OVER_HTTP:
        yield SRMPEnvelopeHeader.read(reader)
        yield CompoundMessageHeader.read(reader)
    soap = bool(flags & SOAP_HEADER)
    multi_queue = bool(flags & MULTI_QUEUE_FORMAT_HEADER)
    # The specifications put Soap first, one sender writes it last: the first word decides.
    begins_with_soap = reader.data[reader.at : reader.at + 2] == HEADER_SECTION.to_bytes(2, "little")
    if multi_queue and soap and not begins_with_soap:
        yield MultiQueueFormatHeader.read(reader)
        multi_queue = False
    if soap:
        yield SoapHeader.read(reader)
    if multi_queue:
        yield MultiQueueFormatHeader.read(reader)


def _read_trailer(data: bytes) -> Iterator[Structure]:
    """The extension headers of a message for remote readers, or unknown bytes."""
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
    raise AssertionError("the packet is not cut short")
