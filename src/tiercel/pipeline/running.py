"""Runs a pipeline: writes each micro-batch of the stream to every table, once.

Spark's checkpoint has the next batch, and each table records the last batch it took. An interrupted batch is
read again with the same messages, and every table takes it unless it has it. Messages leave the
queue when Spark has logged the batch as done.
"""

import fcntl
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
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
from pyspark_msmq.data_client import DataClient, EndpointError
from pyspark_msmq.options import read_stream_options, read_write_options
from tiercel import columns
from tiercel.model.errors import TiercelError
from tiercel.pipeline.batch import Batch, Outcome, batch_of
from tiercel.pipeline.config import Pipeline, TableSection
from tiercel.pipeline.dedup import only_new
from tiercel.pipeline.steps import Step, decoded, files_of_functions, marked, step_of, with_partition_columns
from tiercel.pipeline.tables import Table, Written, is_applied, open_table
from tiercel.pipeline.waiting import Waiting, queues
from tiercel.server.config import ConfigError

# Spark's fixed limit of ten seconds for starting a worker is too short on a busy machine.
_BUSY: Final = "Python worker failed to connect back"
_ATTEMPTS: Final = 5
# How long a finished batch waits to learn what is left in the queues.
_PATIENCE_S: Final = 0.5


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

    def add(self, outcome: Outcome) -> None:
        self.batches += 1
        self.again += outcome.again
        self.quarantined += outcome.quarantined
        for name, rows in outcome.tables.items():
            self.rows[name] = self.rows.get(name, 0) + rows


Watch = Callable[[StreamingQuery, Summary], None]
Report = Callable[[Batch], None]


def _no_report(_: Batch) -> None:
    pass


class Runner:
    """Writes batches; made on the driver, where Spark calls it."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._outputs = [Output.of(each, pipeline.folder) for each in pipeline.tables]
        quarantine = pipeline.quarantine
        self._quarantine = None if quarantine is None else Output.of(quarantine, pipeline.folder)
        self.summary = Summary()
        self.outcomes: dict[int, Outcome] = {}  # of batches that are not reported yet
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
        several = len(self._outputs) > 1 or any(each.dedup for each in self._outputs)
        shared = quarantine is not None or several
        rows = rows.persist(StorageLevel.MEMORY_AND_DISK) if shared else rows
        outcome = Outcome()
        try:
            self._write_all(rows, app, batch, outcome)
        finally:
            if shared:
                rows.unpersist()
        self.summary.add(outcome)
        self.outcomes[batch] = outcome
        for output in self._outputs:
            if output.compact_every and (batch + 1) % output.compact_every == 0:
                with _timed(outcome, f"compact {output.name}"):
                    output.table.compact()

    def _write_all(self, rows: DataFrame, app: str, batch: int, outcome: Outcome) -> None:
        good = rows if self._quarantine is None else rows.where("not _bad").drop("_bad")
        for output in self._outputs:
            with _timed(outcome, output.name):
                written = output.write(good, app, batch)
            outcome.tables[output.name] = written.rows
            outcome.again += written.already
        # Last: if a table rejects the batch, a changed rule may quarantine more rows when it runs again.
        if self._quarantine is not None:
            with _timed(outcome, "quarantine"):
                bad = rows.where("_bad").drop("_bad")
                outcome.quarantined = self._set_apart(bad, self._quarantine, app, batch)

    def _set_apart(self, bad: DataFrame, output: "Output", app: str, batch: int) -> int:
        if bad.isEmpty():
            return 0
        written = output.write(bad, app, batch)
        self._send_back(bad, app, batch)
        return written.rows

    def _send_back(self, bad: DataFrame, app: str, batch: int) -> None:
        """Send bad messages with a readable packet to a queue; each (app, batch) is published once."""
        quarantine = self._pipeline.quarantine
        if quarantine is None or not quarantine.queue:
            return
        kept = [name for name in columns.WRITER_COLUMNS if name in bad.columns and name != "queue"]
        readable = bad.where("decode_error is null").select(*kept)
        if readable.isEmpty():
            return
        connection = self._pipeline.connection_options
        options = connection | {
            "queue": quarantine.queue,
            "transactional": str(is_transactional(connection, quarantine.queue)).lower(),
            "txnAppId": f"{app}.quarantine",
            "txnVersion": str(batch),
        }
        readable.write.format("msmq").options(**options).mode("append").save()


@contextmanager
def _timed(outcome: Outcome, step: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    outcome.seconds[step] = time.monotonic() - started


def is_transactional(connection: Mapping[str, str], queue: str) -> bool:
    """Whether a queue is transactional; a missing queue is an error."""
    client = DataClient(read_write_options(connection).endpoint)
    try:
        return bool(client.head(queue)["transactional"])
    finally:
        client.close()


@dataclass(frozen=True, slots=True)
class Output:
    """A table, and the step that makes its rows."""

    table: Table
    step: Step
    partition_by: tuple[str, ...]
    dedup: str = ""
    compact_every: int = 0

    @property
    def name(self) -> str:
        return str(self.table.options)

    @classmethod
    def of(cls, section: TableSection, folder: Path) -> "Output":
        return cls(
            open_table(section.options),
            step_of(section, folder),
            section.partition_by,
            section.dedup,
            section.compact_every,
        )

    def rows(self, messages: DataFrame) -> DataFrame:
        found = with_partition_columns(self.step(messages), self.partition_by)
        if self.dedup and self.dedup not in found.columns:
            raise ConfigError(f"dedup {self.dedup}: unknown column; columns: {', '.join(found.columns)}")
        return found

    def write(self, messages: DataFrame, app: str, batch: int) -> Written:
        rows, marks = self.rows(messages), {app: batch}
        if self.dedup and not is_applied(self.table, marks):
            rows = only_new(rows, self.table, self.dedup)
        return self.table.write(rows, marks)


def outputs(pipeline: Pipeline, messages: DataFrame) -> Iterator[tuple[TableSection, DataFrame]]:
    """The rows that each table would get; nothing is read or written.

    Raises errors in SQL or functions.
    """
    rows = decoded(messages, pipeline.decode)
    if pipeline.quarantine is not None:
        marked(rows, pipeline.quarantine, "_bad")
        yield pipeline.quarantine, Output.of(pipeline.quarantine, pipeline.folder).rows(rows)
    for section in pipeline.tables:
        yield section, Output.of(section, pipeline.folder).rows(rows)


def run(pipeline: Pipeline, spark: SparkSession, watch: Watch, report: Report = _no_report) -> Summary:
    """Run until the queues are empty, or until `watch`, which is called every second, raises.

    `report` is called once for each finished batch that had messages.
    """
    with only_one(pipeline.state):
        for path in files_of_functions(pipeline.tables, pipeline.folder):
            spark.sparkContext.addPyFile(path)
        reader = spark.readStream.format("msmq").options(**pipeline.reader_options)
        messages = reader.schema(schema.of_messages(pipeline.columns)).load()
        for section, rows in outputs(pipeline, messages):
            open_table(section.options).changes(rows)  # report errors before the first message is taken
        if pipeline.quarantine is not None and pipeline.quarantine.queue:
            is_transactional(pipeline.connection_options, pipeline.quarantine.queue)
        return _run(pipeline, messages, watch, report)


def _run(pipeline: Pipeline, messages: DataFrame, watch: Watch, report: Report) -> Summary:
    runner = Runner(pipeline)
    finished = _Finished(pipeline, runner, report)
    started = time.monotonic()
    try:
        for attempt in count(1):
            try:
                _follow(pipeline, messages, runner, finished, watch)
                break
            except StreamingQueryException as problem:
                if attempt < _ATTEMPTS and _BUSY in str(problem):
                    continue  # finished batches stay, and the rest is read again
                raise _failure(runner.problem or problem) from problem
    finally:
        runner.summary.seconds = time.monotonic() - started
    return runner.summary


def _follow(
    pipeline: Pipeline, messages: DataFrame, runner: Runner, finished: "_Finished", watch: Watch
) -> None:
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
            finished.look(query)
            watch(query, runner.summary)
        finished.look(query)
    finally:
        query.stop()


class _Finished:
    """Counts and reports the batches that Spark has logged as done."""

    def __init__(self, pipeline: Pipeline, runner: Runner, report: Report) -> None:
        self._pipeline = pipeline
        self._runner = runner
        self._report = report
        self._last = -1

    def look(self, query: StreamingQuery) -> None:
        for progress in query.recentProgress:
            if progress["batchId"] > self._last and progress["numInputRows"]:
                self._last = progress["batchId"]
                self._runner.summary.messages += progress["numInputRows"]
                outcome = self._runner.outcomes.pop(self._last, Outcome())
                own, waiting = self._pipeline, self._waiting()
                self._report(batch_of(own.pipeline.name, own.url, progress, outcome, waiting))

    def _waiting(self) -> list[Waiting]:
        options = read_stream_options(self._pipeline.reader_options)
        try:
            return [] if options.url.is_rpc else list(queues(options, patience_s=_PATIENCE_S))
        except EndpointError:
            return []  # not worth failing for


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
