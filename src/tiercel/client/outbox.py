"""A session that only sends: messages go out, acknowledgements come in. [MS-MQQB] 3.1, without any queue.

To its peer it is one more queue manager. An acknowledgement means that the other queue manager has the
message, and has stored it if it is recoverable. Nothing is stored on this side.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from tiercel.binary.actions import SessionEvent
from tiercel.binary.context import Context
from tiercel.binary.flight import Acked, Entry
from tiercel.binary.session import Arrived, Session
from tiercel.binary.settings import Settings
from tiercel.engine.machine import Write
from tiercel.model.codes import ConnectionStatus
from tiercel.model.queue_manager import QueueManager
from tiercel.wire.user_message import UserMessage

# A peer acknowledges at half a window (MQQB T10): at one message, where a larger window would have a lone
# message wait for a timer of ten seconds.
_WINDOW: Final = 2
_CONNECTION: Final = 1


class Outbox:
    """One session from its connection to its end; `now` is a monotonic clock.

    After every input, write `take_data()`; `take_acknowledged()` returns the messages that have arrived.
    """

    def __init__(self, identifier: UUID, address: str, now: float) -> None:
        manager = QueueManager(identifier=identifier, computer_name="SENDER")
        self._context = Context(Settings(window_size=_WINDOW), manager)
        self._context.now = now
        self._session = Session(self._context, self, _CONNECTION, address, is_direct=True, is_initiator=True)
        self._waiting: deque[UserMessage] = deque()
        self._flying: dict[Entry, UserMessage] = {}
        self._acknowledged: list[UserMessage] = []
        self.is_open = False
        self.is_closed = False
        self.reason = ""  # why it has ended
        self._session.establish()

    # Inputs.

    def receive(self, data: bytes, now: float) -> None:
        self._context.now = max(now, self._context.now)
        self._session.receive(data)
        self._pump()

    def tick(self, now: float) -> None:
        """`next_deadline` has come."""
        self._context.now = max(now, self._context.now)
        self._context.timers.run(self._context.now)

    def send(self, packet: UserMessage, now: float) -> None:
        self._context.now = max(now, self._context.now)
        self._waiting.append(packet)
        self._pump()

    def withdraw(self, packet: UserMessage) -> None:
        """Gives up on a message; one that was sent already may still arrive."""
        if packet in self._waiting:
            self._waiting.remove(packet)

    def writable(self, *, is_writable: bool) -> None:
        self._session.is_writable = is_writable
        self._pump()

    def close(self, reason: str) -> None:
        self._session.close(reason)

    # Outputs.

    @property
    def next_deadline(self) -> float | None:
        return self._context.timers.next_deadline

    def take_data(self) -> bytes:
        actions = self._context.take_actions()
        for action in actions:
            if isinstance(action, SessionEvent):
                self.reason = action.reason
        return b"".join(action.data for action in actions if isinstance(action, Write))

    def take_acknowledged(self) -> list[UserMessage]:
        acknowledged, self._acknowledged = self._acknowledged, []
        return acknowledged

    def _pump(self) -> None:
        while self._waiting and self._session.room > 0:
            packet = self._waiting.popleft()
            entry = Entry(None, packet.is_recoverable)
            self._flying[entry] = packet
            self._session.send([(entry, (packet.data,))])

    # Called by the session.

    def is_full(self, _session: Session) -> bool:
        return False

    def established(self, session: Session, status: ConnectionStatus) -> None:
        """Only the end of the set-up counts."""

    def opened(self, _session: Session) -> None:
        self.is_open = True

    def must_wait(self, _session: Session, _packet: UserMessage) -> bool:
        return False

    def arrived(self, _session: Session, run: Sequence[Arrived]) -> Sequence[Arrived]:
        """Counted and dropped, as any queue manager does that does not have the queue."""
        return run

    def acknowledged(self, _session: Session, done: list[Acked]) -> None:
        self._acknowledged += [self._flying.pop(entry) for entry, _ in done]

    def closed(self, _session: Session) -> None:
        self.is_closed = True
