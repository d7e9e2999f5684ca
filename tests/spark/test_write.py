"""Writes to queues: all of a batch or nothing, and once."""

from pathlib import Path

from pyspark.sql import SparkSession

from spark.served import Served
from spark.support import MakeQueue, Send, Stream, end, send_rows


def test_a_batch(spark: SparkSession, url: str, queue: str, daemon: Served) -> None:
    rows = [(f"b{number}".encode(), f"label {number}") for number in range(10)]
    send_rows(spark, rows, "body binary, label string", url=url, queue=queue).save()
    assert daemon.bodies(queue) == [f"b{number}" for number in range(10)]


def test_queue_to_queue(
    stream: Stream, url: str, queue: str, send: Send, make_queue: MakeQueue, daemon: Served, tmp_path: Path
) -> None:
    sent, target = send(10), make_queue(transactional=True)
    frame = stream(queue=queue, consumer="mover", maxMessagesPerTrigger=4).load().select("body", "label")
    writer = frame.writeStream.format("msmq").options(url=url, queue=target)
    end(writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start())
    assert daemon.bodies(target) == sent
    assert daemon.count(queue) == 0
