"""A streaming job in a driver process of its own: it is started, killed, and started again."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from spark.jvm import JAVA_OPTIONS
from spark_soak import gates
from spark_soak.processes import at_port, command, descendants, is_alive, kill

FOLDER = Path(__file__).parent
_WORDS = 3000  # the end of a log that is shown when something fails


class Driver:
    def __init__(self, folder: Path, program: str, file: Path, line: str) -> None:
        self.log = folder / f"{file.stem}.log"
        self.starts = 0
        self._command = (sys.executable, str(FOLDER / program), str(file))
        path = os.pathsep.join([str(FOLDER.parent), os.environ.get("PYTHONPATH", "")])
        self._environment = {
            **os.environ,
            gates.LINE: line,
            "JDK_JAVA_OPTIONS": JAVA_OPTIONS,
            "PYTHONPATH": path,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._left: set[int] = set()  # children that outlive it, for a while

    def start(self) -> None:
        assert not self.is_alive
        self.starts += 1
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  # our own program
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment
            )

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """Its Python and its JVM at once. The Python workers are left to find out for themselves."""
        process = self._process  # whoever watches may start another as soon as this one is gone
        if process is None:
            return
        below = descendants(process.pid)
        self._left.update(below)
        kill([process.pid, *(pid for pid in below if _is_java(pid))])
        process.wait()

    def kill_worker(self, port: int) -> None:
        """The Python process at this end of a connection. When that is the driver itself, all workers."""
        below = descendants(self.pid)
        pid = at_port(port, below)
        workers = [each for each in below if not _is_java(each)] if pid is None else [pid]
        kill(workers)

    def stop(self) -> None:
        if self._process is None:
            return
        self._left.update(descendants(self.pid))
        if self.is_alive:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()
        kill(pid for pid in self._left if is_alive(pid) and _is_sparks(pid))

    def last_words(self) -> str:
        return f"the end of {self.log}:\n{self.log.read_text('utf-8', 'replace')[-_WORDS:]}"


def _is_java(pid: int) -> bool:
    return "java" in command(pid).partition(" ")[0]


def _is_sparks(pid: int) -> bool:
    """A number may belong to somebody else by now."""
    return "spark" in command(pid)
