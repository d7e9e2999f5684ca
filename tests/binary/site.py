"""One queue manager, and peers that speak to it packet by packet: no sockets, and a clock to turn by hand.

    site = Site()
    peer = site.accepts()              # somebody connects to it
    peer.says(establish(PEER))
    peer.hears(EstablishConnection)    # the next packet that it sends, of this kind
    site.wait(60_000)                  # milliseconds; every timer runs at its own moment
    peer.assert_closed()

    site.sends(b"1")                   # it has a message for the peer, and dials
    peer = site.connects()

What a peer did not hear by name it must not have been told: `assert_closed` and `assert_silence` look.
"""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import Any, TypeVar
from uuid import UUID

from tiercel.binary.actions import Action, Dial, Resolve, SendDatagram, SessionEvent
from tiercel.binary.protocol import BinaryProtocol
from tiercel.binary.session import Session
from tiercel.binary.settings import Peer as PeerSettings
from tiercel.binary.settings import Settings
from tiercel.binary.transitions import State
from tiercel.engine.engine import Engine
from tiercel.engine.identity import Identity
from tiercel.engine.machine import Close, Write
from tiercel.engine.queue_state import QueueState
from tiercel.model.codes import ConnectionStatus, OutgoingQueueState, QueueAccess
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import NULL_GUID, MessageId, TxSequenceId
from tiercel.model.message import Message
from tiercel.model.path_name import PathName
from tiercel.model.queue import OutgoingQueue
from tiercel.security.access import Token
from tiercel.server.node import Node
from tiercel.store.memory_store import MemoryStore
from tiercel.wire.framer import Framer
from tiercel.wire.internal_packets import (
    RESPONSE_PADDING,
    ConnectionParameters,
    ConnectionParametersHeader,
    EstablishConnection,
    EstablishConnectionHeader,
    SessionAck,
)
from tiercel.wire.message import encode_message
from tiercel.wire.packet import Packet, decode_packet
from tiercel.wire.session_header import SessionHeader
from tiercel.wire.user_message import UserMessage

P = TypeVar("P")
T = TypeVar("T")

NOW = 1_700_000_000
REMOVED_MS = 5  # after the acknowledgement of stored messages, at most
UPTIME_S = 1_000.0
SYSTEM = Token.local_system()
PEER = UUID("11ea26c6-b6e6-4997-9595-9150557358d1")
ADDRESS = "192.0.2.2"  # of the peer
HERE = r"DIRECT=OS:.\private$\q"
THERE = rf"DIRECT=TCP:{ADDRESS}\private$\q"
PRIVATE = rf"PRIVATE={PEER}\0000000a"
PINNED = PeerSettings(
    guid=PEER, addresses=("0.0.0.0/0",)
)  # what waits for it leaves on its own sessions, too


class Site:
    """The queue manager; `addresses` says what the names of computers stand for, `[]` for a name unknown."""

    def __init__(
        self, store: MemoryStore | None = None, *, uptime_s: float = UPTIME_S, **settings: Any
    ) -> None:
        self.store = store or MemoryStore()
        self.elapsed_ms = 0.0
        self.actions: list[tuple[int, Action]] = []  # everything it did, with the time in milliseconds
        self.addresses: Mapping[str, list[str]] = {}
        self.dials: deque[Dial] = deque()
        self.datagrams: deque[SendDatagram] = deque()
        self.peers: dict[int, Peer] = {}
        self._questions: deque[str] = deque()
        self._uptime_s = uptime_s
        guids = (UUID(int=number, version=4) for number in count(1))
        self.engine = Engine(
            self.store, Identity("SITE"), now=NOW, owner=SYSTEM, new_guid=lambda: next(guids)
        )
        settings.setdefault("peers", (PINNED,))
        self.protocol = BinaryProtocol(self.engine, Settings(**settings))
        self.node = Node(
            self.engine,
            wall_clock=lambda: NOW + self.elapsed_ms / 1000,
            monotonic_clock=lambda: self._uptime_s + self.elapsed_ms / 1000,
        )
        self.node.attach(self.protocol, self._perform)

    @property
    def guid(self) -> UUID:
        return self.engine.queue_manager.identifier

    # Its time, its inputs, and what it does.

    def run(self, command: Callable[[], T]) -> T:
        self.node.begin()
        result = command()
        self.node.commit()
        if self._questions:
            host = self._questions.popleft()
            self.run(lambda: self.protocol.resolved(host, list(self.addresses.get(host, [host]))))
        return result

    def wait(self, milliseconds: float) -> None:
        end = self.elapsed_ms + milliseconds
        while (due := self.protocol.next_deadline) is not None:
            at = (due - self._uptime_s) * 1000
            if at > end + 0.001:
                break
            self.elapsed_ms = max(at, self.elapsed_ms)
            self.run(lambda: None)
        self.elapsed_ms = end
        self.run(lambda: None)

    def _perform(self, actions: list[Action]) -> None:
        self.actions += [(round(self.elapsed_ms), action) for action in actions]
        for action in actions:
            match action:
                case Resolve(host):
                    self._questions.append(host)
                case Dial():
                    self.dials.append(action)
                case Write(connection, data):
                    self.peers[connection].take(data)
                case Close(connection) if connection in self.peers:
                    self.peers[connection].is_closed = True
                case SendDatagram():
                    self.datagrams.append(action)

    def did(self, kind: type[P]) -> list[tuple[int, P]]:
        """What it did of one kind, and when."""
        return [(at, action) for at, action in self.actions if isinstance(action, kind)]

    def dialled(self) -> list[tuple[int, str]]:
        return [(at, dial.address) for at, dial in self.did(Dial)]

    def events(self) -> list[str]:
        return [event.event for _, event in self.did(SessionEvent)]

    # Connections.

    def accepts(self, guid: UUID = PEER) -> "Peer":
        """A peer connects to it."""
        connection = self.run(lambda: self.protocol.accepted(ADDRESS))
        self.peers[connection] = Peer(self, connection, guid)
        return self.peers[connection]

    def connects(self, guid: UUID = PEER) -> "Peer":
        """The connection that it dialled comes about, and it speaks first."""
        connection = self.dials.popleft().connection
        peer = self.peers[connection] = Peer(self, connection, guid)
        self.run(lambda: self.protocol.connected(connection))
        return peer

    def fails_to_connect(self, status: ConnectionStatus = ConnectionStatus.SOCKET_CONNECT_FAILURE) -> None:
        connection = self.dials.popleft().connection
        self.run(lambda: self.protocol.connect_failed(connection, status, 10061))

    def opens(self, **parameters: int) -> "Peer":
        """A peer has connected to it, and the session is open."""
        peer = self.accepts()
        peer.says(establish(peer.guid), peer.parameters(**parameters))
        peer.hears(EstablishConnection)
        peer.hears(ConnectionParameters)
        return peer

    def reaches(self, guid: UUID = PEER, **parameters: int) -> "Peer":
        """It has connected to the peer, and the session is open."""
        peer = self.connects(guid)
        peer.answers(peer.hears(EstablishConnection))
        peer.hears(ConnectionParameters)
        peer.says(peer.parameters(**parameters))
        return peer

    # Queues and messages.

    def creates(self, name: str, *, transactional: bool = False) -> QueueState:
        path = PathName.parse(rf".\private$\{name}")
        return self.run(lambda: self.engine.queues.create(path, SYSTEM, transactional=transactional))

    def sends(self, *bodies: bytes, to: str = THERE, transactional: bool = False, **properties: Any) -> None:
        """In one batch, so all of them are there before the first goes out."""

        def send() -> None:
            opened = self.engine.opening.open(FormatName.parse(to), QueueAccess.SEND, token=SYSTEM)
            transaction = self.engine.transactions.begin() if transactional else None
            for body in bodies:
                self.engine.sending.send(opened, Message(body, **properties), transaction)
            if transaction is not None:
                self.engine.transactions.commit(transaction.id)

        self.run(send)

    def state(self, to: str = THERE) -> QueueState:
        return self.engine.queues.get(FormatName.parse(to))

    def outgoing(self, to: str = THERE) -> OutgoingQueue:
        queue = self.state(to).queue
        assert isinstance(queue, OutgoingQueue)
        return queue

    def history(self, to: str = THERE) -> list[ConnectionStatus]:
        return [entry.status for entry in self.outgoing(to).connection_history]

    def assert_queue_is(self, state: OutgoingQueueState, to: str = THERE) -> None:
        assert self.outgoing(to).state is state

    def bodies(self, to: str = THERE) -> list[bytes]:
        """Of all messages in a queue of its own, or those it still holds for another, in flight or not.

        What is stored and acknowledged is removed a moment later.
        """
        self.wait(REMOVED_MS)

        def read() -> list[bytes]:
            queue, at, found = self.state(to), 0, []
            while (each := queue.at_or_after(self.engine._core, at)) is not None:
                at = each[0] + 1
                record = queue.get(self.engine._core, each[0])
                assert record is not None
                found.append(UserMessage(record.packet).body)
            return found

        return self.run(read)


class Peer:
    """The other end of one connection; it counts as it should, and says what a test has it say."""

    def __init__(self, site: Site, connection: int, guid: UUID) -> None:
        self.site = site
        self.connection = connection
        self.guid = guid
        self.is_closed = False
        self.raw = b""
        self.sent = self.recoverable_sent = 0
        self._heard: deque[Packet] = deque()
        self._framer = Framer()

    @property
    def session(self) -> Session:
        """What the site has at its end."""
        return self.site.protocol._sessions[self.connection]

    # Speaking.

    def says(self, *packets: Any) -> None:
        """Each packet, or bytes, in a read of its own."""
        for packet in packets:
            data = packet if isinstance(packet, bytes) else packet.encode()
            self.site.run(partial(self.site.protocol.received, self.connection, data))

    def sends(self, *messages: bytes) -> None:
        """Messages, all in one read."""
        for data in messages:
            self.sent += 1
            self.recoverable_sent += UserMessage(data).is_recoverable
        self.says(b"".join(messages))

    def answers(self, request: EstablishConnection, **changes: Any) -> None:
        """To the first packet of an initiator; `refused` and fields of the header may differ."""
        refused = changes.pop("refused", False)
        header: dict[str, Any] = {
            "client_guid": request.header.client_guid,
            "server_guid": self.guid,
            "time_stamp": request.header.time_stamp,
            "operating_system": request.header.operating_system,
            "padding": RESPONSE_PADDING,
        }
        self.says(EstablishConnection.of(EstablishConnectionHeader(**header | changes), refused=refused))

    def parameters(
        self, recoverable_ack_timeout: int = 1496, ack_timeout: int = 20_000, window: int = 64
    ) -> ConnectionParameters:
        return ConnectionParameters.of(
            ConnectionParametersHeader(recoverable_ack_timeout, ack_timeout, window_size=window)
        )

    def header(self, received: int = 0, first: int = 0, flags: int = 0, window: int = 64) -> SessionHeader:
        return SessionHeader(
            received, first, flags, self.sent & 0xFFFF, self.recoverable_sent & 0xFFFF, window
        )

    def acks(self, received: int = 0, first: int = 0, flags: int = 0, window: int = 64) -> None:
        self.says(SessionAck.of(self.header(received, first, flags, window)))

    def hangs_up(self, error: int = 0) -> None:
        self.is_closed = True
        self.site.run(lambda: self.site.protocol.disconnected(self.connection, error))

    # Hearing.

    def take(self, data: bytes) -> None:
        assert not self.is_closed, "it writes to a connection that it has closed"
        self.raw += data
        self._framer.receive(data)
        self._heard.extend(decode_packet(packet) for packet in self._framer.packets())

    def hears(self, kind: type[P]) -> P:
        assert self._heard, f"no {kind.__name__} came"
        packet = self._heard.popleft()
        assert isinstance(packet, kind)
        return packet

    def hears_messages(self) -> list[bytes]:
        """The bodies of all messages that came, and nothing but messages."""
        messages = [self.hears(UserMessage) for _ in range(len(self._heard))]
        return [message.body for message in messages]

    @property
    def has_heard(self) -> bool:
        """Whether something came that nobody has asked for yet."""
        return bool(self._heard)

    def assert_silence(self) -> None:
        assert not self._heard

    def assert_open(self) -> None:
        assert not self.is_closed
        assert self.session.state is State.OPEN

    def assert_closed(self) -> None:
        """Without a word."""
        assert self.is_closed
        assert self.connection not in self.site.protocol._sessions
        self.assert_silence()


def establish(client: UUID = PEER, server: UUID = NULL_GUID, **fields: Any) -> EstablishConnection:
    """The first packet of an initiator."""
    return EstablishConnection.of(EstablishConnectionHeader(client, server, **fields))


def letter(
    number: int,
    *,
    recoverable: bool = False,
    queue: str = r"DIRECT=OS:SITE\private$\q",
    session: SessionHeader | None = None,
    source: UUID = PEER,
    **properties: Any,
) -> bytes:
    """A message of the peer as a packet; its number is its id, and its body."""
    message = Message(
        str(number).encode(),
        delivery=int(recoverable),
        destination_queue=FormatName.parse(queue),
        id=MessageId(source, number),
        sent_time=NOW,
        **properties,
    )
    packet = encode_message(message)
    return packet if session is None else UserMessage(packet).with_session(session)


def letters(first: int, last: int, *, recoverable: bool = False) -> list[bytes]:
    return [letter(number, recoverable=recoverable) for number in range(first, last + 1)]


def in_stream(number: int, queue: str = r"DIRECT=OS:SITE\private$\tx") -> bytes:
    """A transactional message of the peer, at its place in the one stream that it has."""
    return letter(
        number,
        queue=queue,
        transaction_id=1,
        tx_sequence_id=TxSequenceId(1, 1),
        tx_sequence_number=number,
        previous_tx_sequence_number=number - 1,
    )
