"""What may happen besides kills at a step: a real cluster, two drivers on one checkpoint, two consumers."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from spark_soak import jobs
from spark_soak.cluster import Cluster
from spark_soak.daemon import Daemon
from spark_soak.driver import Driver
from spark_soak.line import Line, Stop
from spark_soak.processes import PATIENCE_S, at_port, kill
from spark_soak.sinks import check
from spark_soak.steps import Step


@contextmanager
def _stage(folder: Path) -> Iterator[tuple[Daemon, Line]]:
    daemon = Daemon(folder / "daemon")
    daemon.start()
    line = Line(daemon.url)
    try:
        yield daemon, line
    finally:
        line.close()
        daemon.stop()
    daemon.check()


def wait_until(condition: Callable[[], bool], drivers: tuple[Driver, ...]) -> None:
    """Meanwhile a driver that has ended is started again."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "\n".join(driver.last_words() for driver in drivers)
        for driver in drivers:
            if not driver.is_alive:
                driver.start()
        time.sleep(0.1)


def cluster(folder: Path) -> str:
    """Tasks that run twice because the first attempt is slow, and executors that die."""
    nodes = Cluster(folder / "cluster")
    with _stage(folder) as (daemon, line):
        options = {
            "spark_speculation": "true",
            "spark_speculation_interval": "100ms",
            "spark_speculation_quantile": "0.5",
            "spark_speculation_multiplier": "1.1",
            "spark_speculation_minTaskRuntime": "100ms",
            "spark_executor_memory": "512m",
            "spark_driver_host": "127.0.0.1",
        }
        driver = jobs.relay(folder, line.url, tasks=4, master=nodes.url, spark=options)
        slow = _SlowFirst()
        line.hold = slow
        killed = threading.Event()

        def act(port: int) -> bool:
            pid = at_port(port, nodes.pids())
            assert pid is not None
            kill([nodes.executor_of(pid)])
            killed.set()
            return True

        try:
            nodes.start()
            daemon.send(jobs.BATCH)
            driver.start()
            wait_until(slow.ended.is_set, (driver,))
            for step in (Step.READ, Step.WRITE):
                killed.clear()
                daemon.send(2 * jobs.BATCH)
                line.arm(Stop(step, act, skip=1))
                wait_until(killed.is_set, (driver,))
            wait_until(daemon.is_drained, (driver,))
            check("queue", daemon.sent, copies := daemon.copies())
            assert copies == sorted(copies), "the order is not kept"
            assert not daemon.stages(), "stages are left over"
        finally:
            driver.stop()
            nodes.stop()
    return (
        f"{daemon.sent} messages; a slow task ran on both hosts, {_twice(line)} parts were staged twice; "
        "2 executors killed; none lost, none doubled, order kept"
    )


class _SlowFirst:
    """The first task waits until another attempt reads the same messages."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self._slow: str | None = None
        self._lock = threading.Lock()

    def __call__(self, request: str) -> None:
        if "/range?" not in request or self.ended.is_set():
            return
        with self._lock:
            is_first = self._slow is None
            if is_first:
                self._slow = request
            elif self._slow == request:
                self.ended.set()
        if is_first:
            self.ended.wait(PATIENCE_S)


def _twice(line: Line) -> int:
    """Parts of batches of which more than one attempt was staged."""
    stages = {each.partition("?")[0] for each in line.seen if each.startswith("PUT") and "/stages/" in each}
    return sum(count > 1 for count in Counter(stage.rpartition("/")[0] for stage in stages).values())


def two_drivers(folder: Path) -> str:
    """The second takes over in the middle of a batch of the first, on the same checkpoint."""
    with _stage(folder) as (daemon, line):
        old = jobs.relay(folder, line.url, name="old")
        new = jobs.relay(folder, line.url, name="new")
        took_over = threading.Event()

        def act(_port: int) -> bool:
            new.start()
            before = _attached(line)
            deadline = time.monotonic() + PATIENCE_S
            while _attached(line) == before:  # it attaches before it reads
                assert time.monotonic() < deadline, new.last_words()
                time.sleep(0.05)
            took_over.set()
            return True

        try:
            daemon.send(jobs.BATCH)
            line.arm(Stop(Step.WRITTEN, act))
            old.start()
            wait_until(took_over.is_set, ())
            daemon.send(3 * jobs.BATCH)
            wait_until(lambda: not old.is_alive and daemon.is_drained(), (new,))
            check("queue", daemon.sent, daemon.copies())
            fenced = "another driver has taken over consumer" in old.log.read_text("utf-8")
            assert fenced, old.last_words()
        finally:
            for driver in (old, new):
                driver.stop()
    return f"{daemon.sent} messages; the old driver was fenced; none lost, none doubled"


def _attached(line: Line) -> int:
    return sum(each.endswith("/attach") for each in line.seen)


def two_consumers(folder: Path) -> str:
    """Both on one queue; one of them is killed and comes again."""
    with _stage(folder) as (daemon, line):
        left, right = (
            jobs.relay(folder, line.url, name=name, state=name, consumer=name) for name in ("left", "right")
        )
        killed = threading.Event()

        def act(_port: int) -> bool:
            left.kill()
            killed.set()
            return True

        try:
            left.start()
            right.start()
            wait_until(lambda: _attached(line) >= 2, (left, right))
            daemon.send(10 * jobs.BATCH)
            line.arm(Stop(Step.COMMITTED, act, skip=1))
            wait_until(killed.is_set, (left, right))
            wait_until(daemon.is_drained, (left, right))
            check("queue", daemon.sent, daemon.copies())
            shares = {name: _reads(line, name) for name in ("left", "right")}
            assert all(shares.values()), f"only one of them has read: {shares}"
        finally:
            for driver in (left, right):
                driver.stop()
    return f"{daemon.sent} messages shared by two consumers, one killed; none lost, none doubled"


def _reads(line: Line, consumer: str) -> int:
    return sum("/range?" in each and f"consumer={consumer}" in each for each in line.seen)


ALL: Final[dict[str, Callable[[Path], str]]] = {
    "cluster": cluster,
    "two drivers": two_drivers,
    "two consumers": two_consumers,
}
