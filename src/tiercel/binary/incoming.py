"""Messages that arrive on sessions: [MS-MQQB] 3.1.5.6 to 3.1.5.8, in an order that loses nothing.

    1. an acknowledgement for us: it updates the messages that we sent
    2. for another queue manager: passed on, if we are a router
    3. for us: `engine.arrivals` drops duplicates, and refuses or accepts the rest

The session counts a message whatever became of it, so that the peer stops sending it. Only a message that
could not be stored for lack of space ends the session, before it is acknowledged.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from uuid import UUID

from tiercel.binary.actions import SessionEvent, Unwrap
from tiercel.binary.context import Context
from tiercel.binary.order_acks import OrderAcks
from tiercel.binary.outgoing_stream import OutgoingStream
from tiercel.binary.reports import report_trace
from tiercel.binary.session import Arrived, Session
from tiercel.binary.transitions import ProtocolError
from tiercel.engine.acknowledgements import NEW_QUEUE_BYTES
from tiercel.engine.arrivals import ROOM_FOR_AN_ANSWER, Source
from tiercel.engine.belief import Doubt
from tiercel.engine.engine import Engine
from tiercel.engine.incoming_streams import IncomingStream
from tiercel.engine.queue_state import QueueState
from tiercel.model.codes import MessageClass
from tiercel.model.errors import InsufficientResourcesError, MqError, StoreFullError
from tiercel.model.format_name import PrivateFormatName
from tiercel.model.limits import INFINITE, ROUTING_HOPS_MAX, TIME_TO_REACH_QUEUE_DEFAULT_S
from tiercel.wire.alike import Alike
from tiercel.wire.base_header import TRACING
from tiercel.wire.message import decode_destination
from tiercel.wire.order_ack import (
    ORDER_QUEUE_NUMBER,
    FinalAck,
    OrderAck,
    build_order_ack,
    with_direct_name,
    without_port,
)
from tiercel.wire.queue_names import DirectQueueFormatName
from tiercel.wire.structure import encode_guid, encode_tx_sequence_id
from tiercel.wire.user_message import UserMessage

# An OrderAck that cannot be delivered expires, because newer ones supersede it. Days, because clocks differ.
_ROUTED_ORDER_ACK_S = TIME_TO_REACH_QUEUE_DEFAULT_S
CAME_BACK = "it came back to its sender, or is forged"  # in the ledger
_NAMES_KEPT = 10_000
_NAMES_KNOWN_AFTER_S = 3600
_DISBELIEVED_MAX = 100  # acknowledgements of one session


class Incoming:
    def __init__(self, context: Context, engine: Engine) -> None:
        self._context = context
        self._engine = engine
        self._own = encode_guid(engine.queue_manager.identifier)
        self._history = engine.arrivals.history
        self._history.limit(context.settings.history_size)
        self._order_acks = OrderAcks(context, self._send_order_ack)
        self._routes: dict[bytes, QueueState] = {}
        self.outgoing_streams: dict[QueueState, OutgoingStream] = {}

    def flush(self) -> None:
        """Start the MessageIDHistory Cleanup Timer while there is anything to clean up."""
        if len(self._history) and not self._context.timers.is_set(self.clean_history):
            lifetime_ms = self._context.settings.history_lifetime_ms
            self._context.timers.set(self.clean_history, self._context.after_ms(lifetime_ms))

    def clean_history(self) -> None:
        """MessageIDHistory Cleanup Timer Event: [MS-MQQB] 3.1.6.7."""
        self._history.clean_up(self._context.settings.history_lifetime_ms / 1000)

    def closed(self, session: Session) -> None:
        self._order_acks.closed(session)

    # A run of packets.

    def arrived(self, session: Session, run: Sequence[Arrived]) -> Iterator[Arrived]:
        """Yields what is processed; a ProtocolError if a message could not be stored."""
        for part in self._parts(run):
            if isinstance(part, list):
                yield from self._deliver(session, part)
            else:
                self._take(session, part)
                yield part
                self._end_if_disbelieved(session)

    def must_wait(self, session: Session, packet: UserMessage) -> bool:
        """Whether the session key of a message for us has to be unwrapped first; asks for that."""
        if not packet.is_addressed_to(self._own) or not self._engine.arrivals.needs_key(packet):
            return False
        self._context.do(Unwrap(session.connection, partial(self._engine.arrivals.unwrap, packet)))
        return True

    def _parts(self, run: Sequence[Arrived]) -> Iterator[Arrived | list[Alike]]:
        """Consecutive messages for us as a list; all other packets one by one."""
        for_us: list[Alike] = []
        for packet in run:
            if isinstance(packet, Alike) and self._is_for_us(packet.first):
                for_us.append(packet)
                continue
            if for_us:
                yield for_us
                for_us = []
            if isinstance(packet, Alike) and not self._stays_together(packet):
                yield from packet.singles()
            else:
                yield packet
        if for_us:
            yield for_us

    def _stays_together(self, messages: Alike) -> bool:
        """Whether plain messages are passed on, all of them, on a way that is known."""
        first = messages.first
        if len(messages) == 1:
            return True
        if first.is_transactional or first.comes_from(self._own) or first.hop_count >= ROUTING_HOPS_MAX:
            return False
        queue = self._routes.get(first.address_bytes)
        return queue is not None and self._engine.arrivals.takes(messages, queue)

    def _is_for_us(self, message: UserMessage) -> bool:
        return message.is_addressed_to(self._own) and not message.comes_from(self._own)

    def _take(self, session: Session, packet: Arrived) -> None:
        message = packet.first if isinstance(packet, Alike) else packet.message
        try:
            if message.comes_from(self._own):
                self._refuse_own(session, message)
            elif not message.is_addressed_to(self._own):
                self._pass_on(session, packet if isinstance(packet, Alike) else Alike(message))
            elif isinstance(packet, OrderAck):
                self._order_acked(session, packet)
            elif isinstance(packet, FinalAck):
                self._final_acked(session, packet)
        except (InsufficientResourcesError, StoreFullError) as problem:  # the sender keeps it (MQQB-127)
            raise ProtocolError(f"there is no room for the message: {problem}") from problem

    def _deliver(self, session: Session, run: list[Alike]) -> Iterator[Alike]:
        """Receiving a UserMessage Packet: [MS-MQQB] 3.1.5.8."""
        if any(isinstance(each.first.destination_queue, DirectQueueFormatName) for each in run):
            session.saw_direct_name = True
        arrivals, problem = self._engine.arrivals.arrive(run, self._source(session))
        streams: Counter[IncomingStream] = Counter()
        for arrival in arrivals:
            if arrival.is_taken:
                self._trace(arrival.messages)
            if arrival.doubt is not None:
                self._context.doubts[arrival.doubt] += len(arrival.messages)
                sender = arrival.messages.first.source_queue_manager
                self._tell(session, f"message: {arrival.doubt.meaning}", sender)
            if arrival.stream is not None:
                streams[arrival.stream] += len(arrival.messages)
            yield arrival.messages
        for stream, count in streams.items():
            self._order_acks.arrived(session, stream, count)
        if problem:
            raise ProtocolError(problem)

    def _order_acked(self, session: Session, packet: OrderAck) -> None:
        """Receiving an OrderAck Packet: [MS-MQQB] 3.1.5.6."""
        number, outgoing = packet.body.tx_sequence_number, self._engine.outgoing
        sequence = encode_tx_sequence_id(packet.body.tx_sequence_id)
        doubt = outgoing.doubt_order_ack(sequence, number, self._speaker(session, packet.message))
        queue = outgoing.queue_of(sequence)
        if doubt is not None or queue is None:
            self._disbelieve(session, doubt or Doubt.STALE, "OrderAck")
            return
        stream = self.outgoing_streams.get(queue)
        if stream is None:
            outgoing.order_acked(queue, number)
            outgoing.finish_confirmed(queue)
            return
        self._compare_address(session, stream.address)
        stream.order_acked(number)

    def _final_acked(self, session: Session, packet: FinalAck) -> None:
        """Receiving a FinalAck Packet: [MS-MQQB] 3.1.5.7."""
        is_positive = packet.message_class == MessageClass.ACK_RECEIVE
        # A router may refuse a message in its own name, or pass on the refusal of another router (MQQB-190).
        speaker = None if session.is_router and not is_positive else self._speaker(session, packet.message)
        doubt = self._engine.outgoing.final_acked(
            packet.body,
            packet.message_class,
            speaker,
            packet.message.sent_time,
            only_by_itself=self._only_by_themselves(session),
        )
        if doubt is not None:
            self._disbelieve(session, doubt, "FinalAck")
        if not is_positive and doubt in {None, Doubt.STALE}:
            queue = self._engine.outgoing.queue_of(encode_tx_sequence_id(packet.body.tx_sequence_id))
            stream = None if queue is None else self.outgoing_streams.get(queue)
            if stream is not None:
                stream.refused()

    def _disbelieve(self, session: Session, doubt: Doubt, what: str) -> None:
        """An acknowledgement without evidence changes nothing."""
        if doubt is Doubt.OTHER_QUEUE_MANAGER and self._may_be_router():
            raise ProtocolError("the addresses of the routing servers are not known yet")
        self._context.doubts[doubt] += 1
        if doubt is Doubt.STALE:
            return
        session.disbelieved += 1
        self._tell(session, f"{what}: {doubt.meaning}")

    def _may_be_router(self) -> bool:
        """Whether any peer could be a routing server, because its name could not be looked up yet.

        The peer then keeps what it has to say, and comes again. Not for ever: the name may be wrong.
        """
        is_recent = self._context.now < self._context.configured_at + _NAMES_KNOWN_AFTER_S
        return is_recent and self._context.peers.has_unknown_routers

    def _end_if_disbelieved(self, session: Session) -> None:
        """Close a session that only guesses.

        What came is acknowledged first: an honest peer must not send it again in the next session.
        """
        if session.disbelieved > _DISBELIEVED_MAX and session.is_open:
            session.send_ack()
            raise ProtocolError(f"{session.disbelieved} acknowledgements were not believed")

    def _compare_address(self, session: Session, address: str) -> None:
        """Note another address of the receiver: it may have several, but it is rare enough to be told."""
        if session.has_other_address or session.is_router or not address:
            return
        if without_port(session.address) != without_port(address):
            session.has_other_address = True
            self._context.doubts[Doubt.OTHER_ADDRESS] += 1
            self._tell(session, f"OrderAck: believed, but its messages were sent to {address}")

    def _tell(self, session: Session, reason: str, peer: UUID | None = None) -> None:
        """For the log, which counts by reason: it must not contain anything that a stranger can invent.

        `peer` is the queue manager that a message claims to come from.
        """
        peer = peer or session.remote_guid
        self._context.do(SessionEvent(session.connection, "doubted", session.address, peer, reason))

    def _refuse_own(self, session: Session, packet: UserMessage) -> None:
        """End a message of ours that comes back, or that claims to be ours.

        It must not take the place of one that we sent: in a stream, a journal or a dead-letter queue.
        """
        self._context.doubts[Doubt.FOREIGN_SENDER] += 1
        self._tell(session, "message: it claims to come from this queue manager")
        reason = MessageClass.NACK_HOP_COUNT_EXCEEDED
        name = str(decode_destination(packet))
        self._engine.ledger.add(name, packet, reason, CAME_BACK)

    # Passing on.

    def _pass_on(self, session: Session, messages: Alike) -> None:
        """Forward messages; only their hop count changes (MQQB-193, MQQB-194)."""
        packet = messages.first
        if packet.is_transactional:
            self._engine.quotas.check_room(ROOM_FOR_AN_ANSWER)
        reason = self._try_to_pass_on(messages)
        if reason is None or not packet.is_transactional:
            return
        sender, source = packet.source_queue_manager, self._source(session)
        if not source.may_speak_for(sender):
            return
        if self._engine.arrivals.meet(packet, source, is_refused=True):
            self._engine.final_acks.rejected(packet, reason, source.address_of(sender))

    def _try_to_pass_on(self, messages: Alike) -> MessageClass | None:
        """The class that refuses the message, or None; several stay together only if none is refused."""
        packet = messages.first
        queue, reason = self._route(packet), MessageClass.NACK_BAD_DST_Q
        if packet.hop_count >= ROUTING_HOPS_MAX:
            reason = MessageClass.NACK_HOP_COUNT_EXCEEDED
        elif queue is not None:
            self._trace(messages)
            messages.count_hop()
            if len(messages) == 1:
                return self._engine.delivery.arrive(packet, queue)
            self._engine.delivery.accept_alike(queue, messages)
            return None
        self._engine.delivery.refuse(packet, reason, str(decode_destination(packet)))
        return reason

    def _route(self, packet: UserMessage) -> QueueState | None:
        """The outgoing queue for a message to another queue manager, if we are a router."""
        key = packet.address_bytes
        queue = self._routes.get(key)
        if queue is not None and not queue.is_deleted:
            return queue
        name = decode_destination(packet)
        is_router = self._context.settings.routing_server or self._engine.queue_manager.routing_server
        if not is_router or name is None:
            return None
        self._engine.quotas.check_room(NEW_QUEUE_BYTES)  # if there is none, the message stays with its sender
        try:
            queue = self._engine.queues.destination(name)
        except MqError:
            return None
        if not queue.is_outgoing:  # a local name with the address of another queue manager
            return None
        if len(self._routes) >= _NAMES_KEPT:  # peers can invent names, which must not fill the memory
            self._routes.clear()
        self._routes[key] = queue
        return queue

    def _trace(self, messages: Alike) -> None:
        if messages.first.base_flags & TRACING:
            for message in messages.messages():
                report_trace(self._engine, message)

    # Acknowledging transactional messages.

    def _send_order_ack(self, session: Session, stream: IncomingStream) -> None:
        """Send Transactional Acknowledgment: [MS-MQQB] 3.1.7.17."""
        engine, sender = self._engine, stream.sender
        if sender == engine.queue_manager.identifier:
            return  # a peer claims to be us: nothing to acknowledge
        is_from_peer = session.remote_guid == sender
        if is_from_peer and stream.answers_to != session.address and session.certificate is None:
            return  # anybody can claim to be the sender, and must not learn the id of its sequence
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
            session.send_or_hold(
                stream.key, with_direct_name(packet, session.address) if is_direct else packet
            )
        else:  # received through a router: sent back to its source (MQQB T16)
            engine.sending.post(packet, PrivateFormatName(sender, ORDER_QUEUE_NUMBER))

    # The peer.

    def _source(self, session: Session) -> Source:
        return Source(
            session.remote_guid,
            session.address,
            session.saw_direct_name,
            is_router=session.is_router,
            only_by_themselves=self._only_by_themselves(session),
        )

    def _speaker(self, session: Session, message: UserMessage) -> UUID:
        """The queue manager that an acknowledgement comes from: a router passes on those of others."""
        sender = message.source_queue_manager
        is_passed_on = session.is_router and sender not in self._only_by_themselves(session)
        return sender if is_passed_on else session.remote_guid

    def _only_by_themselves(self, session: Session) -> Collection[UUID]:
        """The queue managers that a router cannot speak for: they use TLS, and the router does not."""
        return self._context.peers.tls_guids if session.certificate is None else ()
