"""One connection with another queue manager: set-up, keep-alive and end. [MS-MQQB] 3.1.1.3.1.

It does not interpret messages: it counts them in both directions, acknowledges those received, and holds
back those that the window does not allow. Everything else is reported to its `Owner`.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Never, Protocol
from uuid import UUID

from tiercel.binary.actions import SessionEvent
from tiercel.binary.certificate import Certificate
from tiercel.binary.context import Context
from tiercel.binary.flight import Acked, Entry, Flight
from tiercel.binary.receipts import Receipts
from tiercel.binary.transitions import EVENT_OF_PACKET, Event, ProtocolError, State, after
from tiercel.engine.partial_input import SMALL
from tiercel.model.codes import ConnectionStatus
from tiercel.model.errors import DecodeError, ReachedOurselvesError
from tiercel.model.identifiers import NULL_GUID
from tiercel.model.limits import (
    ACK_TIMEOUT_MAX_MS,
    ACK_TIMEOUT_MIN_MS,
    DEFAULT_WINDOW_SIZE,
    RECOVERABLE_ACK_TIMEOUT_MAX_MS,
    RECOVERABLE_ACK_TIMEOUT_MIN_MS,
)
from tiercel.wire.alike import Alike
from tiercel.wire.base_header import INTERNAL
from tiercel.wire.framer import Framer
from tiercel.wire.internal_packets import (
    REQUEST_PADDING,
    RESPONSE_PADDING,
    RESPONSE_RESERVED,
    ConnectionParameters,
    ConnectionParametersHeader,
    EstablishConnection,
    EstablishConnectionHeader,
    SessionAck,
)
from tiercel.wire.kinship import has_mark, with_mark
from tiercel.wire.order_ack import FinalAck, OrderAck, recognise
from tiercel.wire.packet import decode_packet
from tiercel.wire.security_header import ENCRYPTED_BODY
from tiercel.wire.session_header import SessionHeader
from tiercel.wire.user_header import ARRIVED_OVER_HTTP
from tiercel.wire.user_message import UserMessage

if TYPE_CHECKING:
    from tiercel.binary.next_hop import NextHop

_OPERATING_SYSTEM = 0x0010  # RE; the other bits are not used
_NO_PING = 0x0100  # SE
_INITIALIZATION_MS = 60_000
_SETUP_PACKET_MAX = 1024  # limits the memory for a peer that has not been accepted yet
_CLEANUP_MS = 300_000
_CLEANUP_OF_ROUTER_MS = 120_000
_PIGGYBACK_AFTER = 0.75  # of the delay after which an acknowledgement is sent by itself
_DIRECT_FACTOR = 2  # QosCleanupIntervalMultiplier


Arrived = Alike | OrderAck | FinalAck


class Owner(Protocol):
    def is_full(self, session: "Session") -> bool:
        """Whether this session exceeds the limit."""

    def established(self, session: "Session", status: ConnectionStatus) -> None:
        """The set-up made progress."""

    def opened(self, session: "Session") -> None: ...

    def arrived(self, session: "Session", run: Sequence[Arrived]) -> Iterable[Arrived]:
        """Messages that arrived together, in order; yields them, or parts of them, once they are processed.

        A `ProtocolError` means that the next one could not be stored.
        """

    def must_wait(self, session: "Session", packet: UserMessage) -> bool:
        """Whether an encrypted message, and what comes after it, has to wait until `resume` is called."""

    def acknowledged(self, session: "Session", done: list[Acked]) -> None:
        """Sent messages were acknowledged; there may be room for more now."""

    def closed(self, session: "Session") -> None: ...


class Session:
    def __init__(
        self,
        context: Context,
        owner: Owner,
        connection: int,
        address: str,
        *,
        expected_guid: UUID | None = None,
        is_direct: bool = False,
        is_pinged: bool = False,
        is_initiator: bool = False,
        is_for_applications: bool = False,
        host: str = "",
        is_to_router: bool = False,
        certificate: Certificate | None = None,
    ) -> None:
        self.connection = connection
        self.address = address  # RemoteQMAddress; for an accepted session, the source address (MQQB T23)
        self.remote_guid = expected_guid or NULL_GUID
        self.is_initiator = is_initiator
        self.is_for_applications = is_for_applications  # dialled for messages of applications
        self.saw_direct_name = False  # DirectFormatSession
        self.host = host  # the name or address that we dialled
        self.certificate = certificate  # of the peer, over TLS
        self.has_other_address = False  # acknowledges messages that were sent to another address
        self.disbelieved = 0  # acknowledgements that were not believed
        self.next_hops: dict[NextHop, None] = {}  # those that use this session
        self.is_writable = True
        self.held: dict[bytes, UserMessage] = {}  # pending acknowledgements of the protocol itself
        self.state = State.CONNECTING if is_initiator else State.WAITING_EC
        self.flight = Flight()
        self.receipts = Receipts()
        self.is_tiercel = False  # whether the peer has shown that it is one, too
        self.peer_window = context.settings.window_size
        self.failure = ConnectionStatus.UNKNOWN_FAILURE
        self.error = 0  # HRESULT
        self.failure_reason = ""  # for people, if `failure` does not say it
        self.is_active = False  # SessionActive: messages were sent or received
        self.unopened: Alike | None = None  # waits for its session key, and the rest of the stream too
        self._context = context
        self._owner = owner
        self._is_pinged = is_pinged
        self._is_to_router = is_to_router
        self._framer = Framer()
        settings = context.settings
        self._ack_timeout_ms = _within(
            settings.ack_timeout_ms + settings.round_trip_delay_ms, ACK_TIMEOUT_MIN_MS, ACK_TIMEOUT_MAX_MS
        )
        self._recoverable_ack_timeout_ms = RECOVERABLE_ACK_TIMEOUT_MAX_MS
        self._ack_wait_factor = _DIRECT_FACTOR if is_direct else 1
        self._is_partial = False  # whether the packet being received is counted
        self._has_received = False  # ReceivedAck: a sign of life of the peer
        self._ack_timer_length = 0.0
        timers = context.timers
        timers.set(self.clean_up, context.after_ms(self._cleanup_ms))
        timers.set(self.give_up, context.after_ms(self._initialization_ms))

    def __str__(self) -> str:
        return f"session {self.connection} with {self.address}"

    @property
    def is_open(self) -> bool:
        return self.state is State.OPEN

    @property
    def is_closed(self) -> bool:
        return self.state is State.CLOSED

    @property
    def is_router(self) -> bool:
        """Whether the peer may speak for other queue managers."""
        return self._is_to_router or self._context.peers.is_router(self.address)

    @property
    def is_pinned(self) -> bool:
        """Whether the GUID of the peer is proved by TLS, or pinned to its address."""
        return self.certificate is not None or self._context.peers.is_pinned(self.remote_guid)

    @property
    def window(self) -> int:
        """Our own: larger if the peer is a Tiercel, too, unless a small one is configured."""
        settings = self._context.settings
        if not self.is_tiercel or settings.window_size < DEFAULT_WINDOW_SIZE:
            return settings.window_size
        return max(settings.window_size, settings.tiercel_window_size)

    @property
    def room(self) -> int:
        """How many messages may be sent now: the smaller window counts, and 0 is a window of 1 (MQQB T61)."""
        if self.state is not State.OPEN or not self.is_writable or self.flight.is_overdue:
            return 0
        return max(min(self.window, self.peer_window), 1) - self.flight.size

    @property
    def _initialization_ms(self) -> int:
        return _INITIALIZATION_MS + 2 * self._context.settings.round_trip_delay_ms

    @property
    def _cleanup_ms(self) -> int:
        settings = self._context.settings
        usual = _CLEANUP_OF_ROUTER_MS if settings.routing_server else _CLEANUP_MS
        return settings.cleanup_ms or usual

    # Set-up.

    def establish(self) -> None:
        """Sending an EstablishConnection Request Packet: [MS-MQQB] 3.1.5.2.3.

        The connection is open; the initiator sends first.
        """
        context = self._context
        self.state = after(self.state, Event.CONNECTED)
        context.timers.set(self.give_up, context.after_ms(self._initialization_ms))
        own, time_stamp = context.queue_manager.identifier, context.milliseconds
        header = EstablishConnectionHeader(
            own,
            self.remote_guid,
            time_stamp,
            _OPERATING_SYSTEM | (0 if self._is_pinged else _NO_PING),
            padding=with_mark(REQUEST_PADDING, own, time_stamp),
        )
        self._write(EstablishConnection.of(header).encode())
        self._owner.established(self, ConnectionStatus.IN_PROCESS)

    def _establish_connection(self, packet: EstablishConnection) -> None:
        if self.is_initiator:
            self._take_answer(packet)
        else:
            self._answer(packet)

    def _answer(self, packet: EstablishConnection) -> None:
        """Receiving an EstablishConnection request: [MS-MQQB] 3.1.5.3.1."""
        own, header = self._context.queue_manager.identifier, packet.header
        # A sender with a direct name does not know the GUID, and sends none (MQQB T15).
        is_for_us = header.server_guid in {own, NULL_GUID}
        is_from_us = header.client_guid == own
        if not is_from_us:
            self.remote_guid = header.client_guid
        reason = "from ourselves" if is_from_us else self._reason_to_refuse(is_for_us=is_for_us)
        self.is_tiercel = has_mark(header.padding, header.client_guid, header.time_stamp)
        padding = with_mark(RESPONSE_PADDING, own, header.time_stamp) if self.is_tiercel else RESPONSE_PADDING
        answer = EstablishConnectionHeader(
            header.client_guid,
            own,
            header.time_stamp,
            _OPERATING_SYSTEM | header.operating_system & _NO_PING,
            padding=padding,
        )
        reply = EstablishConnection.of(answer, refused=bool(reason), reserved=RESPONSE_RESERVED)
        self._write(reply.encode())
        if is_from_us:
            self._end_with_ourselves()
        if reason:  # do not wait for more (MQQB T24)
            raise ProtocolError(f"refused: {reason}")

    def _reason_to_refuse(self, *, is_for_us: bool) -> str:
        """Empty if the session is welcome."""
        if not is_for_us:
            return "it is meant for another queue manager"
        if reason := self._context.peers.refusal(self.remote_guid, self.address, self.certificate):
            return reason
        return "too many sessions" if self._owner.is_full(self) else ""

    def _take_answer(self, packet: EstablishConnection) -> None:
        """Receiving an EstablishConnection response: [MS-MQQB] 3.1.5.3.2."""
        header, context = packet.header, self._context
        if header.server_guid == context.queue_manager.identifier:
            self._end_with_ourselves()
        self._end_if_refused(packet)
        if header.client_guid != context.queue_manager.identifier:
            raise ProtocolError(f"the answer is for {header.client_guid}, not for us")
        if self.remote_guid not in {NULL_GUID, header.server_guid}:
            raise ProtocolError(f"{header.server_guid} answers, not {self.remote_guid}")
        self._check_proof(header.server_guid)
        if reason := context.peers.pin_violation(
            header.server_guid, self.address, self.host, self.certificate
        ):
            raise ProtocolError(reason)
        self.is_tiercel = has_mark(header.padding, header.server_guid, header.time_stamp)
        self.remote_guid = header.server_guid  # learned here if it was not known (MQQB T14)
        elapsed = (context.milliseconds - header.time_stamp) & 0xFFFF_FFFF
        self._recoverable_ack_timeout_ms = _within(
            8 * elapsed, RECOVERABLE_ACK_TIMEOUT_MIN_MS, RECOVERABLE_ACK_TIMEOUT_MAX_MS
        )
        self._write_parameters()
        self._owner.established(self, ConnectionStatus.ESTABLISH_PACKET_RECEIVED)

    def _check_proof(self, guid: UUID) -> None:
        """End a session whose peer does not prove its GUID over TLS; messages wait, and tell why."""
        if reason := self._context.peers.proof_violation(guid, self.certificate):
            self.fail_proof(f"{self.host or self.address}: {reason}")
            raise ProtocolError(reason)

    def fail_proof(self, reason: str) -> None:
        self.failure = ConnectionStatus.CERTIFICATE_VALIDATION_FAILURE
        self.failure_reason = reason

    def _end_if_refused(self, packet: EstablishConnection | ConnectionParameters) -> None:
        """Both packets of the set-up may carry a refusal (MQQB-016)."""
        if packet.internal.is_refused:
            self.failure = ConnectionStatus.CONNECTION_REFUSED
            raise ProtocolError("the peer refused the session")

    def _end_with_ourselves(self) -> Never:
        self.failure, self.error = ConnectionStatus.CONNECTION_REFUSED, ReachedOurselvesError.code
        raise ProtocolError("we have reached ourselves; add the name or address to [node] names")

    def _write_parameters(self) -> None:
        header = ConnectionParametersHeader(
            self._recoverable_ack_timeout_ms, self._ack_timeout_ms, window_size=self.window
        )
        self._write(ConnectionParameters.of(header).encode())

    def _connection_parameters(self, packet: ConnectionParameters) -> None:
        """Receiving a ConnectionParameters Packet: [MS-MQQB] 3.1.5.4."""
        self._end_if_refused(packet)
        header = packet.header
        self.peer_window = header.window_size
        if not self.is_initiator:
            # The initiator's timeouts apply to both sides (MQQB T74), clamped to the valid range.
            self._ack_timeout_ms = _within(header.ack_timeout, ACK_TIMEOUT_MIN_MS, ACK_TIMEOUT_MAX_MS)
            self._recoverable_ack_timeout_ms = _within(
                header.recoverable_ack_timeout,
                RECOVERABLE_ACK_TIMEOUT_MIN_MS,
                RECOVERABLE_ACK_TIMEOUT_MAX_MS,
            )
            self._write_parameters()
        self._context.timers.cancel(self.give_up)
        self._owner.opened(self)

    def give_up(self) -> None:
        """Session Initialization Timer Event ([MS-MQQB] 3.1.6.6)."""
        self.close(f"no session after {self._initialization_ms} ms")

    # Packets.

    def receive(self, data: bytes) -> None:
        """Receiving Any Packet: [MS-MQQB] 3.1.5.1. Messages that arrive together are passed on as one run."""
        self._framer.receive(data)
        if self.unopened is None:
            self._take_packets([])
        else:
            self._has_received = True
            self._hold_partial_packet(is_another=False)

    def resume(self) -> None:
        """The message that the stream waits for can be opened now."""
        message, self.unopened = self.unopened, None
        if message is not None and not self.is_closed:
            self._take_packets([message])

    def _take_packets(self, run: list[Arrived]) -> None:
        """Take everything that has arrived; `run` are messages that came before it."""
        is_another = bool(run)
        try:
            for packet in self._framer.packets():
                self._has_received = is_another = True
                if not packet[2] & INTERNAL:
                    message = self._message(packet)
                    if isinstance(message, Alike) and self._must_wait(message.first):
                        self.unopened = message
                        break
                    run.append(message)
                    continue
                before, run = run, []
                self._take_run(before)
                if self.is_closed:
                    return
                self._take(packet)
                if self.is_closed:
                    return
            self._check_size()
        except (DecodeError, ProtocolError) as problem:
            self._end_with(run, str(problem))
        else:
            self._end_with(run, "")
        if self._is_partial or self._framer.buffered > SMALL:
            self._hold_partial_packet(is_another=is_another)

    def _must_wait(self, message: UserMessage) -> bool:
        return bool(message.security_flags & ENCRYPTED_BODY) and self._owner.must_wait(self, message)

    def _hold_partial_packet(self, *, is_another: bool) -> None:
        """Count the bytes of an incomplete packet; `is_another`: the one that was counted before is over."""
        partial_packets, size = self._context.partial_packets, self._framer.buffered
        if is_another:
            partial_packets.release(self.close)
        self._is_partial = size > SMALL and not self.is_closed
        if self._is_partial:
            partial_packets.hold(self.close, size, self._context.settings.partial_packet_bytes)

    def _end_with(self, run: list[Arrived], problem: str) -> None:
        """Take the last run, then close if there was a problem: messages before a bad packet count."""
        try:
            self._take_run(run)
        except (DecodeError, ProtocolError) as first:
            problem = str(first)
        if problem:
            self.close(problem)

    def _check_size(self) -> None:
        if self.state is not State.OPEN and self._framer.wanted > _SETUP_PACKET_MAX:
            raise ProtocolError(f"a packet of {self._framer.wanted} bytes while {self.state.value}")

    def _take(self, data: bytes) -> None:
        """Identifying Packet Type: [MS-MQQB] 3.1.5.1.1."""
        packet = decode_packet(data)
        self.state = after(self.state, EVENT_OF_PACKET[type(packet)])
        match packet:
            case EstablishConnection():
                self._establish_connection(packet)
            case ConnectionParameters():
                self._connection_parameters(packet)
            case SessionAck():
                self._session_header(packet.header)

    def _message(self, data: bytes) -> Arrived:
        message = UserMessage(data)
        if message.flags & ARRIVED_OVER_HTTP:  # MUST NOT be set when sent: [MS-MQMQ] 2.2.20.1
            raise ProtocolError("the packet says that it came over HTTP, which no sender may say")
        packet = recognise(message)
        if self.state is not State.OPEN:
            after(self.state, EVENT_OF_PACKET[type(packet)])
        return self._framer.take_alike(packet) if isinstance(packet, UserMessage) else packet

    def _take_run(self, run: Sequence[Arrived]) -> None:
        if not run:
            return
        self.is_active = True
        for packet in self._owner.arrived(self, run):
            if self.state is not State.OPEN:
                return
            # Counted only once it is processed, whatever became of it (MQQB T08).
            if isinstance(packet, Alike):
                self._count(len(packet), recoverable=packet.first.is_recoverable)
                header = packet.session
            else:
                self._count(1, recoverable=packet.message.is_recoverable)
                header = packet.message.session
            if header is not None:
                self._session_header(header)
                if self.state is not State.OPEN:
                    return

    # Acknowledging received messages.

    def _count(self, count: int, *, recoverable: bool) -> None:
        """Recoverable Message Processing: [MS-MQQB] 3.1.5.8.7.

        Acknowledges as often as it would if the messages came one by one.
        """
        receipts, timers = self.receipts, self._context.timers
        # A sender that has used up half of the window must not wait for a timer (MQQB T10).
        at_once = max(min(self.window, self.peer_window) // 2, 1)
        while count:
            if not recoverable:
                if not timers.is_set(self.ack_is_due):
                    self._start_ack_timer(self._ack_timeout_ms // 2)
            elif not receipts.has_recoverable:
                self._start_ack_timer(self._recoverable_ack_timeout_ms)
            some = min(count, max(at_once - receipts.unacked, 1))
            if recoverable:
                some = min(some, receipts.room)
            receipts.count(some, recoverable=recoverable)
            count -= some
            # With the last bit, not before the next message (MQQB-077): it may never come.
            if receipts.unacked >= at_once or not receipts.room:
                self.send_ack()

    def _start_ack_timer(self, milliseconds: float) -> None:
        self._ack_timer_length = milliseconds / 1000
        self._context.timers.set(self.ack_is_due, self._context.after_ms(milliseconds))

    def ack_is_due(self) -> None:
        """Session Ack Send Timer Event: [MS-MQQB] 3.1.6.4.

        Stopped while there is nothing to acknowledge (MQQB T35).
        """
        if self.receipts.unacked:
            self.send_ack()

    def send_ack(self, window: int | None = None) -> None:
        self._write(SessionAck.of(self._acknowledgement(window)).encode())

    def _acknowledgement(self, window: int | None = None) -> SessionHeader:
        self._context.timers.cancel(self.ack_is_due)
        own = self.window if window is None else window
        return self.receipts.acknowledge(self.flight.sent, self.flight.recoverable_sent, own)

    def _should_piggyback(self) -> bool:
        if not self.receipts.unacked:
            return False
        at = self._context.timers.at(self.ack_is_due)
        if at is None:
            return False
        return at - self._context.now < self._ack_timer_length * (1 - _PIGGYBACK_AFTER)

    # Sending.

    def send(self, run: Sequence[tuple[Entry, Sequence[bytes]]]) -> None:
        """Updating the UserMessage Packet: [MS-MQQB] 3.1.7.1.3.

        Send messages; the bytes are their packets, possibly with an updated position in the stream. The last
        one, whose number is that of its header, carries an acknowledgement that is nearly due.
        """
        self.flight.add([entry for entry, _ in run])
        packets = [packet for _, packets in run for packet in packets]
        if self._should_piggyback():
            packets[-1] = UserMessage(packets[-1]).with_session(self._acknowledgement())
        self.is_active = True
        if not self._context.timers.is_set(self.no_ack_came):
            self._start_ack_wait()
        self._context.write(self.connection, *packets)

    def send_or_hold(self, about: bytes, packet: UserMessage) -> None:
        """Send an acknowledgement of the protocol itself; it replaces an older one that still waits."""
        self.held[about] = packet
        self.send_held()

    def send_held(self) -> None:
        while self.held and self.room > 0:
            packet = self.held.pop(next(iter(self.held)))
            self.send([(Entry(None, packet.is_recoverable), (packet.data,))])

    def _write(self, data: bytes) -> None:
        self._context.write(self.connection, data)

    def _session_header(self, header: SessionHeader) -> None:
        """Receiving a SessionAck Packet, or a SessionHeader on a message: [MS-MQQB] 3.1.5.5, 3.1.5.8.4."""
        self.peer_window = header.window_size
        done = self.flight.acknowledge(header)
        if self.flight.is_empty:
            self._context.timers.cancel(self.no_ack_came)
        else:
            self._start_ack_wait()
        self._owner.acknowledged(self, done)
        # Last: a wrong count must not keep us from processing the acknowledgements (MQQB T45).
        if not self.receipts.agree(header) and self._context.settings.check_counts:
            sent, stored = header.user_msg_sequence_number, header.recoverable_msg_seq_number
            counted = f"{self.receipts.received} and {self.receipts.recoverable_received}"
            raise ProtocolError(f"the peer has sent {sent} messages, {stored} recoverable; {counted} came")

    # Liveness.

    def _start_ack_wait(self) -> None:
        length = self._ack_timeout_ms * self._ack_wait_factor
        self._context.timers.set(self.no_ack_came, self._context.after_ms(length))

    def no_ack_came(self) -> None:
        """Session Ack Wait Timer Event ([MS-MQQB] 3.1.6.3): any packet since the last expiry extends it."""
        if self.flight.is_empty:
            self._has_received = False
        elif self._has_received:
            self._has_received = False
            self._start_ack_wait()
        else:
            self.close("the peer acknowledges nothing and says nothing")

    def clean_up(self) -> None:
        """Session Cleanup Timer Event: [MS-MQQB] 3.1.6.2.

        Close a session that carried no message for a whole period.
        """
        # With unacknowledged messages it is not idle, or a short interval would resend them forever.
        if self.is_active or self.receipts.unacked or not self.flight.is_empty:
            self.is_active = False
            self._context.timers.set(self.clean_up, self._context.after_ms(self._cleanup_ms))
        else:
            self.close("idle")

    def close(self, reason: str) -> None:
        """Closing a Session: [MS-MQQB] 3.1.5.9.

        End the session; the protocol has no packet for that (MQQB-093).
        """
        if self.state is State.CLOSED:
            return
        self.state = State.CLOSED
        for timer in (self.give_up, self.clean_up, self.no_ack_came, self.ack_is_due):
            self._context.timers.cancel(timer)
        self._context.partial_packets.release(self.close)
        self._framer = Framer()  # half a packet may be large, and the session may wait for the collector
        self.unopened = None
        event = SessionEvent(self.connection, "closed", self.address, self.remote_guid, reason)
        self._context.close(self.connection, event)
        self._owner.closed(self)


def _within(value: int, least: int, most: int) -> int:
    return min(max(value, least), most)
