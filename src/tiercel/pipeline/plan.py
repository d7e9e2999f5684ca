"""Shows what a pipeline would do, without reading messages or writing anything."""

from collections.abc import Iterator
from textwrap import wrap

from pyspark.sql import DataFrame, SparkSession

from pyspark_msmq import schema
from pyspark_msmq.options import read_stream_options
from tiercel import columns
from tiercel.pipeline.config import Pipeline, QuarantineSection, TableSection
from tiercel.pipeline.running import Checkpoint, outputs
from tiercel.pipeline.tables import open_table
from tiercel.pipeline.typed import shape_of
from tiercel.pipeline.waiting import queues
from tiercel.pipeline.words import size_text

_WIDTH = 100


def plan(pipeline: Pipeline, spark: SparkSession) -> Iterator[str]:
    """The plan, line by line; raises the errors that would prevent a run."""
    own = pipeline.pipeline
    ends = (
        "until the queues are empty"
        if own.interval_s is None
        else f"a batch every {own.trigger}, until stopped"
    )
    yield f"pipeline {own.name} on {own.master}, {ends}"
    yield from _source(pipeline)
    yield from _decoding(pipeline)
    checkpoint = Checkpoint.read(pipeline.state)
    messages = spark.createDataFrame([], schema.of_messages(pipeline.columns))
    for section, rows in outputs(pipeline, messages):
        yield from _table(section, rows, checkpoint)
    yield from _state(pipeline, checkpoint)
    yield "nothing was changed"


def _source(pipeline: Pipeline) -> Iterator[str]:
    options = read_stream_options(pipeline.reader_options)
    what = f"claimed by consumer {pipeline.consumer}" if options.is_consuming else "browsed, not removed"
    yield f"messages from {', '.join(map(str, options.endpoints))}, {what}"
    if options.url.is_rpc:
        yield f"  {', '.join(options.queue or ())}"
        return
    waiting = 0
    for line in queues(options):
        waiting += line["waiting"]
        yield (
            f"  {line['queue']}: {_many(line['waiting'], 'message')} waiting ({size_text(line['bytes'])})"
            + f", {_many(line['claimed'], 'message')} claimed and unfinished" * bool(line["claimed"])
        )
    source = pipeline.source
    batches = -(-waiting // source.max_messages_per_trigger)
    yield (
        f"  lag {_many(waiting, 'message')}: {_many(batches, 'batch', 'batches')} or more of at most"
        f" {source.max_messages_per_trigger:,} messages and {source.max_bytes_per_trigger}"
    )


def _decoding(pipeline: Pipeline) -> Iterator[str]:
    decode = pipeline.decode
    if decode.bodies:
        only = f", anything but {decode.expect} is an error" if decode.expect else ""
        yield f"decode bodies to body_kind, body_text, body_json, body_error{only}"
        if decode.schema:
            kind = shape_of(decode.schema).kind.simpleString()
            yield from wrap(f"value: {kind}", _WIDTH, initial_indent="  ", subsequent_indent="    ")
    else:
        yield "decode: bodies stay bytes"
    if pipeline.quarantine is None:
        yield "  undecodable messages stay in the table, with decode_error or body_error"


def _table(section: TableSection, rows: DataFrame, checkpoint: Checkpoint) -> Iterator[str]:
    options = section.options
    parts = f", partitioned by {', '.join(section.partition_by)}" if section.partition_by else ""
    if isinstance(section, QuarantineSection):
        rule = f" or where {section.when}" if section.when else ""
        yield f"quarantine {options}{parts}: undecodable messages{rule}"
        if section.queue:
            yield f"  and sent to {section.queue}"
    else:
        yield f"table {options}{parts}"
    if section.sql:
        yield f"  sql: {' '.join(section.sql.split())}"
    if section.function:
        yield f"  function: {section.function}"
    table = open_table(options)
    if changed := str(table.changes(rows)):
        yield f"  {changed}"
    last = table.applied(checkpoint.query) if checkpoint.query else -1
    yield f"  last batch: {last}" if last >= 0 else "  no batch of this pipeline yet"
    yield from wrap(f"columns: {_columns(rows)}", _WIDTH, initial_indent="  ", subsequent_indent="    ")


def _columns(rows: DataFrame) -> str:
    """The columns with their types; the standard columns of a message are summarized."""
    of_message = set(columns.names())
    listed = [
        f"{each.name} {each.dataType.simpleString()}" for each in rows.schema if each.name not in of_message
    ]
    if of_message <= set(rows.columns):
        return ", ".join([f"all {len(of_message)} of a message", *listed])
    return ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in rows.schema)


def _state(pipeline: Pipeline, checkpoint: Checkpoint) -> Iterator[str]:
    place = f"state {pipeline.state}"
    if not checkpoint.query:
        yield f"{place}: first run"
    elif checkpoint.planned > checkpoint.finished:
        yield f"{place}: batch {checkpoint.planned} was started but not finished; it is repeated first"
    else:
        yield f"{place}: batch {checkpoint.finished} is done"


def _many(count: int, noun: str, nouns: str = "") -> str:
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"
