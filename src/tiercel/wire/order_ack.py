r"""OrderAck and FinalAck: end-to-end acknowledgements of transactional messages. [MS-MQQB] 2.2.4 and 2.2.5.

Both are messages to the peer's `order_queue$`: a UserMessage with a body of 36 bytes.
"""

from dataclasses import dataclass, replace
from uuid import UUID

from tiercel.model.codes import DeliveryGuarantee, MessageClass, QueueFormatType
from tiercel.model.identifiers import NO_SEQUENCE, NULL_GUID, MessageId, TxSequenceId
from tiercel.model.limits import INFINITE
from tiercel.wire.base_header import SESSION_HEADER, BaseHeader
from tiercel.wire.message_properties_header import MessagePropertiesHeader
from tiercel.wire.queue_names import DirectQueueFormatName, PrivateQueueFormatNameId
from tiercel.wire.structure import Layout, Structure, decode_tx_sequence_id
from tiercel.wire.user_header import (
    DELIVERY,
    DELIVERY_SHIFT,
    DESTINATION_SHIFT,
    MESSAGE_PROPERTIES_HEADER,
    UserHeader,
)
from tiercel.wire.user_message import UserMessage

LABEL = "QM Ordering Ack"
ORDER_QUEUE_NUMBER = 4
ORDER_QUEUE_NAME = r"\private$\order_queue$"
BODY_SIZE = 0x24
FINAL_ACK_CLASSES_FROM = 0x4000
_RECOVERABLE = DeliveryGuarantee.RECOVERABLE << DELIVERY_SHIFT


@dataclass(frozen=True, slots=True)
class OrderAckBody(Structure):
    """[MS-MQQB] 2.2.4.1; the sequence is that of the acknowledged messages (MQQB T04)."""

    tx_sequence_id: TxSequenceId = NO_SEQUENCE
    tx_sequence_number: int = 0
    tx_previous_sequence_number: int = 0
    reserved: bytes = bytes(20)

    LAYOUT = Layout("TXID I I 20s")


@dataclass(frozen=True, slots=True)
class FinalAckBody(Structure):
    """[MS-MQQB] 2.2.5.1"""

    tx_sequence_id: TxSequenceId = NO_SEQUENCE
    tx_sequence_number: int = 0
    tx_previous_sequence_number: int = 0
    source_guid: UUID = NULL_GUID
    message_id: int = 0

    LAYOUT = Layout("TXID I I GUID I")


@dataclass(frozen=True, slots=True)
class OrderAck:
    message: UserMessage
    body: OrderAckBody


@dataclass(frozen=True, slots=True)
class FinalAck:
    message: UserMessage
    body: FinalAckBody

    @property
    def message_class(self) -> int:
        """ACK_RECEIVE, or the negative class that says why the message failed."""
        return self.message.message_class


def recognise(message: UserMessage) -> UserMessage | OrderAck | FinalAck:
    """The message as an acknowledgement, if it is one; otherwise the message. [MS-MQQB] 3.1.5.1.1.

    Any class from 0x4000 up counts as a FinalAck: the list in 2.2.5 is incomplete (MQQB T31).
    """
    kind = message.message_class
    if kind != MessageClass.ORDER_ACK and kind < FINAL_ACK_CLASSES_FROM:
        return message
    if len(message.body) != BODY_SIZE or not _is_to_order_queue(message):
        return message
    if kind == MessageClass.ORDER_ACK:
        return OrderAck(message, OrderAckBody.decode(message.body))
    return FinalAck(message, FinalAckBody.decode(message.body))


def _is_to_order_queue(message: UserMessage) -> bool:
    if message.base_flags & ~SESSION_HEADER or message.label != LABEL:
        return False
    queue = message.destination_queue
    if isinstance(queue, PrivateQueueFormatNameId):
        return queue.private_queue_identifier == ORDER_QUEUE_NUMBER
    return isinstance(queue, DirectQueueFormatName) and queue.direct_format_name.casefold().endswith(
        ORDER_QUEUE_NAME
    )


def build_order_ack(
    identifier: MessageId,
    sent_time: int,
    target: UUID,
    sequence: int,
    number: int,
    *,
    time_to_reach_queue: int = INFINITE,
) -> UserMessage:
    """Acknowledges all messages of an incoming sequence up to `number`: [MS-MQQB] 2.2.4 (MQQB T04)."""
    body = OrderAckBody(decode_tx_sequence_id(sequence), number, max(number - 1, 0)).encode()
    # Express, as 2.2.4 says; another section makes them all recoverable (MQQB T30).
    base = BaseHeader(time_to_reach_queue=time_to_reach_queue)
    return _build(base, identifier, sent_time, target, MessageClass.ORDER_ACK, body, delivery=0)


def build_final_ack(
    identifier: MessageId,
    sent_time: int,
    reason: MessageClass,
    message: UserMessage,
    *,
    time_to_reach_queue: int = INFINITE,
) -> UserMessage:
    """Reports the outcome of one transactional message: [MS-MQQB] 2.2.5."""
    sequence, number = message.sequence
    source, message_number = message.id
    body = FinalAckBody(
        decode_tx_sequence_id(sequence), number, message.previous_number, source, message_number
    ).encode()
    base = BaseHeader(time_to_reach_queue=time_to_reach_queue)
    return _build(base, identifier, sent_time, source, reason, body, delivery=_RECOVERABLE)


def _build(
    base: BaseHeader,
    identifier: MessageId,
    sent_time: int,
    target: UUID,
    message_class: MessageClass,
    body: bytes,
    *,
    delivery: int,
) -> UserMessage:
    kind = QueueFormatType.PRIVATE_ON_DESTINATION
    return UserMessage.build(
        base,
        UserHeader(
            identifier.lineage,
            target,
            sent_time=sent_time,
            message_id=identifier.uniquifier,
            flags=MESSAGE_PROPERTIES_HEADER | kind << DESTINATION_SHIFT | delivery,
            destination_queue=PrivateQueueFormatNameId(ORDER_QUEUE_NUMBER),
        ),
        MessagePropertiesHeader(
            label_length=len(LABEL) + 1,
            message_class=message_class,
            message_size=BODY_SIZE,
            allocation_body_size=BODY_SIZE,
            label=LABEL,
            message_body=body,
        ),
    )


def with_direct_name(message: UserMessage, address: str) -> UserMessage:
    """The same acknowledgement under a direct name, for a session with its own recipient."""
    name = DirectQueueFormatName.of(rf"TCP:{without_port(address)}\PRIVATE$\order_queue$")
    user = replace(
        message.user,
        queue_manager_address=NULL_GUID,
        flags=message.flags & ~(7 << DESTINATION_SHIFT) | QueueFormatType.DIRECT << DESTINATION_SHIFT,
        destination_queue=name,
    )
    return UserMessage.build(message.base, user, message.properties)


def without_port(address: str) -> str:
    """The address of `address:port` or `[address]:port`."""
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.partition(":")[0] if address.count(":") == 1 else address


def is_plain_ack(message: UserMessage) -> bool:
    """Whether it has exactly the headers of an acknowledgement."""
    allowed = MESSAGE_PROPERTIES_HEADER | 7 << DESTINATION_SHIFT | DELIVERY
    return not message.flags & ~allowed and not message.trailer
