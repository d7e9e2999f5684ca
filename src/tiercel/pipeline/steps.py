"""Turns messages into table rows: decoding, quarantine, SQL or a function, partition columns."""

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from pyspark_msmq.bodies import from_msmq_body
from tiercel.pipeline.config import DecodeOptions, QuarantineSection, TableSection
from tiercel.pipeline.typed import VALUE, with_value
from tiercel.server.config import ConfigError

# The columns that the decoder adds to those of a message.
BODY_COLUMNS: Final = {"body_kind": "kind", "body_text": "text", "body_json": "json", "body_error": "error"}
# The name of the view with the messages of a batch, for SQL.
VIEW: Final = "messages"

Step = Callable[[DataFrame], DataFrame]


def decoded(messages: DataFrame, options: DecodeOptions) -> DataFrame:
    """The messages with their decoded bodies, and the time at which they were landed."""
    rows = messages
    if options.bodies:
        rows = rows.withColumn("_body", from_msmq_body("body", "body_type", options.expect or None))  # type: ignore[arg-type]
        rows = rows.withColumns({name: f.col(f"_body.{part}") for name, part in BODY_COLUMNS.items()})
        rows = rows.drop("_body")
    if options.schema:
        rows = with_value(rows, options.schema)
    return rows.withColumn("landed_time", f.current_timestamp())


def marked(rows: DataFrame, quarantine: QuarantineSection, mark: str) -> DataFrame:
    """Add a column that marks undecodable messages, and those that match the pipeline's own rule."""
    bad = f.lit(False)  # a value, no flag
    for name in ("decode_error", "body_error"):
        if name in rows.columns:
            bad |= f.col(name).isNotNull()
    if quarantine.when:
        bad |= condition(rows, quarantine.when, "when")
    return rows.withColumn(mark, bad)


def condition(rows: DataFrame, text: str, option: str) -> Column:
    """A user's condition on the rows, checked; null counts as no match."""
    with _said(f"{option} = {text!r:.60}"):
        found = f.coalesce(f.expr(text), f.lit(False))
        rows.where(found)
        return found


def step_of(table: TableSection, folder: Path) -> Step:
    """The step that makes the rows of a table from the messages; SQL errors appear at the first use."""
    if isinstance(table, QuarantineSection):
        return lambda rows: rows.drop(VALUE)  # the body has it, and the schema may be what is to change
    if table.function:
        return _function(table.function, folder)
    if table.sql:
        return lambda rows: _query(rows, table.sql)
    return lambda rows: rows


def _query(rows: DataFrame, text: str) -> DataFrame:
    rows.createOrReplaceTempView(VIEW)
    with _said(f"sql = {text!r:.60}"):
        return rows.sparkSession.sql(text)


@contextmanager
def _said(what: str) -> Iterator[None]:
    """The one line of Spark's SQL error that states the problem."""
    try:
        yield
    except (AnalysisException, ParseException) as problem:
        words = " ".join(str(problem).strip().split("\n\n")[0].split())
        raise ConfigError(f"{what}: {words}") from problem


def _function(name: str, folder: Path) -> Step:
    module_name, _, function_name = name.partition(":")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        module = importlib.import_module(module_name)
        function: Step = getattr(module, function_name)
    except (ImportError, AttributeError) as problem:
        raise ConfigError(f"function = {name!r}: {problem}") from problem

    def step(rows: DataFrame) -> DataFrame:
        found = function(rows)
        if not isinstance(found, DataFrame):
            raise ConfigError(f"function = {name!r}: must return a DataFrame, not {type(found).__name__}")
        return found

    return step


def files_of_functions(tables: tuple[TableSection, ...], folder: Path) -> list[str]:
    """Modules beside the pipeline's file, which executors on other machines do not have."""
    names = [each.function.partition(":")[0].replace(".", "/") for each in tables if each.function]
    return [str(path) for name in names if (path := folder / f"{name}.py").is_file()]


def with_partition_columns(rows: DataFrame, partition_by: tuple[str, ...]) -> DataFrame:
    """Add `date` if it is missing: the day, in UTC, on which a message arrived, or else was sent."""
    if "date" in partition_by and "date" not in rows.columns:
        times = [f.col(name) for name in ("arrived_time", "sent_time") if name in rows.columns]
        if not times:
            raise ConfigError("partition_by date: requires a column date, arrived_time or sent_time")
        rows = rows.withColumn("date", f.to_date(f.coalesce(*times)))
    for name in partition_by:
        if name not in rows.columns:
            raise ConfigError(f"partition_by {name}: unknown column; columns: {', '.join(rows.columns)}")
    return rows
