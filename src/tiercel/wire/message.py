"""Message properties to packets and back: [MS-MQDMPR] 3.1.7.1.30 to 3.1.7.1.32, traps T-14 to T-17.

`encode_message` packs the fixed headers in two calls, for speed. The SOAP properties are written
only with `over_http`: no binary session may carry them.
"""

import struct
from collections.abc import Callable
from functools import lru_cache
from uuid import UUID

from tiercel.model.codes import DeliveryGuarantee, PrivacyLevel, QueueFormatType, SenderIdType
from tiercel.model.errors import (
    IllegalFormatNameError,
    IllegalPropertySizeError,
    IllegalPropertyValueError,
    MessageTooLargeError,
    MqError,
    UnsupportedFormatNameOperationError,
)
from tiercel.model.format_name import (
    MAX_ELEMENTS,
    DirectFormatName,
    DistributionListFormatName,
    FormatName,
    MulticastFormatName,
    PrivateFormatName,
    PublicFormatName,
    UnreadableFormatName,
)
from tiercel.model.identifiers import NULL_GUID
from tiercel.model.limits import (
    LABEL_MAX_UTF16_UNITS,
    MAX_PACKET_SIZE,
    SENDER_CERT_MAX_BYTES,
    TRANSACTION_ID_BITS,
)
from tiercel.model.message import CORRELATION_ID_BYTES, Message, ReceivedMessage
from tiercel.wire import base_header, security_header, transaction_header, user_header
from tiercel.wire import multi_queue_format_header as mqf
from tiercel.wire.debug_header import PUBLIC_QUEUE, DebugHeader
from tiercel.wire.multi_queue_format_header import (
    MQFAddressHeader,
    MQFDirectQueueFormatName,
    MQFDistributionQueueFormatName,
    MQFFormatName,
    MQFFormatNameElement,
    MQFSignatureHeader,
    MultiQueueFormatHeader,
)
from tiercel.wire.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
    QueueName,
)
from tiercel.wire.security_header import (
    SIGNATURE_TYPE_MASK,
    SIGNATURE_TYPE_SHIFT,
    SecurityHeader,
    decode_provider_info,
    encode_provider_info,
)
from tiercel.wire.soap_header import (
    BODY_SECTION,
    COMPOUND_MESSAGE_ID,
    ENVELOPE_ID,
    HEADER_SECTION,
    CompoundMessageHeader,
    SoapHeader,
    SRMPEnvelopeHeader,
    encode_section,
)
from tiercel.wire.structure import Structure, encode_guid, encode_text_nul, encode_tx_sequence_id
from tiercel.wire.transaction_header import TransactionHeader
from tiercel.wire.user_message import FIXED, PROPERTIES, UserMessage

_NULL_GUID = bytes(16)
_RECOVERABLE = int(DeliveryGuarantee.RECOVERABLE)
_QM = int(SenderIdType.QM)
_PADDING = (b"", b"\0\0\0", b"\0\0", b"\0")
_LABEL_MAX_BYTES = 2 * (LABEL_MAX_UTF16_UNITS + 1)
_LARGE = 64 * 1024
# Properties that a UserMessage has by the same name.
_SAME_IN_PACKET = frozenset(
    {
        "acknowledgements",
        "body",
        "extension",
        "id",
        "label",
        "message_class",
        "priority",
        "sent_time",
        "time_to_be_received",
        "time_to_reach_queue",
    }
)
_MULTICAST = "MULTICAST="
_DIRECT_DESTINATION = QueueFormatType.DIRECT << user_header.DESTINATION_SHIFT


def encode_message(message: Message, *, over_http: bool = False) -> bytes:
    """The UserMessage packet of a message; an invalid property raises its own error.

    With `over_http`, that of a message that came over HTTP: with envelope and request ([MS-MQRR] 2.2.5.1.2).
    """
    try:
        return _encode(message, over_http=over_http)
    except MqError:  # some are ValueErrors too
        raise
    except (struct.error, TypeError, ValueError, AttributeError, OverflowError):
        message.check()  # finds the property
        raise


def _encode(message: Message, *, over_http: bool) -> bytes:
    queue_flags, names, address = _encode_queue_names(message)
    header_flags, before = _encode_headers_before(message)
    base_flags, more_flags, after = _encode_headers_after(message, over_http=over_http)
    delivery = message.delivery
    if message.transaction_id is None:
        base_flags |= message.priority
    else:  # always recoverable, without priority ([MS-MQDMPR] 3.1.7.1.32)
        delivery = _RECOVERABLE
    label = encode_text_nul(message.label) if message.label != "" else b""
    body, extension = message.body, message.extension
    if over_http:  # it is in the request
        body = body[:0]
    if (
        message.priority >> 3 | message.delivery >> 1 | message.acknowledgements >> 4
        or len(label) > _LABEL_MAX_BYTES
        or len(message.correlation_id) != CORRELATION_ID_BYTES
        or type(body) is not bytes
        or type(extension) is not bytes
        or not type(message.tracing)
        is type(message.positive_journaling)
        is type(message.negative_journaling)
        is bool
    ):
        message.check()  # struct would accept these
    properties = PROPERTIES.pack(
        message.acknowledgements,
        len(label) >> 1,
        message.message_class,
        message.correlation_id,
        message.body_type,
        message.application_tag,
        len(body),
        len(body),
        message.privacy_level,
        message.hash_algorithm,
        message.encryption_algorithm,
        len(extension),
    )
    padding = _PADDING[len(label) + len(extension) + len(body) & 3]
    rest = b"".join((names, before, properties, label, extension, body, padding, after))
    size = FIXED.size + len(rest)
    if size > MAX_PACKET_SIZE:
        fix = "split the body over several messages, or keep it elsewhere and send its address"
        raise MessageTooLargeError("message packet", limit=MAX_PACKET_SIZE, present=size, fix=fix)
    flags = (
        delivery << user_header.DELIVERY_SHIFT
        | (user_header.NEGATIVE_JOURNALING if message.negative_journaling else 0)
        | (user_header.POSITIVE_JOURNALING if message.positive_journaling else 0)
        | user_header.MESSAGE_PROPERTIES_HEADER  # always there (DMPR T-16)
        | queue_flags
        | header_flags
        | more_flags
    )
    fixed = FIXED.pack(
        base_header.VERSION,
        0,
        base_flags,
        base_header.SIGNATURE,
        size,
        message.time_to_reach_queue,
        encode_guid(message.id.lineage),
        address,
        message.time_to_be_received,
        message.sent_time,
        message.id.uniquifier,
        flags,
    )
    return fixed + rest


def _encode_queue_names(message: Message) -> tuple[int, bytes, bytes]:
    """The kinds of the names as UserHeader.Flags; names and connector type; QueueManagerAddress."""
    destination = message.destination_queue
    if isinstance(destination, DirectFormatName) and ";" not in destination.wire_name:
        flags, names, address = _DIRECT_DESTINATION, _encode_direct(destination.wire_name), _NULL_GUID
    else:
        kind = message.destination_queue_type
        flags, names = kind << user_header.DESTINATION_SHIFT, _encode_name(kind, destination)
        address = encode_guid(message.destination_host)
    if message.administration_queue is not None:
        admin_kind = message.administration_queue_type
        flags |= admin_kind << user_header.ADMIN_SHIFT
        names += _encode_name(admin_kind, message.administration_queue)
    if message.response_queue is not None:
        response_kind = message.response_queue_type
        flags |= response_kind << user_header.RESPONSE_SHIFT
        names += _encode_name(response_kind, message.response_queue)
    if message.connector_type is not NULL_GUID and message.connector_type != NULL_GUID:
        flags |= user_header.CONNECTOR_TYPE
        names += encode_guid(message.connector_type)
    return flags, names, address


def _encode_name(kind: int, queue: FormatName | None) -> bytes:
    if kind == QueueFormatType.SAME_AS_ADMINISTRATION_QUEUE:
        return b""
    match queue:
        case DirectFormatName() | UnreadableFormatName():
            return _encode_direct(queue.wire_name)
        case MulticastFormatName():
            return _encode_direct(str(queue))
        case PublicFormatName():
            return encode_guid(queue.queue)
        case PrivateFormatName() if kind == QueueFormatType.PRIVATE_ON_OTHER:
            return PrivateQueueFormatName(queue.queue_manager, queue.number).encode()
        case PrivateFormatName():
            return PrivateQueueFormatNameId(queue.number).encode()
    raise AssertionError(f"{queue} has a kind and must have a structure")


@lru_cache(1024)  # senders repeat their destinations
def _encode_direct(wire_name: str) -> bytes:
    return DirectQueueFormatName.of(wire_name).encode()


def _encode_headers_before(message: Message) -> tuple[int, bytes]:
    """The transaction and security headers, which precede the properties, and their flags."""
    flags, data = 0, b""
    if message.transaction_id is not None:
        flags = user_header.TRANSACTION_HEADER
        data = _encode_transaction_header(message, message.transaction_id)
    if (
        message.signature
        or message.privacy_level
        or message.sender_certificate
        or message.symmetric_key
        or message.authentication_provider_name
    ):
        flags |= user_header.SECURITY_HEADER
        data += _encode_security_header(message)
    elif message.sender_id:
        flags |= user_header.SECURITY_HEADER
        data += _encode_sender(message.sender_id, message.sender_id_type) or _encode_security_header(message)
    return flags, data


def _encode_transaction_header(message: Message, transaction_id: int) -> bytes:
    if transaction_id >> TRANSACTION_ID_BITS or message.tx_sequence_id.ordinal >> 32:
        message.check()
    connector = message.connector_queue_manager
    guid = b"" if connector is NULL_GUID or connector == NULL_GUID else encode_guid(connector)
    flags = (
        (transaction_header.CONNECTOR_GUID if guid else 0)
        | (transaction_header.FINAL_ACK_REQUIRED if message.final_ack_required else 0)
        | (transaction_header.FIRST_IN_TRANSACTION if message.first_in_transaction else 0)
        | (transaction_header.LAST_IN_TRANSACTION if message.last_in_transaction else 0)
        | transaction_id << transaction_header.TRANSACTION_ID_SHIFT
    )
    sequence = encode_tx_sequence_id(message.tx_sequence_id)
    numbers = message.tx_sequence_number, message.previous_tx_sequence_number
    return TransactionHeader.LAYOUT.struct.pack(flags, sequence, *numbers) + guid


@lru_cache(1024, typed=True)  # few senders, many messages
def _encode_sender(sender_id: bytes, sender_id_type: int) -> bytes:
    """A security header with only the sender; empty if that is not possible."""
    if type(sender_id) is not bytes or not 0 <= sender_id_type <= _QM:
        return b""
    return _encode_security_header(Message(sender_id=sender_id, sender_id_type=sender_id_type))


def _encode_security_header(message: Message) -> bytes:
    """AU and AS stay 0: the receiver sets them once it has verified the signature (DMPR T-15)."""
    provider = message.authentication_provider_name
    if message.sender_id_type > SenderIdType.QM or len(message.sender_certificate) > SENDER_CERT_MAX_BYTES:
        message.check()
    flags = message.sender_id_type if message.sender_id else SenderIdType.NONE
    if message.privacy_level != PrivacyLevel.NONE:
        flags |= security_header.ENCRYPTED_BODY
    if message.signature and not provider:
        flags |= security_header.DEFAULT_PROVIDER
    items = (
        message.sender_id,
        message.symmetric_key,
        message.signature,
        message.sender_certificate,
        encode_provider_info(message.authentication_provider_type, provider) if provider else b"",
    )
    sizes = SecurityHeader.LAYOUT.struct.pack(flags | security_header.SECURITY_DATA_PRESENT, *map(len, items))
    return sizes + b"".join([item + _PADDING[len(item) & 3] for item in items if item])


def _encode_headers_after(message: Message, *, over_http: bool) -> tuple[int, int, bytes]:
    """The headers after the properties with their flags, in the BaseHeader and the UserHeader."""
    base_flags, flags, data = 0, 0, b""
    if message.tracing:  # both bits are in BaseHeader (DMPR T-16)
        base_flags = base_header.TRACING | base_header.DEBUG_HEADER
        queue = message.tracing_queue
        data = (DebugHeader() if queue == NULL_GUID else DebugHeader(PUBLIC_QUEUE, 0, queue)).encode()
    if over_http:
        flags = user_header.ARRIVED_OVER_HTTP | user_header.SOAP_HEADER
        data += _encode_srmp_headers(message)
    if (
        message.destination_queues
        or message.administration_queues
        or message.response_queues
        or message.multiple_destination_signature
    ):
        flags |= user_header.MULTI_QUEUE_FORMAT_HEADER
        data += _multi_queue_format_header(message).encode()
    return base_flags, flags, data


def _encode_srmp_headers(message: Message) -> bytes:
    """[MS-MQRR] 2.2.5.1.2; any place in the request that has the bytes of the body is right."""
    request, body = message.soap_compound_message, message.body
    if (at := request.rfind(body)) < 0:
        problem = "the body is not in the request that the message came in"
        raise IllegalPropertyValueError("message soap_compound_message", problem=problem)
    sizes = CompoundMessageHeader.LAYOUT.struct.pack(COMPOUND_MESSAGE_ID, 0, len(request), len(body), at)
    return b"".join(
        (
            encode_section(ENVELOPE_ID, message.soap_envelope),
            sizes,
            request,
            _PADDING[len(request) & 3],
            encode_section(HEADER_SECTION, message.soap_header),
            encode_section(BODY_SECTION, message.soap_body),
        )
    )


def _multi_queue_format_header(message: Message) -> MultiQueueFormatHeader:
    return MultiQueueFormatHeader(
        MQFAddressHeader.of(mqf.DESTINATION, _elements(message.destination_queues)),
        MQFAddressHeader.of(mqf.ADMINISTRATION, _elements(message.administration_queues)),
        MQFAddressHeader.of(mqf.RESPONSE, _elements(message.response_queues)),
        MQFSignatureHeader.of(message.multiple_destination_signature),
    )


def _elements(queues: tuple[FormatName, ...]) -> tuple[MQFFormatNameElement, ...]:
    if len(queues) > MAX_ELEMENTS:
        raise IllegalPropertySizeError("list of queues", limit=MAX_ELEMENTS, present=len(queues))
    return tuple(map(_element, queues))


def _element(queue: FormatName) -> MQFFormatNameElement:
    if getattr(queue, "is_read_only", False):
        problem = "only the queue manager can write to journals and dead-letter queues"
        raise UnsupportedFormatNameOperationError(f"{queue}", problem=problem, fix="leave it out of the list")
    match queue:
        case DirectFormatName() | UnreadableFormatName() if "\0" not in queue.wire_name:
            return MQFFormatNameElement(mqf.DIRECT, b"", MQFDirectQueueFormatName(queue.wire_name))
        case MulticastFormatName():
            return MQFFormatNameElement(mqf.DIRECT, b"", MQFDirectQueueFormatName(str(queue)))
        case PublicFormatName(journal=False):
            return MQFFormatNameElement(mqf.PUBLIC, b"", PublicQueueFormatName(queue.queue))
        case PrivateFormatName(journal=False):
            private = PrivateQueueFormatName(queue.queue_manager, queue.number)
            return MQFFormatNameElement(mqf.PRIVATE, b"", private)
        case DistributionListFormatName():
            group = MQFDistributionQueueFormatName(queue.list_id)
            return MQFFormatNameElement(mqf.DISTRIBUTION_LIST, b"", group)
    raise UnsupportedFormatNameOperationError(
        f"{queue}", problem="a list of queues in a packet cannot contain it"
    )


def read_message(packet: UserMessage) -> Message:
    """The message of a packet, decoded on demand: most receivers use only a few properties."""
    if packet.packet_size > _LARGE:  # the packet must not stay in memory beside its body
        return decode_message(packet)
    message = ReceivedMessage.unread(_Properties(packet).read)
    message.body = packet.body  # always needed
    return message


def reader_of(packet: UserMessage) -> Callable[[str], object]:
    """A function that returns properties of the packet's message by name."""
    return _Properties(packet).read


class _Properties:
    """Single properties of a packet; the first uncommon one decodes them all."""

    __slots__ = ("_packet", "_whole")

    def __init__(self, packet: UserMessage) -> None:
        self._packet = packet
        self._whole: Message | None = None

    def read(self, name: str) -> object:
        if name in _SAME_IN_PACKET:
            return getattr(self._packet, name)
        if self._whole is None:
            self._whole = decode_message(self._packet)
        return getattr(self._whole, name)


def decode_message(packet: UserMessage) -> Message:
    """The message of a packet; properties of absent headers keep their defaults."""
    properties = PROPERTIES.unpack_from(packet.data, packet.properties_at)
    _, _, _, correlation_id, body_type, application_tag = properties[:6]
    privacy_level, hash_algorithm, encryption_algorithm = properties[8:11]
    message = Message(
        packet.body,
        label=packet.label,
        priority=packet.priority,
        delivery=int(packet.is_recoverable),
        extension=packet.extension,
        message_class=packet.message_class,
        time_to_reach_queue=packet.time_to_reach_queue,
        time_to_be_received=packet.time_to_be_received,
        positive_journaling=bool(packet.flags & user_header.POSITIVE_JOURNALING),
        negative_journaling=bool(packet.flags & user_header.NEGATIVE_JOURNALING),
        tracing=bool(packet.base_flags & base_header.TRACING),
        destination_queue_manager=packet.queue_manager_address,
        id=packet.id,
        sent_time=packet.sent_time,
        sender_id_type=SenderIdType.NONE,
        acknowledgements=packet.acknowledgements,
        correlation_id=correlation_id,
        body_type=body_type,
        application_tag=application_tag,
        privacy_level=privacy_level,
        hash_algorithm=hash_algorithm,
        encryption_algorithm=encryption_algorithm,
    )
    _decode_queue_names(packet, message)
    if transaction := packet.transaction:
        _decode_transaction(transaction, message)
    if packet.flags & user_header.SECURITY_HEADER:
        _decode_security(packet, message)
    for header in packet.others:
        _decode_other(header, message)
    return message


def decode_destination(packet: UserMessage) -> FormatName | None:
    """The destination queue of a message."""
    return _decode_name(packet.destination_queue, packet.queue_manager_address)


def _decode_queue_names(packet: UserMessage, message: Message) -> None:
    source, host = packet.source_queue_manager, packet.queue_manager_address
    message.destination_queue = _decode_name(packet.destination_queue, host)
    if packet.admin_queue is not None:
        on_source = packet.flags >> user_header.ADMIN_SHIFT & 7 == QueueFormatType.PRIVATE_ON_SOURCE
        message.administration_queue = _decode_name(packet.admin_queue, source if on_source else host)
    admin = message.administration_queue
    match packet.flags >> user_header.RESPONSE_SHIFT & 7:
        case QueueFormatType.SAME_AS_ADMINISTRATION_QUEUE:
            message.response_queue = admin
        case QueueFormatType.PRIVATE_ON_SOURCE:
            message.response_queue = _decode_name(packet.response_queue, source)
        case QueueFormatType.PRIVATE_ON_ADMIN:
            # Only a private name includes its host; for others, only a directory knows it.
            on = admin.queue_manager if isinstance(admin, PrivateFormatName) else NULL_GUID
            message.response_queue = _decode_name(packet.response_queue, on)
        case _:
            message.response_queue = _decode_name(packet.response_queue, host)
    if packet.flags & user_header.CONNECTOR_TYPE:
        message.connector_type = packet.user.connector_type or NULL_GUID


def _decode_name(name: QueueName | MQFFormatName | None, host: UUID) -> FormatName | None:
    """The format name of a queue; `host` is that of a name that is only a number."""
    match name:
        case DirectQueueFormatName() | MQFDirectQueueFormatName():
            return _decode_direct(name.direct_format_name)
        case PrivateQueueFormatNameId():
            return PrivateFormatName(host, name.private_queue_identifier)
        case PrivateQueueFormatName():
            return PrivateFormatName(name.source_queue_manager, name.private_queue_identifier)
        case MQFDistributionQueueFormatName():
            return DistributionListFormatName(name.public_queue_identifier)
        case PublicQueueFormatName():
            return PublicFormatName(name.public_queue_identifier)
    return None


def _decode_direct(wire_name: str) -> FormatName:
    """An invalid name is kept: opening it raises the error, and the message stays readable."""
    try:
        if wire_name.startswith(_MULTICAST):
            return MulticastFormatName.from_value(wire_name.removeprefix(_MULTICAST))
        return DirectFormatName.from_wire(wire_name)
    except IllegalFormatNameError:
        return UnreadableFormatName(wire_name)


def _decode_transaction(header: TransactionHeader, message: Message) -> None:
    message.transaction_id = header.transaction_id
    message.tx_sequence_id = header.tx_sequence_id
    message.tx_sequence_number = header.tx_sequence_number
    message.previous_tx_sequence_number = header.previous_tx_sequence_number
    message.first_in_transaction = bool(header.flags & transaction_header.FIRST_IN_TRANSACTION)
    message.last_in_transaction = bool(header.flags & transaction_header.LAST_IN_TRANSACTION)
    message.final_ack_required = bool(header.flags & transaction_header.FINAL_ACK_REQUIRED)
    message.connector_queue_manager = header.connector_qm_guid or NULL_GUID


def _decode_security(packet: UserMessage, message: Message) -> None:
    flags = packet.security_flags
    message.sender_id_type = flags & security_header.SENDER_ID_TYPE
    message.authentication_level = flags >> SIGNATURE_TYPE_SHIFT & SIGNATURE_TYPE_MASK
    (
        message.sender_id,
        message.symmetric_key,
        message.signature,
        message.sender_certificate,
        provider,
    ) = packet.security_data()
    if provider:
        kind, name = decode_provider_info(provider)
        message.authentication_provider_type, message.authentication_provider_name = kind, name


def _decode_other(header: Structure, message: Message) -> None:
    match header:
        case DebugHeader():
            message.tracing_queue = header.queue_identifier or NULL_GUID
        case MultiQueueFormatHeader():
            message.destination_queues = _names(header.destination)
            message.administration_queues = _names(header.administration)
            message.response_queues = _names(header.response)
            message.multiple_destination_signature = header.signature.signature
        case SRMPEnvelopeHeader():
            message.soap_envelope = header.data
        case CompoundMessageHeader():
            message.soap_compound_message = header.data
        case SoapHeader():
            message.soap_header, message.soap_body = header.header.data, header.body.data


def _names(header: MQFAddressHeader) -> tuple[FormatName, ...]:
    names = (_decode_name(element.format_name, NULL_GUID) for element in header.elements)
    return tuple(name for name in names if name is not None)
