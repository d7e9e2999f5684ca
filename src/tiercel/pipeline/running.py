"""Runs a pipeline: writes each micro-batch of the stream to every table, once.

Spark's checkpoint has the next batch, and each table records the last batch it took. An interrupted batch is
read again with the same messages, and every table takes it unless it has it. Messages leave the
queue when Spark has logged the batch as done.
"""

import fcntl
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from pyspark import StorageLevel
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_msmq import schema
from pyspark_msmq.data_client import DataClient
from pyspark_msmq.options import read_write_options
from tiercel import columns
from tiercel.model.errors import TiercelError
from tiercel.pipeline.config import Pipeline, TableSection
from tiercel.pipeline.steps import Step, decoded, files_of_functions, marked, step_of, with_partition_columns
from tiercel.pipeline.tables import Table, Written, open_table

# Spark's fixed limit of ten seconds for starting a worker is too short on a busy machine.
_BUSY: Final = "Python worker failed to connect back"
_ATTEMPTS: Final = 5


class PipelineError(TiercelError):
    """A pipeline that cannot continue."""


@dataclass(slots=True)
class Summary:
    """The result of a run; `again` counts batches that some table already had."""

    messages: int = 0
    batches: int = 0
    again: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    quarantined: int = 0
    seconds: float = 0.0


Watch = Callable[[StreamingQuery, Summary], None]


class Runner:
    """Writes batches; made on the driver, where Spark calls it."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._outputs = [_Output.of(each, pipeline.folder) for each in pipeline.tables]
        quarantine = pipeline.quarantine
        self._quarantine = None if quarantine is None else _Output.of(quarantine, pipeline.folder)
        self.summary = Summary()
        self.problem: Exception | None = None

    def write_batch(self, messages: DataFrame, batch: int) -> None:
        """Called by Spark, which sees only the text of an exception, so the exception is kept too."""
        try:
            self._write_batch(messages, batch)
        except Exception as problem:
            self.problem = problem
            raise

    def _write_batch(self, messages: DataFrame, batch: int) -> None:
        app = _query_id(messages)
        rows = decoded(messages, self._pipeline.decode)
        quarantine = self._pipeline.quarantine
        if quarantine is not None:
            rows = marked(rows, quarantine, "_bad")
        # A single table reads the queue only once anyway; for several, the batch is cached until all have it.
        shared = quarantine is not None or len(self._outputs) > 1
        rows = rows.persist(StorageLevel.MEMORY_AND_DISK) if shared else rows
        try:
            self._write_all(rows, app, batch)
        finally:
            if shared:
                rows.unpersist()
        self.summary.batches += 1

    def _write_all(self, rows: DataFrame, app: str, batch: int) -> None:
        good = rows if self._quarantine is None else rows.where("not _bad").drop("_bad")
        for output in self._outputs:
            written = output.write(good, app, batch)
            name = str(output.table.options)
            self.summary.rows[name] = self.summary.rows.get(name, 0) + written.rows
            self.summary.again += written.already
        # Last: if a table rejects the batch, a changed rule may quarantine more rows when it runs again.
        if self._quarantine is not None:
            self._set_apart(rows.where("_bad").drop("_bad"), self._quarantine, app, batch)

    def _set_apart(self, bad: DataFrame, output: "_Output", app: str, batch: int) -> None:
        if not bad.isEmpty():
            self.summary.quarantined += output.write(bad, app, batch).rows
            self._send_back(bad, app, batch)

    def _send_back(self, bad: DataFrame, app: str, batch: int) -> None:
        """Send bad messages with a readable packet to a queue; each (app, batch) is published once."""
        quarantine = self._pipeline.quarantine
        if quarantine is None or not quarantine.queue:
            return
        kept = [name for name in columns.WRITER_COLUMNS if name in bad.columns and name != "queue"]
        readable = bad.where("decode_error is null").select(*kept)
        if readable.isEmpty():
            return
        options = self._pipeline.connection_options | {
            "queue": quarantine.queue,
            "transactional": str(is_transactional(self._pipeline, quarantine.queue)).lower(),
            "txnAppId": f"{app}.quarantine",
            "txnVersion": str(batch),
        }
        readable.write.format("msmq").options(**options).mode("append").save()


def is_transactional(pipeline: Pipeline, queue: str) -> bool:
    """Whether a queue is transactional; a missing queue is an error."""
    client = DataClient(read_write_options(pipeline.connection_options).endpoint)
    try:
        return bool(client.head(queue)["transactional"])
    finally:
        client.close()


@dataclass(frozen=True, slots=True)
class _Output:
    """A table, and the step that makes its rows."""

    table: Table
    step: Step
    partition_by: tuple[str, ...]

    @classmethod
    def of(cls, section: TableSection, folder: Path) -> "_Output":
        return cls(open_table(section.options), step_of(section, folder), section.partition_by)

    def rows(self, messages: DataFrame) -> DataFrame:
        return with_partition_columns(self.step(messages), self.partition_by)

    def write(self, messages: DataFrame, app: str, batch: int) -> Written:
        return self.table.write(self.rows(messages), {app: batch})


def outputs(pipeline: Pipeline, messages: DataFrame) -> Iterator[tuple[TableSection, DataFrame]]:
    """The rows that each table would get; nothing is read or written.

    Raises errors in SQL or functions.
    """
    rows = decoded(messages, pipeline.decode)
    if pipeline.quarantine is not None:
        marked(rows, pipeline.quarantine, "_bad")
        yield pipeline.quarantine, _Output.of(pipeline.quarantine, pipeline.folder).rows(rows)
    for section in pipeline.tables:
        yield section, _Output.of(section, pipeline.folder).rows(rows)


def run(pipeline: Pipeline, spark: SparkSession, watch: Watch) -> Summary:
    """Run until the queues are empty, or until `watch`, which is called every second, raises."""
    with only_one(pipeline.state):
        for path in files_of_functions(pipeline.tables, pipeline.folder):
            spark.sparkContext.addPyFile(path)
        reader = spark.readStream.format("msmq").options(**pipeline.reader_options)
        messages = reader.schema(schema.of_messages(pipeline.columns)).load()
        for _ in outputs(pipeline, messages):
            pass  # report errors before the first message is taken
        if pipeline.quarantine is not None and pipeline.quarantine.queue:
            is_transactional(pipeline, pipeline.quarantine.queue)
        return _run(pipeline, messages, watch)


def _run(pipeline: Pipeline, messages: DataFrame, watch: Watch) -> Summary:
    runner = Runner(pipeline)
    started = time.monotonic()
    seen: set[int] = set()  # batches counted so far
    try:
        for attempt in count(1):
            try:
                _follow(pipeline, messages, runner, seen, watch)
                break
            except StreamingQueryException as problem:
                if attempt < _ATTEMPTS and _BUSY in str(problem):
                    continue  # finished batches stay, and the rest is read again
                raise _failure(runner.problem or problem) from problem
    finally:
        runner.summary.seconds = time.monotonic() - started
    return runner.summary


def _follow(pipeline: Pipeline, messages: DataFrame, runner: Runner, seen: set[int], watch: Watch) -> None:
    """Start the query, and watch it until it ends."""
    interval = pipeline.pipeline.interval_s
    writer = messages.writeStream.foreachBatch(runner.write_batch).queryName(pipeline.pipeline.name)
    writer = writer.option("checkpointLocation", str(pipeline.state / "checkpoint"))
    timed = (
        writer.trigger(processingTime=f"{interval} seconds")
        if interval
        else writer.trigger(availableNow=True)
    )
    query = timed.start()
    try:
        while not query.awaitTermination(1):
            _count(query, seen, runner.summary)
            watch(query, runner.summary)
        _count(query, seen, runner.summary)
    finally:
        query.stop()


def _count(query: StreamingQuery, seen: set[int], summary: Summary) -> None:
    for progress in query.recentProgress:
        if progress["batchId"] not in seen and progress["numInputRows"]:
            seen.add(progress["batchId"])
            summary.messages += progress["numInputRows"]


def _failure(problem: Exception) -> Exception:
    """The root cause in Spark's error text: the last error in it."""
    if not isinstance(problem, PySparkException):
        return problem
    lines = [line.strip() for line in str(problem).splitlines()]
    errors = [line for line in lines if re.match(r"[\w.]+(Error|Exception): ", line)]
    return PipelineError(errors[-1].partition(": ")[2] if errors else lines[0])


def _query_id(messages: DataFrame) -> str:
    """The identity of the stream, kept in its checkpoint: a new checkpoint is a new application to the
    tables.
    """
    found = messages.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    if found is None:
        raise PipelineError("the id of the Spark query is missing")
    return found


@contextmanager
def only_one(state: Path) -> Iterator[None]:
    """Allow one run per pipeline and machine; two would fence each other."""
    state.mkdir(parents=True, exist_ok=True)
    with (state / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PipelineError(f"{state}: this pipeline is already running") from None
        yield


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Spark's progress: the last batch planned, and the last one finished; -1 for none."""

    query: str = ""
    planned: int = -1
    finished: int = -1

    @classmethod
    def read(cls, state: Path) -> "Checkpoint":
        folder = state / "checkpoint"
        try:
            query = json.loads((folder / "metadata").read_text("utf-8"))["id"]
        except (OSError, ValueError, KeyError):
            return cls()
        return cls(query, _last(folder / "offsets"), _last(folder / "commits"))


def _last(folder: Path) -> int:
    numbers = [int(each.name) for each in folder.glob("*") if each.name.isdigit()] if folder.is_dir() else []
    return max(numbers, default=-1)
