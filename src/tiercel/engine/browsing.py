"""Browsing a queue by visibility sequence: the number that a message got when it became visible.

The sequence is the lower part of the lookup id, above it stands the priority. So the messages of a stretch
(lo, hi] of sequences lie in eight ranges of keys, one for each priority.
"""

import heapq
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from tiercel.engine.core import Core
from tiercel.engine.numbering import Numbering
from tiercel.engine.queue_state import Lock, QueueState
from tiercel.engine.records import LAST_LOOKUP_ID, Record, lookup_id_of, message_key
from tiercel.model.identifiers import LOOKUP_SEQUENCE_BITS, lookup_id_sequence
from tiercel.store.interface import Keyspace

LAST_SEQUENCE = (1 << LOOKUP_SEQUENCE_BITS) - 1
_PRIORITIES = range(8)


class Head(NamedTuple):
    """Every message of the queue is in (lo, hi]; both are 0 when there is none."""

    lo: int
    hi: int


class Seen(NamedTuple):
    """A message that a browse found; a locked one is held by a reader who may still give it back."""

    lookup_id: int
    record: Record
    is_locked: bool
    lock: Lock | None = None

    @property
    def sequence(self) -> int:
        return lookup_id_sequence(self.lookup_id)


class Browsing:
    def __init__(self, core: Core, numbering: Numbering) -> None:
        self._core = core
        self._numbering = numbering

    def newest(self, queue: QueueState) -> int:
        """The last sequence that is there for readers of the queue; later messages are above it."""
        return self._numbering.newest_sequence if queue.hidden_from is None else queue.hidden_from - 1

    def in_order(self, queue: QueueState, after: int) -> Iterator[Seen]:
        """The messages behind a lookup id, in the order of the queue; those that are purged are not shown."""
        return self._seen(queue, after + 1, LAST_LOOKUP_ID)

    def by_arrival(self, queue: QueueState, after: int) -> Iterator[Seen]:
        """The messages above a sequence, in the order in which they became visible."""
        walks = [self._seen(queue, *ends) for ends in lookup_ids(after, LAST_SEQUENCE)]
        return heapq.merge(*walks, key=lambda seen: seen.sequence)

    def before_last(self, queue: QueueState, count: int, highest: int = LAST_SEQUENCE) -> int:
        """The sequence above which the last `count` messages up to `highest` are, by arrival."""
        walks = [self._backwards(queue, *ends) for ends in lookup_ids(0, highest)]
        found = list(islice(heapq.merge(*walks, reverse=True), count))
        return found[-1] - 1 if found else min(self.newest(queue), highest)

    def back(self, queue: QueueState, before: int, count: int) -> int:
        """The lookup id behind which the last `count` messages before another one are."""
        while count and (found := queue.before(self._core, before)) is not None:
            before, count = found[0], count - 1
        return before - 1

    def pass_over(
        self, queue: QueueState, after: int, count: int, before: int = LAST_LOOKUP_ID + 1
    ) -> tuple[int, int]:
        """Walks over `count` messages behind a lookup id, and before another one, without reading them: the
        last one, and how many.
        """
        if after >= LAST_LOOKUP_ID:
            return after, 0
        passed, reached = 0, b""
        for passed, reached in enumerate(islice(self._keys(queue, after + 1, before), count), 1):  # noqa: B007
            pass
        return (lookup_id_of(reached), passed) if passed else (after, 0)

    def pass_over_arrivals(
        self, queue: QueueState, after: int, count: int, before: int = LAST_SEQUENCE + 1
    ) -> tuple[int, int]:
        """The same in the order of arrival: from a sequence on, and up to another one."""
        keys = [self._keys(queue, first, last + 1) for first, last in lookup_ids(after, before - 1)]
        sequences = heapq.merge(*(map(_sequence_of, each) for each in keys))
        passed, reached = 0, after
        for passed, reached in enumerate(islice(sequences, count), 1):  # noqa: B007
            pass
        return reached, passed

    def _keys(self, queue: QueueState, at: int, before: int) -> Iterator[bytes]:
        """Keys of messages in [at, before), also of those in memory, as if they were stored."""
        slot = queue.slot
        end = message_key(slot + 1, 0) if before > LAST_LOOKUP_ID else message_key(slot, before)
        keys = self._core.batch.keys(Keyspace.MESSAGES, message_key(slot, at), end)
        if queue.express:
            express = queue.express.irange(at, before, inclusive=(True, False))
            keys = heapq.merge(keys, [message_key(slot, each) for each in express])
        if queue.hidden_from is not None:
            keys = (key for key in keys if not queue.is_hidden(lookup_id_of(key)))
        return keys

    def _seen(self, queue: QueueState, at: int, last: int) -> Iterator[Seen]:
        while (found := queue.at_or_after(self._core, at)) is not None and found[0] <= last:
            lookup_id, at = found[0], found[0] + 1
            lock = queue.locks.get(lookup_id)
            if lock is not None and lock.doom is not None:
                continue
            record = queue.decode(self._core, *found)
            if record is not None:
                yield Seen(lookup_id, record, lock is not None, lock)

    def _backwards(self, queue: QueueState, lowest: int, highest: int) -> Iterator[int]:
        at = highest + 1
        while (found := queue.before(self._core, at)) is not None and found[0] >= lowest:
            at = found[0]
            yield lookup_id_sequence(at)

    def head(self, queue: QueueState) -> Head:
        ends = [lookup_id_sequence(each) for stretch in self._stretches(queue) for each in stretch]
        return Head(min(ends) - 1, max(ends)) if ends else Head(0, 0)

    def _stretches(self, queue: QueueState) -> Iterator[tuple[int, int]]:
        """The first and the last lookup id of each priority that has messages."""
        for lowest, highest in lookup_ids(0, LAST_SEQUENCE):
            first = queue.at_or_after(self._core, lowest)
            if first is not None and first[0] <= highest:
                last = queue.before(self._core, highest + 1)
                assert last is not None
                yield first[0], last[0]

    def oldest_arrival(self, queue: QueueState) -> int | None:
        """When the message arrived that has been here longest."""
        firsts = (self._next(queue, first)[1] for first, _ in self._stretches(queue))
        return min(firsts, default=None)

    def sequence_at(self, queue: QueueState, time: float) -> int:
        """The sequence after which arrivals at that time or later begin; the highest without any."""
        starts = [self._first_since(queue, first, last, time) for first, last in self._stretches(queue)]
        known = [lookup_id_sequence(start) for start in starts if start is not None]
        return min(known) - 1 if known else self.head(queue).hi

    def _first_since(self, queue: QueueState, first: int, last: int, time: float) -> int | None:
        """By bisection: arrival times rise with the sequence, as far as the clock did."""
        if self._next(queue, last)[1] < time:
            return None
        while first < last:
            middle = (first + last) // 2
            found, arrival = self._next(queue, middle)
            if arrival < time:
                first = found + 1
            else:
                last = middle
        return self._next(queue, first)[0]

    def _next(self, queue: QueueState, at: int) -> tuple[int, int]:
        """The first message that stands there or behind, and when it arrived."""
        found = queue.at_or_after(self._core, at)
        if found is None:  # a damaged one was the last, and is set aside
            return at, 0
        record = queue.decode(self._core, *found)
        return found[0], 0 if record is None else record.arrival_time

    def express(
        self, queue: QueueState, lo: int, hi: int, after: int, max_rows: int, max_bytes: int
    ) -> Iterator[tuple[int, bytes]]:
        """Messages of (lo, hi] that only memory has, as they would be stored, from `after` on."""
        for lowest, highest in lookup_ids(lo, hi):
            for lookup_id in queue.express.irange(max(lowest, after + 1), highest):
                if max_rows <= 0 or max_bytes <= 0:
                    return
                data = queue.express[lookup_id].encode()
                max_rows, max_bytes = max_rows - 1, max_bytes - len(data)
                yield lookup_id, data


def _sequence_of(key: bytes) -> int:
    return lookup_id_sequence(lookup_id_of(key))


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
