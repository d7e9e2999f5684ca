"""One Spark session and one queue manager for all tests here; each test has queues of its own.

They run in one worker of pytest-xdist (tests/schedule.py).
"""

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

import pyspark_msmq
from spark.jvm import JAVA_OPTIONS
from spark.served import Served

FOLDER = Path(__file__).parent
_numbers = count(1)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    # Workers find the sources of the tests there. Whoever fails may try once more, as on a cluster.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(FOLDER.parent), os.environ.get("PYTHONPATH", "")])
    session = pyspark_msmq.session(
        "tests",
        "local[2,2]",
        spark_driver_memory="1g",
        spark_driver_extraJavaOptions=JAVA_OPTIONS,
        spark_ui_enabled=False,
        spark_sql_shuffle_partitions=2,
        spark_sql_warehouse_dir=folder / "warehouse",
        spark_local_dir=folder / "local",
        spark_sql_session_timeZone="UTC",
    )
    session.sparkContext.setLogLevel("OFF")  # tests provoke errors, and read them where they are raised
    yield session
    session.stop()


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("daemon")).start()
    yield served
    served.stop()


@pytest.fixture
def url(daemon: Served) -> str:
    return daemon.url


@pytest.fixture
def make_queue(daemon: Served) -> Callable[..., str]:
    """Makes queues that no other test has; gives the path name."""

    def make(**properties: Any) -> str:
        return daemon.make_queue(f"q{next(_numbers)}", **properties)

    return make


@pytest.fixture
def queue(make_queue: Callable[..., str]) -> str:
    return make_queue()


@pytest.fixture
def send(daemon: Served, queue: str) -> Callable[[int], list[str]]:
    """Sends so many messages to `queue`; gives their bodies, which go on counting."""
    numbers = count(1)

    def send(many: int, **more: Any) -> list[str]:
        bodies = [f"m{next(numbers)}" for _ in range(many)]
        daemon.send(queue, *bodies, **more)
        return bodies

    return send


@pytest.fixture
def reader(spark: SparkSession, url: str) -> Callable[..., DataFrameReader]:
    """A batch reader with these options."""

    def read(**options: Any) -> DataFrameReader:
        return spark.read.format("msmq").options(url=url, **options)

    return read


@pytest.fixture
def stream(spark: SparkSession, url: str) -> Callable[..., DataStreamReader]:
    """A stream reader with these options."""

    def read(**options: Any) -> DataStreamReader:
        return spark.readStream.format("msmq").options(url=url, **options)

    return read
