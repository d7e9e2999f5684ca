"""Streams that only look."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark.served import Served
from spark.support import Send, Stream, Table, bodies, progress, wait_until


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def seen(table: Table, spark: SparkSession) -> list[str]:
    return sorted(bodies(spark.read.parquet(str(table.path))), key=lambda body: int(body[1:]))


def test_each_message_once_and_none_is_removed(
    spark: SparkSession, stream: Stream, table: Table, queue: str, send: Send, daemon: Served
) -> None:
    sent = send(5)
    frame = stream(queue=queue, mode="browse", maxMessagesPerTrigger=2).load()
    query = table.take_all(frame)
    assert [batch["numInputRows"] for batch in progress(query)] == [2, 2, 1]
    sent += send(2)
    table.take_all(frame)
    assert seen(table, spark) == sent
    assert daemon.bodies(queue) == sent


def test_what_comes_while_it_runs(
    spark: SparkSession, stream: Stream, table: Table, queue: str, send: Send
) -> None:
    sent = send(2)
    query = table.writer(stream(queue=queue, mode="browse").load()).start()
    try:
        wait_until(lambda: progress(query) != [], query)
        sent += send(2)
        wait_until(lambda: sum(batch["numInputRows"] for batch in progress(query)) == 4, query)
    finally:
        query.stop()
    assert seen(table, spark) == sent


def test_from_now_on(spark: SparkSession, stream: Stream, table: Table, queue: str, send: Send) -> None:
    """The place is pinned by the first run, also when there is nothing to read."""
    send(2)
    frame = stream(queue=queue, mode="browse", startingPosition="latest").load()
    table.take_all(frame)
    sent = send(2)
    table.take_all(frame)
    assert seen(table, spark) == sent


def test_from_a_time(spark: SparkSession, stream: Stream, table: Table, queue: str, send: Send) -> None:
    sent = send(2)
    options = {"mode": "browse", "startingPosition": "2020-01-01T00:00:00Z"}
    table.take_all(stream(queue=queue, **options).load())
    assert seen(table, spark) == sent


def test_a_selection(spark: SparkSession, stream: Stream, table: Table, queue: str, send: Send) -> None:
    send(12)
    table.take_all(stream(queue=queue, mode="browse", labelLike="m1%").load())
    assert seen(table, spark) == ["m1", "m10", "m11", "m12"]


def test_a_purge_is_told(
    spark: SparkSession, stream: Stream, table: Table, queue: str, send: Send, daemon: Served
) -> None:
    sent = send(2)
    table.take_all(stream(queue=queue, mode="browse").load())
    daemon.purge(queue)
    sent += send(1)
    with pytest.raises(PySparkException, match="was purged"):
        table.take_all(stream(queue=queue, mode="browse").load())
    table.take_all(stream(queue=queue, mode="browse", failOnDataLoss="false").load())
    assert seen(table, spark) == sent
