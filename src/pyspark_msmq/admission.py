"""The size of a micro-batch, as limited by Spark's trigger and the options."""

from dataclasses import dataclass

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)

from pyspark_msmq.options import StreamOptions

_UNLIMITED = 1 << 62


def default_limit(options: StreamOptions) -> ReadLimit:
    """Spark accepts only one limit; `Budget.of` applies the others."""
    if options.max_messages_per_trigger:
        return ReadMaxRows(options.max_messages_per_trigger)
    if options.max_bytes_per_trigger:
        return ReadMaxBytes(options.max_bytes_per_trigger)
    if options.min_messages_per_trigger:
        return ReadMinRows(options.min_messages_per_trigger)
    return ReadAllAvailable()


@dataclass(slots=True)
class Budget:
    """The remaining limits of one micro-batch."""

    rows: int = _UNLIMITED
    size_bytes: int | None = None
    least: int = 0  # wait for at least this many

    @classmethod
    def of(cls, limit: ReadLimit, options: StreamOptions) -> "Budget":
        if isinstance(limit, ReadAllAvailable):
            return cls()  # a trigger that reads everything, regardless of the options
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else _UNLIMITED
        return cls(rows, options.max_bytes_per_trigger, options.min_messages_per_trigger or 0)

    @property
    def is_spent(self) -> bool:
        return self.rows <= 0 or (self.size_bytes is not None and self.size_bytes <= 0)

    def close(self) -> None:
        if self.size_bytes is not None:
            self.size_bytes = 0

    def shared(self, among: int) -> "Budget":
        """The part of one of so many."""
        size = None if self.size_bytes is None else max(self.size_bytes // among, 1)
        return Budget(max(self.rows // among, 1), size)

    def has(self, rows: int, size_bytes: int) -> bool:
        return rows <= self.rows and (self.size_bytes is None or size_bytes <= self.size_bytes)

    def is_less_than_half(self, other: "Budget") -> bool:
        sizes = (self.size_bytes or 0, other.size_bytes or 0)
        return 2 * self.rows < other.rows or 2 * sizes[0] < sizes[1]

    def take(self, rows: int, size_bytes: int) -> None:
        self.rows -= rows
        if self.size_bytes is not None:
            self.size_bytes -= size_bytes
