"""Messages once more: from journals, an archive or a table, into the same tables or to a queue.

A table takes only messages that it does not have, by `message_id`. So a replay can be repeated, after a crash
or by mistake, and no row is there twice.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from pyspark_msmq import schema
from tiercel import columns
from tiercel.columns.messages import Row, of_rows
from tiercel.pipeline.config import Pipeline
from tiercel.pipeline.dedup import only_new
from tiercel.pipeline.packets import packet_row
from tiercel.pipeline.running import Output, PipelineError, is_transactional, only_one
from tiercel.pipeline.steps import condition, decoded, files_of_functions, marked
from tiercel.pipeline.tables import TableOptions, open_table
from tiercel.server.config import ConfigError

SOURCES: Final = ("journal", "archive", "table")
KEY: Final = "message_id"
# What a packet does not say: the queue manager gave it on arrival, and an archive has it beside the packet.
_PLACE: Final = ("queue", "subqueue", "lookup_id", "arrived_time")
_NAMES: Final = (*columns.names(), "raw", "decode_error")
_BATCH: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which messages: where they are, when they arrived, and a condition in SQL."""

    source: str
    table: TableOptions | None = None
    since: datetime | None = None
    until: datetime | None = None
    match: str = ""

    @property
    def digest(self) -> str:
        """The same for the same selection: the name under which it is sent to a queue once."""
        parts = (self.source, self.table, self.since, self.until, self.match)
        return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]


@dataclass(slots=True)
class Replayed:
    messages: int = 0
    rows: dict[str, int] = field(default_factory=dict)  # new ones, by table
    quarantined: int = 0


def replay(pipeline: Pipeline, spark: SparkSession, selection: Selection) -> Replayed:
    """Put the selected messages into every table that does not have them; never beside a run."""
    with only_one(pipeline.state):
        for path in files_of_functions(pipeline.tables, pipeline.folder):
            spark.sparkContext.addPyFile(path)
        return land_again(pipeline, selected(pipeline, spark, selection))


def land_again(pipeline: Pipeline, messages: DataFrame) -> Replayed:
    """Messages with their bodies decoded, into the tables that do not have them."""
    outputs = [Output.of(each, pipeline.folder) for each in pipeline.tables]
    for output in outputs:
        if not output.dedup and KEY not in output.rows(messages).columns:
            raise ConfigError(
                f"{output.name}: cannot tell which messages it has; add {KEY} to the columns of its sql"
            )
    app, done = f"replay-{uuid4()}", Replayed()
    rows = messages if pipeline.quarantine is None else marked(messages, pipeline.quarantine, "_bad")
    rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        done.messages = rows.count()
        good = rows if pipeline.quarantine is None else rows.where("not _bad").drop("_bad")
        for output in outputs:
            done.rows[output.name] = _write_new(output, good, app)
        if pipeline.quarantine is not None:
            apart = Output.of(pipeline.quarantine, pipeline.folder)
            done.quarantined = _write_new(apart, rows.where("_bad").drop("_bad"), app)
    finally:
        rows.unpersist()
    return done


def _write_new(output: Output, messages: DataFrame, app: str) -> int:
    rows = output.rows(messages)
    return output.table.write(only_new(rows, output.table, output.dedup or KEY), {app: 0}).rows


def resend(
    pipeline: Pipeline, spark: SparkSession, selection: Selection, queue: str, name: str = "", via: str = ""
) -> int:
    """Send the selected messages to a queue, as new ones; the same selection, or name, only once.

    `via` is the URL of the queue manager that sends them, if the pipeline has several.
    """
    connection = pipeline.connection_to(via)
    is_whole = selection.source != "table"  # with packets, which have all properties
    rows = selected(pipeline, spark, selection, *["raw"] * is_whole).where("decode_error is null")
    kept = [each for each in columns.WRITER_COLUMNS if each in rows.columns and each != "queue"]
    options = connection | {
        "queue": queue,
        "transactional": str(is_transactional(connection, queue)).lower(),
        "txnAppId": f"replay.{name or selection.digest}",
        "txnVersion": "0",
    }
    rows = rows.select(*["raw"] if is_whole else kept).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        rows.write.format("msmq").options(**options).mode("append").save()
        return rows.count()
    finally:
        rows.unpersist()


def selected(pipeline: Pipeline, spark: SparkSession, selection: Selection, *more: str) -> DataFrame:
    """The messages of a selection, each once, with their bodies decoded, and `more` columns."""
    messages = _between(_messages(pipeline, spark, selection), selection)
    rows = decoded(as_read(messages, pipeline, *more), pipeline.decode)
    if selection.match:
        rows = rows.where(condition(rows, selection.match, "--match"))
    return rows.where(f"{KEY} is not null").dropDuplicates([KEY])


def as_read(messages: DataFrame, pipeline: Pipeline, *more: str) -> DataFrame:
    """The columns that a run reads, and no others: the tables take all that they are given."""
    if KEY not in pipeline.columns:
        raise ConfigError(f"[source] columns: add {KEY}, by which a replay tells messages apart")
    return messages.select(*dict.fromkeys((*pipeline.columns, *more)))


def _between(messages: DataFrame, selection: Selection) -> DataFrame:
    time: Column = f.coalesce("arrived_time", "sent_time")
    if selection.since is not None:
        messages = messages.where(time >= f.lit(selection.since))
    if selection.until is not None:
        messages = messages.where(time < f.lit(selection.until))
    return messages


def _messages(pipeline: Pipeline, spark: SparkSession, selection: Selection) -> DataFrame:
    if selection.source == "journal":
        return _journal(pipeline, spark)
    if selection.table is None:
        raise ConfigError(f"--from {selection.source}: --table is required")
    rows = open_table(selection.table).read(spark)
    if selection.source == "archive":
        if "raw" not in rows.columns:
            raise PipelineError(f"{selection.table}: has no column raw, so it is not an archive")
        return _unpacked(rows)
    return shaped(rows, str(selection.table))


def _journal(pipeline: Pipeline, spark: SparkSession) -> DataFrame:
    if pipeline.source.from_ != "queue":
        raise ConfigError(f"[source] from = {pipeline.source.from_}: only queues have journals")
    options = {
        name: value
        for name, value in pipeline.reader_options.items()
        if name in {"url", "tokenFile", "tlsCa", "queue", "queuePattern", "badMessageMode"}
    }
    reader = spark.read.format("msmq").options(**options, **{"from": "journal"})
    return reader.schema(schema.of_messages(_NAMES)).load()


def shaped(rows: DataFrame, name: str) -> DataFrame:
    """The columns of a message: those that the table has, and null for the others."""
    needed = (KEY, "arrived_time", "body", "body_type")
    missing = [each for each in needed if each not in rows.columns]
    if missing:
        raise PipelineError(f"{name}: not a table of messages: it has no column {', '.join(missing)}")
    wanted = schema.of_messages(_NAMES)
    return rows.select(
        *[
            (f.col(each.name) if each.name in rows.columns else f.lit(None))
            .cast(each.dataType)
            .alias(each.name)
            for each in wanted
        ]
    )


def _unpacked(rows: DataFrame) -> DataFrame:
    place = [each for each in _PLACE if each in rows.columns]
    wanted = from_arrow_schema(columns.arrow_schema(_NAMES))
    return rows.select("raw", *place).mapInArrow(partial(_unpack, tuple(place)), wanted)


def _unpack(place: tuple[str, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for large in batches:
        for start in range(0, large.num_rows, _BATCH):
            batch = large.slice(start, _BATCH)
            found = of_rows([_row(each) for each in batch.column("raw").to_pylist()], _NAMES)
            arrays = dict(zip(_NAMES, found.columns, strict=True))
            arrays |= {
                each: batch.column(each).cast(found.schema.field(each).type) for each in ("raw", *place)
            }
            yield pa.RecordBatch.from_arrays([arrays[each] for each in _NAMES], schema=found.schema)


def _row(data: bytes | None) -> Row:
    return packet_row(data or b"") or Row(None, 0, error="not a message")
