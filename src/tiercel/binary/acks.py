"""The OrderAck and FinalAck packets that answer transactional messages: [MS-MQQB] 2.2.4, 2.2.5, 3.1.7.17."""

from uuid import UUID

from tiercel.model.codes import DeliveryGuarantee, MessageClass, QueueFormatType
from tiercel.model.identifiers import NULL_GUID, MessageId, TxSequenceId
from tiercel.wire.base_header import BaseHeader
from tiercel.wire.message_properties_header import MessagePropertiesHeader
from tiercel.wire.order_ack import BODY_SIZE, LABEL, ORDER_QUEUE_NUMBER, FinalAckBody, OrderAckBody
from tiercel.wire.queue_names import DirectQueueFormatName, PrivateQueueFormatNameId, QueueName
from tiercel.wire.user_header import (
    DELIVERY_SHIFT,
    DESTINATION_SHIFT,
    MESSAGE_PROPERTIES_HEADER,
    UserHeader,
)
from tiercel.wire.user_message import UserMessage

_RECOVERABLE = DeliveryGuarantee.RECOVERABLE << DELIVERY_SHIFT


def sequence_id(sequence: int) -> TxSequenceId:
    return TxSequenceId(*divmod(sequence, 1 << 32))


def order_ack(
    identifier: MessageId, sent_time: int, target: UUID, address: str | None, sequence: int, number: int
) -> UserMessage:
    """Says that everything up to `number` of an incoming sequence was taken or refused (MQQB T04)."""
    body = OrderAckBody(sequence_id(sequence), number, max(number - 1, 0)).encode()
    # Express, as its own section has it; another makes all of them recoverable (MQQB T30).
    return _build(identifier, sent_time, target, address, MessageClass.ORDER_ACK, body, delivery=0)


def final_ack(
    identifier: MessageId, sent_time: int, address: str | None, reason: MessageClass, message: UserMessage
) -> UserMessage:
    """Says what became of one transactional message."""
    sequence, number = message.sequence
    source, message_number = message.id
    body = FinalAckBody(
        sequence_id(sequence), number, message.previous_number, source, message_number
    ).encode()
    return _build(identifier, sent_time, source, address, reason, body, delivery=_RECOVERABLE)


def _build(
    identifier: MessageId,
    sent_time: int,
    target: UUID,
    address: str | None,
    message_class: MessageClass,
    body: bytes,
    *,
    delivery: int,
) -> UserMessage:
    kind, queue = QueueFormatType.PRIVATE_ON_DESTINATION, PrivateQueueFormatNameId(ORDER_QUEUE_NUMBER)
    name: QueueName = queue
    if address is not None:
        kind, target = QueueFormatType.DIRECT, NULL_GUID
        name = DirectQueueFormatName.of(rf"TCP:{address}\PRIVATE$\order_queue$")
    return UserMessage.build(
        BaseHeader(),
        UserHeader(
            identifier.lineage,
            target,
            sent_time=sent_time,
            message_id=identifier.uniquifier,
            flags=MESSAGE_PROPERTIES_HEADER | kind << DESTINATION_SHIFT | delivery,
            destination_queue=name,
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
