"""What several tests of Spark need."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

PATIENCE_S = 120.0  # only a test that fails waits that long

Read = Callable[..., DataFrameReader]
Stream = Callable[..., DataStreamReader]
Send = Callable[..., list[str]]
MakeQueue = Callable[..., str]


def bodies(frame: DataFrame) -> list[str]:
    return [bytes(row.body).decode() for row in frame.select("body").collect()]


class Table:
    """A Parquet table that a stream fills, with its checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "table"
        self.checkpoint = folder / "checkpoint"

    def writer(self, frame: DataFrame) -> DataStreamWriter:
        writer = frame.writeStream.format("parquet").option("path", str(self.path))
        return writer.option("checkpointLocation", str(self.checkpoint))

    def take_all(self, frame: DataFrame) -> StreamingQuery:
        """Everything that is there now, in as many batches as it takes."""
        query = self.writer(frame).trigger(availableNow=True).start()
        return end(query)

    def bodies(self, spark: SparkSession) -> list[str]:
        return bodies(spark.read.parquet(str(self.path)).orderBy("queue", "claim_seq"))


def end(query: StreamingQuery) -> StreamingQuery:
    assert query.awaitTermination(int(PATIENCE_S)), "the stream does not end"
    return query


def progress(query: StreamingQuery) -> list[dict[str, Any]]:
    """The batches with data, oldest first."""
    return [each for each in map(_json, query.recentProgress) if each["numInputRows"]]


def _json(each: Any) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(each.json)
    return values


def wait_until(condition: Callable[[], bool], query: StreamingQuery | None = None) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if query is not None and (problem := query.exception()) is not None:
            raise problem
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.05)


def rows_to(frame: DataFrame, **options: Any) -> DataFrameWriter:
    return frame.write.format("msmq").options(**options).mode("append")


def forget_commit(checkpoint: Path) -> None:
    """As if the driver had died between the sink's work and the line in Spark's log."""
    commits = checkpoint / "commits"
    newest = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
    (commits / str(newest)).unlink()
    (commits / f".{newest}.crc").unlink(missing_ok=True)
