"""One Spark session for all of these tests, and a PostgreSQL of one's own where the machine has one."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from addresses import own_address
from spark.conftest import daemon, make_queue, queue, send, spark, url

__all__ = ["daemon", "make_queue", "queue", "send", "spark", "url"]  # the fixtures of tests/spark


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server that was started for these tests."""
    programs = _postgresql_programs()
    if programs is None:
        pytest.skip("no PostgreSQL server on this machine (Debian: apt install postgresql)")
    folder = tmp_path_factory.mktemp("postgresql")
    user = "nobody" if os.geteuid() == 0 else None  # it refuses to run as root
    if user:
        for each in takewhile(lambda each: each != Path(tempfile.gettempdir()), (folder, *folder.parents)):
            each.chmod(0o755)
        shutil.chown(folder, user)
    data, host, port = folder / "data", own_address(), 5432
    make: list[str | Path] = [programs / "initdb", "-D", data, "-U", "tiercel", "--auth=trust", "--no-sync"]
    made = subprocess.run(make, check=False, capture_output=True, text=True, user=user, cwd=folder)  # noqa: S603
    if made.returncode:
        pytest.skip(f"PostgreSQL's initdb does not work here: {(made.stderr or made.stdout).strip()[-200:]}")
    serve: list[str | Path] = [
        programs / "postgres",
        "-D",
        data,
        "-p",
        str(port),
        "-k",
        folder,
        "-c",
        "fsync=off",
        "-h",
        host,
    ]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(serve, stdout=log, stderr=log, user=user, cwd=folder)  # noqa: S603  # ours
    try:
        url = f"postgresql://tiercel@{host}:{port}/postgres"
        _wait_for(url, server)
        yield url
    finally:
        server.terminate()
        server.wait()


def _postgresql_programs() -> Path | None:
    places = [Path(found).parent] if (found := shutil.which("initdb")) else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next(
        (each for each in places if (each / "initdb").exists() and (each / "postgres").exists()), None
    )


def _wait_for(url: str, server: "subprocess.Popen[bytes]") -> None:
    import psycopg  # noqa: PLC0415  # only where there is a server

    while server.poll() is None:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("PostgreSQL did not start")
