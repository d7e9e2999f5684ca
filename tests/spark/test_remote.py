"""Queues of a queue manager without a data endpoint, over MS-MQRR: here Tiercel, elsewhere Windows."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import tiercel
from pyspark_msmq.remote import ids_of, runs_of
from spark.served import Served
from spark.support import Send, Table, bodies, end, progress, wait_until


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def batch(spark: SparkSession, daemon: Served, **options: Any) -> DataFrame:
    return spark.read.format("msmq").options(url=daemon.rpc_url, **options).load()


def stream(spark: SparkSession, daemon: Served, **options: Any) -> DataFrame:
    return spark.readStream.format("msmq").options(url=daemon.rpc_url, **options).load()


class TestBatch:
    def test_the_same_as_over_the_data_endpoint(
        self, spark: SparkSession, url: str, daemon: Served, queue: str
    ) -> None:
        daemon.send(queue, "a", "b", priority=4)
        near = spark.read.format("msmq").options(url=url, queue=queue).load()
        far = batch(spark, daemon, queue=queue)
        assert far.schema == near.schema
        # Where the queue is, both sides say in their own words.
        assert far.drop("queue").collect() == near.drop("queue").collect()

    def test_a_selection(self, spark: SparkSession, daemon: Served, queue: str, send: Send) -> None:
        send(12)
        assert bodies(batch(spark, daemon, queue=queue, labelLike="m1_")) == ["m10", "m11", "m12"]

    def test_no_such_queue(self, spark: SparkSession, daemon: Served) -> None:
        with pytest.raises(PySparkException, match="QUEUE_NOT_FOUND"):
            batch(spark, daemon, queue=r".\private$\nowhere").count()


class TestStream:
    def test_each_message_once(
        self, spark: SparkSession, daemon: Served, queue: str, send: Send, table: Table
    ) -> None:
        sent = send(5)
        frame = stream(spark, daemon, queue=queue, consumer="far", maxMessagesPerTrigger=2)
        query = table.take_all(frame)
        assert [each["numInputRows"] for each in progress(query)] == [2, 2, 1]
        sent += send(1)
        table.take_all(frame)
        assert table.bodies(spark) == sent
        assert daemon.count(queue) == 0
        assert daemon.count(f"{queue};far") == 0

    def test_a_batch_is_repeated_from_the_subqueue(
        self, spark: SparkSession, daemon: Served, queue: str, send: Send, tmp_path: Path
    ) -> None:
        """The driver dies in the sink, before Spark's commit log: the same messages come again."""
        sent, seen, fail = send(3), [], [True]
        frame = stream(spark, daemon, queue=queue, consumer="again")

        def sink(rows: DataFrame, _: int) -> None:
            seen.append(bodies(rows))
            if fail.pop():
                raise RuntimeError("before the commit log")
            fail.append(False)

        writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path))
        with pytest.raises(PySparkException, match="before the commit log"):
            end(writer.trigger(availableNow=True).start())
        assert daemon.bodies(f"{queue};again") == sent
        fail.append(False)
        end(writer.trigger(availableNow=True).start())
        assert seen == [sent, sent]
        assert daemon.count(f"{queue};again") == 0

    def test_what_a_crash_left_in_the_subqueue_comes_first(
        self, spark: SparkSession, daemon: Served, queue: str, send: Send, table: Table
    ) -> None:
        sent = send(3)
        host, port = daemon.rpc_url.removeprefix("msmq-rpc://").split(":")
        with tiercel.connect(host, port=int(port)) as remote:
            far = remote.queue(queue)
            far.move(far.peek(0), "left")
        table.take_all(stream(spark, daemon, queue=queue, consumer="left"))
        assert table.bodies(spark) == sent

    def test_what_somebody_took_is_missed(
        self, spark: SparkSession, daemon: Served, queue: str, send: Send, tmp_path: Path
    ) -> None:
        def fail(batch: DataFrame, _: int) -> None:
            raise RuntimeError(f"with {batch.count()} messages")

        send(3)
        frame = stream(spark, daemon, queue=queue, consumer="robbed")
        writer = frame.writeStream.foreachBatch(fail).option("checkpointLocation", str(tmp_path))
        with pytest.raises(PySparkException, match="with 3 messages"):
            end(writer.trigger(availableNow=True).start())
        daemon.receive(f"{queue};robbed")
        with pytest.raises(PySparkException, match=r"of 3 messages .* 2 are left"):
            end(writer.trigger(availableNow=True).start())

    def test_two_drivers(
        self, spark: SparkSession, daemon: Served, queue: str, send: Send, tmp_path: Path
    ) -> None:
        """The second one is refused as long as the first one lives."""
        frame = stream(spark, daemon, queue=queue, consumer="only")
        send(1)
        first = Table(tmp_path / "first").writer(frame).start()
        try:
            wait_until(lambda: bool(progress(first)), first)
            with pytest.raises(PySparkException, match="SHARING_VIOLATION"):
                Table(tmp_path / "second").take_all(frame)
        finally:
            first.stop()


def test_runs_of_ids() -> None:
    ids = [7, 8, 9, 20, 22, 23, 5]
    assert runs_of(ids) == [[7, 3], [20, 1], [22, 2], [5, 1]]
    assert ids_of({"ids": runs_of(ids)}) == ids
    assert runs_of([]) == []
