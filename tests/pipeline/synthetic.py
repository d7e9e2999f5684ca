"""A day of messages that look like those of a shop: five queues, a morning rush, a stalled consumer."""

import math
import random
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tiercel import columns
from tiercel.model.codes import MessageClass

START = datetime(2026, 8, 3, 6, 0, tzinfo=UTC)
HOURS = 18
QUEUES = {"orders": 40, "invoices": 25, "shipping": 18, "stock": 12, "audit": 5}
MACHINES = [UUID(f"3c5f{each:04x}-0000-4000-8000-{each:012x}") for each in (1, 2, 3)]
REASONS = {
    MessageClass.NACK_RECEIVE_TIMEOUT: 6,
    MessageClass.NACK_Q_EXCEED_QUOTA: 3,
    MessageClass.NACK_BAD_DST_Q: 2,
    MessageClass.NACK_ACCESS_DENIED: 1,
}


def sid(number: int) -> bytes:
    return struct.pack("<BB6s5I", 1, 5, b"\0\0\0\0\0\5", 21, 10, 20, 30, number)


def table(count: int, seed: int = 6) -> pa.Table:
    """Messages, dead letters and reports, in the columns of the source and `landed_time`."""
    draw = random.Random(seed)
    rows = [*_messages(draw, count), *_dead_letters(draw, count // 20), *_reports(draw, count // 10)]
    names = [*columns.names(), "landed_time"]
    schema = pa.schema([*columns.arrow_schema(), pa.field("landed_time", pa.timestamp("us", "UTC"))])
    return pa.Table.from_pylist([{name: row.get(name) for name in names} for row in rows], schema)


def frame(spark: SparkSession, count: int) -> DataFrame:
    return spark.createDataFrame(table(count))


def _moment(draw: random.Random) -> datetime:
    """More about ten and three o'clock than else."""
    while True:
        hour = draw.uniform(0, HOURS)
        if draw.random() < 0.15 + math.exp(-((hour - 4) ** 2) / 3) + 0.7 * math.exp(-((hour - 9) ** 2) / 5):
            return START + timedelta(hours=hour)


def _messages(draw: random.Random, count: int) -> Iterator[dict[str, object]]:
    for number in range(count):
        queue = draw.choices(list(QUEUES), list(QUEUES.values()))[0]
        sent = _moment(draw).replace(microsecond=0)
        arrived = sent + timedelta(seconds=int(draw.expovariate(1 / (0.4 if queue != "audit" else 9))))
        wait = draw.lognormvariate(0.5, 1.6) * (400 if queue == "invoices" else 1)
        machine = draw.choices((0, 1, 2), (6, 3, 1))[0]
        yield {
            "queue": rf"shop\private$\{queue}",
            "sent_time": sent,
            "arrived_time": arrived,
            "landed_time": arrived + timedelta(seconds=wait),
            "class": 0,
            "label": f"{queue} {number}",
            "message_id": f"{{{MACHINES[machine]}}}\\{number}",
            "src_machine_id": str(MACHINES[machine]),
            "resp_queue": rf"DIRECT=OS:web-{machine + 1}\private$\answers" if machine < 2 else None,
            "sender_id": sid(1001 + draw.randrange(3)) if machine < 2 else None,
            "body_size": int(draw.lognormvariate(6.5, 1)),
            "priority": 3,
        }


def _dead_letters(draw: random.Random, count: int) -> Iterator[dict[str, object]]:
    for number in range(count):
        reason = draw.choices(list(REASONS), list(REASONS.values()))[0]
        # The invoices' consumer stood still about noon, and its messages ran out of time.
        late = reason is MessageClass.NACK_RECEIVE_TIMEOUT
        at = START + timedelta(hours=draw.gauss(7, 0.7)) if late else _moment(draw)
        yield {
            "queue": "shop\\DeadLetter$",
            "class": int(reason),
            "sent_time": at - timedelta(minutes=10),
            "arrived_time": at,
            "label": f"dead {number}",
            "src_machine_id": str(MACHINES[0]),
            "body_size": 300,
        }


def _reports(draw: random.Random, count: int) -> Iterator[dict[str, object]]:
    """Two or three for each traced message: label and body as the protocol says."""
    for number in range(count):
        at = _moment(draw)
        queue = draw.choice(["orders", "invoices", "shipping"])
        for hop in range(draw.choice((2, 2, 3))):
            label = f"3C5F:{number:08X}:{hop:02X} received by {MACHINES[0]} at"
            body = rf"<TARGET QUEUE>DIRECT=OS:shop\private$\{queue}</TARGET QUEUE>"
            yield {
                "queue": "shop\\reports",
                "class": int(MessageClass.REPORT),
                "label": label,
                "body": body.encode("utf-16-le"),
                "sent_time": at,
                "arrived_time": at,
                "src_machine_id": str(MACHINES[0]),
                "body_size": len(body) * 2,
            }
            at += timedelta(seconds=draw.lognormvariate(0.6 if queue != "invoices" else 2.2, 0.8))
