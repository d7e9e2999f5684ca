"""Browse streams: each message once, in the order of becoming visible; nothing is removed.

The offset is a visibility sequence, which a message gets when it becomes visible. A message that another
reader receives before the stream reaches it is not in the stream.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pyspark_msmq import schema
from pyspark_msmq.admission import Budget, default_limit
from pyspark_msmq.data_client import DataClient, EndpointError
from pyspark_msmq.offsets import Offset, Offsets, Reached, spans
from pyspark_msmq.options import Position, StreamOptions
from pyspark_msmq.partitions import Piece, cut, how_many
from pyspark_msmq.positions import place_of, queue_names
from pyspark_msmq.reading import lose, read_piece

_POLL_S: Final = 0.1
_ROWS: Final = 1_000_000_000
_EARLIEST: Final = Position("earliest")


class BrowseReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: StreamOptions, wanted: StructType) -> None:
        self._options = options
        self._names = schema.check(wanted, options)
        self._client: DataClient | None = None
        self._names_of: dict[str, str | None] = {}
        self._ends: dict[str, int] | None = None
        self._last_batch = time.monotonic()
        self._purged: set[tuple[str, int]] = set()

    # Called by Spark on the driver.

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """A constant; the first `latestOffset` determines and pins the real start."""
        return Offsets().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return default_limit(self._options)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._ends = {head["guid"]: head["hi"] for head in self._heads()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        deadline = time.monotonic() + (0 if self._ends is not None else self._options.poll_timeout_ms / 1000)
        at = _only(start)
        while True:
            offset = self._look(at, Budget.of(limit, self._options))
            if offset.queues != at.queues:
                self._last_batch = time.monotonic()
                return Offsets(parts={"": offset}).to_json()
            if time.monotonic() >= deadline:
                return start
            time.sleep(_POLL_S)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        try:
            queues = {head["guid"]: {"e": head["e"], "hi": head["hi"]} for head in self._heads()}
        except EndpointError:
            return None
        return {"c": "", "q": queues, "v": 1}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        options, pieces = self._options, []
        for span in spans(_only(start), _only(end)):
            if span.guid not in self._names_of:
                self._heads()
            if span.guid not in self._names_of:
                self._lose(f"the queue {span.guid} of the checkpoint is gone")
                continue
            count = how_many(span.count, span.size_bytes, options)
            name = self._names_of[span.guid]
            pieces += [Piece(options.endpoint, name, lo, hi) for lo, hi in cut(span.lo, span.hi, count)]
        return pieces

    # In tasks.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)
        return read_piece(self._options, self._names, partition)

    # Implementation.

    def _heads(self) -> list[dict[str, Any]]:
        if self._client is None:
            self._client = DataClient(self._options.endpoint)
        client, heads = self._client, []
        for name in queue_names(client, self._options):
            head = client.head(name, self._options.source)
            self._names_of[head["guid"]] = name
            heads.append(head)
        return heads

    def _look(self, at: Offset, budget: Budget) -> Offset:
        offset = Offset(queues=at.queues)
        heads = self._heads()
        pinned = [self._pin(at, head) for head in heads]
        must_wait = self._must_wait(heads, pinned, budget.least)
        for head, reached in zip(heads, pinned, strict=True):
            is_over = must_wait or budget.is_spent
            seen = reached if is_over else self._advance(head, reached, budget)
            if seen.hi:
                offset = offset.with_queue(head["guid"], seen)
        return offset

    def _pin(self, at: Offset, head: dict[str, Any]) -> Reached:
        """The position of a queue; a new queue starts where the options say."""
        reached = at.queues.get(head["guid"])
        if reached is not None:
            self._check_epoch(head, reached)
            return reached
        # A queue that appears while the stream runs is read from its first message on.
        position = _EARLIEST if at.queues else self._options.starting_position
        if position.kind == "earliest":
            return Reached(head["e"], 0)
        assert self._client is not None
        name = self._names_of[head["guid"]]
        place = place_of(self._client, name, self._options, position, head, is_start=True)
        return Reached(head["e"], place, lo=place)

    def _advance(self, head: dict[str, Any], reached: Reached, budget: Budget) -> Reached:
        """Advance within the budget."""
        end = head["hi"] if self._ends is None else min(head["hi"], self._ends.get(head["guid"], 0))
        hi, rows, size = self._first_cut(head, reached, end, budget)
        if not rows:
            return reached
        budget.take(rows, size)
        return Reached(head["e"], hi, reached.size_bytes + size, reached.lo, reached.count + rows)

    def _must_wait(self, heads: list[dict[str, Any]], pinned: list[Reached], least: int) -> bool:
        waited = time.monotonic() - self._last_batch
        if not least or self._ends is not None or waited >= self._options.max_trigger_delay:
            return False
        new = (
            self._first_cut(head, reached, head["hi"], Budget())[1]
            for head, reached in zip(heads, pinned, strict=True)
        )
        return sum(new) < least

    def _first_cut(self, head: dict[str, Any], reached: Reached, end: int, budget: Budget) -> list[int]:
        """The end of the next messages within the budget, their number and their bytes."""
        if end <= reached.hi or not head["count"]:
            return [reached.hi, 0, 0]
        assert self._client is not None
        limits = {"rows": min(budget.rows, _ROWS), "bytes": budget.size_bytes, "limit": 1}
        name = self._names_of[head["guid"]]
        return self._client.cuts(name, self._options.source, reached.hi, end, **limits)[0]

    def _check_epoch(self, head: dict[str, Any], reached: Reached) -> None:
        seen = (head["guid"], head["e"])
        if reached.epoch != head["e"] and seen not in self._purged:
            self._lose(f"{head['queue']} was purged: messages that this stream has not seen may be gone")
            self._purged.add(seen)

    def _lose(self, text: str) -> None:
        lose(text, fail=self._options.fail_on_data_loss)


def _only(offset: dict[str, Any]) -> Offset:
    return Offsets.of_json(offset).part("")
