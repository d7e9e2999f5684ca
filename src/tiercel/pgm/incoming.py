"""What arrives by multicast: sessions for the subscribed addresses, and their messages for the queues.

[MC-MQSRM] 2.1.2: the request is that of HTTP, without an answer. A message to an address without a queue is
ignored (SRMP-176); what cannot be read or kept is counted and told, because its sender will not repeat it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from tiercel.engine.arrivals import Fate
from tiercel.engine.core import earliest
from tiercel.engine.engine import Engine
from tiercel.engine.queue_state import QueueState
from tiercel.model.errors import DecodeError, MqError
from tiercel.pgm.actions import Action, Join, Leave, MulticastEvent
from tiercel.pgm.framing import Framing
from tiercel.pgm.packet import Data, Nak, Spm
from tiercel.pgm.receiver import Receiver
from tiercel.pgm.session import Session, Shared
from tiercel.pgm.settings import Settings
from tiercel.srmp.http_request import read_multicast
from tiercel.srmp.kinds import Kind, kind_of
from tiercel.srmp.message import read_message
from tiercel.srmp.request import SrmpRequest, read_srmp
from tiercel.srmp.usual_message import Cut, Shape, UsualMessages, cut_multicast, senders_of
from tiercel.wire.alike import Alike
from tiercel.wire.message import encode_message
from tiercel.wire.user_message import UserMessage

Refusal = Callable[[set[UUID], str], str]
_RUN_MAX = 256  # messages


class _Run(NamedTuple):
    """Messages of one shape and one source that are not in their queues yet."""

    shape: Shape
    session: Session
    packets: list[bytes]
    identities: list[bytes]


class Incoming:
    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        draw: Callable[[], float],
        shared: Shared,
        refusal: Refusal,
        do: Callable[[Action], None],
    ) -> None:
        self.receivers: dict[tuple[str, int], Receiver] = {}
        self.messages = 0  # that arrived, before they were copied
        self.dropped: Counter[str] = Counter()  # by reason
        self.ended: Counter[str] = Counter()  # the counts of sessions that are over
        self._engine = engine
        self._settings = settings
        self._draw = draw
        self._shared = shared
        self._refusal = refusal
        self._do = do
        self._framing: dict[Session, Framing] = {}
        self._usual = UsualMessages()
        self._run: _Run | None = None
        self._seen_changes = -1

    # Subscriptions.

    def subscribe(self) -> None:
        """Join and leave groups as the queues' MulticastAddress says: [MS-MQDMPR] 3.1.1.2."""
        subscriptions = self._engine.subscriptions
        if subscriptions.changes == self._seen_changes:
            return
        self._seen_changes = subscriptions.changes
        wanted = {_endpoint(address) for address in subscriptions.addresses}
        joined = {group for group, _ in self.receivers}
        for endpoint in self.receivers.keys() - wanted:
            self.receivers.pop(endpoint).stop()
        for group, port in sorted(wanted - self.receivers.keys()):
            self.receivers[group, port] = Receiver(
                group, port, self._settings, self._draw, self._shared, self._session_ended
            )
        groups = {group for group, _ in wanted}
        for group in sorted(joined - groups):
            self._do(Leave(group))
        for group in sorted(groups - joined):
            self._do(Join(group))

    def _session_ended(self, session: Session) -> None:
        self._framing.pop(session, None)
        self.ended.update(counts(session))

    # Packets.

    def receive(self, packet: Data | Spm | Nak, address: str, group: str, now: float) -> None:
        receiver = self.receivers.get((group, packet.port))
        if receiver is None:
            return
        session = receiver.receive(packet, address, now)
        if session is not None and session.delivered:
            self._take(session)

    def _take(self, session: Session) -> None:
        delivered, session.delivered = session.delivered, []
        framing = self._framing.get(session)
        if framing is None:
            framing = self._framing[session] = Framing()
        for apdu in delivered:
            if apdu is None:
                framing.lost()
                reason = f"packets could not be repaired; {session.lost} since the source was first heard"
                self._do(MulticastEvent("lost", session.address, session.where, reason))
                continue
            malformed = framing.malformed
            for request in framing.feed(apdu):
                # The rest of such an APDU is not read: it may have thousands of requests.
                if not self._receive_request(request, session):
                    break
            if framing.malformed > malformed:
                self._drop("malformed", session, "it is not an SRMP request")

    def _receive_request(self, data: bytes, session: Session) -> bool:
        """Whether it could be read."""
        usual = cut_multicast(data)
        shape = None if usual is None else self._usual.shape_of(usual)
        if usual is not None and shape is not None and self._joins_run(shape, session):
            self._add(usual, shape)
            return True
        self.settle()
        if not self._engine.queue_manager.connection_active:
            return True
        try:
            request = read_srmp(read_multicast(data), over_multicast=True)
            if request.envelope.path.to != f"MSMQ:MULTICAST={session.where}":
                self._drop("malformed", session, f"it is to {request.envelope.path.to[:80]!a}")
                return False
            self._receive_message(request, session, usual)
        except (DecodeError, MqError) as problem:
            self._drop("malformed", session, str(problem))
            return False
        return True

    def _receive_message(self, request: SrmpRequest, session: Session, usual: Cut | None) -> None:
        envelope = request.envelope
        if reason := self._refusal(senders_of(envelope), session.address):
            self._drop("refused", session, reason)
            return
        if kind_of(envelope) is not Kind.USER:
            self._drop("refused", session, "only messages of applications come by multicast")
            return
        if envelope.stream is not None:  # there are none over PGM (SRMP-181)
            request = request._replace(envelope=replace(envelope, stream=None))
        message = read_message(request, self._engine.seconds)
        packet = UserMessage(encode_message(message, over_http=True))
        if usual is not None:
            self._usual.learn(usual, request, packet)
        self.messages += 1
        self._deliver(packet, session, self._engine.subscriptions.queues(session.where))

    # Runs: messages of one shape go into their queues together.

    def _joins_run(self, shape: Shape, session: Session) -> bool:
        """Whether a message of the shape can be taken with others; what is refused goes the general way."""
        run = self._run
        if run is not None and run.shape is shape and run.session is session and len(run.packets) < _RUN_MAX:
            return True
        self.settle()
        if (
            not self._engine.queue_manager.connection_active
            or shape.envelope.path.to != f"MSMQ:MULTICAST={session.where}"
            or self._refusal(shape.senders, session.address)
        ):
            return False
        self._run = _Run(shape, session, [], [])
        return True

    def _add(self, message: Cut, shape: Shape) -> None:
        assert self._run is not None
        packet = shape.packet(message)
        self._run.packets.append(packet)
        self._run.identities.append(shape.identity(message, packet))

    def settle(self) -> None:
        """Put the messages of the run into their queues; at the latest before the commit."""
        run, self._run = self._run, None
        if run is None:
            return
        self.messages += len(run.packets)
        queues = self._engine.subscriptions.queues(run.session.where)
        messages = Alike(UserMessage(run.packets[0]), run.packets, run.identities)
        if not self._engine.arrivals.take_together(messages, queues):
            for packet in messages.messages():
                self._deliver(packet, run.session, queues)

    def _deliver(self, packet: UserMessage, session: Session, queues: Sequence[QueueState]) -> None:
        for posted in self._engine.arrivals.arrive_by_multicast(packet, queues):
            if posted.fate is Fate.DUPLICATE:
                self.dropped["duplicate"] += 1
            elif posted.fate is not Fate.TAKEN:
                self._drop(posted.fate.value, session, posted.reason)

    def _drop(self, kind: str, session: Session, reason: str) -> None:
        self.dropped[kind] += 1
        self._do(MulticastEvent("dropped", session.address, session.where, reason))

    # Time.

    def run(self, now: float) -> None:
        for receiver in self.receivers.values():
            deadline = receiver.next_deadline
            if deadline is not None and deadline <= now:
                output, moved = receiver.run(now)
                for packet in output:
                    self._do(packet)
                for session in moved:
                    self._take(session)

    @property
    def next_deadline(self) -> float | None:
        return earliest(*(receiver.next_deadline for receiver in self.receivers.values()))

    @property
    def totals(self) -> Counter[str]:
        """The counts of all sessions, since the start."""
        found = Counter(self.ended)
        for receiver in self.receivers.values():
            for session in receiver.sessions.values():
                found.update(counts(session))
        return found


def counts(session: Session) -> dict[str, int]:
    return {
        "packets": session.packets,
        "duplicates": session.duplicates,
        "repaired": session.repaired,
        "lost": session.lost,
        "naks": session.naks,
    }


def _endpoint(address: str) -> tuple[str, int]:
    group, _, port = address.rpartition(":")
    return group, int(port)
