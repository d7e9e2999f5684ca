"""The dispatch collection: which outgoing message leaves next. [MS-MQDMPR] 3.1.1.18, 3.1.7.1.28, 3.1.7.3.9.

One set for all outgoing queues, the highest priority first and among equals the oldest. One entry is in
progress at a time: its sender takes it, and removing it, done or not, starts the next. Adding and removing
call the senders in a loop, never in a recursion, and taking out the entry in progress does not stall the
rest (DMPR T-30).
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from tiercel.engine.core import Core
from tiercel.engine.queue_state import QueueState
from tiercel.model.codes import OutgoingQueueState
from tiercel.model.queue import OutgoingQueue, Queue
from tiercel.wire.user_message import UserMessage


@dataclass(slots=True, eq=False)
class DispatchEntry:
    queue: QueueState
    lookup_id: int
    data: object  # of the binary protocol; None for SRMP
    priority: int
    send_in_progress: bool = False


Sender = Callable[[DispatchEntry], None]
_STOPPED = (OutgoingQueueState.ON_HOLD, OutgoingQueueState.LOCKED)


class Dispatch:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._entries: dict[tuple[int, int], DispatchEntry] = {}
        self._order: list[tuple[int, int, tuple[int, int]]] = []  # a heap; entries that are gone are skipped
        self._numbers = count()
        self._is_sending = False  # whether a sender is being called just now
        self._sending: tuple[int, int] | None = None  # the entry in progress, if it is still there
        # Set by the protocols: [MS-MQQB] 3.1.7.16 and [MC-MQSRM] 3.1.7.8.
        self.send_binary: Sender = lambda _entry: None
        self.send_srmp: Sender = lambda _entry: None

    def entries(self) -> list[DispatchEntry]:
        return list(self._entries.values())

    def add(self, queue: QueueState, lookup_id: int, data: object = None) -> None:
        """Add Message To Dispatch Collection; a message that is in it already stays as it is."""
        key, record = (queue.slot, lookup_id), queue.get(self._core, lookup_id)
        if record is not None and key not in self._entries:
            priority = queue.queue.base_priority + UserMessage(record.packet).priority
            self._entries[key] = DispatchEntry(queue, lookup_id, data, priority)
            heapq.heappush(self._order, (-priority, next(self._numbers), key))
        self.send()

    def remove(self, queue: QueueState, lookup_id: int) -> None:
        """Remove Message From Dispatch Collection; whether it was there or not, the next one may go."""
        self._entries.pop((queue.slot, lookup_id), None)
        self.send()

    def remove_queue(self, queue: QueueState) -> None:
        """Remove Messages From Dispatch Collection By Queue."""
        for key in [key for key, entry in self._entries.items() if entry.queue is queue]:
            del self._entries[key]
        self.send()

    def send(self) -> None:
        """Dispatch Send Message; also to be called when a queue that could not send can again."""
        if self._is_sending:  # a sender that adds or removes: the loop below sees it
            return
        self._is_sending = True
        try:
            while (entry := self._next()) is not None:
                entry.send_in_progress = True
                (self.send_srmp if entry.data is None else self.send_binary)(entry)
        finally:
            self._is_sending = False

    def _next(self) -> DispatchEntry | None:
        """The entry to send now; None while one is in progress, or when no queue has anything to send."""
        if self._sending is not None and self._entries.get(self._sending) is not None:
            return None
        waiting, found = [], None
        while self._order and found is None:
            item = heapq.heappop(self._order)
            entry = self._entries.get(item[2])
            if entry is None:
                continue
            if entry.queue.get(self._core, entry.lookup_id) is None:
                del self._entries[item[2]]
            elif _can_send(entry.queue.queue):
                found, self._sending = entry, item[2]
            else:
                waiting.append(item)
        for item in waiting:
            heapq.heappush(self._order, item)
        return found


def _can_send(queue: Queue) -> bool:
    is_stopped = isinstance(queue, OutgoingQueue) and queue.state in _STOPPED
    return queue.active and not is_stopped
