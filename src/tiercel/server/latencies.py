"""A latency histogram."""

from bisect import bisect_left
from typing import Final

# In seconds: from memory speed to a failing disk.
BOUNDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Latencies:
    __slots__ = ("_counts", "total_s")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self.total_s = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self.total_s += seconds

    def buckets(self) -> list[tuple[str, int]]:
        """The upper bound of each bucket, with the cumulative count."""
        sums, total = [], 0
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), self._counts, strict=True):
            total += count
            sums.append((bound, total))
        return sums
