"""Receipts as envelopes: [MC-MQSRM] 2.2.5.4 to 2.2.5.6, 3.1.1.3, filled as in the examples of section 4.

A receipt is an ordinary message: it has its own id and is retried like any other. Its response queue is the
original's destination; it may take four days, and never expires after that (SRMP-076).
"""

from dataclasses import dataclass
from uuid import UUID

from tiercel.model.codes import MessageClass
from tiercel.model.identifiers import MessageId
from tiercel.model.limits import TIME_TO_REACH_QUEUE_DEFAULT_S
from tiercel.model.message import CORRELATION_ID_BYTES
from tiercel.srmp.envelope import (
    LABEL_PREFIX,
    STREAM_RECEIPT_ACTION,
    CommitmentReceipt,
    Decision,
    DeliveryReceipt,
    Envelope,
    Msmq,
    Path,
    Properties,
    StreamReceipt,
)
from tiercel.srmp.values import StreamId

ADMINISTRATION_PRIORITY = 3
STREAM_PRIORITY = 0


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the sender of a receipt gives to it: the id and the time of the message that it is."""

    id: MessageId
    sent_at: int


def delivery_receipt(original: Envelope, to: str, received_at: int, stamp: Stamp) -> Envelope:
    """2.2.5.4: the message is in its queue since `received_at`."""
    receipt = DeliveryReceipt(received_at, original.path.id)
    return Envelope(
        path=_path(original, to, stamp),
        properties=Properties(sent_at=stamp.sent_at),
        delivery_receipt=receipt,
        msmq=_msmq(stamp, MessageClass.ACK_REACH_QUEUE, _correlation(receipt.id)),
    )


def commitment_receipt(
    original: Envelope, to: str, message_class: int, decided_at: int, stamp: Stamp
) -> Envelope:
    """2.2.5.5: the message left its queue for the reason that is the class."""
    receipt = CommitmentReceipt(decided_at, decision_of(message_class), original.path.id)
    return Envelope(
        path=_path(original, to, stamp),
        properties=Properties(sent_at=stamp.sent_at),
        commitment_receipt=receipt,
        msmq=_msmq(stamp, message_class, _correlation(receipt.id)),
    )


def stream_receipt(stream_id: StreamId, last_ordinal: int, to: str, via: str, stamp: Stamp) -> Envelope:
    """2.2.5.6: all messages of the stream up to `last_ordinal` are stored."""
    return Envelope(
        path=Path(STREAM_RECEIPT_ACTION, to, stamp.id, via),
        properties=Properties(sent_at=stamp.sent_at),
        stream_receipt=StreamReceipt(stream_id, last_ordinal),
        msmq=_msmq(stamp, MessageClass.ORDER_ACK, bytes(CORRELATION_ID_BYTES), STREAM_PRIORITY),
    )


def final_stream_receipt(
    original: Envelope, to: str, message_class: int, decided_at: int, stamp: Stamp
) -> Envelope:
    """3.1.1.3.3: the message of a stream left its queue for the reason that is the class."""
    stream = original.stream
    if stream is None:
        raise ValueError("a final stream receipt is only for messages of a stream")
    return Envelope(
        path=Path(STREAM_RECEIPT_ACTION, to, stamp.id, original.path.to),
        properties=Properties(sent_at=stamp.sent_at),
        stream_receipt=StreamReceipt(stream.stream_id, stream.current),
        commitment_receipt=CommitmentReceipt(decided_at, decision_of(message_class), original.path.id),
        msmq=_msmq(stamp, message_class, bytes(CORRELATION_ID_BYTES), STREAM_PRIORITY),
    )


def decision_of(message_class: int) -> Decision:
    """Bit 15 of a class says negative."""
    return Decision.NEGATIVE if message_class & 0x8000 else Decision.POSITIVE


def _path(original: Envelope, to: str, stamp: Stamp) -> Path:
    """The label of the original; one without the prefix has none (SRMP-037)."""
    action = original.path.action
    if not action.startswith(LABEL_PREFIX):
        action = LABEL_PREFIX
    return Path(action, to, stamp.id, original.path.to)


def _correlation(original: MessageId) -> bytes:
    return original.lineage.bytes_le + original.uniquifier.to_bytes(4, "little")


def _msmq(
    stamp: Stamp, message_class: int, correlation: bytes, priority: int = ADMINISTRATION_PRIORITY
) -> Msmq:
    source: UUID = stamp.id.lineage
    return Msmq(
        source_qm_guid=source,
        ttrq=stamp.sent_at + TIME_TO_REACH_QUEUE_DEFAULT_S,
        message_class=message_class,
        priority=priority,
        correlation=correlation,
        hash_algorithm=0,
    )
