"""Valid values of every wire structure, of whole packets and of messages, for hypothesis to draw from."""

from uuid import UUID

from hypothesis import strategies as st

from tiercel.model.format_name import (
    DirectFormatName,
    DistributionListFormatName,
    FormatName,
    PrivateFormatName,
    PublicFormatName,
    UnreadableFormatName,
)
from tiercel.model.identifiers import NULL_GUID, MessageId, TxSequenceId
from tiercel.model.message import Message
from tiercel.wire.base_header import BaseHeader
from tiercel.wire.debug_header import DebugHeader
from tiercel.wire.extension_headers import (
    DeadLetterHeader,
    ExtendedAddressHeader,
    ExtensionHeader,
    SubqueueHeader,
)
from tiercel.wire.internal_packets import (
    ConnectionParametersHeader,
    EstablishConnectionHeader,
    InternalHeader,
)
from tiercel.wire.key_blobs import SESSION_KEY_ALGORITHMS, PrivateKeyBlob, PublicKeyBlob, SimpleBlob
from tiercel.wire.message_properties_header import MessagePropertiesHeader
from tiercel.wire.multi_queue_format_header import (
    MQFAddressHeader,
    MQFDirectQueueFormatName,
    MQFDistributionQueueFormatName,
    MQFFormatNameElement,
    MQFSignatureHeader,
    MultiQueueFormatHeader,
)
from tiercel.wire.order_ack import FinalAckBody, OrderAckBody
from tiercel.wire.ping import Ping
from tiercel.wire.public_keys import MQDSPublicKey, MQDSPublicKeys
from tiercel.wire.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
    QueueName,
)
from tiercel.wire.security_header import SecurityHeader
from tiercel.wire.session_header import SessionHeader
from tiercel.wire.soap_header import CompoundMessageHeader, SoapHeader, SRMPEnvelopeHeader, TextSection
from tiercel.wire.structure import Structure
from tiercel.wire.transaction_header import TransactionHeader
from tiercel.wire.user_certificates import MQUserSignCert, MQUserSignCerts
from tiercel.wire.user_header import ADMIN_KINDS, DESTINATION_KINDS, RESPONSE_KINDS, UserHeader
from tiercel.wire.user_message import UserMessage

from .packets import CQ, GUID_A, GUID_B, GUID_C, MP

u8 = st.integers(0, 0xFF)
u16 = st.integers(0, 0xFFFF)
u32 = st.integers(0, 0xFFFFFFFF)
# Few GUIDs, so that "on the same queue manager" happens.
guids = st.sampled_from([NULL_GUID, GUID_A, GUID_B, GUID_C]) | st.uuids()
real_guids = guids.filter(lambda guid: guid != NULL_GUID)
blobs = st.binary(max_size=40)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
sequence_ids = st.builds(TxSequenceId, u32, u32)


def exactly(size: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=size, max_size=size)


# Headers

base_headers = st.builds(
    BaseHeader, reserved=u8, flags=u16, packet_size=st.integers(16, 0x400000), time_to_reach_queue=u32
)
internal_headers = st.builds(InternalHeader, u16, u16)
session_headers = st.builds(SessionHeader, u16, u16, u32, u16, u16, u16, u16)
debug_headers = st.builds(DebugHeader, u16.map(lambda n: n & ~3), u16) | st.builds(
    DebugHeader, u16.map(lambda n: n & ~3 | 1), u16, guids
)
transaction_headers = st.builds(
    TransactionHeader, u32.map(lambda n: n & ~1), sequence_ids, u32, u32
) | st.builds(TransactionHeader, u32.map(lambda n: n | 1), sequence_ids, u32, u32, guids)
security_headers = st.builds(
    SecurityHeader.of,
    u16,
    security_id=blobs,
    encryption_key=blobs,
    signature=blobs,
    sender_cert=blobs,
    provider_info=blobs,
)
pings = st.builds(Ping, flags=u16, cookie=u32, qm_guid=guids)


@st.composite
def properties_headers(draw: st.DrawFn) -> MessagePropertiesHeader:
    label = draw(texts)
    extension, body, room = draw(blobs), draw(blobs), draw(st.binary(max_size=5))
    return MessagePropertiesHeader(
        flags=draw(u8),
        label_length=len(label.encode("utf-16-le")) // 2 + 1 if label else draw(st.integers(0, 1)),
        message_class=draw(u16),
        correlation_id=draw(exactly(20)),
        body_type=draw(u32),
        application_tag=draw(u32),
        message_size=len(body),
        allocation_body_size=len(body + room),
        privacy_level=draw(u32),
        hash_algorithm=draw(u32),
        encryption_algorithm=draw(u32),
        extension_size=len(extension),
        label=label,
        extension_data=extension,
        message_body=body + room,
    )


# Queue names

private_ids = st.builds(PrivateQueueFormatNameId, u32)
public_names = st.builds(PublicQueueFormatName, guids)
private_names = st.builds(PrivateQueueFormatName, guids, u32)
direct_names = st.builds(DirectQueueFormatName.of, texts)
NAME_OF_KIND: dict[int, st.SearchStrategy[QueueName | None]] = {
    0: st.none(),
    1: st.none(),
    2: private_ids,
    3: private_ids,
    4: private_ids,
    5: public_names,
    6: private_names,
    7: direct_names,
}


@st.composite
def user_headers(draw: st.DrawFn, optional_headers: int = 0) -> UserHeader:
    """A header whose flags announce just these optional headers."""
    destination = draw(st.sampled_from(sorted(DESTINATION_KINDS)))
    admin = draw(st.sampled_from(sorted(ADMIN_KINDS)))
    response = draw(st.sampled_from(sorted(RESPONSE_KINDS)))
    connector = draw(st.none() | guids)
    flags = draw(st.integers(0, 0x3FF)) | MP | optional_headers | (CQ if connector else 0)
    return UserHeader(
        draw(guids),
        draw(guids),
        draw(u32),
        draw(u32),
        draw(u32),
        flags | destination << 10 | admin << 13 | response << 16,
        draw(NAME_OF_KIND[destination]),
        draw(NAME_OF_KIND[admin]),
        draw(NAME_OF_KIND[response]),
        connector,
    )


mqf_elements = (
    st.builds(MQFFormatNameElement, st.just(1), st.just(b""), public_names)
    | st.builds(MQFFormatNameElement, st.just(2), st.just(b""), private_names)
    | st.builds(MQFFormatNameElement, st.just(3), st.just(b""), st.builds(MQFDirectQueueFormatName, names))
    | st.builds(
        MQFFormatNameElement, st.just(6), st.just(b""), st.builds(MQFDistributionQueueFormatName, guids)
    )
)


def mqf_address_headers(header_id: int) -> st.SearchStrategy[MQFAddressHeader]:
    elements = st.lists(mqf_elements, max_size=4).map(tuple)
    return elements.map(lambda chosen: MQFAddressHeader.of(header_id, chosen))


multi_queue_format_headers = st.builds(
    MultiQueueFormatHeader,
    mqf_address_headers(0x0064),
    mqf_address_headers(0x00C8),
    mqf_address_headers(0x012C),
    st.builds(MQFSignatureHeader.of, blobs),
)


# SOAP, extension headers, keys


def text_sections(header_id: int) -> st.SearchStrategy[TextSection]:
    return st.builds(TextSection.of, st.just(header_id), texts) | st.just(TextSection(header_id))


soap_headers = st.builds(SoapHeader, text_sections(0x320), text_sections(0x384))
envelope_headers = st.builds(SRMPEnvelopeHeader.of, u16, texts)


@st.composite
def compound_headers(draw: st.DrawFn) -> CompoundMessageHeader:
    data = draw(blobs)
    offset = draw(st.integers(0, len(data)))
    size = draw(st.integers(0, len(data) - offset))
    return CompoundMessageHeader(draw(u16), draw(u16), len(data), size, offset, data)


extension_headers = st.builds(ExtensionHeader, u32, u32, u8, exactly(3))
subqueue_headers = st.builds(SubqueueHeader, u32, u32, u32, u32, u32, exactly(64), exactly(64))
dead_letter_headers = st.builds(DeadLetterHeader.of, names)
address_headers = st.builds(ExtendedAddressHeader, u32, u16, u16, u32, exactly(16))
public_keys = st.builds(PublicKeyBlob.of, st.integers(1, 1 << 512), u32)
private_keys = st.builds(
    PrivateKeyBlob,
    bit_length=st.just(64),
    public_exponent=u32,
    modulus=exactly(8),
    prime_1=exactly(4),
    prime_2=exactly(4),
    exponent_1=exactly(4),
    exponent_2=exactly(4),
    coefficient=exactly(4),
    private_exponent=exactly(8),
)
published_keys = st.builds(
    MQDSPublicKeys.of, st.lists(st.builds(MQDSPublicKey.of, u32, texts, blobs), max_size=3).map(tuple)
)
user_certificates = st.builds(
    MQUserSignCerts.of, st.lists(st.builds(MQUserSignCert.of, guids, blobs), max_size=3).map(tuple)
)
simple_blobs = st.builds(
    SimpleBlob,
    session_key_algorithm=st.sampled_from(sorted(SESSION_KEY_ALGORITHMS)),
    encrypted_key=blobs,
)
structures: st.SearchStrategy[Structure] = st.one_of(
    base_headers,
    internal_headers,
    st.builds(EstablishConnectionHeader, guids, guids, u32, u16, u16, exactly(512)),
    st.builds(ConnectionParametersHeader, u32, u32, u16, u16),
    session_headers,
    debug_headers,
    transaction_headers,
    security_headers,
    properties_headers(),
    user_headers(),
    multi_queue_format_headers,
    soap_headers,
    envelope_headers,
    compound_headers(),
    extension_headers,
    subqueue_headers,
    dead_letter_headers,
    address_headers,
    st.builds(OrderAckBody, sequence_ids, u32, u32, exactly(20)),
    st.builds(FinalAckBody, sequence_ids, u32, u32, guids, u32),
    public_keys,
    private_keys,
    published_keys,
    user_certificates,
    simple_blobs,
    pings,
    private_ids,
    public_names,
    private_names,
    direct_names,
)


@st.composite
def extension_trailers(draw: st.DrawFn) -> tuple[Structure, ...]:
    """The headers after a message for remote readers, as the first one announces them."""
    headers: list[Structure] = []
    flags = draw(u8) & 0xEC
    for bit, strategy in ((2, subqueue_headers), (1, dead_letter_headers), (16, address_headers)):
        if draw(st.booleans()):
            flags |= bit
            headers.append(draw(strategy))
    size = sum(len(header.encode()) for header in headers)
    return (ExtensionHeader(12, size, flags, draw(exactly(3))), *headers)


@st.composite
def user_messages(draw: st.DrawFn) -> tuple[Structure, ...]:
    """The headers of a message packet in wire order."""
    base_flags = draw(u16) & ~0x38
    before: list[Structure] = []
    after: list[Structure] = []
    flags = 0
    for flag, strategy in ((1 << 20, transaction_headers), (1 << 19, security_headers)):
        if draw(st.booleans()):
            flags |= flag
            before.append(draw(strategy))
    if draw(st.booleans()):
        base_flags |= 0x20
        after.append(draw(debug_headers))
    if draw(st.booleans()):
        flags |= 1 << 25
        after += [draw(envelope_headers), draw(compound_headers())]
    if draw(st.booleans()):
        flags |= 1 << 28
        after.append(draw(soap_headers))
    if draw(st.booleans()):
        flags |= 1 << 23
        after.append(draw(multi_queue_format_headers))
    after += draw(st.just(()) | extension_trailers())
    if draw(st.booleans()):
        base_flags |= 0x10
        after.append(draw(session_headers))
    base = BaseHeader(reserved=0, flags=base_flags, time_to_reach_queue=draw(u32))
    return base, draw(user_headers(flags)), *before, draw(properties_headers()), *after


packets = user_messages().map(lambda headers: UserMessage.build(*headers).data)


# Messages

_PATHS = [
    r"OS:host\private$\q",
    r"TCP:10.1.2.3\q",
    r"os:HOST\Private$\Q;sub",
    "HTTP://h:8080/msmq/private$/q",
]
direct_formats: st.SearchStrategy[FormatName] = st.sampled_from(_PATHS).map(DirectFormatName.from_wire)
unreadable_formats = st.builds(UnreadableFormatName, st.sampled_from(["", "nonsense", "OS:", "OS:a\0b"]))
public_formats = st.builds(PublicFormatName, guids)
private_formats = st.builds(PrivateFormatName, guids, u32)
queue_formats: st.SearchStrategy[FormatName] = st.one_of(
    direct_formats, unreadable_formats, public_formats, private_formats
)
# A list has no counts: a name in it ends at its first NUL.
listed_formats = queue_formats.filter(lambda queue: "\0" not in getattr(queue, "wire_name", ""))
list_formats = st.lists(listed_formats | st.builds(DistributionListFormatName, guids), max_size=3).map(tuple)


def _guid_or_null() -> st.SearchStrategy[UUID]:
    return st.just(NULL_GUID) | guids


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """A message that only uses what a packet can carry."""
    message = Message(
        draw(blobs),
        label=draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=124)),
        priority=draw(st.integers(0, 7)),
        delivery=draw(st.integers(0, 1)),
        body_type=draw(u32),
        extension=draw(blobs),
        application_tag=draw(u32),
        correlation_id=draw(exactly(20)),
        message_class=draw(u16),
        time_to_reach_queue=draw(u32),
        time_to_be_received=draw(u32),
        acknowledgements=draw(st.integers(0, 15)),
        positive_journaling=draw(st.booleans()),
        negative_journaling=draw(st.booleans()),
        destination_queue=draw(queue_formats),
        administration_queue=draw(st.none() | queue_formats),
        response_queue=draw(st.none() | queue_formats),
        destination_queue_manager=draw(guids),
        id=MessageId(draw(guids), draw(u32)),
        sent_time=draw(u32),
        privacy_level=draw(st.sampled_from([0, 1, 3, 5])),
        hash_algorithm=draw(u32),
        encryption_algorithm=draw(u32),
        connector_type=draw(_guid_or_null()),
    )
    if draw(st.booleans()):
        message.tracing, message.tracing_queue = True, draw(_guid_or_null())
    if draw(st.booleans()):
        message.destination_queues = draw(list_formats)
        message.administration_queues = draw(list_formats)
        message.response_queues = draw(list_formats)
        message.multiple_destination_signature = draw(blobs)
    if draw(st.booleans()):
        _add_transaction(draw, message)
    if draw(st.booleans()):
        _add_security(draw, message)
    return message


def _add_transaction(draw: st.DrawFn, message: Message) -> None:
    message.transaction_id = draw(st.integers(0, 0xFFFFF))
    message.tx_sequence_id = draw(sequence_ids)
    message.tx_sequence_number, message.previous_tx_sequence_number = draw(u32), draw(u32)
    message.first_in_transaction, message.last_in_transaction = draw(st.booleans()), draw(st.booleans())
    message.final_ack_required = draw(st.booleans())
    message.connector_queue_manager = draw(_guid_or_null())


def _add_security(draw: st.DrawFn, message: Message) -> None:
    message.sender_id, message.sender_id_type = draw(blobs), draw(st.integers(0, 2))
    message.sender_certificate, message.signature = draw(blobs), draw(blobs)
    message.symmetric_key = draw(blobs)
    message.authentication_level = draw(st.sampled_from([0, 1, 3, 5]))
    message.authentication_provider_type = draw(u32)
    message.authentication_provider_name = draw(names)
