"""The Spark session of a pipeline."""

import os
import sys
from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession

# What every job here relies on; a pipeline's own options may not change it.
_ALWAYS: Final = {
    "spark.sql.session.timeZone": "UTC",  # a date is the same everywhere
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_UNLESS_SAID: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "8",
}


def open_session(name: str, master: str, options: Mapping[str, str]) -> SparkSession:
    """A new session, or the one there is; Java is found, and Python's workers are this Python."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**_UNLESS_SAID, **options, **_ALWAYS}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(options.get("spark.log.level", "ERROR"))
    return session
