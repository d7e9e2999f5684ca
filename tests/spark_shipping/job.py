"""`spark-submit job.py URL FOLDER`, or `python job.py URL FOLDER SERVER` with Spark Connect.

A program as a user would write it: a batch read, a stream from one queue to another, and a table.
"""

import json
import sys

from pyspark.sql import SparkSession

ORDERS, COPIES = "orders", "copies"


def run(spark: SparkSession, url: str, folder: str) -> None:
    orders = spark.read.format("msmq").options(url=url, queue=ORDERS).load().count()
    rows = spark.readStream.format("msmq").options(url=url, queue=ORDERS, consumer="shipped").load()
    to_queue = rows.select("body", "label").writeStream.format("msmq").options(url=url, queue=COPIES)
    to_queue = to_queue.option("checkpointLocation", f"{folder}/log").trigger(availableNow=True)
    to_queue.start().awaitTermination()
    seen = spark.readStream.format("msmq").options(url=url, queue=COPIES, mode="browse").load()
    to_table = seen.writeStream.option("checkpointLocation", f"{folder}/table/log").trigger(availableNow=True)
    to_table.start(f"{folder}/table").awaitTermination()
    table = spark.read.parquet(f"{folder}/table").count()
    print(json.dumps({"orders": orders, "table": table}), flush=True)  # noqa: T201


def main(url: str, folder: str, server: str = "") -> None:
    builder = SparkSession.builder.remote(server) if server else SparkSession.builder
    spark = builder.getOrCreate()
    try:
        import pyspark_msmq  # noqa: PLC0415
    except ImportError:  # a client of Spark Connect need not have it
        run(spark, url, folder)
        return
    pyspark_msmq.register(spark)
    run(spark, url, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
