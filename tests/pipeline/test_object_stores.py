"""Tables on an object store: a real S3 server process takes each batch once, whoever dies and whoever races.

`make object-stores` installs the server, moto's, into .venv-object-stores.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final, cast
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from deltalake import DeltaTable
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from addresses import own_address
from pipeline.test_tables import Died, Late, numbers, rows
from tiercel.pipeline.tables import Table, TableOptions, open_table
from tiercel.pipeline.tables.file_systems import listing

ROOT: Final = Path(__file__).parents[2]
SERVER: Final = ROOT / ".venv-object-stores" / "bin" / "moto_server"
LAST_STEP: Final = {
    "delta": "tiercel.pipeline.tables.delta.DeltaTable.create_write_transaction",
    "iceberg": "tiercel.pipeline.tables.iceberg.IcebergTable._commit",
}


@pytest.fixture(scope="module")
def store(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a bucket; its server and credentials are in the environment of driver and executors."""
    if not SERVER.exists():
        pytest.skip("no S3 server; make object-stores installs one")
    host, port = own_address(), 5000
    endpoint = f"http://{host}:{port}"
    environment = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "tests",
        "AWS_SECRET_ACCESS_KEY": "tests",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    log = (tmp_path_factory.mktemp("moto") / "log").open("wb")
    command = [str(SERVER), "-H", host, "-p", str(port)]
    server = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603  # ours
    kept = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    before = dict(spark.sparkContext.environment)
    spark.sparkContext.environment.update(environment)
    try:
        _make_bucket(endpoint, server)
        yield "s3://lake"
    finally:
        server.terminate()
        server.wait()
        log.close()
        spark.sparkContext.environment = before
        for name, value in kept.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _make_bucket(endpoint: str, server: "subprocess.Popen[bytes]") -> None:
    while server.poll() is None:
        try:
            urlopen(Request(f"{endpoint}/lake", method="PUT")).close()  # noqa: S310  # our own server
        except URLError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("the S3 server did not start")


Make = Callable[[], Table]


@pytest.fixture(params=["delta", "iceberg", "glue"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(kind: str, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """The same table, opened anew, as another process would; `glue` is Iceberg with that catalog."""
    catalogs = {"iceberg": f"sqlite:///{tmp_path}/catalog.db", "glue": "glue"}
    if kind == "glue":  # its client is where the server is
        packages = map(str, SERVER.parents[1].glob("lib/python*/site-packages"))
        monkeypatch.setattr(sys, "path", [*sys.path, *packages])
    options = TableOptions(
        format="delta" if kind == "delta" else "iceberg",
        place=f"{store}/{tmp_path.name}",
        name=f"{tmp_path.name}.t" if kind in catalogs else "",
        catalog=catalogs.get(kind, ""),
        partition_by=("day",),
    )
    return lambda: open_table(options)


def some(spark: SparkSession, first: int, last: int) -> Any:
    return rows(spark, first, last).selectExpr(
        "* except (priority)", "cast(sent as date) as day", "string(number) as message_id"
    )


def test_each_batch_is_in_the_table_once(spark: SparkSession, make: Make, tmp_path: Path) -> None:
    for batch in range(3):
        assert make().write(some(spark, 10 * batch, 10 * batch + 10), {"app": batch}).rows == 10
    assert make().write(some(spark, 20, 30), {"app": 2}).already
    assert numbers(make(), spark) == list(range(30))
    assert make().compact().after == 3  # one for each day
    assert numbers(make(), spark) == list(range(30))
    assert make().remove(["3", "4"]) == 2
    assert numbers(make(), spark) == [each for each in range(30) if each not in {3, 4}]
    assert make().applied("app") == 2
    assert not any(each.name.startswith("s3:") for each in (*Path.cwd().iterdir(), *tmp_path.iterdir()))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_death_at_the_commit(
    spark: SparkSession, make: Make, kind: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it, the files are orphans; after it, the batch is there, and Spark does not know."""
    make().write(some(spark, 0, 10), {"app": 0})
    name = LAST_STEP.get(kind, LAST_STEP["iceberg"])
    module, _, method = name.rpartition(".")
    owner = resolve_name(module)
    real = getattr(owner, method)

    def die(*arguments: Any, **more: Any) -> None:
        if moment == "after":
            real(*arguments, **more)
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(owner, method, die)
        with pytest.raises(Died):
            make().write(some(spark, 10, 20), {"app": 1})
    assert numbers(make(), spark) == list(range(20 if moment == "after" else 10))
    assert make().write(some(spark, 10, 20), {"app": 1}).already is (moment == "after")
    assert numbers(make(), spark) == list(range(20))
    place = make().options.place
    assert len(list(listing(place, ".parquet"))) >= (2 if moment == "after" else 3)


def test_a_task_that_dies_in_the_middle_of_a_file(spark: SparkSession, make: Make) -> None:
    """Its upload is never completed, so there is no such object; the second attempt writes its own."""

    def fragile(number):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202  # Spark reads hints otherwise
        context = TaskContext.get()
        if number == 15 and context is not None and context.attemptNumber() == 0:
            os._exit(1)
        return number

    batch = some(spark, 0, 20)
    make().write(batch.withColumn("number", udf(fragile, "long")("number")), {"app": 0})
    assert numbers(make(), spark) == list(range(20))


def test_the_loser_of_a_race_adds_nothing(spark: SparkSession, make: Make) -> None:
    batch = some(spark, 0, 10)
    late = Late(batch, lambda: make().write(batch, {"app": 0}))
    assert make().write(cast("Any", late), {"app": 0}).already
    assert numbers(make(), spark) == list(range(10))


@pytest.mark.parametrize("kind", ["delta", "iceberg"])  # moto's Glue does not look at a commit's VersionId
def test_two_writers_at_once(spark: SparkSession, make: Make) -> None:
    """Every commit is a conditional write: one of two wins, and the other writes on top of it."""
    make().write(some(spark, 0, 1), {"first": 0})

    def write(app: int) -> None:
        for batch in range(3):
            begin = 100 * app + 10 * batch
            make().write(some(spark, begin, begin + 10), {f"app{app}": batch})

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, (1, 2)))
    assert numbers(make(), spark) == [0, *range(100, 130), *range(200, 230)]


@pytest.mark.parametrize("kind", ["delta"])
def test_other_programs_read_it(spark: SparkSession, make: Make) -> None:
    make().write(some(spark, 0, 10), {"app": 0})
    found = DeltaTable(make().options.place).to_pyarrow_table()
    assert sorted(found.column("number").to_pylist()) == list(range(10))
