"""Writes to queues: all of a batch or nothing, and once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import pyspark_msmq
from spark.served import Served
from spark.support import MakeQueue, Send, Stream, end, forget_commit, rows_to

TEN = [f"b{number}" for number in range(10)]


def frame_of(spark: SparkSession, texts: list[str]) -> DataFrame:
    return spark.createDataFrame([(text.encode(), text) for text in texts], "body binary, label string")


class TestBatch:
    @pytest.mark.parametrize("transactional", [True, False])
    def test_all_of_it_in_order(
        self, spark: SparkSession, url: str, make_queue: MakeQueue, daemon: Served, transactional: bool
    ) -> None:
        queue = make_queue(transactional=transactional)
        rows_to(frame_of(spark, TEN).repartition(1), url=url, queue=queue).save()
        assert daemon.bodies(queue) == TEN
        assert daemon.stages() == []

    def test_outside_the_main_thread(
        self, spark: SparkSession, url: str, make_queue: MakeQueue, daemon: Served
    ) -> None:
        """Spark looks in the active session of the thread; after `register` it has one."""
        queue, frame = make_queue(), frame_of(spark, TEN).repartition(1)

        def write(*, is_registered: bool) -> None:
            if is_registered:
                pyspark_msmq.register(spark)
            rows_to(frame, url=url, queue=queue).save()

        with ThreadPoolExecutor(1) as other:
            with pytest.raises(Py4JJavaError, match="DATA_SOURCE_NOT_FOUND"):
                other.submit(write, is_registered=False).result()
            other.submit(write, is_registered=True).result()
        assert daemon.bodies(queue) == TEN

    def test_signed_by_the_queue_manager(self, spark: SparkSession, url: str, make_queue: MakeQueue) -> None:
        queue = make_queue(authentication=True)
        with pytest.raises(PySparkException, match="MQ_ERROR_MESSAGE_NOT_AUTHENTICATED"):
            rows_to(frame_of(spark, TEN), url=url, queue=queue).save()
        rows_to(frame_of(spark, TEN).repartition(2), url=url, queue=queue, sign="true").save()
        rows = spark.read.format("msmq").options(url=url, queue=queue).load().collect()
        assert [(row.authenticated, row.auth_level) for row in rows] == [(True, 3)] * len(TEN)

    def test_many_pieces(self, spark: SparkSession, url: str, queue: str, daemon: Served) -> None:
        rows_to(frame_of(spark, TEN), url=url, queue=queue, maxBatchBytes=100).save()
        assert daemon.bodies(queue) == TEN

    def test_nothing(self, spark: SparkSession, url: str, queue: str, daemon: Served) -> None:
        rows_to(frame_of(spark, []), url=url, queue=queue).save()
        assert daemon.bodies(queue) == []

    def test_queues_by_row(
        self, spark: SparkSession, url: str, make_queue: MakeQueue, daemon: Served
    ) -> None:
        one, other = make_queue(), make_queue()
        rows = [(one, b"a"), (other, b"b"), (one, b"c")]
        rows_to(spark.createDataFrame(rows, "queue string, body binary"), url=url).save()
        assert (daemon.bodies(one), daemon.bodies(other)) == (["a", "c"], ["b"])

    def test_properties(self, spark: SparkSession, url: str, queue: str) -> None:
        columns = "body binary, label string, priority tinyint, app_specific long"
        rows_to(spark.createDataFrame([(b"a", "x", 6, 77)], columns), url=url, queue=queue).save()
        row = spark.read.format("msmq").options(url=url, queue=queue).load().first()
        assert row is not None
        assert (row.label, row.priority, row.app_specific, row.delivery) == ("x", 6, 77, 1)

    def test_a_numbered_write_happens_once(
        self, spark: SparkSession, url: str, queue: str, daemon: Served
    ) -> None:
        for version, text in ((0, "a"), (1, "b"), (1, "b"), (0, "a")):
            options = {"url": url, "queue": queue, "txnAppId": f"app{queue[-2:]}".replace("\\", "")}
            rows_to(frame_of(spark, [text]), **options, txnVersion=version).save()
        assert daemon.bodies(queue) == ["a", "b"]


class TestRefused:
    def test_other_modes(self, spark: SparkSession, url: str, queue: str, daemon: Served) -> None:
        with pytest.raises(PySparkException, match=r'use .mode\("append"\)'):
            rows_to(frame_of(spark, TEN), url=url, queue=queue).mode("overwrite").save()
        for mode in ("error", "ignore"):
            with pytest.raises(PySparkException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
                rows_to(frame_of(spark, TEN), url=url, queue=queue).mode(mode).save()
        assert daemon.bodies(queue) == []

    @pytest.mark.parametrize(
        ("columns", "words"),
        [
            ("body binary, lable string", "label"),
            ("label string", "body"),
            ("body binary, priority string", "priority"),
        ],
    )
    def test_columns(self, spark: SparkSession, url: str, queue: str, columns: str, words: str) -> None:
        frame = spark.createDataFrame([], columns)
        with pytest.raises(PySparkException, match=f"cannot send these columns: .*{words}"):
            rows_to(frame, url=url, queue=queue).save()

    def test_no_queue(self, spark: SparkSession, url: str) -> None:
        with pytest.raises(PySparkException, match=r"cannot send these columns: .*queue"):
            rows_to(frame_of(spark, TEN), url=url).save()

    def test_a_value(self, spark: SparkSession, url: str, queue: str, daemon: Served) -> None:
        frame = spark.createDataFrame([(b"a", 3), (b"b", 9)], "body binary, priority tinyint")
        with pytest.raises(PySparkException, match="priority"):
            rows_to(frame, url=url, queue=queue).save()
        assert daemon.bodies(queue) == []

    def test_a_kind_of_queue(self, spark: SparkSession, url: str, queue: str, daemon: Served) -> None:
        with pytest.raises(PySparkException, match="MQ_ERROR_TRANSACTION_USAGE"):
            rows_to(frame_of(spark, TEN), url=url, queue=queue, transactional="true").save()
        assert daemon.bodies(queue) == []
        assert daemon.stages() == []


class TestFailures:
    def test_a_task_that_runs_twice(self, spark: SparkSession, url: str, queue: str, daemon: Served) -> None:
        """Its first attempt has staged something; only what the second one stages is sent."""

        def fails_at_first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            assert context is not None
            for batch in batches:
                for row in range(batch.num_rows):
                    yield batch.slice(row, 1)
            if context.attemptNumber() == 0:
                raise RuntimeError("the first attempt")

        frame = frame_of(spark, TEN).mapInArrow(fails_at_first, "body binary, label string")
        rows_to(frame, url=url, queue=queue, maxBatchBytes=100).save()
        assert daemon.bodies(queue) == TEN
        assert daemon.stages() == []

    def test_a_task_that_always_fails(
        self, spark: SparkSession, url: str, queue: str, daemon: Served
    ) -> None:
        def fails(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from batches
            raise RuntimeError("every attempt")

        frame = frame_of(spark, TEN).mapInArrow(fails, "body binary, label string")
        with pytest.raises(PySparkException, match="every attempt"):
            rows_to(frame, url=url, queue=queue, maxBatchBytes=100).save()
        assert daemon.bodies(queue) == []
        assert daemon.stages() == []


class TestStream:
    def start(self, frame: DataFrame, checkpoint: Path, **options: Any) -> None:
        writer = frame.writeStream.format("msmq").options(**options)
        end(writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start())

    def test_queue_to_queue(
        self,
        stream: Stream,
        url: str,
        queue: str,
        send: Send,
        make_queue: MakeQueue,
        daemon: Served,
        tmp_path: Path,
    ) -> None:
        sent, target = send(10), make_queue(transactional=True)
        frame = stream(queue=queue, consumer="mover", maxMessagesPerTrigger=4).load()
        self.start(frame.select("body", "label"), tmp_path, url=url, queue=target)
        assert daemon.bodies(target) == sent
        assert daemon.count(queue) == 0
        assert daemon.stages() == []

    @pytest.mark.parametrize("options", [{}, {"txnAppId": "again"}])
    def test_a_batch_that_was_published_is_not_again(
        self,
        stream: Stream,
        url: str,
        queue: str,
        send: Send,
        make_queue: MakeQueue,
        daemon: Served,
        tmp_path: Path,
        options: dict[str, str],
    ) -> None:
        """The driver dies after the publish and before Spark's commit log."""
        sent, target = send(4), make_queue()
        consumer = f"repeats{len(options)}"
        frame = stream(queue=queue, consumer=consumer, ackTiming="commit").load().select("body")
        self.start(frame, tmp_path, url=url, queue=target, **options)
        forget_commit(tmp_path)
        sent += send(1)
        self.start(frame, tmp_path, url=url, queue=target, **options)
        assert daemon.bodies(target) == sent

    def test_another_batch_of_the_same_name_is_an_error_and_not_dropped(
        self,
        stream: Stream,
        url: str,
        queue: str,
        send: Send,
        make_queue: MakeQueue,
        daemon: Served,
        tmp_path: Path,
    ) -> None:
        """A new checkpoint counts its batches from 0 again, by the name of the old one."""
        sent, target = send(4), make_queue()
        for run, options in enumerate(({}, {"resumeConsumer": "true"})):
            frame = stream(queue=queue, consumer="anew-to-queue", **options).load().select("body")
            with nullcontext() if not run else pytest.raises(Exception, match="needs a new txnAppId"):
                self.start(frame, tmp_path / str(run), url=url, queue=target, txnAppId="anew")
            send(1)
        assert daemon.bodies(target) == sent

    def test_in_foreach_batch(
        self,
        stream: Stream,
        url: str,
        queue: str,
        send: Send,
        make_queue: MakeQueue,
        daemon: Served,
        tmp_path: Path,
    ) -> None:
        sent, target = send(4), make_queue()
        frame = stream(queue=queue, consumer="each", ackTiming="commit").load().select("body")

        def write(batch: DataFrame, number: int) -> None:
            rows_to(batch, url=url, queue=target, txnAppId="foreach", txnVersion=number).save()

        for _ in range(2):
            writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path))
            end(writer.trigger(availableNow=True).start())
            forget_commit(tmp_path)
        assert daemon.bodies(target) == sent
