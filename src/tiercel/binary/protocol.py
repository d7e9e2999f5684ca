"""The protocol of one queue manager: all its sessions, and their shared state. [MS-MQQB] 3.1.

All inputs come between `begin` and `flush`, inside a batch of the engine; the resulting actions are returned
by `take_actions`, after the commit.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any
from uuid import UUID

from tiercel.binary.actions import Action, SessionEvent
from tiercel.binary.certificate import Certificate
from tiercel.binary.context import Context
from tiercel.binary.deliveries import Deliveries
from tiercel.binary.flight import Acked, Entry
from tiercel.binary.incoming import Incoming
from tiercel.binary.lookups import Lookups
from tiercel.binary.next_hop import AcknowledgementsTo, Key, NextHop
from tiercel.binary.outgoing_stream import OutgoingStream
from tiercel.binary.peer_table import PeerTable
from tiercel.binary.pinging import Pinging
from tiercel.binary.reports import report_trace
from tiercel.binary.session import Arrived, Session
from tiercel.binary.settings import Settings
from tiercel.binary.transitions import State
from tiercel.engine.belief import Doubt
from tiercel.engine.engine import Engine
from tiercel.engine.machine import CarrierMachine, Close
from tiercel.engine.queue_state import QueueState
from tiercel.engine.taken import Taken
from tiercel.model.codes import ConnectionStatus, MessageClass, OutgoingQueueState
from tiercel.model.errors import ComputerDoesNotSupportEncryptionError
from tiercel.model.format_name import DirectFormatName, DirectProtocol, FormatName, PrivateFormatName
from tiercel.model.message import Message
from tiercel.model.queue import OutgoingQueue
from tiercel.wire.base_header import TRACING
from tiercel.wire.order_ack import (
    FINAL_ACK_CLASSES_FROM,
    ORDER_QUEUE_NUMBER,
    FinalAck,
    is_plain_ack,
    recognise,
    with_direct_name,
    without_port,
)
from tiercel.wire.structure import encode_guid
from tiercel.wire.user_message import UserMessage

_LOOK_UP_MS = 300_000
_BY_TCP = {DirectProtocol.OS, DirectProtocol.TCP}


class BinaryProtocol(CarrierMachine[Action]):
    _context: Context

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._context = Context(settings, engine.queue_manager)
        self._incoming = Incoming(self._context, engine)
        self._deliveries = Deliveries(self._context, engine.outgoing)
        self._pinging = Pinging(self._context, self.is_full)
        self._lookups = Lookups(self._context)
        self._own = encode_guid(engine.queue_manager.identifier)
        self._numbers = count(1)
        self._sessions: dict[int, Session] = {}
        self._acknowledging: dict[Session, None] = {}  # that have acknowledged messages in this batch
        self._by_guid: dict[UUID, dict[Session, None]] = {}  # open sessions
        self._dialled: dict[int, NextHop] = {}
        self._next_hops: dict[Key, NextHop] = {}
        self._next_hops_to: dict[UUID, dict[NextHop, None]] = {}
        self._next_hop_of: dict[QueueState, NextHop] = {}
        self._streams = self._incoming.outgoing_streams
        self._queues = engine.carriers.register(self)
        engine.peers.watch(
            is_connected=self._is_connected,
            moved=self._peer_moved,
            is_configured=self._is_configured,
            has_routers=lambda: bool(self._context.settings.out_routing_servers),
        )

    # The batch.

    def flush(self) -> None:
        """Message Position Available Event: [MS-MQQB] 3.1.7.12.

        Before the commit: run the timers, send what is ready, and store what must be durable.

        Timers run after the inputs: a session must not end because we were too busy to read from it.
        """
        self._context.timers.run(self._context.now)
        self._deliveries.flush(is_written=self._engine.has_changes)
        # After all their acknowledgements, which often come in several packets: then the runs are long.
        for session in self._acknowledging:
            self._serve_all(session)
        self._acknowledging.clear()
        while ready := self._queues.take_ready():
            next_hops: dict[NextHop, None] = {}
            for queue in ready:
                next_hop = self._find_next_hop(queue)
                next_hop.ready[queue] = None
                next_hops[next_hop] = None
            for next_hop in next_hops:
                self._serve(next_hop)
        self._incoming.flush()

    @property
    def peers(self) -> PeerTable:
        """What the configuration says about other queue managers."""
        return self._context.peers

    @property
    def doubts(self) -> Counter[Doubt]:
        """Acknowledgements that were not believed, by reason, since the start."""
        return self._context.doubts

    @property
    def sessions(self) -> list[Session]:
        return list(self._sessions.values())

    # Inputs.

    def start(self) -> None:
        """Queue Manager Started Event: [MS-MQQB] 3.1.4.1.

        Once, in the first batch: connect the outgoing queues that hold messages (MQQB-098).
        """
        self._engine.arrivals.streams.forget_old()
        self._engine.outgoing.start()
        self._context.configured_at = self._context.now
        self.look_up_peers()

    def hasten(self, queue: QueueState) -> None:
        """Makes the next attempt to connect for an outgoing queue at once."""
        next_hop = self._next_hop_of.get(queue)
        if next_hop is not None:
            next_hop.hasten()

    def stop(self) -> None:
        """Queue Manager Stopped Event ([MS-MQQB] 3.1.4.2): close every session, and dial no more."""
        for next_hop in self._next_hops.values():
            next_hop.queues.clear()
            next_hop.stop()
        for session in self.sessions:
            session.close("the queue manager stops")

    def change_settings(self, settings: Settings) -> None:
        self._context.settings = settings
        self._context.peers.change(settings)
        self._context.configured_at = self._context.now
        for session in self.sessions:
            if session.is_open and (
                reason := self.peers.proof_violation(session.remote_guid, session.certificate)
            ):
                session.close(reason)
        self.look_up_peers()

    def look_up_peers(self) -> None:
        """Look up the names in the configuration, now and again: addresses change."""
        names = set(self._context.peers.names)
        for name in sorted(names):
            self._lookups.ask(name, lambda _addresses: None, for_acknowledgements=False)
        if names:
            self._context.timers.set(self.look_up_peers, self._context.after_ms(_LOOK_UP_MS))

    def accepted(self, address: str, certificate: Certificate | None = None) -> int:
        """Handling an Incoming Transport Connection: [MS-MQQB] 3.1.5.10.

        A peer connected to us; returns the number of the connection.
        """
        connection = next(self._numbers)
        self._sessions[connection] = Session(
            self._context, self, connection, address, certificate=certificate
        )
        self._context.do(SessionEvent(connection, "accepted", address))
        return connection

    def connected(self, connection: int, certificate: Certificate | None = None) -> None:
        """A `Dial` has succeeded."""
        next_hop = self._dialled.pop(connection, None)
        if next_hop is None or next_hop.state is not State.CONNECTING:  # the peer connected to us first
            self._context.do(Close(connection))
            return
        session = self._sessions[connection] = Session(
            self._context,
            self,
            connection,
            next_hop.address,
            expected_guid=next_hop.expected_guid,
            is_direct=next_hop.guid is None,
            is_pinged=next_hop.is_pinged,
            is_initiator=True,
            is_for_applications=next_hop.serves_applications,
            host=next_hop.host,
            is_to_router=not next_hop.is_final,
            certificate=certificate,
        )
        next_hop.connected(session)
        session.establish()

    def connect_failed(
        self, connection: int, status: ConnectionStatus, error: int = 0, reason: str = ""
    ) -> None:
        next_hop = self._dialled.pop(connection, None)
        if next_hop is not None:
            next_hop.connect_failed(status, error, reason)

    def received(self, connection: int, data: bytes) -> None:
        session = self._sessions.get(connection)
        if session is not None:
            session.receive(data)

    def unwrapped(self, connection: int, result: Any) -> None:
        """The session key of the message that a session waits with."""
        session = self._sessions.get(connection)
        if session is not None and session.unopened is not None:
            self._engine.arrivals.remember_key(session.unopened.first, result)
            session.resume()

    def disconnected(self, connection: int, error: int = 0) -> None:
        """Handling a Network Disconnect: [MS-MQQB] 3.1.7.3.

        The connection has ended; not called for connections that we closed.

        `error` is set if it was not closed in order: what we sent last may not have arrived.
        """
        if connection in self._dialled:
            self.connect_failed(connection, ConnectionStatus.SOCKET_CONNECT_FAILURE, error)
        session = self._sessions.get(connection)
        if session is not None:
            if session.certificate is not None and session.state is State.WAITING_ECR:
                # A server checks our certificate after our side of the handshake is complete.
                session.fail_proof(
                    f"{session.host} ended the connection after the TLS handshake: its log says why"
                )
            elif error and session.failure is ConnectionStatus.UNKNOWN_FAILURE:
                session.failure, session.error = ConnectionStatus.SOCKET_SEND_FAILURE, error
            session.close("the peer closed the connection")

    def has_carried(self, connection: int) -> bool:
        """Whether a message was sent or received on the connection; only reads, so also outside a batch."""
        session = self._sessions.get(connection)
        return session is not None and bool(session.receipts.received or session.flight.sent)

    def writable(self, connection: int, *, is_writable: bool) -> None:
        """Whether the connection accepts more now: a peer that does not read gets no messages."""
        session = self._sessions.get(connection)
        if session is not None:
            session.is_writable = is_writable
            self._serve_all(session)

    def resolved(self, host: str, addresses: list[str]) -> None:
        self._context.peers.resolved(host, addresses)
        self._lookups.answered(host, addresses)

    def datagram(self, address: str, port: int, data: bytes, *, is_reply: bool) -> None:
        """A UDP packet: to the socket of our own requests (`is_reply`), or to the ping service."""
        if is_reply:
            self._pinging.answered(data)
        else:
            self._pinging.asked(address, port, data)

    # Called by sessions.

    def is_full(self, session: Session | None = None) -> bool:
        """Whether this session, or a new one, would exceed the limit, or the queue manager is offline.

        Only sessions that were answered count, and all sessions of one peer count as one (MQQB-049).
        """
        if not self._engine.queue_manager.connection_active:
            return True
        limit = self._context.settings.max_in_sessions
        if limit is None:
            return False
        waiting = {State.WAITING_EC, State.CLOSED}
        others = {
            each.remote_guid
            for each in self._sessions.values()
            if not each.is_initiator and each.state not in waiting and each is not session
        }
        return len(others) >= limit and (session is None or session.remote_guid not in others)

    def established(self, session: Session, status: ConnectionStatus) -> None:
        for next_hop in session.next_hops:
            next_hop.established(status)

    def opened(self, session: Session) -> None:
        self._by_guid.setdefault(session.remote_guid, {})[session] = None
        event = SessionEvent(session.connection, "opened", session.address, session.remote_guid)
        self._context.do(event)
        others = self._next_hops_to.get(session.remote_guid, ())
        waiting = [each for each in others if each.session is None and self._may_use(each, session)]
        for next_hop in (*session.next_hops, *waiting):
            if next_hop.session is session:
                next_hop.established(ConnectionStatus.ESTABLISHED)
            self._attach(next_hop, session)

    def arrived(self, session: Session, run: Sequence[Arrived]) -> Iterator[Arrived]:
        return self._incoming.arrived(session, run)

    def must_wait(self, session: Session, packet: UserMessage) -> bool:
        return self._incoming.must_wait(session, packet)

    def acknowledged(self, session: Session, done: list[Acked]) -> None:
        """Deletes acknowledged messages: [MS-MQQB] 3.1.5.5.2, 3.1.5.5.3."""
        run: list[Taken] = []
        for entry, mask in done:
            taken = entry.taken
            if taken is None or entry.is_over:
                continue
            if taken.numbers:
                self._streams[taken.queue].session_acked(entry, mask)
            elif entry.is_recoverable:
                self._deliveries.add(entry, mask)
            else:
                run.append(taken.part(mask))
        self._engine.outgoing.delivered(run)
        self._acknowledging[session] = None

    def closed(self, session: Session) -> None:
        """Gives back what was on its way: [MS-MQQB] 3.1.5.9."""
        self._deliveries.end()  # first: a queue that is empty may be retired
        self._sessions.pop(session.connection, None)
        of_peer = self._by_guid.get(session.remote_guid, {})
        of_peer.pop(session, None)
        if not of_peer:
            self._by_guid.pop(session.remote_guid, None)
        self._incoming.closed(session)
        self._engine.outgoing.give_back(
            entry.taken.part(mask)
            for entry, mask in session.flight.land()
            if entry.taken is not None and not entry.taken.numbers
        )
        for next_hop in list(session.next_hops):
            for queue in next_hop.queues:
                if (stream := self._streams.get(queue)) is not None:
                    stream.stop()
            next_hop.closed(session)
        session.next_hops.clear()

    # Next hops.

    def _retire(self, next_hop: NextHop) -> None:
        """Release outgoing queues that have nothing to send, and the next hop once no queue uses it."""
        for queue in list(next_hop.queues):
            if queue.is_deleted or self._engine.outgoing.retire(queue):
                next_hop.queues.pop(queue)
                next_hop.ready.pop(queue, None)
                self._next_hop_of.pop(queue, None)
                self._streams.pop(queue, None)
        if not next_hop.queues and self._next_hops.get(next_hop.key) is next_hop:
            del self._next_hops[next_hop.key]
            if next_hop.guid is not None:
                of_peer = self._next_hops_to[next_hop.guid]
                del of_peer[next_hop]
                if not of_peer:
                    del self._next_hops_to[next_hop.guid]

    def _find_next_hop(self, queue: QueueState) -> NextHop:
        """Get Destination Info: [MS-MQQB] 3.1.7.4."""
        next_hop = self._next_hop_of.get(queue)
        if next_hop is not None and not next_hop.takes(queue):  # an application has begun to use the queue
            next_hop.drop(queue)
            next_hop = None
        if next_hop is None:
            next_hop = self._next_hop_to(queue)
            self._next_hop_of[queue] = next_hop
            next_hop.adopt(queue)
        return next_hop

    def _next_hop_to(self, queue: QueueState) -> NextHop:
        assert isinstance(queue.queue, OutgoingQueue)
        name, for_acknowledgements = queue.queue.destination_format_name, queue.is_for_acknowledgements
        if isinstance(name, PrivateFormatName):
            guid, is_routed = name.queue_manager, bool(self._context.settings.out_routing_servers)
            # Only the sender of transactional messages was seen itself; an administration queue may be
            # anywhere, so the routing servers find it.
            is_special = for_acknowledgements and (name.number == ORDER_QUEUE_NUMBER or not is_routed)
            key = AcknowledgementsTo(guid, queue.answers_to) if is_special else guid
            return self._next_hops.get(key) or self._add_next_hop(key, guid)
        assert isinstance(name, DirectFormatName)
        host = name.host.casefold()
        return self._next_hops.get(host) or self._add_next_hop(host, None)

    def _add_next_hop(self, key: Key, guid: UUID | None) -> NextHop:
        next_hop = self._next_hops[key] = NextHop(
            self._context, self._queues, self._new_connection, self._pinging, self._lookups, key, guid=guid
        )
        next_hop.rested = self._retire
        next_hop.finds_session = self._find_session
        if guid is not None:
            self._next_hops_to.setdefault(guid, {})[next_hop] = None
        next_hop.hosts = lambda: [str(key)] if guid is None else self._hosts_of(next_hop, guid)
        return next_hop

    def _hosts_of(self, next_hop: NextHop, guid: UUID) -> list[str]:
        """Get Next Hops: [MS-MQQB] 3.1.7.5.

        Where to find a queue manager: configured, seen, or behind the routing servers ([MS-MQBR]). Anybody
        can claim to be it and be seen, so messages of applications rather go through the routing servers.
        """
        settings, peers = self._context.settings, self._context.peers
        tls = peers.tls_peer(guid)
        hosts = list(settings.machines.get(guid, ())) if tls is None or tls.tls is None else [tls.tls[0]]
        address = self._address_of(next_hop, guid)
        if not hosts and address is not None and not peers.pin_violation(guid, address):
            is_trusted = next_hop.is_for_acknowledgements or peers.is_pinned(guid)
            if is_trusted or not settings.out_routing_servers:
                hosts = [address]
        next_hop.is_final = bool(hosts)
        return hosts or list(settings.out_routing_servers)

    def _may_use(self, next_hop: NextHop, session: Session) -> bool:
        """Whether messages that wait for a GUID may leave on an open session that claims it.

        Anybody can claim a GUID. Messages of applications need a session that we dialled for them, or whose
        GUID is pinned. Acknowledgements go back to where the messages that they answer came from, because a
        sender behind NAT or a firewall cannot be dialled.
        """
        if session.is_pinned or session.is_for_applications:
            return True
        if not next_hop.is_for_acknowledgements:
            return False
        known = self._address_of(next_hop, session.remote_guid)
        if known is None:
            return not self._context.settings.out_routing_servers
        if without_port(known) == without_port(session.address):
            return True
        return bool(next_hop.answers_to) and self._context.peers.is_configured(
            session.remote_guid, session.address
        )

    def _address_of(self, next_hop: NextHop, guid: UUID) -> str | None:
        """Where a peer is told what became of its messages.

        That is where they came from. Anybody may have claimed to be the peer since then, so the address where
        it was last seen, or our routers if its messages come through them, count only after an hour in which
        the other could not be reached.
        """
        peers = self._engine.peers
        seen, origin = peers.address(guid), next_hop.answers_to
        comes_through_router = peers.knows(guid) and self._context.settings.out_routing_servers
        if not origin or (next_hop.is_lost and (seen or comes_through_router)):
            return seen
        return peers.now_at(guid, origin) or seen

    def _is_connected(self, peer: UUID, address: str) -> bool:
        sessions = self._by_guid.get(peer, ())
        return any(without_port(each.address) == without_port(address) for each in sessions)

    def _is_configured(self, peer: UUID, address: str) -> bool:
        """Whether the peer has the address in the configuration, and is not dialled there in vain."""
        next_hops = self._next_hops_to.get(peer, ())
        if any(each.has_failed for each in next_hops if each.is_for_acknowledgements):
            return False
        return self._context.peers.is_configured(peer, address)

    def _peer_moved(self, peer: UUID, before: str, address: str) -> None:
        self._context.do(SessionEvent(0, "moved", address, peer, f"it was at {before}"))

    def _new_connection(self, next_hop: NextHop) -> int:
        connection = next(self._numbers)
        self._dialled[connection] = next_hop
        return connection

    def _attach(self, next_hop: NextHop, session: Session) -> None:
        session.next_hops[next_hop] = None
        next_hop.opened(session)
        self._pump(next_hop)

    # Sending.

    def _serve(self, next_hop: NextHop) -> None:
        if next_hop.session is not None:
            self._pump(next_hop)
        elif not self._find_session(next_hop):
            next_hop.connect()

    def _find_session(self, next_hop: NextHop) -> bool:
        """Use an open session with the peer, if there is one."""
        for session in () if next_hop.guid is None else self._by_guid.get(next_hop.guid, ()):
            if session.is_open and self._may_use(next_hop, session):
                self._attach(next_hop, session)
                return True
        return False

    def _serve_all(self, session: Session) -> None:
        session.send_held()
        for next_hop in session.next_hops:
            self._pump(next_hop)

    def _pump(self, next_hop: NextHop) -> None:
        """Send User Message Event: [MS-MQQB] 3.1.7.1.

        Send while the window allows: the queues take turns, higher base priorities first.
        """
        session = next_hop.session
        if session is None or not session.is_open:
            return
        while next_hop.ready and session.room > 0:
            queue = next_hop.next_ready()
            if not next_hop.takes(queue):
                self._engine.outgoing.wake(queue)  # at its new next hop
                continue
            limit = 1 if next_hop.ready else session.room  # several queues take turns
            stream = self._streams.get(queue)
            if stream is not None and stream.room < limit:
                limit = stream.room
                if not limit:
                    continue  # its OrderAcks wake it
            run = self._engine.outgoing.take(queue, limit, next_hop.guid or session.remote_guid)
            if run:
                session.send([self._entry(session, taken) for taken in run])
            if run and queue.count > len(queue.locks):
                next_hop.ready[queue] = None

    def _entry(self, session: Session, taken: Taken) -> tuple[Entry, Sequence[bytes]]:
        """Sending the Packet: [MS-MQQB] 3.1.7.1.6."""
        packet = taken.packet
        entry = Entry(taken, packet.is_recoverable)
        if packet.base_flags & TRACING:
            for each in taken.packets:
                report_trace(self._engine, UserMessage(each), session.address)
        if taken.numbers:
            stream = self._streams.get(taken.queue)
            if stream is None:
                stream = self._streams[taken.queue] = OutgoingStream(
                    self._context, self._engine.outgoing, taken.queue
                )
            stream.address = session.address
            return entry, stream.add(entry, taken)
        # An acknowledgement is always by itself.
        return entry, (self._addressed(session, packet).data,) if len(taken) == 1 else taken.packets

    def _addressed(self, session: Session, packet: UserMessage) -> UserMessage:
        """Give a final ack the address form of the messages that it acknowledges, unless a router is between.

        A direct name is relative to its reader (MQQB-169, MQQB T01).
        """
        if packet.message_class < FINAL_ACK_CLASSES_FROM or not packet.comes_from(self._own):
            return packet
        if not isinstance(recognise(packet), FinalAck) or not is_plain_ack(packet):
            return packet  # sent by an application: leave it unchanged
        peer = packet.queue_manager_address
        if peer != session.remote_guid:
            return packet
        is_direct = session.saw_direct_name or self._engine.peers.direct_address(peer) is not None
        return with_direct_name(packet, session.address) if is_direct else packet

    # Called by the engine, as a carrier.

    kinds = ("DIRECT=OS", "DIRECT=TCP", "PRIVATE")

    @staticmethod
    def carries(name: FormatName) -> bool:
        """Whether this protocol carries messages to the name; SPX and IPX are not supported (MQQB-003)."""
        if isinstance(name, DirectFormatName):
            return name.protocol in _BY_TCP
        return isinstance(name, PrivateFormatName)

    def check(self, message: Message) -> None:
        """Every message that a packet can have is carried."""

    def paused(self, queue: QueueState) -> None:
        """Pause Queue Event: the peer may send one message at a time, and the session may end as idle.

        [MS-MQQB] 3.1.7.13.
        """
        next_hop = self._find_next_hop(queue)
        next_hop.ready.pop(queue, None)
        if next_hop.session is not None and next_hop.session.is_open:
            next_hop.session.send_ack(window=1)
            next_hop.session.is_active = False

    def resumed(self, queue: QueueState) -> None:
        """Resume Queue Event: [MS-MQQB] 3.1.7.14."""
        next_hop = self._find_next_hop(queue)
        if next_hop.session is not None and next_hop.session.is_open:
            assert isinstance(queue.queue, OutgoingQueue)
            queue.queue.state = OutgoingQueueState.CONNECTED

    def message_failed(self, queue: QueueState, reason: MessageClass) -> None:
        """A message could not be encrypted, the only failure before it leaves: [MS-MQQB] 3.1.7.1.5.1."""
        assert isinstance(queue.queue, OutgoingQueue)
        assert reason is MessageClass.NACK_COULD_NOT_ENCRYPT
        self._queues.note(
            queue.queue,
            ConnectionStatus.CERTIFICATE_VALIDATION_FAILURE,
            ComputerDoesNotSupportEncryptionError.code,
            self._find_next_hop(queue).address,
        )
