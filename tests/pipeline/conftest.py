"""One Spark session for all of these tests, and a PostgreSQL of one's own where the machine has one."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from spark.conftest import daemon, make_queue, queue, send, spark, url

HERE = Path(__file__).parent

__all__ = ["daemon", "make_queue", "queue", "send", "spark", "url"]  # the fixtures of tests/spark


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of them in one worker: a second Spark would cost ten seconds and half a gigabyte."""
    for item in items:
        if HERE in item.path.parents and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


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
    data, port = folder / "data", _free_port()
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
        "127.0.0.1",
    ]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(serve, stdout=log, stderr=log, user=user, cwd=folder)  # noqa: S603  # ours
    try:
        _wait_for(port, server)
        yield f"postgresql://tiercel@127.0.0.1:{port}/postgres"
    finally:
        server.terminate()
        server.wait()


def _postgresql_programs() -> Path | None:
    places = [Path(found).parent] if (found := shutil.which("initdb")) else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next(
        (each for each in places if (each / "initdb").exists() and (each / "postgres").exists()), None
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int, server: "subprocess.Popen[bytes]") -> None:
    import psycopg  # noqa: PLC0415  # only where there is a server

    while server.poll() is None:
        try:
            psycopg.connect(f"postgresql://tiercel@127.0.0.1:{port}/postgres").close()
        except psycopg.OperationalError:
            continue
        return
    raise AssertionError("PostgreSQL did not start")
