"""All sessions that are heard on one group and port, and the bounds on them."""

from collections.abc import Callable

from tiercel.engine.core import earliest
from tiercel.pgm.limits import CLOSED_KEPT, SESSIONS_A_GROUP
from tiercel.pgm.outputs import Outgoing
from tiercel.pgm.packet import Data, Nak, PacketType, Spm, Tsi
from tiercel.pgm.session import Session, Shared, State, has_window
from tiercel.pgm.settings import Settings


class Receiver:
    def __init__(
        self,
        group: str,
        port: int,
        settings: Settings,
        draw: Callable[[], float],
        shared: Shared,
        closed: Callable[[Session], None] = lambda _session: None,
    ) -> None:
        """`closed` is told about each session that ends or is forgotten."""
        self.group, self.port = group, port
        self.sessions: dict[Tsi, Session] = {}
        self.evicted = 0
        self._settings = settings
        self._draw = draw
        self._shared = shared
        self._tell_closed = closed
        self._repairing: dict[Tsi, Session] = {}
        self._closed: dict[Tsi, float] = {}  # ended sessions -> until when late packets are ignored
        self._sweep_at: float | None = None

    def receive(self, packet: Data | Spm | Nak, address: str, now: float) -> Session | None:
        """The session that the packet belongs to; what it delivered is in `delivered`."""
        session = self.sessions.get(packet.tsi)
        if session is None:
            session = self._open(packet, address, now)
            if session is None:
                return None
        elif packet.kind is not PacketType.NAK and address != session.address:
            return None  # the session belongs to the address that was heard first
        session.receive(packet, now)
        if session.state is State.CLOSED:
            self._close(session, now)
        elif session.next_deadline is not None:
            self._repairing[packet.tsi] = session
        return session

    def _open(self, packet: Data | Spm | Nak, address: str, now: float) -> Session | None:
        """ODATA opens a session; an SPM says where the next packet will be, so that its loss is noticed."""
        if packet.kind is not PacketType.ODATA and packet.kind is not PacketType.SPM:
            return None
        assert not isinstance(packet, Nak)
        if isinstance(packet, Spm) and not has_window(packet):
            return None
        if now < self._closed.get(packet.tsi, now):
            return None
        if len(self.sessions) >= SESSIONS_A_GROUP:
            # Sources that have not delivered anything go first: a flood of them must not displace others.
            victim = min(self.sessions.values(), key=lambda each: (each.packets > 1, each.heard_at))
            self._forget(victim)
            self.evicted += 1
        session = Session(packet, self.group, address, self._settings, self._draw, self._shared, now)
        self.sessions[packet.tsi] = session
        if self._sweep_at is None:
            self._sweep_at = now + self._settings.window_s
        return session

    def _close(self, session: Session, now: float) -> None:
        self._forget(session)
        if len(self._closed) >= CLOSED_KEPT:
            del self._closed[next(iter(self._closed))]
        self._closed[session.tsi] = now + self._settings.window_s

    def _forget(self, session: Session) -> None:
        session.close()
        self.sessions.pop(session.tsi, None)
        self._repairing.pop(session.tsi, None)
        self._tell_closed(session)

    def stop(self) -> None:
        for session in list(self.sessions.values()):
            self._forget(session)

    # Time.

    @property
    def next_deadline(self) -> float | None:
        return earliest(self._sweep_at, *(each.next_deadline for each in self._repairing.values()))

    def run(self, now: float) -> tuple[list[Outgoing], list[Session]]:
        """The NAKs that are due, and the sessions that went on by giving up."""
        output: list[Outgoing] = []
        moved = []
        for session in list(self._repairing.values()):
            deadline = session.next_deadline
            if deadline is not None and deadline <= now:
                output += session.run(now)
                if session.delivered:
                    moved.append(session)
                if session.state is State.CLOSED:
                    self._close(session, now)
            if session.next_deadline is None:
                self._repairing.pop(session.tsi, None)
        if self._sweep_at is not None and now >= self._sweep_at:
            self._sweep(now)
        return output, moved

    def _sweep(self, now: float) -> None:
        """Forget sources that have been silent for TXW_SECS, and sessions that ended that long ago."""
        for session in list(self.sessions.values()):
            if now - session.heard_at >= self._settings.window_s:
                self._forget(session)
        self._closed = {tsi: until for tsi, until in self._closed.items() if until > now}
        self._sweep_at = now + self._settings.window_s / 10 if self.sessions or self._closed else None
