"""The data endpoint: 1 KiB messages with all columns as Arrow streams over HTTP, read with pyarrow alone.

bench_data.py [--messages N]

One connection, then two, beside the same batches made in this process without HTTP; claims; what the daemon
takes of memory meanwhile; and a sender beside a reader, against the speed that it has alone.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import mqqb
import pyarrow as pa
from bench_daemon import folder

import tiercel
from tiercel.data import ranges
from tiercel.data.ranges import Projection, StoredQueue
from tiercel.store.factory import open_reader

HOST = "127.0.0.1"
QUEUE, INCOMING = r".\private$\q", r".\private$\in"
TIERCEL = (sys.executable, "-m", "tiercel")
SPAWN = multiprocessing.get_context("spawn")
LAST = 2**56 - 1


def fill(data: Path, messages: int) -> int:
    """Fill the queue; returns the number that the store gives it."""
    with tiercel.open(data) as qm:
        queue = qm.create_queue(QUEUE)
        qm.create_queue(INCOMING)
        body = os.urandom(1024)
        for start in range(0, messages, 1000):
            with qm.batch():
                for number in range(start, min(start + 1000, messages)):
                    queue.send(tiercel.Message(body, label=f"order {number}", delivery=1))
        return qm.driver.engine.queues.get(queue.format_name).slot


class Daemon:
    def __init__(self, place: Path) -> None:
        self.data = place / "data"
        config = place / "tiercel.toml"
        config.write_text('[data]\nenabled = true\nport = 0\n[log]\nformat = "json"\n')
        serve = [
            *TIERCEL,
            "serve",
            "--data",
            str(self.data),
            "--config",
            str(config),
            "--listen",
            f"{HOST}:0",
        ]
        self.process = subprocess.Popen(serve, stderr=subprocess.PIPE, text=True)  # noqa: S603  # ours
        assert self.process.stderr is not None
        start = next(event for line in self.process.stderr if (event := json.loads(line))["event"] == "start")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        self.port = int(start["address"].rpartition(":")[2])
        self.url = start["data_endpoint"]
        ask(self.url, "GET", "/queues")

    def memory(self) -> int:
        """Bytes of its own, without the pages of the store that it maps."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text("ascii").splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


@contextmanager
def asked(
    url: str, method: str, path: str, body: object = None, **query: object
) -> Iterator[http.client.HTTPResponse]:
    address = urlsplit(url)
    with closing(http.client.HTTPConnection(address.hostname or "", address.port)) as connection:
        target = f"/data/v1{path}?{urlencode(query, quote_via=quote)}"
        connection.request(method, target, json.dumps(body), {"Content-Type": "application/json"})
        with connection.getresponse() as response:
            assert response.status == http.client.OK, response.read()
            yield response


def ask(url: str, method: str, path: str, body: object = None, **query: object) -> dict[str, Any]:
    with asked(url, method, path, body, **query) as response:
        answer: dict[str, Any] = json.loads(response.read())
        return answer


def read(url: str, query: dict[str, object], barrier: Any, pipe: Any) -> None:
    """A reader: how many rows, when it began and when it ended."""
    barrier.wait()
    start, rows = time.perf_counter(), 0
    with asked(url, "GET", "/range", **query) as response:
        for batch in pa.ipc.open_stream(response):
            rows += batch.num_rows
    pipe.send((rows, start, time.perf_counter()))


def readers(url: str, queries: list[dict[str, object]]) -> Callable[[], float]:
    """Starts them together; the answer is their rows a second, when it is asked for."""
    barrier = SPAWN.Barrier(len(queries) + 1)
    pipes, processes = [], []
    for query in queries:
        mine, other = SPAWN.Pipe()
        process = SPAWN.Process(target=read, args=(url, query, barrier, other))
        process.start()
        pipes.append(mine)
        processes.append(process)
    barrier.wait()

    def result() -> float:
        rows, starts, ends = zip(*(pipe.recv() for pipe in pipes), strict=True)
        for process in processes:
            process.join()
        return float(sum(rows) / (max(ends) - min(starts)))

    return result


def without_http(data: Path, slot: int) -> float:
    """Build the same batches in this process."""
    with open_reader(data) as reader:
        start, rows = time.perf_counter(), 0
        for batch in ranges.stored(reader, StoredQueue(QUEUE, None, slot, None), 0, LAST, Projection()):
            rows += batch.num_rows
        return rows / (time.perf_counter() - start)


def send(port: int, messages: int) -> float:
    sender = mqqb.Sender((HOST, port), rf"DIRECT=TCP:{HOST}\private$\in", 1024, 64)
    times = sender.send(messages)
    sender.close()
    return times.rate


def claims(url: str, messages: int) -> Iterator[tuple[str, float]]:
    epoch = ask(url, "POST", "/consumers/bench/attach", {"queues": [QUEUE]})["epoch"]
    start = time.perf_counter()
    claim = ask(url, "POST", "/consumers/bench/claim", {"epoch": epoch, "queue": QUEUE, "start": 0})
    yield "claim", messages / (time.perf_counter() - start)
    assert claim["hi"] == messages
    query: dict[str, object] = {"queue": QUEUE, "consumer": "bench", "lo": 0, "hi": messages}
    yield "read what was claimed", readers(url, [query])()
    start = time.perf_counter()
    ask(url, "POST", "/consumers/bench/ack", {"epoch": epoch, "queue": QUEUE, "up_to": messages})
    yield "acknowledge", messages / (time.perf_counter() - start)


def print_row(what: str, speed: float, than: float | None = None) -> None:
    print(f"{what:40}{speed:12,.0f}{'' if than is None else f'{speed / than:8.2f}'}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=200_000)
    messages = parser.parse_args().messages
    with folder() as place:
        slot = fill(place / "data", messages)
        daemon = Daemon(place)
        try:
            measure(daemon, messages, slot)
        finally:
            daemon.stop()


def measure(daemon: Daemon, messages: int, slot: int) -> None:
    whole: dict[str, object] = {"queue": QUEUE, "lo": 0, "hi": LAST}
    middle = messages // 2
    halves = [{**whole, "hi": middle}, {**whole, "lo": middle}]
    print(f"{'1 KiB, all columns':40}{'a second':>12}{'ratio':>8}")
    bare = without_http(daemon.data, slot)
    print_row("batches without HTTP", bare)
    before, most = daemon.memory(), 0
    for name, queries in (("1 connection", [whole]), ("2 connections", halves)):
        speed = readers(daemon.url, queries)
        most = max(most, daemon.memory())
        print_row(name, speed(), bare)
        most = max(most, daemon.memory())
    narrow = {**whole, "columns": "lookup_id,label,priority,arrived_time,body"}
    print_row("1 connection, 5 columns", readers(daemon.url, [narrow])(), bare)
    alone = send(daemon.port, 20_000)
    reading = readers(daemon.url, [whole])
    beside = send(daemon.port, 20_000)
    print_row("1 connection beside a sender", reading(), bare)
    print_row("sends alone", alone)
    print_row("sends beside a reader", beside, alone)
    for name, figure in claims(daemon.url, messages):
        print_row(name, figure)
    grown = (most - before) / 2**20
    print(f"memory of the daemon: {before / 2**20:.1f} MiB, and {grown:.1f} MiB more while it was read")


if __name__ == "__main__":
    main()
