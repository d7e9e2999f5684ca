"""SRMP messages to message properties and back: [MC-MQSRM] 3.1.5.1.1, 3.1.7.2.4.

Not on the wire: encryption, sender identifier and certificate, negative arrival acknowledgements, and
time-to-be-received except as the date in `expiresAt`, which is written and never read: other senders put the
time-to-reach-queue there (traps 23, 25).
"""

from uuid import UUID

from tiercel.model.codes import Acknowledgements, DeliveryGuarantee, MessageClass, SenderIdType
from tiercel.model.errors import IllegalPropertyValueError
from tiercel.model.format_name import DirectFormatName, FormatName, MulticastFormatName
from tiercel.model.identifiers import NULL_GUID, MessageId
from tiercel.model.limits import INFINITE
from tiercel.model.message import Message
from tiercel.srmp.envelope import (
    LABEL_PREFIX,
    CommitmentReceipt,
    CommitmentReceiptRequest,
    DeliveryReceipt,
    Envelope,
    Eod,
    Msmq,
    Path,
    Properties,
    Provider,
    Services,
    Stream,
)
from tiercel.srmp.kinds import DECISIONS
from tiercel.srmp.queue_urls import (
    read_destination,
    read_queue,
    read_url,
    write_in_list,
    write_queue,
    write_url,
)
from tiercel.srmp.receipts import decision_of
from tiercel.srmp.request import SrmpRequest
from tiercel.srmp.values import NO_LIMIT, StreamId

_BYTE_ORDER_MARK = "\ufeff"
_ACK_REACH_QUEUE = int(MessageClass.ACK_REACH_QUEUE)
_POS_ARRIVAL = int(Acknowledgements.POS_ARRIVAL)
_POS_RECEIVE = int(Acknowledgements.POS_RECEIVE)
_NEG_RECEIVE = int(Acknowledgements.NEG_RECEIVE)


def read_message(request: SrmpRequest, arrival_time: int) -> Message:
    """The properties of a message that arrived in a request: [MC-MQSRM] 3.1.5.1.1."""
    message = message_of(request.envelope, arrival_time)
    message.body = b"" if request.body is None else request.body.content
    message.extension = b"" if request.extension is None else request.extension.content
    message.soap_compound_message = request.raw
    message.soap_envelope = request.envelope_part.content.decode().removeprefix(_BYTE_ORDER_MARK)
    message.soap_header = request.soap_header.decode()
    message.soap_body = request.soap_body.decode()
    return message


def message_of(envelope: Envelope, arrival_time: int) -> Message:
    """The properties that an envelope has; arrival time stands in for a missing `sentAt` (SRMP-051)."""
    path, sent_at = envelope.path, envelope.properties.sent_at
    sent_time = arrival_time if sent_at is None else sent_at
    message = Message(
        label=label_of(path),
        destination_queue=read_destination(path.to),
        response_queue=read_queue(path.via) if path.via else None,
        id=path.id,
        sent_time=sent_time,
        arrival_time=arrival_time,
        time_to_reach_queue=time_to_reach_queue(envelope, sent_time),
        sender_id_type=SenderIdType.NONE,
    )
    _read_services(envelope, message)
    if envelope.stream is not None:
        _read_stream(envelope.stream, message)
    if envelope.msmq is not None:
        _read_msmq(envelope.msmq, message)
    return message


def label_of(path: Path) -> str:
    """2.2.4.1; another action than a label is none."""
    return path.action.removeprefix(LABEL_PREFIX) if path.action.startswith(LABEL_PREFIX) else ""


def time_to_reach_queue(envelope: Envelope, sent_time: int) -> int:
    """3.1.5.1.4; a date from 2038 on is no limit, one in the past leaves no time."""
    expiry = envelope.properties.expires_at if envelope.msmq is None else envelope.msmq.ttrq
    return INFINITE if expiry >= NO_LIMIT else max(expiry - sent_time, 0)


def _read_services(envelope: Envelope, message: Message) -> None:
    """2.2.5.2. One property has room for one of the addresses; receipts use the envelope's (SRMP-060)."""
    services = envelope.services or Services()
    if services.durable or envelope.stream is not None:  # 4.4 has streams without durable (SRMP-055)
        message.delivery = DeliveryGuarantee.RECOVERABLE
    if (commitment := services.commitment_receipt_request) is not None:
        message.final_ack_required = True
        message.administration_queue = read_url(commitment.send_to)
        message.acknowledgements |= _POS_RECEIVE if commitment.positive_only else 0
        message.acknowledgements |= _NEG_RECEIVE if commitment.negative_only else 0
    if services.delivery_receipt_request is not None:
        message.administration_queue = read_url(services.delivery_receipt_request)
        message.acknowledgements |= _POS_ARRIVAL


def _read_stream(stream: Stream, message: Message) -> None:
    """2.2.5.3. The wire has no transaction identifier; 0 marks the message as transactional."""
    message.transaction_id = 0
    message.tx_sequence_id = stream.stream_id.sequence
    message.tx_sequence_number = stream.current
    message.previous_tx_sequence_number = stream.current - 1 if stream.previous is None else stream.previous


def _read_msmq(msmq: Msmq, message: Message) -> None:
    """2.2.6"""
    message.id = MessageId(msmq.source_qm_guid, message.id.uniquifier)  # believed on conflict (SRMP-043)
    message.message_class = msmq.message_class
    message.priority = msmq.priority
    message.positive_journaling = msmq.journal
    message.negative_journaling = msmq.dead_letter
    message.correlation_id = msmq.correlation
    message.tracing = msmq.trace
    message.connector_type = msmq.connector_type or NULL_GUID
    message.application_tag = msmq.app
    message.body_type = msmq.body_type
    message.hash_algorithm = msmq.hash_algorithm
    if msmq.eod is not None:
        message.first_in_transaction, message.last_in_transaction = msmq.eod.first, msmq.eod.last
        message.connector_queue_manager = msmq.eod.connector_id or NULL_GUID
    if msmq.provider is not None:
        message.authentication_provider_type = msmq.provider.type
        message.authentication_provider_name = msmq.provider.name
    message.destination_queues = tuple(map(read_queue, msmq.destination_mqf))
    message.administration_queues = tuple(map(read_queue, msmq.admin_mqf))
    message.response_queues = tuple(map(read_queue, msmq.response_mqf))


# Writing


def envelope_of(message: Message, *, stream_sender: UUID = NULL_GUID, receipts_url: str = "") -> Envelope:
    """The envelope of a message to an HTTP or multicast name: [MC-MQSRM] 3.1.7.2.4.

    `stream_sender` is the queue manager that numbers the stream, and `receipts_url` the `sendReceiptsTo` of
    its first message.
    """
    return Envelope(
        path=Path(
            action=LABEL_PREFIX + message.label,  # an empty label too (SRMP-036)
            to=_destination(message.destination_queue),
            id=message.id,
            via="" if message.response_queue is None else write_queue(message.response_queue),
        ),
        properties=Properties(_date(message, message.time_to_be_received), message.sent_time),
        services=_services(message),
        stream=_stream(message, stream_sender, receipts_url),
        delivery_receipt=_delivery_receipt(message),
        commitment_receipt=_commitment_receipt(message),
        msmq=_msmq(message),
    )


def check_administration_queue(message: Message) -> None:
    """Raises when the receipts that a message asks for could not be sent: they are posts."""
    admin = message.administration_queue
    if admin is None or not message.acknowledgements & (_POS_ARRIVAL | _POS_RECEIVE | _NEG_RECEIVE):
        return
    if not isinstance(admin, DirectFormatName) or not admin.is_http:
        problem = "receipts for messages over HTTP can only go to an HTTP name"
        fix = "use DIRECT=HTTP://... for the administration queue"
        raise IllegalPropertyValueError(
            "message administration_queue", present=str(admin), problem=problem, fix=fix
        )


def _destination(name: FormatName | None) -> str:
    if not isinstance(name, MulticastFormatName) and not (
        isinstance(name, DirectFormatName) and name.is_http
    ):
        raise ValueError(f"SRMP cannot carry messages to {name}")
    return write_queue(name)


def _date(message: Message, seconds: int) -> int:
    return NO_LIMIT if seconds == INFINITE else message.sent_time + seconds


def _services(message: Message) -> Services | None:
    """2.2.5.2. Receipts can be sent to HTTP names only, so other administration queues are left out."""
    delivery, commitment = None, None
    admin, requested = message.administration_queue, message.acknowledgements
    if isinstance(admin, DirectFormatName) and admin.is_http:
        send_to = write_url(admin)
        positive, negative = bool(requested & _POS_RECEIVE), bool(requested & _NEG_RECEIVE)
        if requested & _POS_ARRIVAL:
            delivery = send_to
        if positive or negative:  # not final_ack_required, which nobody sets (trap 27)
            commitment = CommitmentReceiptRequest(send_to, positive, negative)
    if not message.is_recoverable and delivery is None and commitment is None:
        return None
    return Services(message.is_recoverable, delivery, commitment)


def _delivery_receipt(message: Message) -> DeliveryReceipt | None:
    """2.2.5.4. Without it, receivers ignore the acknowledgement of a message that came another way."""
    is_receipt = message.message_class == _ACK_REACH_QUEUE
    return DeliveryReceipt(message.sent_time, _acknowledged(message)) if is_receipt else None


def _commitment_receipt(message: Message) -> CommitmentReceipt | None:
    """2.2.5.5; the same for messages that were received, or will never be."""
    if message.message_class not in DECISIONS:
        return None
    decision = decision_of(message.message_class)
    return CommitmentReceipt(message.sent_time, decision, _acknowledged(message))


def _acknowledged(message: Message) -> MessageId:
    lineage, number = message.correlation_id[:16], message.correlation_id[16:]
    return MessageId(UUID(bytes_le=lineage), int.from_bytes(number, "little"))


def _stream(message: Message, sender: UUID, receipts_url: str) -> Stream | None:
    """2.2.5.3"""
    if not any(message.tx_sequence_id):
        return None
    number = message.tx_sequence_number
    return Stream(
        StreamId(sender, message.tx_sequence_id),
        number,
        message.previous_tx_sequence_number or None,
        receipts_url if number == 1 else None,
    )


def _msmq(message: Message) -> Msmq:
    """2.2.6"""
    connector = message.connector_queue_manager
    marks = message.first_in_transaction, message.last_in_transaction
    provider = message.authentication_provider_type, message.authentication_provider_name
    return Msmq(
        source_qm_guid=message.source_queue_manager,
        ttrq=_date(message, message.time_to_reach_queue),
        message_class=message.message_class,
        priority=message.priority,
        journal=message.positive_journaling,
        dead_letter=message.negative_journaling,
        correlation=message.correlation_id,
        trace=message.tracing,
        connector_type=_guid(message.connector_type),
        app=message.application_tag,
        body_type=message.body_type,
        hash_algorithm=message.hash_algorithm,
        eod=Eod(*marks, _guid(connector)) if any(marks) or connector != NULL_GUID else None,
        provider=Provider(*provider) if any(provider) else None,
        destination_mqf=tuple(map(write_in_list, message.destination_queues)),
        admin_mqf=tuple(map(write_in_list, message.administration_queues)),
        response_mqf=tuple(map(write_in_list, message.response_queues)),
    )


def _guid(guid: UUID) -> UUID | None:
    return None if guid == NULL_GUID else guid
