"""A Spark session for `format("msmq")`: `session()`."""

import os
import sys
from typing import Any

from pyspark.sql import SparkSession

from pyspark_msmq.java import ensure_java
from pyspark_msmq.quick_workers import use_quick_workers


def session(name: str = "msmq", master: str = "local[*]", **config: Any) -> SparkSession:
    """The session of this program, created if necessary.

    `master` is the Spark master, by default all cores of this computer. Pass Spark options with
    underscores instead of dots: `session(spark_driver_memory="2g")`.
    """
    ensure_java()
    # Workers must run the same Python as the driver, not another one on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        use_quick_workers()
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in config.items():
        builder = builder.config(key.replace("_", "."), _text(value))
    return builder.getOrCreate()


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
