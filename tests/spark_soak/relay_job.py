"""`python relay_job.py FILE`: messages from one queue to another, as a user would write it."""

import json
import sys
from pathlib import Path

import pyspark_msmq


def main(file: str) -> None:
    job = json.loads(Path(file).read_text("utf-8"))
    spark = pyspark_msmq.session("relay", job["master"], **job["spark"])
    spark.sparkContext.setLogLevel("WARN")
    frame = spark.readStream.format("msmq").options(**job["source"]).load()
    writer = frame.select("body", "label").writeStream.format("msmq").options(**job["sink"])
    query = writer.option("checkpointLocation", job["checkpoint"]).start()
    query.awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1])
