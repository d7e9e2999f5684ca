"""Acknowledgement messages to administration queues: [MS-MQDMPR] 3.1.7.2.1, [MS-MQQB] 3.1.7.15."""

from typing import TYPE_CHECKING

from tiercel.engine.catalog import Catalog
from tiercel.engine.core import Core
from tiercel.engine.numbering import Numbering
from tiercel.engine.resolver import Resolver
from tiercel.model.codes import MessageClass, PrivacyLevel
from tiercel.model.errors import InsufficientResourcesError, MqError, StoreFullError
from tiercel.model.limits import INFINITE, MAX_PACKET_SIZE
from tiercel.model.message import Message
from tiercel.wire.message import decode_message, encode_message
from tiercel.wire.structure import encode_guid
from tiercel.wire.user_message import UserMessage

if TYPE_CHECKING:
    from tiercel.engine.delivery import Delivery

# Acknowledgements that would tell a stranger what exists on this computer ([MS-MQQB] 3.1.7.15).
INSECURE_NACKS = frozenset(
    {
        MessageClass.NACK_BAD_DST_Q,
        MessageClass.NACK_BAD_ENCRYPTION,
        MessageClass.NACK_BAD_SIGNATURE,
        MessageClass.NACK_ACCESS_DENIED,
        MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER,
    }
)
# These are neither acknowledged nor copied: each would cause the next (MQQB-131).
ACKNOWLEDGEMENTS = frozenset(MessageClass) - {MessageClass.NORMAL, MessageClass.REPORT}
NEW_QUEUE_BYTES = 16384  # rows in four keyspaces, each perhaps on a page of its own
_LARGEST_RETURNED = MAX_PACKET_SIZE - 1024


class AdministrationAcks:
    def __init__(
        self, core: Core, catalog: Catalog, resolver: Resolver, numbering: Numbering, delivery: "Delivery"
    ) -> None:
        self._core = core
        self._catalog = catalog
        self._resolver = resolver
        self._numbering = numbering
        self._delivery = delivery

    def send(self, packet: UserMessage, reason: MessageClass) -> None:
        """Send Administration Acknowledgment ([MS-MQQB] 3.1.7.15): a message to the administration queue.

        The caller has checked that the message asks for it.
        """
        if packet.admin_queue is None or packet.message_class in ACKNOWLEDGEMENTS:
            return
        if reason in INSECURE_NACKS and not self._catalog.queue_manager.send_insecure_nacks:
            return
        original = decode_message(packet)
        name = original.administration_queue
        assert name is not None
        acknowledgement = _acknowledgement(original, reason)
        acknowledgement.destination_queue = name
        acknowledgement.id = self._numbering.new_message_id()
        acknowledgement.sent_time = self._core.seconds
        if packet.packet_size > _LARGEST_RETURNED:  # with its names it might become too large
            acknowledgement.body = b""
        sent = UserMessage(encode_message(acknowledgement))
        try:
            self._core.reserve(NEW_QUEUE_BYTES)
            queue = self._resolver.destination(name)
        except MqError as problem:  # an undeliverable acknowledgement is not acknowledged itself
            detail = f"the acknowledgement has no queue: {problem.problem}"
            self._core.ledger.add(str(name), sent, MessageClass.NACK_BAD_DST_Q, detail)
            return
        try:
            self._delivery.arrive(sent, None if self._catalog.is_internal(queue) else queue, str(name))
        except (InsufficientResourcesError, StoreFullError) as problem:
            detail = f"there is no room for the acknowledgement: {problem.problem}"
            self._core.ledger.add(str(name), sent, MessageClass.NACK_Q_EXCEED_QUOTA, detail)


def _acknowledgement(original: Message, reason: MessageClass) -> Message:
    lineage, uniquifier = original.id
    is_negative_and_clear = reason.is_negative and original.privacy_level == PrivacyLevel.NONE
    return Message(
        original.body if is_negative_and_clear else b"",
        message_class=reason,
        correlation_id=encode_guid(lineage) + uniquifier.to_bytes(4, "little"),
        response_queue=original.destination_queue,
        delivery=original.delivery,
        time_to_reach_queue=INFINITE,
    )
