"""Writes to queues: tasks stage messages, and one publish makes all of them visible, once.

A task may run twice, concurrently or after a failure, without notice; a batch whose end was not logged
runs again after a restart. So a stage is named by application, batch, partition and attempt; only the
attempts that Spark counts are published; and the queue manager publishes each (application, batch) once.
"""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyspark_msmq.data_client import DataClient, EndpointError
from pyspark_msmq.options import OptionError, WriteOptions
from pyspark_msmq.quick_workers import spare_imports
from tiercel import columns

_REFUSED: Final = "TIERCEL_ERROR_STAGE_REFUSED"
_NOT_TRANSACTIONAL: Final = "MQ_ERROR_TRANSACTION_USAGE"


class OtherBatchError(RuntimeError):
    """The queue manager has already published another batch under this name."""


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What a task has staged, for the driver to publish; empty for an empty partition."""

    app: str
    stage: str | None
    rows: int


def check_writing(options: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
    if overwrite:
        raise OptionError('a queue supports only appending: use .mode("append")')
    try:
        columns.check_writer_schema(to_arrow_schema(schema, timezone="UTC"), options.queue)
    except ValueError as problem:
        raise OptionError(f"cannot send these columns: {problem}") from None


class BatchWriter(DataSourceArrowWriter):
    """Spark copies this object to tasks and back, so the job name is fixed here."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._app = options.txn_app_id or "spark"
        self._batch = uuid.uuid4().hex if options.txn_version is None else str(options.txn_version)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return _stage(self._options, self._app, self._batch, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _publish(self._options, self._app, self._batch, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        """Permanent, for late attempts, unless a retry uses the same name."""
        is_named = self._options.txn_version is not None
        _discard(self._options, self._app, self._batch, for_good=not is_named)


class StreamWriter(DataSourceStreamArrowWriter):
    """Tasks have a copy of this object; only they know the query's name."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        app = self._options.txn_app_id or _local_property("sql.streaming.queryId")
        return _stage(self._options, app, _local_property("streaming.sql.batchId"), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        for app in sorted({message.app for message in messages if isinstance(message, Staged)}):
            _publish(self._options, app, str(batchId), messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Not for good: the query that starts again has the same name and batch. Spark does not tell what
        failed tasks have staged; unpublished rows are discarded by the queue manager after a time limit.
        """
        for app in sorted({message.app for message in messages if isinstance(message, Staged)}):
            _discard(self._options, app, str(batchId), for_good=False)


def _stage(options: WriteOptions, app: str, batch: str, batches: Iterator[pa.RecordBatch]) -> Staged:
    context = TaskContext.get()
    assert context is not None
    spare_imports()
    # Attempt numbers restart with every driver; the rest distinguishes the runs.
    attempt = f"{context.taskAttemptId()}-{uuid.uuid4().hex[:8]}"
    stage = f"{app}/{batch}/{context.partitionId()}/{attempt}"
    counted = _Counted(batches)
    try:
        with DataClient(options.endpoint) as client:
            for number, chunk in enumerate(_chunks(counted, options.max_batch_bytes)):
                client.stage(stage, number, chunk)
    except EndpointError as problem:
        if problem.code != _REFUSED:
            raise
        for _ in counted:  # Spark wants to be rid of them
            pass
        # Published already, by a driver that did not live to log it: to publish once more does nothing then,
        # and fails if it was otherwise, because this stage is not there.
    return Staged(app, stage if counted.rows else None, counted.rows)


class _Counted:
    """Batches with a running count of rows."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self.rows = 0
        self._batches = batches

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            yield batch


def _chunks(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.Buffer]:
    """Arrow streams of about the given size."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        for piece in _cut(batch, limit):
            if held and size + piece.nbytes > limit:
                yield _stream(held)
                held, size = [], 0
            held.append(piece)
            size += piece.nbytes
    if size or held:
        yield _stream(held)


def _cut(batch: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    if batch.num_rows > 1 and batch.nbytes > limit:
        half = batch.num_rows // 2
        yield from _cut(batch.slice(0, half), limit)
        yield from _cut(batch.slice(half), limit)
    elif batch.num_rows:
        yield batch


def _stream(batches: Sequence[pa.RecordBatch]) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def _publish(
    options: WriteOptions, app: str, batch: str, messages: Sequence[WriterCommitMessage | None]
) -> None:
    """The stages in partition order, which is message order."""
    staged = [message for message in messages if isinstance(message, Staged) and message.stage]
    if not staged:
        return
    what = {"queue": options.queue, "transactional": options.transactional != "false"}
    if options.sign:
        what["sign"] = True  # by the queue manager, with its own key: executors have none
    stages = [message.stage or "" for message in staged]
    with DataClient(options.endpoint) as client:
        try:
            answer = client.publish(app, batch, stages, **what)
        except EndpointError as problem:
            # All messages appear at once either way; the queue decides whether they can be transactional.
            if options.transactional != "auto" or problem.code != _NOT_TRANSACTIONAL:
                raise
            answer = client.publish(app, batch, stages, **{**what, "transactional": False})
    rows = sum(message.rows for message in staged)
    if answer["already"] and answer["published"] != rows:
        raise OtherBatchError(
            f"batch {batch} of {app} was already published with {answer['published']} messages; this one "
            f"has {rows}, and none of them was sent. A query with a new checkpoint "
            f"needs a new txnAppId"
        )


def _discard(options: WriteOptions, app: str, batch: str, *, for_good: bool) -> None:
    with DataClient(options.endpoint) as client:
        client.discard(app, batch, for_good=for_good)


def _local_property(name: str) -> str:
    context = TaskContext.get()
    value = context.getLocalProperty(name) if context else None
    if value is None:
        raise RuntimeError(f"{name} is missing: not in a task of a streaming query")
    return value
