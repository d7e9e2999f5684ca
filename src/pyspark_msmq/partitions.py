"""Splits a range of messages into pieces, one per task."""

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from pyspark_msmq.endpoints import Endpoint

PARTITION_BYTES = 64 << 20  # target size of a task


@dataclass(frozen=True)
class Piece(InputPartition):
    """The messages (lo, hi] of a queue of a queue manager; `rows` is their number, if known."""

    endpoint: Endpoint
    queue: str | None
    lo: int
    hi: int
    rows: int | None = None

    def __str__(self) -> str:
        return (
            f"messages {self.lo + 1} to {self.hi} of {self.queue or 'the queue manager'} at {self.endpoint}"
        )


def how_many(count: int, size_bytes: int, least: int, most_rows: int) -> int:
    """The number of pieces for this many messages and bytes, at least the user's minimum."""
    return max(-(-count // most_rows), -(-size_bytes // PARTITION_BYTES), least)


def cut(lo: int, hi: int, pieces: int) -> Iterator[tuple[int, int]]:
    """Equal, non-empty pieces of (lo, hi]."""
    width, pieces = hi - lo, min(pieces, hi - lo)
    for number in range(pieces):
        yield lo + width * number // pieces, lo + width * (number + 1) // pieces
