"""Simulated time: a list of events. It jumps from one event to the next, so an idle hour costs nothing."""

import heapq
from collections.abc import Callable
from itertools import count


class Event:
    """A future event, unless it is cancelled."""

    __slots__ = ("action", "time")

    def __init__(self, time: float, action: Callable[[], None]) -> None:
        self.time = time
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class Schedule:
    """Events at the same time run in the order in which they were scheduled, the same in every run."""

    def __init__(self) -> None:
        self.now = 0.0
        self._order = count()
        self._events: list[tuple[float, int, Event]] = []

    def at(self, time: float, action: Callable[[], None]) -> Event:
        event = Event(max(time, self.now), action)
        heapq.heappush(self._events, (event.time, next(self._order), event))
        return event

    def after(self, delay: float, action: Callable[[], None]) -> Event:
        return self.at(self.now + delay, action)

    def run_until(self, end: float, is_done: Callable[[], bool] = lambda: False) -> None:
        """Run all events up to `end`, or until `is_done` is true after an event."""
        while self._events and self._events[0][0] <= end:
            time, _, event = heapq.heappop(self._events)
            if event.action is None:
                continue
            self.now = time
            event.action()
            if is_done():
                return
        self.now = max(self.now, end)
