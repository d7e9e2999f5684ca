"""State shared by the sessions of one queue manager: settings, timers, the time, and pending actions."""

from collections import Counter
from math import inf

from tiercel.binary.actions import Action, SessionEvent
from tiercel.binary.peer_table import PeerTable
from tiercel.binary.settings import Settings
from tiercel.engine.belief import Doubt
from tiercel.engine.machine import Close, MachineContext, Write
from tiercel.engine.partial_input import PartialInput
from tiercel.model.queue_manager import QueueManager

_MS = 1000


class Context(MachineContext[Action]):
    def __init__(self, settings: Settings, queue_manager: QueueManager) -> None:
        super().__init__()
        self.settings = settings
        self.queue_manager = queue_manager
        self.partial_packets = PartialInput("packet")
        self.peers = PeerTable(settings)
        self.configured_at = -inf  # when the names of peers were looked up for the first time
        self.doubts: Counter[Doubt] = Counter()  # acknowledgements that were not believed, since the start
        self._written: dict[int, list[bytes]] = {}
        self._closed: list[Action] = []

    @property
    def milliseconds(self) -> int:
        """Monotonic milliseconds, taken as the uptime of this computer; 32 bits that wrap (MQQB T72)."""
        return int(self.now * _MS) & 0xFFFF_FFFF

    def after_ms(self, milliseconds: float) -> float:
        return self.now + milliseconds / _MS

    def write(self, connection: int, *data: bytes) -> None:
        self._written.setdefault(connection, []).extend(data)

    def close(self, connection: int, event: SessionEvent) -> None:
        """Close the connection after everything that was written to it."""
        self._closed += (Close(connection), event)

    def take_actions(self) -> list[Action]:
        writes = [Write(connection, b"".join(parts)) for connection, parts in self._written.items()]
        actions = [*super().take_actions(), *writes, *self._closed]
        self._written, self._closed = {}, []
        return actions
