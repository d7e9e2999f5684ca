"""The type of a received message: [MC-MQSRM] 3.1.5.1.5."""

from enum import Enum

from tiercel.model.codes import MessageClass
from tiercel.srmp.envelope import STREAM_RECEIPT_ACTION, Decision, Envelope

# NACK_RECEIVE_REJECTED is missing in the text, which has receivers send it all the same (SRMP-116).
NEGATIVE_CLASSES = frozenset(
    {
        MessageClass.NACK_DELETED,
        MessageClass.NACK_Q_DELETED,
        MessageClass.NACK_Q_PURGED,
        MessageClass.NACK_RECEIVE_TIMEOUT,
        MessageClass.NACK_RECEIVE_REJECTED,
    }
)
DECISIONS = NEGATIVE_CLASSES | {MessageClass.ACK_RECEIVE}  # of commitment receipts
_NAMED_CLASSES = frozenset(map(int, MessageClass))
# The bits of classes that applications may define ([MS-MQMQ] 2.2.18.1.6).
_APPLICATION_CLASS_BITS = 0xE1FF


class Kind(Enum):
    USER = "user message"
    DELIVERY_RECEIPT = "delivery receipt"
    COMMITMENT_RECEIPT = "commitment receipt"
    STREAM_RECEIPT = "stream receipt"
    FINAL_STREAM_RECEIPT = "final stream receipt"
    UNKNOWN = "unknown"  # to be ignored


def kind_of(envelope: Envelope) -> Kind:
    message_class = MessageClass.NORMAL if envelope.msmq is None else envelope.msmq.message_class
    has = (
        envelope.delivery_receipt is not None,
        envelope.commitment_receipt is not None,
        envelope.stream_receipt is not None,
    )
    is_ordering = envelope.path.action == STREAM_RECEIPT_ACTION
    match has:
        case (False, False, False) if _is_of_a_user(message_class):
            return Kind.USER
        case (True, False, False) if message_class == MessageClass.ACK_REACH_QUEUE:
            return Kind.DELIVERY_RECEIPT
        case (False, True, False) if _is_decision(envelope, message_class):
            return Kind.COMMITMENT_RECEIPT
        case (False, False, True) if is_ordering and message_class == MessageClass.ORDER_ACK:
            return Kind.STREAM_RECEIPT
        case (False, True, True) if is_ordering and _is_decision(envelope, message_class):
            return Kind.FINAL_STREAM_RECEIPT
    return Kind.UNKNOWN


def _is_of_a_user(message_class: int) -> bool:
    """A normal message, or one with a class of the application's own (SRMP-117)."""
    if message_class == MessageClass.NORMAL:
        return True
    return message_class not in _NAMED_CLASSES and not message_class & ~_APPLICATION_CLASS_BITS


def _is_decision(envelope: Envelope, message_class: int) -> bool:
    """Whether class and decision agree."""
    receipt = envelope.commitment_receipt
    if receipt is None:
        return False
    if receipt.decision is Decision.POSITIVE:
        return message_class == MessageClass.ACK_RECEIVE
    return message_class in NEGATIVE_CLASSES
