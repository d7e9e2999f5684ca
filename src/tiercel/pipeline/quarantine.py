"""The messages that a pipeline set apart: listed, tried again, dropped."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from tiercel.pipeline.config import Pipeline, QuarantineSection
from tiercel.pipeline.replay import KEY, Replayed, as_read, land_again, shaped
from tiercel.pipeline.running import PipelineError, only_one
from tiercel.pipeline.steps import condition, decoded, files_of_functions, marked
from tiercel.pipeline.tables import NoTableError, Table, open_table
from tiercel.server.config import ConfigError

# Of one command: the ids of these messages pass through the driver.
MOST: Final = 100_000
_SHOWN: Final = ("arrived_time", "queue", KEY, "label", "decode_error", "body_error")


@dataclass(frozen=True, slots=True)
class Retried:
    left: int  # still bad
    landed: Replayed


def listed(pipeline: Pipeline, spark: SparkSession, match: str = "", limit: int = 100) -> Iterator[Row]:
    """The messages set apart, the latest first, with the reason in `why`."""
    section, table = _quarantine(pipeline)
    rows = _rows(table, spark, match)
    if rows is None:
        return
    reason = f.coalesce(*[f.col(each) for each in ("decode_error", "body_error") if each in rows.columns])
    rule = f.lit(f"matched the rule {section.when}" if section.when else "")
    shown = [each for each in _SHOWN[:4] if each in rows.columns]
    rows = rows.select(*shown, f.coalesce(reason, rule).alias("why"))
    yield from rows.orderBy(f.desc("arrived_time")).limit(limit).collect()


def retry(pipeline: Pipeline, spark: SparkSession, match: str = "") -> Retried:
    """Put messages that the pipeline now accepts into its tables, and take them out of quarantine.

    In this order: after a crash in between, the tables have them, and the next attempt only takes them out.
    """
    section, table = _quarantine(pipeline)
    with only_one(pipeline.state):
        for path in files_of_functions(pipeline.tables, pipeline.folder):
            spark.sparkContext.addPyFile(path)
        found = _rows(table, spark, match)
        if found is None:
            return Retried(0, Replayed())
        messages = as_read(shaped(found, str(section.options)), pipeline)
        rows = marked(decoded(messages, pipeline.decode), section, "_bad")
        ids = _ids(rows.where("not _bad"))
        left = rows.where("_bad").count()
        good = rows.where("not _bad").drop("_bad").where(f"{KEY} is not null").dropDuplicates([KEY])
        landed = land_again(pipeline, good)
        table.remove(ids)
    return Retried(left, landed)


def drop(pipeline: Pipeline, spark: SparkSession, match: str = "") -> int:
    """Remove messages from quarantine for good."""
    _, table = _quarantine(pipeline)
    with only_one(pipeline.state):
        rows = _rows(table, spark, match)
        return 0 if rows is None else table.remove(_ids(rows))


def _quarantine(pipeline: Pipeline) -> tuple[QuarantineSection, Table]:
    if pipeline.quarantine is None:
        raise ConfigError("no [quarantine]: bad messages are in the tables, with their errors")
    return pipeline.quarantine, open_table(pipeline.quarantine.options)


def _rows(table: Table, spark: SparkSession, match: str) -> DataFrame | None:
    """The selected messages; None if none was ever set apart."""
    try:
        rows = table.read(spark)
    except NoTableError:
        return None
    return rows.where(condition(rows, match, "--match")) if match else rows


def _ids(rows: DataFrame) -> list[str]:
    found = [row[KEY] for row in rows.select(KEY).where(f"{KEY} is not null").limit(MOST + 1).collect()]
    if len(found) > MOST:
        raise PipelineError(f"more than {MOST:,} messages are selected; choose fewer with --match")
    return sorted(set(found))
