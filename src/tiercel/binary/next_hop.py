"""One next hop: the outgoing queues that use it, and the attempts to connect. [MS-MQQB] 3.1.5.2.

The specification ties a session to one outgoing queue. Here all queues with the same next hop share one, as
peers expect; their states and their connection histories are kept in step.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple
from uuid import UUID

from tiercel.binary.actions import Dial
from tiercel.binary.context import Context
from tiercel.binary.lookups import Lookups
from tiercel.binary.pinging import Pinging
from tiercel.binary.session import Session
from tiercel.binary.settings import Peer
from tiercel.binary.transitions import Event, State, after
from tiercel.engine.carriers import CarrierQueues, is_held
from tiercel.engine.queue_state import QueueState
from tiercel.model.codes import ConnectionStatus, OutgoingQueueState
from tiercel.model.queue import OutgoingQueue

_LOST_AFTER_S = 3600


class AcknowledgementsTo(NamedTuple):
    """The key of the next hop for acknowledgements to a queue manager, which has rules of its own."""

    guid: UUID
    address: str = ""  # where the messages that they answer came from; empty if through a router


Key = UUID | str | AcknowledgementsTo


class NextHop:
    def __init__(
        self,
        context: Context,
        carried: CarrierQueues,
        new_connection: Callable[["NextHop"], int],
        pinging: Pinging,
        lookups: Lookups,
        key: "Key",
        *,
        guid: UUID | None = None,
    ) -> None:
        self.key = key
        self.guid = guid  # None for a direct name: any queue manager that answers is accepted
        self.is_final = True  # whether the hop is the destination itself, not a router
        self.hosts: Callable[[], list[str]]  # names or addresses, the preferred one first
        self.rested: Callable[[NextHop], None] = lambda _next_hop: (
            None
        )  # called when no queue has anything to send
        # Uses an open session that the peer has initiated, if there is one.
        self.finds_session: Callable[[NextHop], bool] = lambda _next_hop: False
        self.queues: dict[QueueState, None] = {}
        self.ready: dict[QueueState, None] = {}  # queues with something to send
        self.session: Session | None = None
        self.connection: int | None = None  # of the current attempt
        self.state: State | None = None  # None when not connecting
        self.address = ""
        self.tls: Peer | None = None  # the peer that is dialled over TLS
        self._context = context
        self._carried = carried
        self._new_connection = new_connection
        self._pinging = pinging
        self._lookups = lookups
        self._host_index = 0
        self.host = ""
        self._addresses: list[str] = []
        self._failing_since: float | None = None
        self._rounds = 0  # rounds of attempts since the last open session
        self.is_pinged = False
        self._is_retry = False

    @property
    def is_for_acknowledgements(self) -> bool:
        return isinstance(self.key, AcknowledgementsTo)

    @property
    def answers_to(self) -> str:
        return self.key.address if isinstance(self.key, AcknowledgementsTo) else ""

    @property
    def expected_guid(self) -> UUID | None:
        """The queue manager that has to answer; None for any."""
        if self.tls is not None:
            return self.tls.guid
        return self.guid if self.is_final else None

    @property
    def is_lost(self) -> bool:
        """Whether every attempt to connect has failed for so long that the peer may have moved."""
        since = self._failing_since
        return since is not None and self._context.now - since >= _LOST_AFTER_S

    @property
    def serves_applications(self) -> bool:
        return any(not queue.is_for_acknowledgements for queue in self.queues)

    @property
    def has_failed(self) -> bool:
        """Whether every address was tried in vain since the last open session."""
        return self._rounds > 0

    def takes(self, queue: QueueState) -> bool:
        """Whether the queue may use this next hop."""
        return queue.is_for_acknowledgements or not self.is_for_acknowledgements

    @property
    def has_work(self) -> bool:
        return any(queue.count for queue in self._sending())

    def _sending(self) -> Iterator[QueueState]:
        return (queue for queue in self.queues if not is_held(queue))

    # Connecting.

    def connect(self) -> None:
        """Start connecting, unless a session exists or is being set up."""
        if self.state is None and self.session is None and self.has_work:
            self._is_retry = False
            self._resolve()

    def _resolve(self) -> None:
        """Resolve Host Address: [MS-MQQB] 3.1.5.2.1."""
        self.state = State.RESOLVING
        hosts = self.hosts()
        if not hosts:
            self._set_state(OutgoingQueueState.NEED_VALIDATION)
            self._failed(ConnectionStatus.ROUTING_DATA_NOT_AVAILABLE)
            return
        self.host = hosts[self._host_index % len(hosts)]
        self._host_index += 1
        peers = self._context.peers
        self.tls = self._welcome(peers.tls_peer(self.guid if self.is_final else None, self.host))
        self._look_up()

    def _welcome(self, peer: Peer | None) -> Peer | None:
        """Whether the peer may answer: under a name of one queue manager another must not be reached."""
        is_other = peer is not None and self.is_final and self.guid not in {None, peer.guid}
        return None if is_other else peer

    def _look_up(self) -> None:
        host = self.host if self.tls is None or self.tls.tls is None else self.tls.tls[0]
        for_acknowledgements = all(queue.is_for_acknowledgements for queue in self._sending())
        self._lookups.ask(host, self._resolved, for_acknowledgements=for_acknowledgements)

    def _resolved(self, addresses: list[str]) -> None:
        if self.state is not State.RESOLVING:  # stopped, or connected by the peer, meanwhile
            return
        if not addresses:
            self._set_state(OutgoingQueueState.NEED_VALIDATION)
            self._failed(ConnectionStatus.DNS_FAILURE)
            return
        if self.tls is None:  # by its address, the host may be a peer that is only reached over TLS
            self.tls = self._welcome(self._context.peers.tls_peer_at(addresses))
            if self.tls is not None:
                self._look_up()
                return
        self._addresses = list(addresses)
        for queue in self._outgoing():
            queue.next_hops = [_next_hop(address) for address in addresses]
        self.address = self._addresses.pop(0)
        self.is_pinged = self._context.settings.ping and not self._is_retry and self.tls is None
        if self.is_pinged:
            self.state = after(self.state, Event.PING_WANTED)
            self._pinging.ask(self.address, self._pinged)
        else:
            self.state = after(self.state, Event.RESOLVED)
            self._dial()

    def _pinged(self, is_welcome: bool) -> None:
        """Ping Response Processed: [MS-MQQB] 3.1.7.9."""
        if self.state is not State.PINGING:
            return
        if is_welcome:
            self.state = after(self.state, Event.RESOLVED)
            self._dial()
        else:
            self._failed(ConnectionStatus.PING_FAILURE)

    def _dial(self) -> None:
        self.connection = self._new_connection(self)
        port = self._context.settings.port if self.tls is None or self.tls.tls is None else self.tls.tls[1]
        self._context.do(Dial(self.connection, self.address, port, is_tls=self.tls is not None))

    def connect_failed(self, status: ConnectionStatus, error: int, reason: str = "") -> None:
        self.connection = None
        if self.state is State.CONNECTING:
            self._failed(status, error, reason)

    def connected(self, session: Session) -> None:
        self.connection = None
        self.session = session
        session.next_hops[self] = None
        self.state = State.WAITING_ECR

    def _failed(self, status: ConnectionStatus, error: int = 0, reason: str = "") -> None:
        assert self.state is not None
        self.state = after(self.state, Event.FAILED)
        self.note(status, error)
        self._explain(reason)
        self._retry_later()

    def _retry_later(self) -> None:
        if not self._addresses:
            self._rounds += 1
            if self._failing_since is None:
                self._failing_since = self._context.now
        if not self.has_work:
            self._rest()
            return
        settings = self._context.settings
        delay = settings.retry_ms * 2 ** min(max(self._rounds - 1, 0), 20)
        delay = min(delay, max(settings.retry_max_ms, settings.retry_ms)) + settings.round_trip_delay_ms
        self.state = State.WAITING_RECONNECT
        self._context.timers.set(self.retry, self._context.after_ms(delay))

    def retry(self) -> None:
        """Session Retry Connect Timer Event: [MS-MQQB] 3.1.6.1.

        Try the next address, or start over after the last (MQQB-096).

        Without a ping, because the ping may be what was lost (MQQB-031).
        """
        if self.state is not State.WAITING_RECONNECT:
            return
        self._is_retry = True
        if not self.has_work:
            self._rest()
        elif self.finds_session(self):
            return
        elif self._addresses:
            self.state = after(self.state, Event.HOP_LEFT)
            self.address = self._addresses.pop(0)
            self.is_pinged = False
            self._dial()
        else:
            self._resolve()

    def hasten(self) -> None:
        """Makes the next attempt to connect at once, if it waits for one."""
        if self.state is State.WAITING_RECONNECT:
            self._context.timers.cancel(self.retry)
            self.retry()

    def _rest(self) -> None:
        self.state = None
        self.rested(self)

    # The session.

    def opened(self, session: Session) -> None:
        """A session to this hop is open: ours, or one that the peer initiated."""
        self._context.timers.cancel(self.retry)
        self.session, self.state = session, State.OPEN
        self._rounds = self._host_index = 0
        self._failing_since = None
        self._addresses = []
        for queue in self._outgoing():
            queue.next_hops = [_next_hop(session.address)]
        self._set_state(OutgoingQueueState.CONNECTED)
        self._explain("")
        self.ready = dict.fromkeys(queue for queue in self._sending() if queue.count)

    def closed(self, session: Session) -> None:
        if self.session is not session:
            return
        was_open = self.state is State.OPEN
        self.session = None
        self._set_state(OutgoingQueueState.DISCONNECTED)
        if not was_open:
            self.note(session.failure, session.error)
            self._explain(session.failure_reason)
        self._retry_later()

    def stop(self) -> None:
        self._context.timers.cancel(self.retry)
        self.state = None

    # The state that outgoing queues show.

    def adopt(self, queue: QueueState) -> None:
        """Add a queue that uses this hop from now on."""
        self.queues[queue] = None
        if self.state is State.OPEN and not is_held(queue):
            assert isinstance(queue.queue, OutgoingQueue)
            queue.queue.state = OutgoingQueueState.CONNECTED

    def drop(self, queue: QueueState) -> None:
        """Remove a queue that uses another hop from now on."""
        self.queues.pop(queue, None)
        self.ready.pop(queue, None)

    def established(self, status: ConnectionStatus) -> None:
        if status is ConnectionStatus.IN_PROCESS:
            self._set_state(OutgoingQueueState.WAITING)
        self.note(status)

    def note(self, status: ConnectionStatus, error: int = 0) -> None:
        for queue in self._outgoing():
            self._carried.note(queue, status, error, self.address)

    def _explain(self, reason: str) -> None:
        """Tell people why the last attempt failed, if the connection history does not say it."""
        for queue in self._outgoing():
            queue.reason = reason

    def next_ready(self) -> QueueState:
        """Remove and return the queue whose turn it is; the caller puts it back if it has more to send."""
        queue = next(iter(self.ready))
        if len(self.ready) > 1:
            queue = max(self.ready, key=lambda each: each.queue.base_priority)
        del self.ready[queue]
        return queue

    def _set_state(self, state: OutgoingQueueState) -> None:
        for queue in self._sending():
            assert isinstance(queue.queue, OutgoingQueue)
            queue.queue.state = state

    def _outgoing(self) -> Iterator[OutgoingQueue]:
        return (queue.queue for queue in self.queues if isinstance(queue.queue, OutgoingQueue))


def _next_hop(address: str) -> str:
    """The form that management shows ([MS-MQMQ] 2.3.12.12)."""
    return f"{'IPv6' if address.count(':') > 1 else 'IP'}={address}"
