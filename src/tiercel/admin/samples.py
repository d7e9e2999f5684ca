"""Depth and throughput of queues over the last minutes, in memory only.

A sample is taken every 5 seconds and kept for 10 minutes; every minute one is kept for 2 hours. Only queues
that had a message since the start are sampled, at most 2,000: those that changed last.

This is a machine without a clock: `take` is called with the time.
"""

from array import array
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from tiercel.engine.queue_state import QueueState

Json = dict[str, Any]

STEP_S: Final = 5
LONG_STEP_S: Final = 60
KEPT: Final = 120  # samples of each step
_MAX_QUEUES: Final = 2000  # 6 kB each
_LONG: Final = LONG_STEP_S // STEP_S  # short steps in a long one
_RATE_STEPS: Final = 2  # a rate is that of the last 10 seconds


class Rates(NamedTuple):
    """Messages per second."""

    entered: float
    left: float


class _Ring:
    """The last samples of a queue; `first` is the number of the oldest."""

    __slots__ = ("counts", "entered", "first", "left")

    def __init__(self, first: int) -> None:
        self.first = first
        self.counts, self.entered, self.left = (array("q", bytes(8 * KEPT)) for _ in range(3))

    def put(self, number: int, state: QueueState) -> None:
        at = number % KEPT
        self.counts[at], self.entered[at], self.left[at] = state.count, state.entered, state.left

    def numbers(self, last: int) -> range:
        return range(max(self.first, last - KEPT + 1), last + 1)


class _Track(NamedTuple):
    short: _Ring
    long: _Ring


class Samples:
    def __init__(self) -> None:
        self._number = -1  # of the last sample
        self._times = array("q", bytes(8 * KEPT))
        self._long_times = array("q", bytes(8 * KEPT))
        self._tracks: dict[QueueState, _Track] = {}  # those that changed last are at the end

    def take(self, seconds: int, queues: Iterable[QueueState]) -> None:
        """Samples every queue, every `STEP_S` seconds."""
        self._number += 1
        number, long_number = self._number, self._number // _LONG
        self._times[number % KEPT] = seconds
        if number % _LONG == 0:
            self._long_times[long_number % KEPT] = seconds
        for state in queues:
            if state.entered or state.left:
                self._sample(state, number, long_number)
        for state in [each for each in self._tracks if each.is_deleted]:
            del self._tracks[state]
        while len(self._tracks) > _MAX_QUEUES:
            del self._tracks[next(iter(self._tracks))]

    def _sample(self, state: QueueState, number: int, long_number: int) -> None:
        track = self._tracks.get(state)
        if track is None:
            track = self._tracks[state] = _Track(_Ring(number), _Ring(-(-number // _LONG)))
        else:
            before = (number - 1) % KEPT
            if (track.short.entered[before], track.short.left[before]) != (state.entered, state.left):
                self._tracks[state] = self._tracks.pop(state)
        track.short.put(number, state)
        if number % _LONG == 0:
            track.long.put(long_number, state)

    def rates(self, state: QueueState) -> Rates:
        """Throughput of the last seconds; zero for a queue that is not sampled."""
        track, last = self._tracks.get(state), self._number
        if track is None or track.short.first == last:
            return Rates(0.0, 0.0)
        ring, first = track.short, max(track.short.first, last - _RATE_STEPS)
        seconds = max(self._times[last % KEPT] - self._times[first % KEPT], 1)
        return Rates(
            round((ring.entered[last % KEPT] - ring.entered[first % KEPT]) / seconds, 2),
            round((ring.left[last % KEPT] - ring.left[first % KEPT]) / seconds, 2),
        )

    def of(self, state: QueueState, step_s: int) -> list[Json]:
        """The samples of a queue, oldest first."""
        track = self._tracks.get(state)
        if track is None:
            return []
        is_long = step_s == LONG_STEP_S
        ring, times = (track.long, self._long_times) if is_long else (track.short, self._times)
        numbers = ring.numbers(self._number // _LONG if is_long else self._number)
        return [
            {"time": times[at], "count": ring.counts[at], "in": ring.entered[at], "out": ring.left[at]}
            for at in (number % KEPT for number in numbers)
        ]

    def depths(self, state: QueueState, points: int) -> list[int]:
        """Message counts of the last 10 minutes for a small chart: at most so many, evenly spread."""
        track = self._tracks.get(state)
        if track is None:
            return []
        numbers = track.short.numbers(self._number)
        return [track.short.counts[number % KEPT] for number in numbers[:: -(-KEPT // points)]]
