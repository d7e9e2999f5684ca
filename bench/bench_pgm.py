"""Multicast messages a second: from one queue manager to another, beside OpenPGM's own tool.

bench_pgm.py [--messages N] [--rounds N] [--rate BYTES] [--transport raw|udp] [--only tiercel|openpgm]

1 KiB express messages in a network namespace of their own, with the rate limit lifted. They wait in the
outgoing queue when the clock starts, and a message is done when it is in the subscribed queue. The cost is
processor time of each queue manager. OpenPGM carries 1 KiB of bytes in one packet; an SRMP request takes two.
"""

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import tiercel
from tiercel import aio
from tiercel.model.format_name import FormatName
from tiercel.server.config import Config, MulticastOptions

BODY = b"x" * 1024
ADDRESS = "234.1.1.1:8001"
SENDER, RECEIVER = "10.9.1.1", "10.9.1.2"  # OpenPGM takes no loopback interface
_SETUP = """
ip link set lo up
ip link add cable type veth peer name end
ip addr add 10.9.1.1/24 dev cable
ip addr add 10.9.1.2/24 dev cable
ip link set cable up
ip link set end up
ip route add 224.0.0.0/4 dev cable
exec "$@"
"""
PATIENCE_S = 120.0
IN_NAMESPACE = "TIERCEL_BENCH_NAMESPACE"
TOOL = Path(__file__).resolve().parent.parent / "build" / "pgm"


def options(host: str, rate: int, transport: str) -> Config:
    multicast = MulticastOptions(
        enabled=True,
        transport=transport,
        interface=host,
        rate_bytes_s=rate,
        window_bytes=256 << 20,
    )
    return Config(multicast=multicast)


def receive(pipe: Connection, folder: str, count: int, rate: int, transport: str) -> None:
    asyncio.run(_receive(pipe, Path(folder) / "in", count, options(RECEIVER, rate, transport)))


async def _receive(pipe: Connection, folder: Path, count: int, config: Config) -> None:
    """Tells when it listens; then how many messages came after the first few, and in how many seconds."""
    async with await aio.open(folder, listen=f"{RECEIVER}:1801", config=config) as manager:
        queue = await manager.create_queue("prices", multicast_address=ADDRESS)
        pipe.send(None)
        first, before = 0.0, 0
        started = time.process_time()
        deadline = time.monotonic() + PATIENCE_S
        while (arrived := queue.count) < count and time.monotonic() < deadline:
            if arrived > 1 and not first:  # the first made the outgoing queue, which was filled after it
                first, before = time.monotonic(), arrived
            await asyncio.sleep(0.02)
        seconds = time.monotonic() - first
        pipe.send((arrived - before, seconds, (time.process_time() - started) / max(arrived, 1)))


def send(pipe: Connection, folder: str, count: int, rate: int, transport: str) -> None:
    asyncio.run(_send(pipe, Path(folder) / "out", count, options(SENDER, rate, transport)))


async def _send(pipe: Connection, folder: Path, count: int, config: Config) -> None:
    """Fills the outgoing queue, then lets it go; tells the processor time of a message."""
    async with await aio.open(folder, listen=f"{SENDER}:1801", config=config) as manager:
        queue = manager.queue(f"MULTICAST={ADDRESS}")
        await queue.send(tiercel.Message(BODY))
        driver = manager.driver
        state = driver.engine.queues.get(FormatName.parse(f"MULTICAST={ADDRESS}"))
        driver.run(lambda: driver.engine.outgoing.pause(state))
        for _ in range(count - 1):
            await queue.send(tiercel.Message(BODY))
        started = time.process_time()
        driver.run(lambda: driver.engine.outgoing.resume(state))
        while state.count:  # noqa: ASYNC110  # nothing tells
            await asyncio.sleep(0.02)
        pipe.send((time.process_time() - started) / count)
        await asyncio.sleep(PATIENCE_S)  # repairs, until we are ended


class Speed(NamedTuple):
    messages_a_second: float
    sender_us: float = 0.0  # processor time of a message
    receiver_us: float = 0.0


def tiercel_speed(count: int, rate: int, transport: str) -> Speed:
    context = get_context("spawn")
    folder = tempfile.mkdtemp(prefix="bench-", dir=Path(__file__).parent)
    ours, theirs = context.Pipe()
    from_sender, of_sender = context.Pipe()
    receiver = context.Process(target=receive, args=(theirs, folder, count, rate, transport))
    sender = context.Process(target=send, args=(of_sender, folder, count, rate, transport))
    try:
        receiver.start()
        ours.recv()
        sender.start()
        arrived, seconds, receiver_s = ours.recv()
        return Speed(arrived / seconds, from_sender.recv() * 1e6, receiver_s * 1e6)
    finally:
        for process in (sender, receiver):
            process.kill()
            process.join()
        shutil.rmtree(folder, ignore_errors=True)


def openpgm_speed(count: int, rate: int, transport: str) -> Speed | None:
    if not (TOOL / "pgmtool").exists():
        return None
    environment = {**os.environ, "LD_PRELOAD": str(TOOL / "csumfix.so")}
    more = ["--udp", "3055"] if transport == "udp" else []
    words = [str(TOOL / "pgmtool"), "recv", f"{RECEIVER};234.1.1.1", "8001", "--mtu", "1500", *more]
    words += ["--count", str(count), "--seconds", str(int(PATIENCE_S))]
    sending = [str(TOOL / "pgmtool"), "send", f"{SENDER};234.1.1.1", "8001", "--mtu", "1500", *more]
    sending += ["--rate", str(rate)]
    with (
        subprocess.Popen(words, env=environment, stdout=subprocess.PIPE) as receiver,  # noqa: S603
        subprocess.Popen(  # noqa: S603
            sending, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        ) as sender,
    ):
        assert sender.stdin is not None
        assert receiver.stdout is not None
        sender.stdin.write(b"!1024\n" * count)
        sender.stdin.close()
        receiver.stdout.readline()
        started = time.monotonic()
        arrived = sum(1 for _ in receiver.stdout)
        seconds = time.monotonic() - started
        sender.kill()
    return Speed(arrived / seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=int, default=14_000_000)
    parser.add_argument("--transport", choices=("raw", "udp"), default="raw")
    parser.add_argument("--only", choices=("tiercel", "openpgm"))
    given = parser.parse_args()
    if IN_NAMESPACE not in os.environ:
        command = ["unshare", "--net", "--map-root-user", "--", sys.executable, *sys.argv]
        inside = [*command[:4], "sh", "-c", _SETUP, "sh", *command[4:]]
        return subprocess.run(inside, env={**os.environ, IN_NAMESPACE: "1"}, check=False).returncode  # noqa: S603
    print(f"1 KiB messages, {given.transport}, {given.rate / 1e6:.0f} MB/s, {given.messages} a round")
    for name, speed in (("Tiercel", tiercel_speed), ("OpenPGM", openpgm_speed)):
        if given.only not in {None, name.lower()}:
            continue
        found = [speed(given.messages, given.rate, given.transport) for _ in range(given.rounds)]
        known = [each for each in found if each is not None]
        if not known:
            print(f"{name:8} not installed; make interop does that")
            continue
        speeds = [each.messages_a_second for each in known]
        line = f"{statistics.median(speeds):8,.0f} messages/s  ({min(speeds):,.0f} to {max(speeds):,.0f})"
        cost = [statistics.median(each[at] for each in known) for at in (1, 2)]
        words = f"; {cost[0]:.0f} us to send one, {cost[1]:.0f} us to receive one" if cost[0] else ""
        print(f"{name:8} {line}{words}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
