"""128 MiB staged and published over the data endpoint: how long a sender on port 1801 waits meanwhile.

bench_pause.py [--rounds N]

The sender has one message in flight. Its longest waits are beside those of the same time at rest.
"""

import argparse
import statistics
import threading
import time
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import mqqb
import pyarrow as pa
from bench_daemon import folder
from bench_data import HOST, INCOMING, Daemon, ask

import tiercel

TARGET = r".\private$\target"
CHUNKS, ROWS, BODY = 32, 4096, b"x" * 1024
INFINITE_KIB = 0xFFFF_FFFF


def stage(url: str, batch: int) -> list[str]:
    """The names of the stages."""
    table = pa.table({"body": pa.array([BODY] * ROWS, pa.binary())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    name, address = f"pause/{batch}/0/a", urlsplit(url)
    for chunk in range(CHUNKS):
        connection = HTTPConnection(address.hostname or "", address.port)
        connection.request("PUT", f"/data/v1/stages/{name}?chunk={chunk}", sink.getvalue().to_pybytes())
        assert connection.getresponse().status == 200, "not staged"
        connection.close()
    return [name]


def waits_during(port: int, work: Callable[[], object]) -> tuple[float, list[float]]:
    """How long the work took, and the waits of the sender meanwhile."""
    sender = mqqb.Sender((HOST, port), rf"DIRECT=TCP:{HOST}\private$\in", 100, 1)
    sender.send(1)
    thread = threading.Thread(target=work)
    waits, start = [], time.perf_counter()
    thread.start()
    while thread.is_alive():
        before = time.perf_counter()
        sender.send(1)
        waits.append(time.perf_counter() - before)
    seconds = time.perf_counter() - start
    sender.close()
    return seconds, waits


def print_row(what: str, seconds: float, waits: list[float]) -> None:
    median, p99 = statistics.median(waits), statistics.quantiles(waits, n=100)[-1]
    cells = (median, p99, max(waits))
    print(f"{what:24}{seconds:8.1f} s{''.join(f'{cell * 1000:9.1f}' for cell in cells)}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with folder() as place:
        with tiercel.open(place / "data") as qm:
            qm.set_properties(queue_manager_quota_kib=INFINITE_KIB)
            qm.create_queue(TARGET, transactional=True)
            qm.create_queue(INCOMING)
        daemon = Daemon(place)
        try:
            measure(daemon, rounds)
        finally:
            daemon.stop()


def measure(daemon: Daemon, rounds: int) -> None:
    print(f"{'':24}{'':>10}{'p50 ms':>9}{'p99':>9}{'longest':>9}")
    for batch in range(rounds):
        body: dict[str, Any] = {"app": "pause", "batch": str(batch), "queue": TARGET}

        def put(batch: int = batch, body: dict[str, Any] = body) -> None:
            body["stages"] = stage(daemon.url, batch)

        print_row("while it is staged", *waits_during(daemon.port, put))
        seconds, waits = waits_during(daemon.port, partial(ask, daemon.url, "POST", "/publish", body))
        print_row("while it is published", seconds, waits)
        print_row("at rest", *waits_during(daemon.port, partial(time.sleep, seconds)))


if __name__ == "__main__":
    main()
