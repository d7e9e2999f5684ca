"""Remote readers of the daemon: receive and acknowledge 1 KiB messages over RPC, two round trips each.

bench_remote_read.py [--messages N]

One connection, then sixteen, without protection and with NTLM privacy; and a sender at the same time, beside
the speed that it has alone. The readers are Tiercel's own client, in a process of their own.
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
from functools import partial
from pathlib import Path
from typing import Any

import mqqb
from bench_daemon import folder

import tiercel
from tiercel import aio
from tiercel.security.descriptor import SecurityDescriptor

USER, PASSWORD, SID = "reader", "secret", "S-1-5-21-1-2-3-1001"
QUEUE = r".\private$\q"
HOST = "127.0.0.2"
TIERCEL = (sys.executable, "-m", "tiercel")
SPAWN = multiprocessing.get_context("spawn")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


class Daemon:
    def __init__(self, place: Path, messages: int) -> None:
        self.data, self.ports = place / "data", (free_port(), free_port())
        self.config = place / "tiercel.toml"
        self.config.write_text(
            f'[node]\ndata = "{self.data}"\n[listen]\nhost = "{HOST}"\nport = {self.ports[0]}\n'
            f'[accounts]\nfile = "{place / "accounts"}"\n'
            f"[remote_read]\nenabled = true\nport = {self.ports[1]}\n"
            '[log]\nlevel = "error"\n'
        )
        add = [*TIERCEL, "user", "add", "--config", str(self.config), "--sid", SID, USER]
        subprocess.run(add, input=f"{PASSWORD}\n", text=True, check=True)  # noqa: S603  # ours
        security = SecurityDescriptor.parse(f"O:{SID}D:(A;;GA;;;WD)").encode()
        with tiercel.open(self.data) as qm:
            queue = qm.create_queue(QUEUE, security=security)
            qm.create_queue(r".\private$\in", security=security)
            for start in range(0, messages, 1000):
                with qm.batch():
                    for _ in range(min(1000, messages - start)):
                        queue.send(tiercel.Message(os.urandom(1024), delivery=1))
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

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def read(port: int, connections: int, messages: int, logon: dict[str, Any], pipe: Any) -> None:
    async def reader(count: int) -> None:
        async with await aio.connect(HOST, port=port, **logon) as remote:
            queue = remote.queue(r"private$\q")
            for _ in range(count):
                await queue.receive(timeout=10)

    async def main() -> float:
        start = time.perf_counter()
        await asyncio.gather(*(reader(messages // connections) for _ in range(connections)))
        return messages / (time.perf_counter() - start)

    pipe.send(asyncio.run(main()))


def in_process(function: Callable[..., None], *arguments: Any) -> Callable[[], float]:
    """Starts it; the answer is its figure, when it is asked for."""
    mine, other = SPAWN.Pipe()
    process = SPAWN.Process(target=function, args=(*arguments, other))
    process.start()

    def result() -> float:
        figure: float = mine.recv()
        process.join()
        return figure

    return result


def send(port: int, messages: int, pipe: Any) -> None:
    sender = mqqb.Sender((HOST, port), rf"DIRECT=TCP:{HOST}\private$\in", 1024, 64)
    times = sender.send(messages)
    sender.close()
    pipe.send(messages / (times.last - times.first))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=8000)
    messages = parser.parse_args().messages
    levels: dict[str, dict[str, str]] = {"none": {}, "privacy": {"user": USER, "password": PASSWORD}}
    with folder() as place:
        daemon = Daemon(place, 5 * messages)
        try:
            print(f"{'receive + acknowledge, 1 KiB':32}{'a second':>12}")
            for level, logon in levels.items():
                for connections in (1, 16):
                    speed = in_process(read, daemon.ports[1], connections, messages, logon)()
                    print(f"{f'{connections} connections, {level}':32}{speed:12,.0f}")
            sending = partial(in_process, send, daemon.ports[0], 3 * messages)
            alone = sending()()
            readers = in_process(read, daemon.ports[1], 16, messages, {})
            beside = sending()()
            print(f"{'16 connections beside a sender':32}{readers():12,.0f}")
            print(f"{'sends alone':32}{alone:12,.0f}")
            print(f"{'sends beside 16 readers':32}{beside:12,.0f}{beside / alone:8.2f}")
        finally:
            daemon.stop()


if __name__ == "__main__":
    main()
