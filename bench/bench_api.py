"""The HTTP API: what it does a second, and what it takes from those who send on port 1801 meanwhile.

bench_api.py [--messages N] [--alone]

First a sender on port 1801 alone, then beside clients of the API that wait, watch, browse, export, send;
its speed is a ratio of the speed alone, and the longest silence between two acknowledgements says how long
one turn of the event loop took. Then what clients of the API get done with the daemon for themselves.
"""

import argparse
import http.client
import json
import multiprocessing
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import mqqb
from bench_daemon import Meter, folder

import tiercel

HOST = "127.0.0.1"
INCOMING, BACKLOG, WORK = "in", "backlog", "work"
SPAWN = multiprocessing.get_context("spawn")
V1 = "/api/v1"
MESSAGE = json.dumps({"body": "eHh4" * 256, "delivery": "recoverable"}).encode()
ROUND_S = 3.0
WINDOW = 64


class Daemon:
    def __init__(self, place: Path, backlog: int) -> None:
        self.data = place / "data"
        with tiercel.open(self.data) as qm:
            for name in (INCOMING, BACKLOG, WORK):
                qm.create_queue(rf".\private$\{name}")
            queue = qm.queue(rf".\private$\{BACKLOG}")
            for start in range(0, backlog, 1000):
                queue.send_many(
                    [
                        tiercel.Message(bytes(1024), label=f"{start + each}", delivery=1)
                        for each in range(1000)
                    ]
                )
        config = place / "tiercel.toml"
        # A sender whose window is smaller than the one agreed on waits for the timer of acknowledgements.
        window = f"[binary]\nwindow_size = {WINDOW}\ntiercel_window_size = {WINDOW}\n"
        config.write_text(f'{window}[log]\nformat = "json"\n')
        serve = [sys.executable, "-m", "tiercel", "serve", "--data", str(self.data), "--config", str(config)]
        started = time.perf_counter()
        self.process = subprocess.Popen([*serve, "--listen", f"{HOST}:0"], stderr=subprocess.PIPE, text=True)  # noqa: S603
        assert self.process.stderr is not None
        while "address" not in (start_line := json.loads(self.process.stderr.readline())):
            pass  # a warning
        self.start_s = time.perf_counter() - started
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        self.port = int(start_line["address"].rpartition(":")[2])
        self.socket = str(self.data / "tiercel.sock")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


class Local(http.client.HTTPConnection):
    """HTTP on the Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("local")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self._path)

    def ask(self, method: str, path: str, body: bytes | None = None, kind: str = "application/json") -> bytes:
        self.request(method, path, body, {"Content-Type": kind, "Accept": kind})
        with self.getresponse() as response:
            data = response.read()
            assert response.status < 300, data
            return data


# What clients do; each gives how many messages it was.


def wait(client: Local) -> int:
    client.ask("POST", f"{V1}/queues/{WORK}/receive", b'{"wait_ms": 1000}')
    return 0


def watch(client: Local) -> int:
    """As Prometheus and a dashboard do, but ten times as often."""
    client.ask("GET", "/metrics")
    client.ask("GET", f"{V1}/queues")
    time.sleep(0.1)
    return 0


def browse(client: Local) -> int:
    page = json.loads(client.ask("GET", f"{V1}/queues/{BACKLOG}/messages?limit=100"))
    return len(page["messages"])


def export(client: Local) -> int:
    data = client.ask("GET", f"{V1}/queues/{BACKLOG}/messages", kind="application/x-ndjson")
    return data.count(b"\n")


def send_one(client: Local) -> int:
    client.ask("POST", f"{V1}/queues/{WORK}/messages", MESSAGE)
    return 1


_BARE_SEND: Final = (
    f"POST {V1}/queues/{WORK}/messages HTTP/1.1\r\nHost: local\r\nContent-Type: application/json\r\n"
    f"Content-Length: {len(MESSAGE)}\r\n\r\n"
).encode() + MESSAGE


def send_one_barely(client: Local) -> int:
    """The same bytes without http.client, which costs as much as the daemon."""
    if client.sock is None:
        client.connect()
    client.sock.sendall(_BARE_SEND)
    data = b""
    while not data.endswith(b"}"):
        data += client.sock.recv(1 << 16)
    assert data.startswith(b"HTTP/1.1 201 "), data
    return 1


def send_many(client: Local) -> int:
    client.ask("POST", f"{V1}/queues/{WORK}/messages", (MESSAGE + b"\n") * 1000, "application/x-ndjson")
    return 1000


def receive_one(client: Local) -> int:
    """With a lease, which is acknowledged."""
    (message,) = json.loads(client.ask("POST", f"{V1}/queues/{WORK}/receive", b"{}"))["messages"]
    client.ask("POST", f"{V1}/leases/{message['lease']}/acknowledge")
    return 1


def receive_many(client: Local) -> int:
    answer = client.ask("POST", f"{V1}/queues/{WORK}/receive", b'{"limit": 100, "acknowledge": "now"}')
    return len(json.loads(answer)["messages"])


def _work(path: str, work: Callable[[Local], int], threads: int, barrier: Any, pipe: Any) -> None:
    done = [0] * threads

    def run(number: int) -> None:
        with closing(Local(path)) as client:
            client.ask("GET", "/health")
            barrier.wait()
            end = time.perf_counter() + ROUND_S
            while time.perf_counter() < end:
                done[number] += work(client)

    workers = [threading.Thread(target=run, args=[number]) for number in range(threads)]
    for worker in workers:
        worker.start()
    start = time.perf_counter()
    for worker in workers:
        worker.join()
    pipe.send(sum(done) / (time.perf_counter() - start))


class Clients:
    """So many that do the same for some seconds from now on, in one or two processes."""

    def __init__(self, daemon: Daemon, work: Callable[[Local], int], count: int = 1) -> None:
        processes = min(count, 2)
        barrier, self._pipes, self._processes = SPAWN.Barrier(count + 1), [], []
        for _ in range(processes):
            mine, other = SPAWN.Pipe()
            process = SPAWN.Process(
                target=_work, args=(daemon.socket, work, count // processes, barrier, other)
            )
            process.start()
            self._pipes.append(mine)
            self._processes.append(process)
        barrier.wait()

    def speed(self) -> float:
        total = sum(pipe.recv() for pipe in self._pipes)
        for process in self._processes:
            process.join()
        return float(total)


def send_on_1801(daemon: Daemon, messages: int) -> tuple[float, float]:
    """Messages a second, and the longest time that a window of them took, in milliseconds."""
    sender = mqqb.Sender((HOST, daemon.port), rf"DIRECT=TCP:{HOST}\private$\{INCOMING}", 1024, WINDOW)
    sent, longest, start = 0, 0.0, time.monotonic()
    while sent < messages or time.monotonic() - start < ROUND_S / 2:
        times = sender.send(64)
        longest = max(longest, times.last - times.first)
        sent += 64
    seconds = time.monotonic() - start
    sender.close()
    return sent / seconds, longest * 1000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--alone", action="store_true", help="without the senders on port 1801")
    options = parser.parse_args()
    with folder() as place:
        daemon = Daemon(place, 20_000)
        try:
            print(f"start of the daemon {daemon.start_s * 1000:6.0f} ms; ", end="")
            start = time.perf_counter()
            with closing(Local(daemon.socket)) as client:
                client.ask("GET", "/health")
                first = time.perf_counter() - start
                start = time.perf_counter()
                client.ask("GET", "/health")
            print(f"first answer {first * 1000:.0f} ms, then {(time.perf_counter() - start) * 1000:.1f} ms\n")
            if not options.alone:
                beside(daemon, options.messages)
            alone(daemon)
        finally:
            daemon.stop()


def beside(daemon: Daemon, messages: int) -> None:
    print(f"{'sends on 1801, beside':34}{'a second':>10}{'ratio':>7}{'longest ms':>12}{'API a second':>14}")
    send_on_1801(daemon, messages)  # warm
    bare, longest = send_on_1801(daemon, messages)
    print(f"{'nobody':34}{bare:10,.0f}{1:7.2f}{longest:12.1f}")
    cases: list[tuple[str, Callable[[Local], int], int]] = [
        ("50 that wait for a message", wait, 50),
        ("metrics and queues, 10 times a s", watch, 1),
        ("browsing, 100 a page", browse, 1),
        ("an export", export, 1),
        ("sends of one", send_one, 1),
        ("sends of 1000", send_many, 1),
    ]
    for name, work, count in cases:
        clients = Clients(daemon, work, count)
        speed, longest = send_on_1801(daemon, messages)
        print(
            f"{name:34}{speed:10,.0f}{speed / bare:7.2f}{longest:12.1f}{clients.speed():14,.0f}", flush=True
        )


def alone(daemon: Daemon) -> None:
    print(f"\n{'the API alone, 1 KiB recoverable':34}{'a second':>10}{'daemon us':>11}")
    cases: list[tuple[str, Callable[[Local], int], int]] = [
        ("send, 1 client, bare sockets", send_one_barely, 1),
        ("send, 8 clients, bare sockets", send_one_barely, 8),
        ("send, 1 client", send_one, 1),
        ("send, 8 clients", send_one, 8),
        ("send 1000 a request", send_many, 1),
        ("receive and acknowledge, 1 client", receive_one, 1),
        ("receive and acknowledge, 8 clients", receive_one, 8),
        ("receive 100 at once", receive_many, 1),
        ("browse, 100 a page", browse, 1),
        ("export", export, 1),
    ]
    for name, work, count in cases:
        meter = Meter(daemon.process.pid)
        speed = Clients(daemon, work, count).speed()
        cost = meter.seconds / (speed * ROUND_S) * 1e6
        print(f"{name:34}{speed:10,.0f}{cost:11,.0f}", flush=True)


if __name__ == "__main__":
    main()
