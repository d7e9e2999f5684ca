"""Remote readers of the daemon: receive and acknowledge 1 KiB messages over RPC, two calls each.

bench_remote_read.py [--messages N] [--rounds N]

One connection, in a loop over `receive` and in one over `consume`, then sixteen; recoverable messages and
express ones; without protection and with NTLM privacy; and a sender at the same time, beside the speed that
it has alone. The readers are Tiercel's own client, in a process of their own, and impacket, if `make interop`
has installed it. All take their turns, and the median of the rounds is printed, beside what LMDB alone does:
one durable commit after the other, one row in each. Both sides' processor time is that of all their
processes, for each message.
"""

import argparse
import asyncio
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import lmdb
import mqqb
from bench_daemon import folder

import tiercel
from tiercel import aio
from tiercel.client.remote_aio import AsyncRemoteQueue
from tiercel.security.descriptor import SecurityDescriptor

USER, PASSWORD, SID = "reader", "secret", "S-1-5-21-1-2-3-1001"
LOGON: dict[str, Any] = {"user": USER, "password": PASSWORD}
QUEUE = r".\private$\q"
HOST = "127.0.0.2"
TIERCEL = (sys.executable, "-m", "tiercel")
SPAWN = multiprocessing.get_context("spawn")
ROOT = Path(__file__).parent.parent
IMPACKET = ROOT / ".venv-interop" / "bin" / "python"
EXPRESS, RECOVERABLE = 0, 1
WINDOW = 64
COMMITS = 500


class Case(NamedTuple):
    """How messages are read."""

    delivery: int = RECOVERABLE
    connections: int = 1
    at_a_time: int = 1  # receives under way on each connection
    is_waited_for: bool = False  # whether each acknowledgement is, before the next read
    logon: dict[str, Any] = {}  # noqa: RUF012  # nobody changes it
    processes: int = 1  # that share the connections
    consumes: bool = False  # in a loop that reads ahead
    threaded: bool = False  # with the client that blocks

    def __str__(self) -> str:
        parts = [
            "express" if self.delivery == EXPRESS else "recoverable",
            f"{self.connections} connection{'s' if self.connections > 1 else ''}",
            *([f"{self.processes} processes"] if self.processes > 1 else []),
            *([f"{self.at_a_time} reads at a time"] if self.at_a_time > 1 else []),
            *(["every answer awaited"] if self.is_waited_for else []),
            *(["privacy"] if self.logon else []),
            *(["consume"] if self.consumes else []),
            *(["threads"] if self.threaded else []),
        ]
        return ", ".join(parts)


CASES = (
    Case(),
    Case(is_waited_for=True),
    Case(consumes=True),
    Case(consumes=True, threaded=True),
    Case(at_a_time=16),
    Case(connections=16),
    Case(connections=16, processes=2),
    Case(EXPRESS),
    Case(EXPRESS, is_waited_for=True),
    Case(EXPRESS, consumes=True),
    Case(EXPRESS, consumes=True, threaded=True),
    Case(EXPRESS, at_a_time=16),
    Case(EXPRESS, connections=16),
    Case(EXPRESS, connections=16, processes=2),
    Case(logon=LOGON),
    Case(connections=16, logon=LOGON),
)


class Speed(NamedTuple):
    a_second: float
    reader_us: float = 0.0  # of processor time, for each message
    daemon_us: float = 0.0


class Ran(NamedTuple):
    """From when to when a process of readers was at work, on the clock of all processes."""

    began: float
    ended: float
    processor_s: float


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


class Daemon:
    def __init__(self, place: Path) -> None:
        self.data, self.ports = place / "data", (free_port(), free_port())
        self.config = place / "tiercel.toml"
        self.config.write_text(
            f'[node]\ndata = "{self.data}"\n[listen]\nhost = "{HOST}"\nport = {self.ports[0]}\n'
            f'[accounts]\nfile = "{place / "accounts"}"\n'
            f"[remote_read]\nenabled = true\nport = {self.ports[1]}\n"
            '[log]\nlevel = "error"\n'
        )
        add = [*TIERCEL, "user", "add", "--config", str(self.config), "--sid", SID, USER]
        subprocess.run(add, input=f"{PASSWORD}\n", text=True, check=True, stdout=subprocess.DEVNULL)  # noqa: S603  # ours
        security = SecurityDescriptor.parse(f"O:{SID}D:(A;;GA;;;WD)").encode()
        with tiercel.open(self.data) as qm:
            qm.create_queue(QUEUE, security=security)
            qm.create_queue(r".\private$\in", security=security)
        serve = [*TIERCEL, "serve", "--config", str(self.config)]
        self.process = subprocess.Popen(serve)  # noqa: S603  # ours
        for port in self.ports:
            self._wait(port)

    def _wait(self, port: int) -> None:
        while True:
            try:
                socket.create_connection((HOST, port), 1).close()
            except OSError:
                time.sleep(0.01)
            else:
                return

    def fill(self, messages: int, delivery: int) -> None:
        sender = mqqb.Sender(
            (HOST, self.ports[0]), rf"DIRECT=TCP:{HOST}\private$\q", 1024, WINDOW, delivery=delivery
        )
        sender.send(messages)
        sender.close()

    @property
    def processor_us(self) -> float:
        """What it has used so far; the kernel counts in nanoseconds."""
        return int(Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0]) / 1000

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


async def receive(queue: AsyncRemoteQueue, case: Case, count: int) -> None:
    if case.consumes:
        async for _ in queue.consume(timeout=10, until=CountDown(count)):
            pass
        return
    for _ in range(count):
        if case.is_waited_for:
            async with queue.receiving(timeout=10):
                pass
        else:
            await queue.receive(timeout=10)


class CountDown:
    """Says of the last message that it is."""

    def __init__(self, count: int) -> None:
        self.left = count

    def __call__(self, _message: tiercel.Message) -> bool:
        self.left -= 1
        return not self.left


def read(port: int, case: Case, messages: int, pipe: Any) -> None:
    async def reader() -> None:
        share = messages // case.connections // case.at_a_time
        async with await aio.connect(HOST, port=port, **case.logon) as remote:
            queue = remote.queue(r"private$\q")
            await asyncio.gather(*(receive(queue, case, share) for _ in range(case.at_a_time)))

    async def readers() -> None:
        await asyncio.gather(*(reader() for _ in range(case.connections)))

    def consumer() -> None:
        with tiercel.connect(HOST, port=port, **case.logon) as remote:
            for _ in remote.queue(r"private$\q").consume(timeout=10, until=CountDown(messages)):
                pass

    began, spent = time.monotonic(), time.process_time()
    if case.threaded:
        consumer()
    else:
        asyncio.run(readers())
    pipe.send(Ran(began, time.monotonic(), time.process_time() - spent))


def in_process(function: Callable[..., None], *arguments: Any) -> Callable[[], Any]:
    """Starts it; the answer is its figure, when it is asked for."""
    mine, other = SPAWN.Pipe()
    process = SPAWN.Process(target=function, args=(*arguments, other))
    process.start()

    def result() -> Any:
        figure = mine.recv()
        process.join()
        return figure

    return result


def start_readers(daemon: Daemon, case: Case, messages: int) -> Callable[[], Speed]:
    """Starts them; their speed, when it is asked for: from the first connection to the last message."""
    share = case._replace(connections=case.connections // case.processes, processes=1)
    before = daemon.processor_us
    readers = [
        in_process(read, daemon.ports[1], share, messages // case.processes) for _ in range(case.processes)
    ]

    def speed() -> Speed:
        runs = [reader() for reader in readers]
        seconds = max(each.ended for each in runs) - min(each.began for each in runs)
        spent = sum(each.processor_s for each in runs) * 1e6, daemon.processor_us - before
        return Speed(messages / seconds, *(each / messages for each in spent))

    return speed


def send(port: int, messages: int, pipe: Any) -> None:
    sender = mqqb.Sender((HOST, port), rf"DIRECT=TCP:{HOST}\private$\in", 1024, WINDOW)
    times = sender.send(messages)
    sender.close()
    pipe.send(times.rate)


def read_with_impacket(port: int, messages: int) -> Speed:
    sys.path.insert(0, str(ROOT / "tests"))
    from interop.impacket_reader import Impacket  # noqa: PLC0415  # of the tests, and only for this

    impacket = Impacket(IMPACKET)
    try:
        impacket.connect(port, host=HOST)
        handle = impacket.open(rf"OS:{HOST}\private$\q")["handle"]
        took = impacket.ask("drain", handle=handle, count=messages)
        return Speed(messages / took["wall"], took["cpu"] / messages * 1e6)
    finally:
        impacket.close()


def commit_alone(place: Path) -> Speed:
    environment = lmdb.open(str(place / "bare"), map_size=1 << 28)
    try:
        with environment.begin(write=True) as transaction:
            for number in range(COMMITS):
                transaction.put(b"%8d" % number, os.urandom(1024))
        start = time.perf_counter()
        for number in range(COMMITS):
            with environment.begin(write=True) as transaction:
                transaction.delete(b"%8d" % number)
        return Speed(COMMITS / (time.perf_counter() - start))
    finally:
        environment.close()


def row(name: str, speeds: list[Speed], bare: float) -> None:
    a_second, *spent = (median(each[at] for each in speeds) for at in range(3))
    cost = "".join(f"{each:14,.0f}" for each in spent if each)
    print(f"{name:58}{a_second:10,.0f}{a_second / bare:10.2f}{cost}", flush=True)


def measure_reading(daemon: Daemon, place: Path, messages: int, rounds: int) -> None:
    runs: dict[str, Callable[[], Speed]] = {}

    def filled(delivery: int, run: Callable[[], Speed], count: int = messages) -> Callable[[], Speed]:
        def filled_first() -> Speed:
            daemon.fill(count, delivery)
            return run()

        return filled_first

    port = daemon.ports[1]
    for case in CASES:
        runs[str(case)] = filled(case.delivery, lambda case=case: start_readers(daemon, case, messages)())  # type: ignore[misc]
    if IMPACKET.exists():
        for delivery, name in ((RECOVERABLE, "recoverable"), (EXPRESS, "express")):
            few = messages // 8
            reading = partial(read_with_impacket, port, few)
            runs[f"{name}, 1 connection, impacket"] = filled(delivery, reading, few)
    bare, speeds = [], {name: list[Speed]() for name in runs}
    for _ in range(rounds):
        bare.append(commit_alone(place))
        for name, run in runs.items():
            speeds[name].append(run())
    alone = median(each.a_second for each in bare)
    processor = f"{'reader us':>14}{'daemon us':>14}"
    print(f"{'receive + acknowledge, 1 KiB':58}{'a second':>10}{'to LMDB':>10}{processor}")
    row("LMDB alone, one durable commit after the other", bare, alone)
    for name, each in speeds.items():
        row(name, each, alone)


def measure_beside_a_sender(daemon: Daemon, messages: int, rounds: int) -> None:
    reading, alone, beside = [], [], []
    for _ in range(rounds):
        daemon.fill(messages, RECOVERABLE)
        sending = partial(in_process, send, daemon.ports[0], 3 * messages)
        alone.append(sending()())
        readers = start_readers(daemon, Case(connections=16), messages)
        beside.append(sending()())
        reading.append(readers().a_second)
    print(f"{'recoverable, 16 connections beside a sender':58}{median(reading):10,.0f}")
    print(f"{'sends alone':58}{median(alone):10,.0f}")
    print(f"{'sends beside 16 readers':58}{median(beside):10,.0f}{median(beside) / median(alone):10.2f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    messages = options.messages // 256 * 256  # whole windows, and equal shares
    with folder() as place:
        daemon = Daemon(place)
        with suppress(KeyboardInterrupt):
            try:
                measure_reading(daemon, place, messages, options.rounds)
                measure_beside_a_sender(daemon, messages, options.rounds)
            finally:
                daemon.stop()
        if not IMPACKET.exists():
            print("impacket is not there to compare with: make interop installs it")


if __name__ == "__main__":
    main()
