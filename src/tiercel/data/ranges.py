"""Ranges of messages as Arrow batches, read piece by piece from store snapshots.

No snapshot is kept between two pieces, so a slow client does not keep pages of the store from being reused.
Claimed messages cannot change meanwhile; a browse of a queue with other readers shows what is still there
when each piece is read.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

import pyarrow as pa

from tiercel import columns
from tiercel.columns import RowFilter
from tiercel.columns.stored import StoredRows, batch_of
from tiercel.data import discard_table
from tiercel.engine.browsing import key_ranges
from tiercel.engine.records import lookup_id_of, message_key
from tiercel.model.identifiers import lookup_id_sequence
from tiercel.store import Reader
from tiercel.store.interface import Keyspace

PIECE_ROWS: Final = 8192
PIECE_BYTES: Final = 8 << 20
_WALKED_ROWS: Final = 8192  # only their sizes are read

Buffers = list[memoryview]


class StoredQueue(NamedTuple):
    """Where a queue is in the store, as the daemon says."""

    queue: str
    subqueue: str | None
    slot: int
    claim_slot: int | None

    @classmethod
    def of_answer(cls, answer: dict[str, Any]) -> "StoredQueue":
        return cls(answer["queue"], answer.get("subqueue"), answer["slot"], answer.get("claim_slot"))


@dataclass(frozen=True, slots=True)
class Projection:
    """Which columns and rows to return, and what to do with unreadable messages."""

    names: tuple[str, ...] = field(default_factory=lambda: tuple(columns.names()))
    where: RowFilter | None = None
    bad: Any = "fail"

    @property
    def schema(self) -> pa.Schema:
        return columns.arrow_schema(self.names)

    def batch(self, rows: StoredRows, place: StoredQueue) -> pa.RecordBatch:
        return batch_of(
            rows, self.names, queue=place.queue, subqueue=place.subqueue, bad=self.bad, where=self.where
        )


def claimed(
    reader: Reader, place: StoredQueue, lo: int, hi: int, projection: Projection
) -> Iterator[pa.RecordBatch]:
    """The messages (lo, hi] of a claim, in order."""
    if place.claim_slot and lo < hi:
        ends = message_key(place.claim_slot, lo + 1), message_key(place.claim_slot, hi) + b"\0"
        build = partial(_of_claimed, place, projection)
        yield from _batches(reader, Keyspace.CLAIMED, *ends, build)


def stored(
    reader: Reader, place: StoredQueue, lo: int, hi: int, projection: Projection
) -> Iterator[pa.RecordBatch]:
    """The stored messages of a queue that became visible in (lo, hi], by priority and arrival."""
    for ends in key_ranges(place.slot, lo, hi):
        yield from _batches(reader, Keyspace.MESSAGES, *ends, partial(_of_messages, place, projection))


def express(rows: Sequence[tuple[int, bytes]], place: StoredQueue, projection: Projection) -> pa.RecordBatch:
    """Express messages, which exist only in the daemon's memory."""
    return projection.batch(StoredRows.of([each for each, _ in rows], [data for _, data in rows]), place)


def ledger(reader: Reader, lo: int, hi: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The lines (lo, hi] of the discard ledger."""
    if lo < hi:
        ends = discard_table.key(lo + 1), discard_table.key(hi) + b"\0"
        yield from _batches(reader, Keyspace.DISCARDS, *ends, partial(discard_table.batch_of, names))


def _of_claimed(place: StoredQueue, projection: Projection, keys: Buffers, values: Buffers) -> pa.RecordBatch:
    return projection.batch(StoredRows.of_claimed(keys, values), place)


def _of_messages(
    place: StoredQueue, projection: Projection, keys: Buffers, values: Buffers
) -> pa.RecordBatch:
    return projection.batch(StoredRows.of_messages(keys, values), place)


def _batches(
    reader: Reader,
    space: Keyspace,
    at_least: bytes,
    below: bytes,
    build: Callable[[Buffers, Buffers], pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    while True:
        with reader.piece(space, at_least, below, PIECE_ROWS, PIECE_BYTES) as (keys, values):
            if not keys:
                return
            at_least = bytes(keys[-1]) + b"\0"
            batch = build(keys, values)
        yield batch  # outside, where no snapshot is open


class Cut(NamedTuple):
    """A part of a range: its last sequence, its messages and bytes."""

    end: int
    rows: int
    size_bytes: int


async def cuts(
    reader: Reader,
    place: StoredQueue,
    lo: int,
    hi: int,
    in_memory: Sequence[tuple[int, int]],
    *,
    max_rows: int,
    max_bytes: int,
    limit: int | None,
) -> list[Cut]:
    """Cuts (lo, hi] into parts of at most `max_rows` or `max_bytes`; without `limit` the last ends at hi.

    `in_memory` are sequences and sizes of the express messages.
    """
    walks = [_walk(reader, *ends) for ends in key_ranges(place.slot, lo, hi)]
    found: list[Cut] = []
    rows = size_bytes = end = 0
    for number, (sequence, size) in enumerate(heapq.merge(*walks, sorted(in_memory))):
        if rows and (rows >= max_rows or size_bytes + size > max_bytes):
            found.append(Cut(end, rows, size_bytes))
            rows = size_bytes = 0
            if limit is not None and len(found) >= limit:
                return found
        rows, size_bytes, end = rows + 1, size_bytes + size, sequence
        if number % _WALKED_ROWS == 0:
            await asyncio.sleep(0)  # others have a turn
    found.append(Cut(hi, rows, size_bytes))
    return found


def _walk(reader: Reader, at_least: bytes, below: bytes) -> Iterator[tuple[int, int]]:
    while True:
        with reader.piece(Keyspace.MESSAGES, at_least, below, _WALKED_ROWS, 2**62) as (keys, values):
            sizes = list(map(len, values))
            names = list(map(bytes, keys))
        if not names:
            return
        at_least = names[-1] + b"\0"
        for name, size in zip(names, sizes, strict=True):
            yield lookup_id_sequence(lookup_id_of(name)), size
