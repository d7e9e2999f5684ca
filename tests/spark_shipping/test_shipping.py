"""The ways of docs/shipping.md. `make shipping` runs those that need a cluster or a server, too."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark
import pytest

from addresses import own_address
from pyspark_msmq.java import ensure_java
from spark.jvm import JAVA_OPTIONS
from spark_soak.cluster import Cluster
from spark_soak.daemon import Daemon
from spark_soak.processes import PATIENCE_S, descendants, kill
from spark_soak.sinks import check

from . import parts

JOB = Path(__file__).with_name("job.py")
SPARK = Path(pyspark.__file__).parent
CONNECT = parts.ROOT / ".venv-shipping"  # what PySpark needs for Spark Connect, from `make shipping`
MESSAGES = 100
_LONGER = pytest.mark.skipif(
    "TIERCEL_SHIPPING" not in os.environ, reason="takes minutes: set TIERCEL_SHIPPING, or make shipping"
)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path / "daemon")
    daemon.start()
    daemon.send(MESSAGES)
    yield daemon
    daemon.stop()
    daemon.check()


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return parts.python_without_the_source(tmp_path_factory.mktemp("bare") / "python")


def environment(python: str | Path, **more: str) -> dict[str, str]:
    """Of a computer where nothing but this Python is known."""
    ensure_java()
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "SPARK_HOME"}}
    return kept | {
        "JDK_JAVA_OPTIONS": JAVA_OPTIONS,
        "PYSPARK_PYTHON": str(python),
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        **more,
    }


def submit(daemon: Daemon, folder: Path, env: Mapping[str, str], *options: str) -> None:
    """The job reads every message, and each is in the other queue and in the table once."""
    words = ("--conf", "spark.ui.enabled=false", "--driver-memory", "1g", *options, str(JOB))
    perform(daemon, folder, env, str(SPARK / "bin" / "spark-submit"), *words)


def perform(daemon: Daemon, folder: Path, env: Mapping[str, str], *command: str, server: str = "") -> None:
    words = (*command, daemon.url, str(folder / "out"), *filter(None, [server]))
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {"orders": MESSAGES, "table": MESSAGES}
    check("queue", MESSAGES, daemon.copies())
    assert daemon.is_drained()


def test_py_files(daemon: Daemon, bare: Path, tmp_path: Path) -> None:
    files = str(parts.archive(tmp_path))
    submit(daemon, tmp_path, environment(bare), "--master", "local[2]", "--py-files", files)


@pytest.fixture
def cluster(tmp_path: Path, bare: Path) -> Iterator[Cluster]:
    """Master and workers without the source."""
    cluster = Cluster(tmp_path / "cluster", environment(bare))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@_LONGER
class TestStandaloneCluster:
    def test_py_files(self, daemon: Daemon, cluster: Cluster, bare: Path, tmp_path: Path) -> None:
        files = str(parts.archive(tmp_path))
        submit(daemon, tmp_path, environment(bare), "--master", cluster.url, "--py-files", files, *_SMALL)

    def test_packed_environment(self, daemon: Daemon, cluster: Cluster, bare: Path, tmp_path: Path) -> None:
        """The driver has it unpacked under the same relative name: its streams run that Python, too."""
        packed = parts.packed_environment(tmp_path)
        env = environment("./environment/bin/python", PYSPARK_DRIVER_PYTHON=str(bare))
        env["PYTHONPATH"] = str(next(tmp_path.glob("environment/lib/python*/site-packages")))
        submit(daemon, tmp_path, env, "--master", cluster.url, "--archives", f"{packed}#environment", *_SMALL)


_SMALL = ("--executor-memory", "512m", "--conf", "spark.driver.host=127.0.0.1")


@_LONGER
class TestSparkConnect:
    """A server that has the source, and clients in other processes."""

    @pytest.fixture
    def libraries(self) -> Path:
        if not CONNECT.exists():
            pytest.skip("no libraries of Spark Connect; make shipping installs them")
        return next(CONNECT.glob("lib/python*/site-packages"))

    @pytest.fixture
    def server(self, tmp_path: Path) -> Iterator[str]:
        with socket.create_server((host := own_address(), 0)) as free:
            port = free.getsockname()[1]
        place = {"spark.connect.grpc.binding.address": host, "spark.connect.grpc.binding.port": port}
        options = [
            word
            for name, value in (place | {"spark.ui.enabled": "false"}).items()
            for word in ("--conf", f"{name}={value}")
        ]
        command = (str(SPARK / "bin" / "spark-submit"), "--master", "local[2]", *options)
        env = environment(sys.executable)
        with (tmp_path / "server.log").open("wb") as log:
            process = subprocess.Popen(  # noqa: S603  # from the package
                (
                    *command,
                    "--class",
                    "org.apache.spark.sql.connect.service.SparkConnectServer",
                    "spark-internal",
                ),
                stdout=log,
                stderr=log,
                env=env,
                cwd=tmp_path,
            )
        try:
            _wait_for(host, port, process, tmp_path / "server.log")
            yield f"sc://{host}:{port}"
        finally:
            kill([process.pid, *descendants(process.pid)])
            process.wait()

    def test_a_client_with_the_source(
        self, daemon: Daemon, server: str, libraries: Path, tmp_path: Path
    ) -> None:
        env = environment(sys.executable, PYTHONPATH=str(libraries))
        perform(daemon, tmp_path, env, sys.executable, str(JOB), server=server)

    def test_a_client_without_it(self, daemon: Daemon, server: str, libraries: Path, tmp_path: Path) -> None:
        client = parts.python_without_the_source(tmp_path / "client", libraries)
        perform(daemon, tmp_path, environment(client), str(client), str(JOB), server=server)


def _wait_for(host: str, port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex((host, port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError(log.read_text("utf-8", "replace")[-4000:])
