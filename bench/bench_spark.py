"""format("msmq") in Spark: 1 KiB messages, all columns, on local[2].

bench_spark.py [--messages N] [--rounds N] [--only read,growth,partitions,drain,latency]

A batch read stands beside a source that has the same Arrow batches in memory, run in the same session by
turns: what Spark takes for them whatever we do. Streams drain a queue into Parquet, and into another queue.
The latency is from `send` to the moment in which foreachBatch has the row.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import pyspark_msmq
from pyspark_msmq import schema
from tiercel import columns
from tiercel.model.limits import INFINITE
from tiercel.model.message import Message

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # the queue manager that tests command

from spark.served import Served  # noqa: E402

SIZE = 1024
PARTS = 2
BATCH_ROWS = 8192


class MemorySource(DataSource):
    """As many rows as wanted, from one Arrow batch that every task makes once."""

    @classmethod
    def name(cls) -> str:
        return "memory_rows"

    def schema(self) -> StructType:
        return schema.of_messages()

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        return MemoryReader(int(self.options["rows"]), int(self.options["partitions"]))


class MemoryReader(DataSourceReader):
    def __init__(self, rows: int, partitions: int) -> None:
        self._rows = rows
        self._partitions = partitions

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(self._rows // self._partitions) for _ in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        message = Message(os.urandom(SIZE), label="message 1")
        batch = columns.of_messages([message] * BATCH_ROWS, queue=r"SRV\private$\q")
        for start in range(0, partition.value, BATCH_ROWS):
            yield batch.slice(0, min(BATCH_ROWS, partition.value - start))


class Bench:
    def __init__(self, spark: SparkSession, folder: Path, rounds: int) -> None:
        self._spark = spark
        self._folder = folder
        self._rounds = rounds
        self.daemon = Served(folder / "daemon").start()
        self.daemon.set_properties(queue_manager_quota_kib=INFINITE)  # a million are more than usual

    def fill(self, name: str, messages: int) -> str:
        queue = self.daemon.make_queue(name)
        print(f"  {messages:,} messages of 1 KiB go into {name} ...", flush=True)
        self.daemon.fill(queue, messages, SIZE)
        return queue

    # Batch reads.

    def messages(self, queue: str, **options: Any) -> DataFrame:
        return self._spark.read.format("msmq").options(url=self.daemon.url, queue=queue, **options).load()

    def memory(self, rows: int, partitions: int = PARTS) -> DataFrame:
        return self._spark.read.format("memory_rows").options(rows=rows, partitions=partitions).load()

    def read(self, frames: dict[str, Callable[[], DataFrame]]) -> dict[str, float]:
        """Seconds of each, the best of some rounds taken by turns."""
        best = dict.fromkeys(frames, float("inf"))
        for _ in range(self._rounds):
            for name, make in frames.items():
                start = time.perf_counter()
                make().write.format("noop").mode("overwrite").save()
                best[name] = min(best[name], time.perf_counter() - start)
        return best

    def time_of(self, queue: str, **options: Any) -> float:
        def make() -> DataFrame:
            return self.messages(queue, **options)

        return self.read({"queue": make})["queue"]

    def batch(self, queue: str, messages: int) -> None:
        idle = memory_of(self.daemon.pid)
        frames: dict[str, Callable[[], DataFrame]] = {
            "queue": lambda: self.messages(queue, minPartitions=PARTS),
            "memory": lambda: self.memory(messages),
        }
        took = self.read(frames)
        rates = {name: messages / seconds for name, seconds in took.items()}
        print(f"  batch read, {messages:,} messages, all columns:   {rates['queue']:>9,.0f} /s")
        print(f"  the same batches from memory:                {rates['memory']:>9,.0f} /s", end="")
        print(f"   ratio {rates['queue'] / rates['memory']:.2f}")
        print(
            f"  the daemon: {idle:.0f} MB idle, {memory_of(self.daemon.pid, 'VmHWM'):.0f} MB at most",
            flush=True,
        )

    def growth(self, counts: list[int]) -> None:
        for count in counts:
            queue = self.fill(f"growth{count}", count)
            took = self.time_of(queue, minPartitions=PARTS)
            print(f"  {count:>9,} messages: {took:6.2f} s   {count / took:>9,.0f} /s", flush=True)

    def partitions(self, messages: int = 45_000) -> None:
        """Of so many messages that one task may still read them all."""
        queue = self.fill("parts", messages)
        for parts in (1, 2, 4):
            found = self.messages(queue, minPartitions=parts).rdd.getNumPartitions()
            took = self.time_of(queue, minPartitions=parts)
            print(f"  {found} partitions: {took:6.2f} s   {messages / took:>9,.0f} /s", flush=True)

    # Streams.

    def stream(self, queue: str, consumer: str, **options: Any) -> DataFrame:
        reader = self._spark.readStream.format("msmq").options(url=self.daemon.url, **options)
        return reader.options(queue=queue, consumer=consumer, minPartitions=PARTS).load()

    def drain(self, messages: int) -> None:
        queue, target = self.fill("drained", messages), self.daemon.make_queue("target", transactional=True)
        rows = self.stream(queue, "lake", maxBytesPerTrigger="128m")
        self._run(rows.writeStream.format("parquet"), "parquet", "queue to Parquet", messages)
        self.daemon.fill(queue, messages, SIZE)
        rows = self.stream(queue, "mover", maxBytesPerTrigger="128m").select("body", "label")
        sink = rows.writeStream.format("msmq").options(url=self.daemon.url, queue=target)
        self._run(sink, "queue", "queue to queue", messages)
        assert self.daemon.count(queue) == 0
        assert self.daemon.count(target) == messages

    def _run(self, writer: Any, name: str, what: str, messages: int) -> None:
        """From the start of the query to its end, and of the batches after the first: when Java is warm."""
        checkpoint, path = str(self._folder / f"{name}-log"), str(self._folder / f"{name}-out")
        if name == "parquet":
            writer = writer.option("path", path)
        start = time.perf_counter()
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        took = time.perf_counter() - start
        warm = [each for each in query.recentProgress if each.numInputRows][1:]
        seconds = sum(each.durationMs["triggerExecution"] for each in warm) / 1000
        rate = sum(each.numInputRows for each in warm) / seconds if warm else 0
        print(
            f"  {what + ':':<18}{messages / took:>9,.0f} /s from start to end, {rate:,.0f} /s when warm",
            flush=True,
        )

    def latency(self, messages: int = 60) -> None:
        queue, seen = self.daemon.make_queue("latency"), {}

        def note(batch: DataFrame, _: int) -> None:
            labels = [row.label for row in batch.select("label").collect()]
            seen.update(dict.fromkeys(labels, time.time()))

        writer = self.stream(queue, "watch").writeStream.foreachBatch(note)
        query = writer.option("checkpointLocation", str(self._folder / "latency-log")).start()
        sent: dict[str, float] = {}
        for number in range(messages):
            sent[f"n{number}"] = time.time()
            self.daemon.send(queue, f"n{number}")
            time.sleep(0.25)
        while len(seen) < messages:
            time.sleep(0.05)
        query.stop()
        waits = sorted((seen[name] - sent[name]) * 1000 for name in list(sent)[messages // 6 :])
        ends = waits[int(len(waits) * 0.95)]
        print(f"  sent to seen: {statistics.median(waits):.0f} ms p50, {ends:.0f} ms p95", flush=True)


def memory_of(pid: int, what: str = "VmRSS") -> float:
    """Megabytes of the process, now or at most so far."""
    text = Path(f"/proc/{pid}/status").read_text("utf-8")
    return int(text.partition(f"{what}:")[2].split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description="measures Spark on queues")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="read,partitions,growth,drain,latency")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "bench"), os.environ.get("PYTHONPATH", "")])
    folder = Path(tempfile.mkdtemp(prefix="bench-spark-", dir=ROOT / "bench"))
    spark = pyspark_msmq.session("bench", "local[2]", spark_driver_memory="2g", spark_ui_enabled=False)
    spark.sparkContext.setLogLevel("OFF")
    bench = Bench(spark, folder, arguments.rounds)
    try:
        run(bench, wanted, arguments.messages, spark)
    finally:
        spark.stop()
        bench.daemon.stop()
        shutil.rmtree(folder)


def run(bench: Bench, wanted: list[str], messages: int, spark: SparkSession) -> None:
    import bench_spark  # noqa: PLC0415  # by its name, so that Spark's workers find it

    spark.dataSource.register(bench_spark.MemorySource)
    print(f"Spark {spark.version}, {os.cpu_count()} cores")
    bench.memory(1000).count()  # a first job, which starts the workers
    if "read" in wanted:
        bench.batch(bench.fill("million", messages), messages)
    if "partitions" in wanted:
        bench.partitions()
    if "growth" in wanted:
        bench.growth([count for count in (10_000, 100_000) if count < messages])
    if "drain" in wanted:
        bench.drain(messages // 2)
    if "latency" in wanted:
        bench.latency()


if __name__ == "__main__":
    main()
