"""One sender -> daemon -> one consumer, beside RabbitMQ in the same run; and two daemons, exactly once.

bench_daemon.py [--quick] [--messages N] [--rounds N] [--windows W ...] [--only CASE] [--without-rabbit]
                [--pids]

1 KiB recoverable messages. "in" is from a sender to a queue of the daemon, each message acknowledged after
its commit; "out" is what lay in the daemon to a consumer, the next hop; "both" is from the sender through
the daemon to the consumer while both work. The latency is that of the whole way at 1,000 messages a second.

The rate of "in" ends with the last acknowledgement by count. Up to 31 messages after it are acknowledged when
a timer of 500 ms expires; they are not in the rate, and that pause is not in the time.
"""

import argparse
import asyncio
import multiprocessing
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self
from uuid import UUID, uuid4

import mqqb
import rabbit
from mqqb import Times

import tiercel
from tiercel import aio
from tiercel.binary.settings import Settings
from tiercel.server.config import Config, ListenOptions

BODY_SIZE = 1024
RATE = 1000
LATENCY_MESSAGES = 3000
DAEMON, SECOND, CONSUMER = "127.0.0.2", "127.0.0.3", "127.0.0.4"
LOCAL, ORDERED = r".\private$\in", r".\private$\ordered"
CASES = ("in", "out", "both", "latency", "once")
START_S = 30.0
SPAWN = multiprocessing.get_context("spawn")


@contextmanager
def folder() -> Iterator[Path]:
    """Beside the code, not in a temporary file system that may be memory."""
    path = Path(tempfile.mkdtemp(prefix="bench-", dir=Path(__file__).parent))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def common_port(*hosts: str) -> int:
    """A port that is free at all the addresses."""
    while True:
        port = rabbit.free_port()
        with suppress(OSError):
            for host in hosts:
                with socket.socket() as probe:
                    probe.bind((host, port))
            return port


class Worker:
    """A process that runs one `function(pipe, ...)` after another; what they send and return comes here.

    It stays alive between them: a new process would take the caches and the processor from what is measured.
    """

    def __init__(self) -> None:
        self._pipe, other = SPAWN.Pipe()
        SPAWN.Process(target=_work, args=(other,), daemon=True).start()
        other.close()

    def start(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Self:
        self._pipe.send((function, arguments, options))
        return self

    def wait(self) -> Any:
        result = self._pipe.recv()
        if isinstance(result, BaseException):
            raise result
        return result

    def tell(self, word: str) -> None:
        self._pipe.send(word)

    def join(self) -> Times:
        result = self.wait()
        assert isinstance(result, Times)
        return result


def _work(pipe: Connection) -> None:
    with suppress(EOFError):  # nobody is left to ask
        while True:
            function, arguments, options = pipe.recv()
            try:
                pipe.send(function(pipe, *arguments, **options))
            except Exception as problem:  # noqa: BLE001  # the parent shall hear of it
                pipe.send(RuntimeError(repr(problem)))


@dataclass(frozen=True)
class Speed:
    rate: float  # messages a second
    cost: float  # processor time of what lies between the ends, in microseconds a message


class Meter:
    """From its making on: how much processor time a process and the others of its session have used."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._start = self._used()

    @property
    def seconds(self) -> float:
        return self._used() - self._start

    def speed(self, count: int, seconds: float) -> Speed:
        return Speed(count / seconds, self.seconds / count * 1e6)

    def _used(self) -> float:
        """From schedstat, which counts nanoseconds; the ticks of stat are 10 ms long."""
        nanoseconds = 0
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has ended meanwhile
                words = path.read_text("utf-8").rpartition(")")[2].split()
                if self._pid in {int(path.parent.name), int(words[3])}:
                    for task in path.parent.glob("task/*/schedstat"):
                        nanoseconds += int(task.read_text("ascii").split()[0])
        return nanoseconds / 1e9


class Subject(ABC):
    """Something between a sender and a consumer."""

    def __init__(self) -> None:
        self._sender, self._consumer = Worker(), Worker()

    @abstractmethod
    def into(self, count: int) -> Speed: ...

    @abstractmethod
    def out(self, count: int) -> Speed: ...

    @abstractmethod
    def both(self, count: int) -> Speed: ...

    @abstractmethod
    def latencies(self, count: int) -> tuple[float, ...]: ...

    @abstractmethod
    def stop(self) -> None: ...


# Tiercel.


def say_pids(*pids: int) -> None:
    """For a profiler, which can begin now."""
    if "--pids" in sys.argv:
        print("pids", *pids, flush=True)
        time.sleep(0.5)


CREATE = """
import asyncio, sys
from tiercel import aio

async def main(data, listen, name, transactional):
    async with await aio.open(data, listen=listen) as qm:
        await qm.create_queue(name, transactional=transactional == "True")

asyncio.run(main(*sys.argv[1:]))
"""
COUNT = """
import sys
import tiercel

with tiercel.open(sys.argv[1]) as qm:
    assert not qm.discards()
    print(qm.queue(sys.argv[2]).count)
"""


def environment(tree: Path | None) -> dict[str, str]:
    """For a process that runs the sources of a tree; those of this environment without one.

    The seed of hashes is the same for all: sets and dictionaries that lie otherwise are a few per cent.
    """
    return os.environ | {"PYTHONHASHSEED": "0"} | ({} if tree is None else {"PYTHONPATH": str(tree / "src")})


def run_in(tree: Path | None, script: str, *arguments: object) -> str:
    """What a script prints that uses the sources of a tree."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    ended = subprocess.run(command, env=environment(tree), stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    return ended.stdout


def settings(host: str, port: int, window: int) -> Config:
    binary = Settings(port=port, window_size=window, tiercel_window_size=window)
    return Config(listen=ListenOptions(host=host, port=port), binary=binary)


class Daemon:
    """`tiercel serve` as a process, with the sources of a tree."""

    def __init__(
        self, host: str, port: int, data: Path, window: int, more: str = "", tree: Path | None = None
    ) -> None:
        config, self._log = data.with_suffix(".toml"), data.with_suffix(".log")
        tiercel = f"tiercel_window_size = {window}" if tree is None else ""  # an older tree does not know it
        text = f"""
            listen = {{ host = "{host}", port = {port} }}
            {more}
            [binary]
            port = {port}
            window_size = {window}
            {tiercel}
            retry_ms = 100
            retry_max_ms = 100"""
        config.write_text(text, "utf-8")
        command = [sys.executable, "-m", "tiercel", "serve", "--data", str(data), "--config", str(config)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stderr=log, env=environment(tree))  # noqa: S603  # ours
        self._wait(host, port)

    @property
    def pid(self) -> int:
        return self._process.pid

    def _wait(self, host: str, port: int) -> None:
        deadline = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection((host, port)).close()
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(self._log.read_text("utf-8")) from None
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(START_S)


def send(
    _pipe: Connection, endpoint: tuple[str, int], destination: str, window: int, count: int, rate: int
) -> Times:
    sender = mqqb.Sender(endpoint, destination, BODY_SIZE, window)
    times = sender.send_at(rate, count) if rate else sender.send(count)
    sender.close()
    return times


def consume(
    pipe: Connection, endpoint: tuple[str, int], guid: UUID, window: int, count: int, is_stamped: bool
) -> Times:
    with socket.create_server(endpoint) as listener:
        pipe.send("listens")
        consumer = mqqb.Consumer(listener, guid, window)
        times = consumer.receive(count, is_stamped=is_stamped)
        consumer.close()
        return times


class Tiercel(Subject):
    def __init__(self, place: Path, window: int, tree: Path | None = None) -> None:
        super().__init__()
        self._window = window
        self._tree = tree
        self._guid = uuid4()
        self._stored = 0
        self._port = common_port(DAEMON, CONSUMER)
        self._data = place / f"daemon-{window}"
        self.create_queue(tree, self._data, f"{DAEMON}:{self._port}", LOCAL)
        more = f"""
            machines = {{ "{self._guid}" = "{CONSUMER}" }}
            routing = {{ routing_server = true }}"""
        self._daemon = Daemon(DAEMON, self._port, self._data, window, more, tree)

    @staticmethod
    def create_queue(
        tree: Path | None, data: Path, listen: str, name: str, *, transactional: bool = False
    ) -> None:
        """By a queue manager that listens: everyone may send to the queues that it creates."""
        run_in(tree, CREATE, data, listen, name, transactional)

    @staticmethod
    def count(tree: Path | None, data: Path, name: str) -> int:
        """The messages in a queue of a daemon that has ended, with nothing discarded."""
        return int(run_in(tree, COUNT, data, name))

    def _send(self, destination: str, count: int, rate: int = 0) -> Times:
        endpoint = DAEMON, self._port
        return self._sender.start(send, endpoint, destination, self._window, count, rate).join()

    def _consume(self, count: int, *, is_stamped: bool = False) -> Worker:
        endpoint = CONSUMER, self._port
        self._consumer.start(consume, endpoint, self._guid, self._window, count, is_stamped).wait()
        return self._consumer

    @property
    def _far(self) -> str:
        return rf"PRIVATE={self._guid}\1"

    def into(self, count: int) -> Speed:
        say_pids(self._daemon.pid)
        meter = Meter(self._daemon.pid)
        times = self._send(rf"DIRECT=TCP:{DAEMON}\private$\in", count)
        self._stored += count
        return Speed(times.rate, meter.seconds / count * 1e6)

    def out(self, count: int) -> Speed:
        self._send(self._far, count)
        say_pids(self._daemon.pid)
        meter = Meter(self._daemon.pid)
        times = self._consume(count).join()
        return meter.speed(count, times.last - times.first)

    def both(self, count: int) -> Speed:
        say_pids(self._daemon.pid)
        meter = Meter(self._daemon.pid)
        consumer = self._consume(count)
        first = self._send(self._far, count).first
        return meter.speed(count, consumer.join().last - first)

    def latencies(self, count: int) -> tuple[float, ...]:
        say_pids(self._daemon.pid)
        consumer = self._consume(count, is_stamped=True)
        self._send(self._far, count, RATE)
        return consumer.join().latencies

    def stop(self) -> None:
        self._daemon.stop()
        # A refused message would be a fast one.
        assert self.count(self._tree, self._data, LOCAL) == self._stored


# Two of them, exactly once.


def receive_in_order(pipe: Connection, data: Path, host: str, port: int, window: int, count: int) -> Times:
    """The second daemon, in a process where one can see its queue grow."""

    async def main() -> Times:
        async with await aio.open(data, config=settings(host, port, window)) as qm:
            queue = await qm.create_queue(ORDERED, transactional=True)
            pipe.send(os.getpid())
            first = 0.0
            while (arrived := queue.count) < count:
                first = first or (time.monotonic() if arrived else 0.0)
                await asyncio.sleep(0.005)
            last = time.monotonic()
            numbers = [int.from_bytes(message.body[:4], "big") for message in queue.cursor()]
            assert numbers == list(range(count)), "lost, doubled or out of order"
            return Times(first, last)

    return asyncio.run(main())


async def preload(data: Path, config: Config, destination: str, count: int) -> None:
    async with await aio.open(data, config=config) as qm:
        queue = qm.queue(destination)
        for start in range(0, count, 100):
            async with qm.transaction() as transaction:
                for number in range(start, min(start + 100, count)):
                    body = number.to_bytes(4, "big") + bytes(BODY_SIZE - 4)
                    await queue.send(tiercel.Message(body), transaction=transaction)


def exactly_once(place: Path, window: int, count: int) -> float:
    """Transactional messages that lie in one daemon, to the other: sent, stored in order, and order-acked."""
    port = common_port(DAEMON, SECOND)
    with tempfile.TemporaryDirectory(dir=place) as scratch:
        data = Path(scratch) / "first"
        destination = rf"DIRECT=TCP:{SECOND}\private$\ordered"
        asyncio.run(preload(data, settings(DAEMON, port, window), destination, count))
        receiver = Worker().start(receive_in_order, Path(scratch) / "second", SECOND, port, window, count)
        second = receiver.wait()
        daemon = Daemon(DAEMON, port, data, window)
        say_pids(daemon.pid, second)
        try:
            times = receiver.join()
        finally:
            daemon.stop()
    return count / (times.last - times.first)


# RabbitMQ.


def publish(_pipe: Connection, port: int, count: int, rate: int) -> Times:
    return rabbit.Publisher(port, BODY_SIZE, count, rate).send()


def subscribe(pipe: Connection, port: int, count: int, is_stamped: bool) -> Times:
    consumer = rabbit.Consumer(port, count, is_stamped=is_stamped)
    pipe.send("ready")
    return consumer.receive()


def publish_in_c(_pipe: Connection, client: rabbit.ClientInC, port: int, count: int, rate: int) -> Times:
    return client.run(lambda: None, "publish", port, count, rate, BODY_SIZE, 0)


def subscribe_in_c(
    pipe: Connection, client: rabbit.ClientInC, port: int, count: int, is_stamped: bool
) -> Times:
    return client.run(lambda: pipe.send("ready"), "consume", port, count, 0, BODY_SIZE, int(is_stamped))


class Rabbit(Subject):
    """A broker with clients in pika, or in C."""

    def __init__(self, broker: rabbit.Broker, client: rabbit.ClientInC | None = None) -> None:
        super().__init__()
        self._broker = broker
        self._publish = publish if client is None else partial(publish_in_c, client=client)
        self._subscribe = subscribe if client is None else partial(subscribe_in_c, client=client)
        rabbit.declare(broker.port)

    def _send(self, count: int, rate: int = 0) -> Times:
        return self._sender.start(self._publish, port=self._broker.port, count=count, rate=rate).join()

    def _consume(self, count: int, *, is_stamped: bool = False) -> Worker:
        port = self._broker.port
        self._consumer.start(self._subscribe, port=port, count=count, is_stamped=is_stamped).wait()
        return self._consumer

    def into(self, count: int) -> Speed:
        meter = Meter(self._broker.pid)
        times = self._send(count)
        speed = meter.speed(count, times.last - times.first)
        rabbit.declare(self._broker.port, purge=True)
        return speed

    def out(self, count: int) -> Speed:
        self._send(count)
        meter = Meter(self._broker.pid)
        times = self._consume(count).join()
        return meter.speed(count, times.last - times.first)

    def both(self, count: int) -> Speed:
        meter = Meter(self._broker.pid)
        consumer = self._consume(count)
        first = self._send(count).first
        return meter.speed(count, consumer.join().last - first)

    def latencies(self, count: int) -> tuple[float, ...]:
        consumer = self._consume(count, is_stamped=True)
        self._send(count, RATE)
        return consumer.join().latencies

    def stop(self) -> None:
        """The broker, which others use too, ends for itself."""


# The table.

PIKA, IN_C = "RabbitMQ, pika", "RabbitMQ, C client"
ROWS = (
    ("in", "in, a second"),
    ("out", "out, a second"),
    ("both", "both at once, a second"),
    ("once", "exactly once between two, a second"),
    ("in us", "CPU of the daemon, in, \u00b5s"),
    ("out us", "CPU of the daemon, out, \u00b5s"),
    ("both us", "CPU of the daemon, both, \u00b5s"),
    ("p50", f"latency at {RATE:,} a second, p50 ms"),
    ("p99", f"latency at {RATE:,} a second, p99 ms"),
)


class Figures:
    """The best of all rounds, by row."""

    def __init__(self) -> None:
        self.best: dict[str, float] = {}

    def measure(self, subject: Subject, count: int, case: str) -> None:
        if case == "latency":
            found = sorted(subject.latencies(LATENCY_MESSAGES))
            self.keep("p50", statistics.median(found) * 1000, min)
            self.keep("p99", found[len(found) * 99 // 100] * 1000, min)
        elif case != "once":
            speed = {"in": subject.into, "out": subject.out, "both": subject.both}[case](count)
            self.keep(case, speed.rate, max)
            self.keep(f"{case} us", speed.cost, min)

    def keep(self, name: str, value: float, better: Callable[[float, float], float]) -> None:
        self.best[name] = better(self.best.get(name, value), value)


def table(results: dict[str, Figures]) -> Iterator[str]:
    """In brackets, the ratio to each client of RabbitMQ that was measured."""
    beside = [results[name] for name in (IN_C, PIKA) if name in results]
    yield f"{'':36}" + "".join(f"{name:>26}" for name in results)
    for row, title in ROWS:
        cells = [_cell(row, figures, beside) for figures in results.values()]
        if any(cell != "-" for cell in cells):
            yield f"{title:36}" + "".join(f"{cell:>26}" for cell in cells)


def _cell(row: str, figures: Figures, beside: list[Figures]) -> str:
    value = figures.best.get(row)
    if value is None:
        return "-"
    text = f"{value:.2f}" if row in {"p50", "p99"} else f"{value:,.0f}"
    ratios = [f"{value / other.best[row]:.2f}" for other in beside if row in other.best]
    return text if figures in beside or not ratios else f"{text} ({', '.join(ratios)})"


def rabbits(place: Path, arguments: argparse.Namespace) -> tuple[rabbit.Broker | None, dict[str, Subject]]:
    reason = "it is not wanted" if arguments.without_rabbit else rabbit.missing()
    if reason:
        print(f"RabbitMQ is left out: {reason}")
        return None, {}
    broker = rabbit.Broker(place / "rabbit")
    subjects: dict[str, Subject] = {}
    if reason := rabbit.missing_in_c():
        print(f"RabbitMQ's client in C is left out: {reason}")
    else:
        subjects[IN_C] = Rabbit(broker, rabbit.ClientInC(place))
    return broker, {**subjects, PIKA: Rabbit(broker)}


def run(place: Path, arguments: argparse.Namespace) -> None:
    cases = [arguments.only] if arguments.only else CASES
    broker, subjects = rabbits(place, arguments)
    try:
        for window in arguments.windows:
            subjects[f"Tiercel, window {window}"] = Tiercel(place, window)
        results = {name: Figures() for name in subjects}
        for _ in range(arguments.rounds):
            for case in cases:
                for name, subject in subjects.items():
                    results[name].measure(subject, arguments.messages, case)
    finally:
        for subject in subjects.values():
            subject.stop()
        if broker is not None:
            broker.stop()
    if "once" in cases:
        for window in arguments.windows:
            for _ in range(arguments.rounds):
                rate = exactly_once(place, window, arguments.messages)
                results[f"Tiercel, window {window}"].keep("once", rate, max)
    print("\n".join(table(results)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round, about a minute")
    parser.add_argument("--windows", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--without-rabbit", action="store_true")
    parser.add_argument("--pids", action="store_true", help="print the processes to profile when they work")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds = 1
    print(
        f"One sender -> daemon -> one consumer on {os.cpu_count()} cores that all of them share: "
        f"{BODY_SIZE} bytes, recoverable,\nacknowledged after the commit. Best of {arguments.rounds} rounds. "
        f"RabbitMQ: quorum queue, persistent, confirms,\n{rabbit.IN_FLIGHT} in flight; in brackets the ratio "
        "to its client in C and to pika, as far as they are there",
        flush=True,
    )
    with folder() as place:
        run(place, arguments)


if __name__ == "__main__":
    main()
