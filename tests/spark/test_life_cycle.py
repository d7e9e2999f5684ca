"""What Spark asks of a stream, and when: the facts that the design of the source stands on."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark.served import Served
from spark.sources import FilteringSource, TracedSource
from spark.support import Send, progress, wait_until

GOLDEN = """\
initialOffset [offsets=none commits=none]
latestOffset ReadAllAvailable 0 -> 10 [offsets=none commits=none]
initialOffset [offsets=0 commits=none]
partitions 0..10 [offsets=0 commits=none]
read 0..5 [offsets=0 commits=none]
read 5..10 [offsets=0 commits=none]
latestOffset ReadAllAvailable 10 -> 14 [offsets=0 commits=0]
commit 10 [offsets=1 commits=0]
partitions 10..14 [offsets=1 commits=0]
read 10..12 [offsets=1 commits=0]
read 12..14 [offsets=1 commits=0]
"""


def test_the_golden_trace(
    spark: SparkSession, url: str, queue: str, send: Send, daemon: Served, tmp_path: Path
) -> None:
    """A claim before the offset is logged; an acknowledgement only after the batch is in the commit log.

    `commit(10)` comes with the next batch, `commit(14)` never, and nobody says `stop`. Yet nothing is left.
    """
    spark.dataSource.register(TracedSource)
    trace, checkpoint = tmp_path / "trace", tmp_path / "checkpoint"
    reader = spark.readStream.format("msmq_traced").options(trace=str(trace), checkpoint=str(checkpoint))
    send(10)
    frame = reader.options(url=url, queue=queue, consumer="golden", minPartitions=2).load()
    writer = frame.writeStream.foreachBatch(lambda batch, _: batch.foreach(lambda _row: None))
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        wait_until(lambda: len(progress(query)) == 1, query)
        wait_until(lambda: daemon.claims("golden") == [], query)
        send(4)
        wait_until(lambda: len(progress(query)) == 2, query)
        wait_until(lambda: daemon.claims("golden") == [], query)
    finally:
        query.stop()
    lines = trace.read_text("utf-8").splitlines()
    assert _reads_sorted(lines) == GOLDEN.splitlines()


def _reads_sorted(lines: list[str]) -> list[str]:
    """Two tasks read at once: whichever is first stands first."""
    for at in range(len(lines) - 1):
        if lines[at].startswith("read") and lines[at + 1].startswith("read"):
            lines[at : at + 2] = sorted(lines[at : at + 2], key=lambda line: int(line[5:].partition(".")[0]))
    return lines


class TestFilterPushDown:
    """Why the reader has no `pushFilters`, although the queue manager could filter."""

    @pytest.fixture
    def pushing(self, spark: SparkSession) -> SparkSession:
        spark.dataSource.register(FilteringSource)
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
        return spark

    @pytest.mark.xfail(
        strict=True,
        raises=AssertionError,
        reason="Spark 4.2 and 4.3 keep the filters of one query on the table. When this passes, Spark is "
        "mended: BatchReader may define pushFilters for the versions of Spark that are",
    )
    def test_the_filter_of_one_query_is_not_kept_for_the_next(self, pushing: SparkSession) -> None:
        frame = pushing.read.format("filtering").load()
        assert frame.where("label = 'a'").count() == 5
        assert frame.count() == 10

    def test_a_reader_that_could_filter_is_refused_by_default(self, spark: SparkSession) -> None:
        spark.dataSource.register(FilteringSource)
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
        with pytest.raises(PySparkException, match="DATA_SOURCE_PUSHDOWN_DISABLED"):
            spark.read.format("filtering").load().count()

    def test_ours_works_with_it(self, pushing: SparkSession, url: str, queue: str, send: Send) -> None:
        send(10)
        frame = pushing.read.format("msmq").options(url=url, queue=queue).load()
        assert frame.where("label = 'm3'").count() == 1
        assert frame.count() == 10
