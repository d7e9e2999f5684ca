"""Splits a range of messages into pieces, one per task."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pyspark.sql.datasource import InputPartition

from pyspark_msmq.endpoints import Endpoint
from pyspark_msmq.options import ReadOptions

_SMALL_ROWS: Final = 1000
_SMALL_BYTES: Final = 1 << 20


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


@dataclass(frozen=True)
class Pieces(InputPartition):
    """Small pieces for one task: a task of its own would cost Spark more than its messages do."""

    pieces: tuple[Piece, ...]

    def __str__(self) -> str:
        return ", ".join(map(str, self.pieces))


def gather(pieces: Iterable[tuple[Piece, int]], options: ReadOptions) -> list[InputPartition]:
    """Puts small pieces together, within the limits of a task; each comes with its size in bytes."""
    if options.min_partitions > 1:  # the user wants many tasks
        return [piece for piece, _ in pieces]
    most_rows = min(_SMALL_ROWS, options.max_messages_per_partition)
    most_bytes = min(_SMALL_BYTES, options.max_bytes_per_partition)
    tasks: list[list[Piece]] = []
    rows = size = 0
    for piece, weight in pieces:
        rows, size = rows + (piece.rows or 0), size + weight
        if tasks and rows <= most_rows and size <= most_bytes:
            tasks[-1].append(piece)
        else:
            tasks.append([piece])
            rows, size = piece.rows or 0, weight
    return [task[0] if len(task) == 1 else Pieces(tuple(task)) for task in tasks]


def how_many(count: int, size_bytes: int, options: ReadOptions) -> int:
    """The number of pieces for this many messages and bytes, at least the user's minimum."""
    return max(
        -(-count // options.max_messages_per_partition),
        -(-size_bytes // options.max_bytes_per_partition),
        options.min_partitions,
    )


def cut(lo: int, hi: int, pieces: int) -> Iterator[tuple[int, int]]:
    """Equal, non-empty pieces of (lo, hi]."""
    width, pieces = hi - lo, min(pieces, hi - lo)
    for number in range(pieces):
        yield lo + width * number // pieces, lo + width * (number + 1) // pieces
