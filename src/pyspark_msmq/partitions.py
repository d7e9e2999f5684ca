"""What a task reads, and how a range of numbers is cut into such pieces."""

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

PARTITION_BYTES = 64 << 20  # about what a task should read at most


@dataclass(frozen=True)
class Piece(InputPartition):
    """The messages (lo, hi] of a queue, `rows` of them if that is known."""

    queue: str | None
    lo: int
    hi: int
    rows: int | None = None

    def __str__(self) -> str:
        return f"messages {self.lo + 1} to {self.hi} of {self.queue or 'the queue manager'}"


def how_many(count: int, size_bytes: int, least: int, most_rows: int) -> int:
    """Pieces for so many messages of so many bytes; as many as the user wants at least."""
    return max(-(-count // most_rows), -(-size_bytes // PARTITION_BYTES), least)


def cut(lo: int, hi: int, pieces: int) -> Iterator[tuple[int, int]]:
    """Equal pieces of (lo, hi], none of them empty."""
    width, pieces = hi - lo, min(pieces, hi - lo)
    for number in range(pieces):
        yield lo + width * number // pieces, lo + width * (number + 1) // pieces
