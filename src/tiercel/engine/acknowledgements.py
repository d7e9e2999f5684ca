"""Acknowledgement messages to administration queues: [MS-MQDMPR] 3.1.7.2.1, [MS-MQQB] 3.1.7.15."""

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from tiercel.engine.admission import Admission
from tiercel.engine.catalog import Catalog
from tiercel.engine.core import Core
from tiercel.engine.numbering import Numbering
from tiercel.engine.origins import Origins
from tiercel.engine.queue_state import START, QueueState
from tiercel.engine.receipts import NoReceipts, Receipts
from tiercel.engine.resolver import Resolver
from tiercel.model.codes import MessageClass, PrivacyLevel
from tiercel.model.errors import InsufficientResourcesError, MqError, StoreFullError
from tiercel.model.format_name import FormatName, PrivateFormatName
from tiercel.model.identifiers import NULL_GUID
from tiercel.model.limits import MAX_PACKET_SIZE, TIME_TO_REACH_QUEUE_DEFAULT_S
from tiercel.model.message import Message
from tiercel.model.queue import OutgoingQueue
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
ACKNOWLEDGEMENT_QUEUES_MAX = 1000  # outgoing queues that only acknowledgements use
_CHANCES = 8  # queues to look at when there are too many
_LARGEST_RETURNED = MAX_PACKET_SIZE - 1024


class AdministrationAcks:
    def __init__(
        self,
        core: Core,
        catalog: Catalog,
        resolver: Resolver,
        admission: Admission,
        numbering: Numbering,
        delivery: "Delivery",
        origins: Origins,
    ) -> None:
        self._core = core
        self._admission = admission
        self._catalog = catalog
        self._resolver = resolver
        self._numbering = numbering
        self._delivery = delivery
        self._origins = origins
        self.receipts: Receipts = NoReceipts()

    def send(self, packet: UserMessage, reason: MessageClass, verdict: bytes = b"") -> None:
        """Send Administration Acknowledgment ([MS-MQQB] 3.1.7.15): a message to the administration queue.

        The caller has checked that the message asks for it. The verdict is that on its signature.
        """
        if packet.admin_queue is None or packet.message_class in ACKNOWLEDGEMENTS:
            return
        if packet.is_over_http:
            self.receipts.acknowledge(packet, reason)
            return
        if reason in INSECURE_NACKS and not self._catalog.queue_manager.send_insecure_nacks:
            return
        original = decode_message(packet)
        name = original.administration_queue
        assert name is not None
        if isinstance(name, PrivateFormatName) and name.queue_manager == NULL_GUID:
            # At the destination of a message with a direct name: that is here (MQQB T01).
            name = replace(name, queue_manager=self._catalog.queue_manager.identifier)
        acknowledgement = _acknowledgement(original, reason)
        acknowledgement.destination_queue = name
        acknowledgement.id = self._numbering.new_message_id()
        acknowledgement.sent_time = self._core.seconds
        if packet.packet_size > _LARGEST_RETURNED:  # with its names it might become too large
            acknowledgement.body = b""
        try:
            self._resolver.check_acknowledgement(acknowledgement)
        except MqError as problem:  # as for one without a queue: nobody is told but the ledger
            detail = f"the acknowledgement cannot be sent: {problem.problem}"
            self._core.ledger.add(str(name), packet, reason, detail)
            return
        self.post(UserMessage(encode_message(acknowledgement)), name, packet, verdict)

    def post(
        self, sent: UserMessage, name: FormatName, about: UserMessage | None = None, verdict: bytes = b""
    ) -> None:
        """Puts an acknowledgement on its way; one that cannot be delivered has a line in the ledger.

        It is about a message with this verdict, whose sender must not get anything into a queue of this
        computer that it may not write to itself.
        """
        if about is not None and not self._may_cause(about, verdict, name):
            detail = "the sender of the message that it is about may not write to the queue"
            self._core.ledger.add(str(name), sent, MessageClass.NACK_ACCESS_DENIED, detail)
            return
        try:
            self._core.reserve(NEW_QUEUE_BYTES)
            queue = self._resolver.destination(
                name,
                for_acknowledgements=True,
                answers_to="" if about is None else self._origins.for_acknowledgement(about, name),
                is_receipt=sent.is_over_http,
            )
            self._keep_within_budget(queue)
        except MqError as problem:  # an undeliverable acknowledgement is not acknowledged itself
            detail = f"the {_kind(sent)} has no queue: {problem.problem}"
            self._core.ledger.add(str(name), sent, MessageClass.NACK_BAD_DST_Q, detail)
            return
        try:
            self._delivery.arrive(sent, None if self._catalog.is_internal(queue) else queue, str(name))
        except (InsufficientResourcesError, StoreFullError) as problem:
            detail = f"there is no room for the {_kind(sent)}: {problem.problem}"
            self._core.ledger.add(str(name), sent, MessageClass.NACK_Q_EXCEED_QUOTA, detail)

    def _may_cause(self, packet: UserMessage, verdict: bytes, name: FormatName) -> bool:
        queue = self._resolver.find(name) if self._resolver.is_local(name) else None
        return queue is None or self._admission.may_write(queue, packet, verdict)

    def _keep_within_budget(self, new: QueueState) -> None:
        """Give up the oldest acknowledgements if there are too many outgoing queues for them.

        Anybody can name administration queues on computers that do not exist, so those whose name was never
        resolved go first. A queue that a session is sending from stays.
        """
        queues = self._catalog.for_acknowledgements
        if len(queues) <= ACKNOWLEDGEMENT_QUEUES_MAX:
            return
        idle: list[QueueState] = []
        for queue in list(islice(queues, _CHANCES)):
            if queue is new or queue.locks:
                continue
            assert isinstance(queue.queue, OutgoingQueue)
            if not queue.queue.next_hops:
                self._give_up(queue)
                return
            idle.append(queue)
            queues[queue] = queues.pop(queue)  # its turn comes again after all others
        if idle:
            self._give_up(idle[0])

    def _give_up(self, queue: QueueState) -> None:
        while (found := queue.next_available(self._core, START)) is not None:
            self._delivery.finish(queue, *found, MessageClass.NACK_DELETED)
        self._catalog.remove(queue)


def _kind(sent: UserMessage) -> str:
    return "report" if sent.message_class == MessageClass.REPORT else "acknowledgement"


def _acknowledgement(original: Message, reason: MessageClass) -> Message:
    lineage, uniquifier = original.id
    is_negative_and_clear = reason.is_negative and original.privacy_level == PrivacyLevel.NONE
    return Message(
        original.body if is_negative_and_clear else b"",
        message_class=reason,
        correlation_id=encode_guid(lineage) + uniquifier.to_bytes(4, "little"),
        response_queue=original.destination_queue,
        delivery=original.delivery,
        time_to_reach_queue=TIME_TO_REACH_QUEUE_DEFAULT_S,  # not for ever: anybody can ask for one
    )
