"""The Spark session of a pipeline, and its log."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import pyspark_msmq
from tiercel.model.errors import TiercelError

# Required by every job; the pipeline's options cannot change it.
_ALWAYS: Final = {"spark.sql.session.timeZone": "UTC"}  # dates do not depend on the machine
_UNLESS_SAID: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
}


class SparkStartError(TiercelError):
    """Spark did not start."""


def open_session(name: str, master: str, options: Mapping[str, str], log: Path | None = None) -> SparkSession:
    """A session whose log goes to a file or is discarded; errors contain only what users need."""
    said = {**_UNLESS_SAID, **options, **_ALWAYS}
    try:
        with _stderr_to(log or Path(os.devnull)):
            session = pyspark_msmq.session(name, master, **{key.replace(".", "_"): said[key] for key in said})
    except (PySparkException, RuntimeError) as problem:
        where = f"; see {log}" if log else ""
        raise SparkStartError(
            f"Spark did not start on {master} ({str(problem).splitlines()[0]}){where}"
        ) from problem
    session.sparkContext.setLogLevel(options.get("spark.log.level", "WARN" if log else "OFF"))
    return session


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Redirect stderr, which the JVM inherits and fills with irrelevant warnings."""
    sys.stderr.flush()
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = os.dup(2)
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.dup2(log, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(log)
