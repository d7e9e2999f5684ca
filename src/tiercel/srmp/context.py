"""State shared by the connections of one queue manager: settings, timers, the time, and pending actions."""

from collections import Counter
from itertools import count

from tiercel.engine.machine import Close, MachineContext, Write
from tiercel.engine.partial_input import PartialInput
from tiercel.engine.timers import Timer
from tiercel.srmp.actions import Action, HttpEvent
from tiercel.srmp.redirections import StoredRedirections
from tiercel.srmp.settings import Settings

_MS = 1000


class Context(MachineContext[Action]):
    def __init__(self, settings: Settings, redirections: StoredRedirections) -> None:
        super().__init__()
        self.settings = settings
        self.redirections = redirections
        self.partial_requests = PartialInput("request")
        self.statuses: Counter[int] = Counter()  # of our answers, since the start
        self.answers: Counter[int] = Counter()  # of the answers to our requests, by status
        self.dropped: Counter[str] = Counter()  # messages answered with 200 and not kept, by reason
        self.doubts: Counter[str] = Counter()  # receipts that were not believed, by reason
        self._numbers = count(1)

    def new_connection(self) -> int:
        return next(self._numbers)

    def after(self, timer: Timer, milliseconds: float) -> None:
        """Set a timer, or set it again."""
        self.timers.set(timer, self.now + milliseconds / _MS)

    def write(self, connection: int, data: bytes) -> None:
        self._actions.append(Write(connection, data))

    def close(self, connection: int) -> None:
        self._actions.append(Close(connection))

    def tell(self, event: str, address: str = "", queue: object = "", reason: str = "") -> None:
        self._actions.append(HttpEvent(event, address, str(queue), reason))
