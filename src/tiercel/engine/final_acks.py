"""FinalAcks: tell senders what became of transactional messages. [MS-MQQB] 3.1.7.2.2, 3.1.7.17.

Made in the batch in which the message ends, so that neither happens without the other.
"""

from typing import TYPE_CHECKING

from tiercel.engine.catalog import Catalog
from tiercel.engine.core import Core
from tiercel.engine.numbering import Numbering
from tiercel.engine.origins import Origins
from tiercel.engine.peers import Peers
from tiercel.engine.receipts import NoReceipts, Receipts
from tiercel.engine.records import Record
from tiercel.engine.resolver import Resolver
from tiercel.model.codes import MessageClass
from tiercel.model.errors import MqError
from tiercel.model.format_name import FormatName, PrivateFormatName
from tiercel.model.limits import INFINITE, TIME_TO_REACH_QUEUE_DEFAULT_S
from tiercel.store.interface import Keyspace
from tiercel.wire.order_ack import ORDER_QUEUE_NUMBER, build_final_ack
from tiercel.wire.structure import encode_guid
from tiercel.wire.user_message import UserMessage

if TYPE_CHECKING:
    from tiercel.engine.delivery import Delivery

STREAMS_OF_STRANGERS_MAX = 10_000  # beyond it, refused messages of unknown senders are not answered
QUEUES_MAX = 1000  # the same for outgoing queues with FinalAcks


class FinalAcks:
    def __init__(
        self,
        core: Core,
        catalog: Catalog,
        resolver: Resolver,
        numbering: Numbering,
        delivery: "Delivery",
        peers: Peers,
        origins: Origins,
    ) -> None:
        self._core = core
        self._resolver = resolver
        self._numbering = numbering
        self._delivery = delivery
        self._peers = peers
        self._origins = origins
        self._catalog = catalog
        self._own = encode_guid(catalog.queue_manager.identifier)
        self.receipts: Receipts = NoReceipts()

    @property
    def are_too_many(self) -> bool:
        """Whether a refused message of an unknown sender is not answered, so that its sender keeps it.

        Anybody can send such messages. Each is answered once, even after a crash, so its place in its stream
        is stored, and the answer until it is delivered.
        """
        streams = self._core.batch.count(Keyspace.INCOMING) + self._core.batch.count(Keyspace.ORPHANS)
        return streams >= STREAMS_OF_STRANGERS_MAX or len(self._catalog.for_final_acks) >= QUEUES_MAX

    def removed(self, packet: UserMessage, reason: MessageClass) -> None:
        """The message left its queue; its sender hears of it if it has asked."""
        if packet.is_over_http:
            self.receipts.ended(packet, reason)
        elif packet.wants_final_ack:
            self.rejected(packet, reason, self._origins.of(packet))

    def rejected(self, packet: UserMessage, reason: MessageClass, answers_to: str = "") -> None:
        """The message never came into its queue: its sender hears of it in any case.

        `answers_to`: the address that it came from; empty if it came through a router.
        """
        sender = packet.source_queue_manager
        is_known = self._peers.knows(sender)
        if packet.comes_from(self._own) or not (is_known or answers_to):
            return
        # Strangers, and senders behind others, may never be reached: that must not wait for ever.
        is_reachable = answers_to or self._peers.address(sender) is not None
        limit = INFINITE if is_known and is_reachable else TIME_TO_REACH_QUEUE_DEFAULT_S
        ack = build_final_ack(
            self._numbering.new_message_id(), self._core.seconds, reason, packet, time_to_reach_queue=limit
        )
        self.post(ack, PrivateFormatName(sender, ORDER_QUEUE_NUMBER), answers_to)

    def post(self, ack: UserMessage, name: FormatName, answers_to: str = "") -> None:
        """Put a final acknowledgement on its way, even in a full store: nobody would ask for it again."""
        try:
            queue = self._resolver.destination(name, for_acknowledgements=True, answers_to=answers_to)
        except MqError as problem:
            detail = f"the final acknowledgement has no queue: {problem.problem}"
            self._core.ledger.add(str(name), ack, MessageClass.NACK_BAD_DST_Q, detail)
            return
        self._delivery.accept_one(queue, Record(ack.data, self._core.seconds), ack)
