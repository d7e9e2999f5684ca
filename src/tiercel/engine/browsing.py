"""Looking at a queue by visibility sequence: the number that a message got when it became visible.

The sequence is the lower part of the lookup id, above it stands the priority. So the messages of a stretch
(lo, hi] of sequences lie in eight ranges of keys, one for each priority.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tiercel.engine.core import Core
from tiercel.engine.queue_state import QueueState
from tiercel.engine.records import message_key
from tiercel.model.identifiers import LOOKUP_SEQUENCE_BITS, lookup_id_sequence

LAST_SEQUENCE = (1 << LOOKUP_SEQUENCE_BITS) - 1
_PRIORITIES = range(8)


class Head(NamedTuple):
    """Every message of the queue is in (lo, hi]; both are 0 when there is none."""

    lo: int
    hi: int


class Browsing:
    def __init__(self, core: Core) -> None:
        self._core = core

    def head(self, queue: QueueState) -> Head:
        first, last = LAST_SEQUENCE, 0
        for lowest, highest in lookup_ids(0, LAST_SEQUENCE):
            found = queue.at_or_after(self._core, lowest)
            if found is not None and found[0] <= highest:
                first = min(first, lookup_id_sequence(found[0]))
                newest = queue.before(self._core, highest + 1)
                assert newest is not None
                last = max(last, lookup_id_sequence(newest[0]))
        return Head(first - 1, last) if last else Head(0, 0)

    def sequence_at(self, queue: QueueState, time: float) -> int:
        """Where to begin for what arrived at that time or later: (this, hi]; hi when nothing did."""
        starts = [self._first_since(queue, *ends, time) for ends in lookup_ids(0, LAST_SEQUENCE)]
        known = [start for start in starts if start is not None]
        return min(known) - 1 if known else self.head(queue).hi

    def _first_since(self, queue: QueueState, low: int, high: int, time: float) -> int | None:
        """By bisection: arrival times rise with the sequence, as far as the clock did."""
        while low < high:
            middle = (low + high) // 2
            if self._arrived_since(queue, middle, high, time) is None:
                low = middle + 1
            else:
                high = middle
        return self._arrived_since(queue, low, high, time)

    def _arrived_since(self, queue: QueueState, at: int, highest: int, time: float) -> int | None:
        found = queue.at_or_after(self._core, at)
        if found is None or found[0] > highest:
            return None
        record = queue.decode(self._core, *found)
        return lookup_id_sequence(found[0]) if record is not None and record.arrival_time >= time else None

    def express(
        self, queue: QueueState, lo: int, hi: int, after: int, max_rows: int, max_bytes: int
    ) -> Iterator[tuple[int, bytes]]:
        """Messages of (lo, hi] that only memory has, as they would be stored; the next slice begins `after`."""
        for lowest, highest in lookup_ids(lo, hi):
            for lookup_id in queue.express.irange(max(lowest, after + 1), highest):
                if max_rows <= 0 or max_bytes <= 0:
                    return
                data = queue.express[lookup_id].encode()
                max_rows, max_bytes = max_rows - 1, max_bytes - len(data)
                yield lookup_id, data


def lookup_ids(lo: int, hi: int) -> list[tuple[int, int]]:
    """The lowest and highest lookup id that the sequences (lo, hi] can have, for each priority."""
    tops = [each << LOOKUP_SEQUENCE_BITS for each in _PRIORITIES]
    return [(top | lo + 1, top | hi) for top in tops] if lo < hi else []


def key_ranges(slot: int, lo: int, hi: int) -> list[tuple[bytes, bytes]]:
    """The same as keys of stored messages: at least the first, below the second."""
    return [
        (message_key(slot, lowest), message_key(slot, highest) + b"\0")
        for lowest, highest in lookup_ids(lo, hi)
    ]
