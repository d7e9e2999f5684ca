"""Timers: each is identified by its callback; they can be reset or cancelled, and run in time order."""

import heapq
from collections.abc import Callable
from itertools import count

Timer = Callable[[], None]


class Timers:
    def __init__(self) -> None:
        self._due: dict[Timer, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, Timer]] = []  # entries that were reset or cancelled are skipped
        self._order = count()

    def set(self, timer: Timer, at: float) -> None:
        entry = self._due[timer] = (at, next(self._order))
        heapq.heappush(self._heap, (*entry, timer))
        if len(self._heap) > 2 * len(self._due) + 1000:
            self._heap = [(*entry, timer) for timer, entry in self._due.items()]
            heapq.heapify(self._heap)

    def cancel(self, timer: Timer) -> None:
        self._due.pop(timer, None)

    def is_set(self, timer: Timer) -> bool:
        return timer in self._due

    def at(self, timer: Timer) -> float | None:
        entry = self._due.get(timer)
        return None if entry is None else entry[0]

    @property
    def next_deadline(self) -> float | None:
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][:2]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run(self, now: float) -> None:
        """Call the timers that are due; each is stopped before its call, and may set itself again."""
        while (deadline := self.next_deadline) is not None and deadline <= now:
            timer = heapq.heappop(self._heap)[2]
            del self._due[timer]
            timer()
