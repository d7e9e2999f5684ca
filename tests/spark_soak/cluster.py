"""A real cluster on this machine: a master and two workers, on addresses of their own.

Speculation runs a task again on another host only, so the workers must look like two hosts.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pyspark

from pyspark_msmq.java import ensure_java
from spark_soak.driver import FOLDER
from spark_soak.processes import PATIENCE_S, command, descendants, is_alive, kill

HOSTS = ("127.0.0.2", "127.0.0.3")
_SPARK = Path(pyspark.__file__).parent


class Cluster:
    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        """`environment` is that of all nodes; by default they have what this process has."""
        ensure_java()
        self._environment = environment or _like_this_process()
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.url = f"spark://127.0.0.1:{self._port}"

    def start(self) -> None:
        self._run("master", "127.0.0.1", "master.Master", "--port", str(self._port))
        for host in HOSTS:
            work = self._folder / host
            limits = ("--cores", "1", "--memory", "1g", "--work-dir", str(work))
            self._run(host, host, "worker.Worker", *limits, self.url)
        for host in HOSTS:
            self._wait_for(host, "Successfully registered with master")

    def stop(self) -> None:
        below = [pid for process in self._processes for pid in descendants(process.pid)]
        kill([*(process.pid for process in self._processes), *filter(is_alive, below)])
        for process in self._processes:
            process.wait()

    def executor_of(self, pid: int) -> int:
        """The executor whose Python worker this is."""
        for each in self._below():
            if "CoarseGrainedExecutorBackend" in command(each) and pid in descendants(each):
                return each
        raise AssertionError(f"no executor has the process {pid}")

    def pids(self) -> list[int]:
        return self._below()

    def _below(self) -> list[int]:
        return [pid for process in self._processes for pid in descendants(process.pid)]

    def _run(self, name: str, host: str, kind: str, *arguments: str) -> None:
        words = ("--host", host, "--webui-port", "0", *arguments)
        environment = {
            **self._environment,
            "SPARK_HOME": str(_SPARK),
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
        }
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(  # noqa: S603  # from the package
                    (_SPARK / "bin" / "spark-class", f"org.apache.spark.deploy.{kind}", *words),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environment,
                )
            )

    def _wait_for(self, name: str, words: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        log = self._folder / f"{name}.log"
        while words not in (text := log.read_text("utf-8", "replace")):
            assert time.monotonic() < deadline, f"the cluster does not start: {text[-2000:]}"
            time.sleep(0.1)


def _like_this_process() -> dict[str, str]:
    path = os.pathsep.join([str(FOLDER.parent), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
