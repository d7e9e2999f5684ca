"""What becomes of a message that arrives: [MS-MQQB] 3.1.5.6 to 3.1.5.8, in the order that loses nothing.

    1. an acknowledgement for us: it changes what we have sent
    2. for another queue manager: passed on, if we are a router
    3. seen before: dropped; by its id, or, if transactional, by its place in its stream
    4. refused, or put into its queue: the engine decides, and tells the sender

Whatever became of it, the session counts it, so that the peer stops sending it; only what could not be kept
for want of room is an error, which ends the session before anything was said of the message.
"""

from typing import TypeVar

from tiercel.binary.context import Context
from tiercel.binary.history import History
from tiercel.binary.order_acks import OrderAcks
from tiercel.binary.outgoing_stream import OutgoingStream
from tiercel.binary.reports import report_trace
from tiercel.binary.session import Session
from tiercel.binary.streams import IncomingStream, Streams
from tiercel.binary.transitions import ProtocolError
from tiercel.engine.acknowledgements import NEW_QUEUE_BYTES
from tiercel.engine.engine import Engine
from tiercel.engine.queue_state import QueueState
from tiercel.model.codes import MessageClass
from tiercel.model.errors import InsufficientResourcesError, MqError, StoreFullError
from tiercel.model.format_name import PrivateFormatName
from tiercel.model.limits import INFINITE, ROUTING_HOPS_MAX, TIME_TO_REACH_QUEUE_DEFAULT_S
from tiercel.wire.base_header import TRACING
from tiercel.wire.message import decode_destination
from tiercel.wire.order_ack import ORDER_QUEUE_NUMBER, FinalAck, OrderAck, build_order_ack, with_direct_name
from tiercel.wire.queue_names import DirectQueueFormatName, QueueName
from tiercel.wire.structure import encode_guid, encode_tx_sequence_id
from tiercel.wire.user_message import UserMessage

K = TypeVar("K")

# A newer one says the same and more: those that cannot go out must end. Days, for clocks differ.
_ROUTED_ORDER_ACK_S = TIME_TO_REACH_QUEUE_DEFAULT_S
_ROOM_FOR_AN_ANSWER = 8192  # bytes: a final ack, and an outgoing queue for it
_NAMES_KEPT = 10_000


class Incoming:
    def __init__(self, context: Context, engine: Engine) -> None:
        self._context = context
        self._engine = engine
        self._own = encode_guid(engine.queue_manager.identifier)
        settings = context.settings
        self.history = History(engine, settings.history_size, settings.history_lifetime_ms / 1000)
        self.streams = Streams(engine)
        self._order_acks = OrderAcks(context, self._send_order_ack)
        self._queues: dict[QueueName | str, QueueState] = {}
        self._ways: dict[bytes, QueueState] = {}
        self.outgoing_streams: dict[QueueState, OutgoingStream] = {}
        if len(self.history):
            self._watch_history()

    def flush(self) -> None:
        self.history.flush()
        self.streams.flush()

    def closed(self, session: Session) -> None:
        self._order_acks.closed(session)

    # One packet.

    def arrived(self, session: Session, packet: UserMessage | OrderAck | FinalAck) -> bool:
        """Whether the message is recoverable; a ProtocolError when it could not be kept."""
        message = packet if isinstance(packet, UserMessage) else packet.message
        is_recoverable = message.is_recoverable
        try:
            if not message.is_addressed_to(self._own):
                self._pass_on(session, message.without_session())
            elif isinstance(packet, OrderAck):
                self._order_acked(packet)
            elif isinstance(packet, FinalAck):
                self._final_acked(packet)
            else:
                self._deliver(session, message.without_session())
        except (InsufficientResourcesError, StoreFullError) as problem:  # its sender shall keep it (MQQB-127)
            raise ProtocolError(f"there is no room for the message: {problem}") from problem
        return is_recoverable

    def _order_acked(self, packet: OrderAck) -> None:
        body = packet.body
        sequence = encode_tx_sequence_id(body.tx_sequence_id)
        queue = self._engine.outgoing.queue_of(sequence)  # none for a sequence that is over (MQQB T05)
        stream = None if queue is None else self.outgoing_streams.get(queue)
        if stream is not None:
            stream.order_acked(body.tx_sequence_number)
        elif queue is not None:
            self._engine.outgoing.order_acked(queue, body.tx_sequence_number)

    def _final_acked(self, packet: FinalAck) -> None:
        if packet.body.source_guid == self._engine.queue_manager.identifier:
            self._engine.outgoing.final_acked(packet.body.message_id, packet.message_class)

    # Passing on.

    def _pass_on(self, session: Session, packet: UserMessage) -> None:
        """The only thing that changes on the way through is the hop count (MQQB-193, MQQB-194)."""
        if packet.is_transactional:
            self._engine.quotas.check_room(_ROOM_FOR_AN_ANSWER)
        reason = self._try_to_pass_on(packet)
        if reason is not None and packet.is_transactional:
            self._learn(session, packet)
            self._engine.final_acks.rejected(packet, reason)

    def _try_to_pass_on(self, packet: UserMessage) -> MessageClass | None:
        """Gives the class that refuses the message, if any does."""
        queue, reason = self._way(packet), MessageClass.NACK_BAD_DST_Q
        if packet.hop_count >= ROUTING_HOPS_MAX:
            reason = MessageClass.NACK_HOP_COUNT_EXCEEDED
        elif queue is not None:
            self._trace(packet)
            packet.count_hop()
            return self._engine.delivery.arrive(packet, queue)
        self._engine.delivery.refuse(packet, reason, str(decode_destination(packet)))
        return reason

    def _way(self, packet: UserMessage) -> QueueState | None:
        """The outgoing queue for a message to another queue manager, if we are a router."""
        key = packet.address_bytes
        queue = self._ways.get(key)
        if queue is not None and not queue.is_deleted:
            return queue
        name = decode_destination(packet)
        is_router = self._context.settings.routing_server or self._engine.queue_manager.routing_server
        if not is_router or name is None:
            return None
        self._engine.quotas.check_room(NEW_QUEUE_BYTES)  # or the message stays with its sender
        try:
            queue = self._engine.queues.destination(name)
        except MqError:
            return None
        if not queue.is_outgoing:  # a name of ours with the address of somebody else
            return None
        _remember(self._ways, key, queue)
        return queue

    # Delivering.

    def _deliver(self, session: Session, packet: UserMessage) -> None:
        name = packet.destination_queue
        if isinstance(name, DirectQueueFormatName):
            session.saw_direct_name = True
        queue = self._queue(packet, name)
        if packet.is_transactional:
            self._deliver_in_order(session, packet, queue)
            return
        identity = packet.identity
        if self.history.is_duplicate(identity):
            return
        unknown = str(decode_destination(packet)) if queue is None else ""
        if self._engine.delivery.arrive(packet, queue, unknown) is None:
            self._trace(packet)
        if not len(self.history):
            self._watch_history()
        self.history.remember(identity, recoverable=packet.is_recoverable)

    def _deliver_in_order(self, session: Session, packet: UserMessage, queue: QueueState | None) -> None:
        self._engine.quotas.check_room(_ROOM_FOR_AN_ANSWER)
        self._learn(session, packet)
        sequence, number = packet.sequence
        stream = self.streams.of(packet, queue)
        if not stream.accepts(sequence, number, packet.previous_number):
            self.streams.reject(stream)
            self._order_acks.arrived(session, stream)
            return
        unknown = str(decode_destination(packet)) if queue is None else ""
        reason = self._engine.delivery.arrive(packet, queue, unknown)
        self.streams.accept(stream, sequence, number)  # refused or not: its stream must move on (MQQB T17)
        if reason is None:
            self._trace(packet)
        else:
            self._engine.final_acks.rejected(packet, reason)
        self._order_acks.arrived(session, stream)

    def _learn(self, session: Session, packet: UserMessage) -> None:
        sender = packet.source_queue_manager
        address = session.address if session.remote_guid == sender else ""
        self._engine.peers.learn(sender, address, is_direct=session.saw_direct_name)

    def _queue(self, packet: UserMessage, name: QueueName | None) -> QueueState | None:
        if name is None:
            return None
        key = name.direct_format_name if isinstance(name, DirectQueueFormatName) else name
        queue = self._queues.get(key)
        if queue is None or queue.is_deleted:
            destination = decode_destination(packet)
            queue = None if destination is None else self._engine.queues.find_local(destination)
            if queue is not None:
                _remember(self._queues, key, queue)
        return queue

    def _trace(self, packet: UserMessage) -> None:
        if packet.base_flags & TRACING:
            report_trace(self._engine, packet)

    def _watch_history(self) -> None:
        lifetime_ms = self._context.settings.history_lifetime_ms
        self._context.timers.set(self.clean_history, self._context.after_ms(lifetime_ms))

    def clean_history(self) -> None:
        """MessageIDHistory Cleanup Timer."""
        self.history.clean_up()
        if len(self.history):
            self._watch_history()

    # Telling the senders of transactional messages.

    def _send_order_ack(self, session: Session, stream: IncomingStream) -> None:
        engine, sender = self._engine, stream.sender
        if sender == engine.queue_manager.identifier:
            return  # somebody says that he is us; there is nothing that we would tell ourselves
        is_from_peer = session.remote_guid == sender
        packet = build_order_ack(
            engine.numbering.new_message_id(),
            engine.seconds,
            sender,
            stream.sequence,
            stream.number,
            time_to_reach_queue=INFINITE if is_from_peer else _ROUTED_ORDER_ACK_S,
        )
        if is_from_peer:
            is_direct = session.saw_direct_name
            session.say(stream.key, with_direct_name(packet, session.address) if is_direct else packet)
        else:  # it came through a router, and goes back to its source (MQQB T16)
            engine.sending.post(packet, PrivateFormatName(sender, ORDER_QUEUE_NUMBER))


def _remember(names: dict[K, QueueState], key: K, queue: QueueState) -> None:
    """What a name leads to can be found again: strangers that invent names must not fill the memory."""
    if len(names) >= _NAMES_KEPT:
        names.clear()
    names[key] = queue
