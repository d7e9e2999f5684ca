"""Consuming streams: remove messages from queues, each one once.

    latestOffset   claims messages: they stay in the queue manager, numbered 1, 2, ... and hidden from others;
                   acknowledges the batches that Spark has finished (ackTiming=eager)
    partitions     splits the numbers between two offsets; pure arithmetic
    read           reads claimed messages by number; without side effects, as often as Spark likes
    commit         acknowledges (ackTiming=commit)

Spark calls `latestOffset(start)` only when the batch that ended at `start` is in its commit log, so what lies
before it may be acknowledged. It calls `commit` only when the next batch has data, so with that alone the
last batch would never be acknowledged.

After a full batch, the next one is claimed while Spark processes the current one. If Spark stops in between,
these messages are claimed but in no offset log, as after a lost response, and the next run reads them first.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pyspark_msmq import schema
from pyspark_msmq.admission import Budget, default_limit
from pyspark_msmq.managers import Managers
from pyspark_msmq.offsets import Offsets, spans
from pyspark_msmq.options import StreamOptions
from pyspark_msmq.partitions import Piece, Pieces, cut, gather, how_many
from pyspark_msmq.reading import read_piece, read_small


class ConsumeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark creates several of these and does not close them, so nothing happens before the first call."""

    def __init__(self, options: StreamOptions, wanted: StructType) -> None:
        self._options = options
        self._names = schema.check(wanted, options)
        self._managers: Managers | None = None

    # Called by Spark on the driver.

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """A constant: Spark asks more than once, and messages between two answers would be lost."""
        return Offsets(consumer=self._options.consumer or "").to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return default_limit(self._options)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._managers = Managers(self._options, available_now=True)
        self._managers.prepare()  # attaches only when the checkpoint is known

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        at, of_next = Offsets.of_json(start), Budget.of(limit, self._options)
        end = self._made().latest(at, Budget.of(limit, self._options), of_next)
        return start if end == at else end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The offset after everything was read, and the lag of each queue; Spark shows it."""
        return None if self._managers is None else self._managers.report()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        before, after, options = Offsets.of_json(start), Offsets.of_json(end), self._options
        parts = {guid: spans(before.part(guid), part) for guid, part in after.parts.items()}
        wanted = {guid for guid, found in parts.items() if found}
        consumers, pieces = self._made().find(wanted, after), list[tuple[Piece, int]]()
        for guid in sorted(wanted & consumers.keys()):
            consumer = consumers[guid]
            for span in parts[guid]:
                queue = consumer.queue_of(span)
                if queue is None:
                    continue
                count = how_many(span.count, span.size_bytes, options)
                pieces += [
                    (Piece(consumer.endpoint, queue, lo, hi, hi - lo), span.size_bytes // count)
                    for lo, hi in cut(span.lo, span.hi, count)
                ]
        return gather(pieces, options)

    def commit(self, end: dict[str, Any]) -> None:
        self._made().commit(Offsets.of_json(end))

    # In tasks.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, Pieces):
            return read_small(self._options, self._names, partition.pieces, self._options.consumer)
        assert isinstance(partition, Piece)
        return read_piece(self._options, self._names, partition, self._options.consumer)

    # Implementation.

    def _made(self) -> Managers:
        if self._managers is None:
            self._managers = Managers(self._options)
        return self._managers
