r"""Orders of a shop from queues into a table with Spark, each once, and a picture of their traffic.

A queue manager with its data endpoint is started here. While Spark starts, three queues get orders, one of
them spoilt. The pipeline lands them and sets the spoilt one apart; a second run finds nothing to do.
"""

import asyncio
import json
import random
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import tiercel.aio
from tiercel.pipeline.config import Pipeline, parse
from tiercel.pipeline.reports import make
from tiercel.pipeline.running import run
from tiercel.pipeline.session import open_session
from tiercel.pipeline.tables import open_table
from tiercel.server.config import Config, DataOptions, ListenOptions

SHOPS = {"north": 0.5, "south": 0.3, "web": 0.9}
PICTURES = Path("build/demo")
OPTIONS = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}

PIPELINE = r"""
[pipeline]
name = "demo"
[source]
url = "{url}"
queue_pattern = 'private$\orders-*'
[decode]
expect = "json"
[[table]]
format = "delta"
path = "lake/messages"
partition_by = ["date"]
[[table]]
format = "delta"
path = "lake/orders"
sql = '''
select regexp_extract(queue, 'orders-(.*)$', 1) as shop, arrived_time,
       get_json_object(body_json, '$.item') as item,
       cast(get_json_object(body_json, '$.amount') as decimal(10, 2)) as amount
from messages
'''
[quarantine]
format = "parquet"
path = "lake/quarantine"
"""


async def send_orders(qm: tiercel.aio.QueueManager, enough: asyncio.Event) -> int:
    """Orders until it is enough, at least four seconds long: two thousand or so."""
    queues = {shop: await qm.create_queue(rf".\private$\orders-{shop}") for shop in SHOPS}
    draw, sent = random.Random(6), 0  # noqa: S311  # a demonstration
    for tenth in range(300):
        if enough.is_set() and tenth >= 40:
            break
        for shop, queue in queues.items():
            for _ in range(int(30 * SHOPS[shop] * draw.random() * (1 + (tenth // 10) % 3))):
                order = {"item": draw.choice(["tea", "bread", "ink"]), "amount": f"{draw.uniform(1, 40):.2f}"}
                await queue.send(tiercel.Message(json.dumps(order).encode(), label="order", delivery=1))
                sent += 1
        await asyncio.sleep(0.1)
    await queues["web"].send(tiercel.Message(b'{"item": "tea", "amo', label="order", delivery=1))
    return sent + 1


def land(pipeline: Pipeline, spark: SparkSession) -> None:
    for words in ("first run", "second run"):
        done = run(pipeline, spark, lambda _query, _summary: None)
        print(f"  {words}: {done.messages:,} messages taken, {done.quarantined} set apart")
    messages, orders = (open_table(each.options).read(spark) for each in pipeline.tables)
    show(orders)
    made = make("traffic", messages, PICTURES)
    print(f"  {made.headline}\n  the picture: {made.png}\n  as a page:   {made.html}")


def show(orders: DataFrame) -> None:
    print(f"  the table has {orders.count():,} orders:\n")
    totals = orders.groupBy("shop", "item").agg({"amount": "sum", "*": "count"})
    named = totals.withColumnsRenamed({"sum(amount)": "amount", "count(1)": "orders"})
    named.orderBy("shop", "item").show()


async def main() -> None:
    config = Config(listen=ListenOptions(port=0), data=DataOptions(enabled=True, port=0))
    with tempfile.TemporaryDirectory() as name:
        async with await tiercel.aio.open(Path(name) / "data", config=config) as qm:
            print("Orders come to three queues; a pipeline lands them in a Delta table on Spark:")
            pipeline = parse(PIPELINE.replace("{url}", qm.data_endpoint or ""), Path(name))
            enough = asyncio.Event()
            sending = asyncio.create_task(send_orders(qm, enough))
            spark = await asyncio.to_thread(open_session, "demo", "local[2]", OPTIONS)
            enough.set()
            print(f"  {await sending:,} messages were sent, one of them spoilt")
            try:
                await asyncio.to_thread(land, pipeline, spark)
            finally:
                spark.stop()


if __name__ == "__main__":
    asyncio.run(main())
