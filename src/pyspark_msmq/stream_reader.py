"""Consuming streams: remove messages from queues, each one once.

    latestOffset   claims messages: they stay in the queue manager, numbered 1, 2, 3... and hidden from
    others;
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

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pyspark_msmq import schema
from pyspark_msmq.admission import Budget, default_limit
from pyspark_msmq.consumer import Consumer
from pyspark_msmq.data_client import DataClient, EndpointError
from pyspark_msmq.offsets import Offset, spans
from pyspark_msmq.options import StreamOptions
from pyspark_msmq.partitions import Piece, cut, how_many
from pyspark_msmq.prefetch import Prefetch
from pyspark_msmq.reading import read_piece

_POLL_S: Final = 0.1  # between polls of several queues


class _Claimed(NamedTuple):
    """The messages of one batch."""

    begin: Offset
    end: Offset
    is_full: bool  # reached the limit of a batch: there is more


class ConsumeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark creates several of these and does not close them, so nothing happens before the first call."""

    def __init__(self, options: StreamOptions, wanted: StructType) -> None:
        self._options = options
        self._names = schema.check(wanted, options)
        self._consumer: Consumer | None = None
        self._ends: dict[str, int] | None = None  # with availableNow: the numbers to come to, by queue
        self._last_batch = time.monotonic()
        self._prefetch: Prefetch[_Claimed | None] = Prefetch()

    # Called by Spark on the driver.

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """A constant: Spark asks more than once, and messages between two answers would be lost."""
        return Offset(consumer=self._options.consumer or "").to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return default_limit(self._options)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._ends = self._made().ends()  # attaches only when the checkpoint is known

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        at, batch = Offset.of_json(start), self._prefetch.finish()
        consumer = self._attached(at, look_again=self._ends is None)
        begin = consumer.begin(at)  # first: checks that the numbers belong to this consumer
        if batch is None or batch.begin != begin or batch.end == begin:
            self._acknowledge(consumer, at)  # first: frees space
            batch = self._claim(consumer, begin, Budget.of(limit, self._options))
        else:
            consumer.confirm()  # it was claimed a while ago
        if not spans(at, batch.end):
            return start
        self._last_batch = time.monotonic()
        self._prefetch_next(consumer, at, batch, limit)
        return batch.end.to_json()

    def _prefetch_next(self, consumer: Consumer, done: Offset, last: "_Claimed", limit: ReadLimit) -> None:
        """Acknowledge finished messages and claim the next batch, if the last one was full."""
        budget = Budget.of(limit, self._options)
        ends = {} if self._ends is None else dict(self._ends)

        def work() -> _Claimed | None:
            self._acknowledge(consumer, done)
            if not last.is_full or budget.least:  # small batches may wait
                return None
            end = consumer.claim(last.end, budget, ends)
            return _Claimed(last.end, end, budget.is_spent)

        self._prefetch.start(work)

    def _acknowledge(self, consumer: Consumer, done: Offset) -> None:
        if self._options.ack_timing == "eager":
            consumer.acknowledge(done)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The offset after everything was read; Spark shows the lag from it."""
        if self._consumer is None:
            return None
        try:
            queues = {
                queue.guid: {"e": queue.epoch, "hi": hi + visible}
                for queue, hi, visible in self._consumer.waiting()
            }
        except EndpointError:
            return None  # not worth failing for
        name = self._consumer.name
        return {"c": name, "q": queues, "qm": self._consumer.queue_manager, "v": 1}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        before, after, options = Offset.of_json(start), Offset.of_json(end), self._options
        consumer, pieces = self._attached(after), []
        for span in spans(before, after):
            queue = consumer.queue_of(span)
            if queue is None:
                continue
            count = how_many(
                span.count, span.size_bytes, options.min_partitions, options.max_messages_per_partition
            )
            pieces += [Piece(queue, lo, hi, hi - lo) for lo, hi in cut(span.lo, span.hi, count)]
        return pieces

    def commit(self, end: dict[str, Any]) -> None:
        offset = Offset.of_json(end)
        consumer = self._attached(offset)
        if self._options.ack_timing == "eager" and self._prefetch.is_busy:  # being acknowledged right now
            return
        self._prefetch.join()
        consumer.acknowledge(offset)

    # In tasks.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)
        return read_piece(self._options, self._names, partition, self._options.consumer)

    # Implementation.

    def _made(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(self._options, DataClient(self._options))
        return self._consumer

    def _attached(self, offset: Offset, *, look_again: bool = False) -> Consumer:
        """The consumer, attached by the first call of a run; it must match the offset."""
        consumer = self._made()
        consumer.attach(offset, look_again=look_again)
        offset.check_belongs(consumer.queue_manager, consumer.name)
        return consumer

    def _claim(self, consumer: Consumer, offset: Offset, budget: Budget) -> "_Claimed":
        """Claim new messages; wait a while if there are none."""
        end = offset
        if self._ends is not None:
            end = consumer.claim(offset, budget, dict(self._ends))
        elif not self._must_wait(consumer, offset, budget.least):
            end = self._claim_or_wait(consumer, offset, budget)
        return _Claimed(offset, end, budget.is_spent)

    def _claim_or_wait(self, consumer: Consumer, offset: Offset, budget: Budget) -> Offset:
        wait_ms = self._options.poll_timeout_ms
        if len(consumer.queues) == 1:
            return consumer.claim(offset, budget, {}, wait_ms)
        deadline = time.monotonic() + wait_ms / 1000
        while (found := consumer.claim(offset, budget, {})) == offset and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return found

    def _must_wait(self, consumer: Consumer, offset: Offset, least: int) -> bool:
        """Whether there are too few messages (minMessagesPerTrigger) and none has waited too long."""
        deadline = time.monotonic() + self._options.poll_timeout_ms / 1000
        while least:
            if time.monotonic() - self._last_batch >= self._options.max_trigger_delay:
                return False
            ready = list(consumer.waiting())
            claimed = any(hi > _hi(offset, queue.guid) for queue, hi, _ in ready)
            if claimed or sum(visible for _, _, visible in ready) >= least:
                return False
            if time.monotonic() >= deadline:
                return True
            time.sleep(_POLL_S)
        return False


def _hi(offset: Offset, guid: str) -> int:
    reached = offset.queues.get(guid)
    return reached.hi if reached else 0
