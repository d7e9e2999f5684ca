"""What grows with the sessions and the queues of a daemon: processor time for each message, and memory.

bench_growth.py [--sessions N ...] [--queues N ...]

Processor time of the daemon, in microseconds, which a busy machine hardly changes. A cost that grows linearly
has the same figure in each row.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import mqqb
from bench_daemon import BODY_SIZE, DAEMON, Daemon, Meter, common_port, folder, run_in

ROUND = 32  # messages of a session before it waits: they are acknowledged by count, not by a timer
MESSAGES = 8192
NO_LIMIT = 100_000
CREATE = """
import asyncio, sys
from tiercel import aio

async def main(data, listen, count):
    async with await aio.open(data, listen=listen) as qm:
        with qm.batch():
            for number in range(int(count)):
                await qm.create_queue(rf".\\private$\\q{number}")

asyncio.run(main(*sys.argv[1:]))
"""


class Grown:
    """A daemon with so many queues, after one message has been sent to it."""

    def __init__(self, place: Path, queues: int) -> None:
        self._port = common_port(DAEMON)
        data = place / f"{queues}-{time.monotonic_ns()}"
        run_in(None, CREATE, data, f"{DAEMON}:{self._port}", queues)
        more = f"limits = {{ idle_s = 3600, connections = {NO_LIMIT}, connections_per_address = {NO_LIMIT} }}"
        started = time.perf_counter()
        self._daemon = Daemon(DAEMON, self._port, data, 64, more)
        self.start_s = time.perf_counter() - started

    def sender(self, queue: int = 0) -> mqqb.Sender:
        return mqqb.Sender((DAEMON, self._port), self.name(queue), BODY_SIZE, 64)

    def name(self, queue: int) -> str:
        return rf"DIRECT=TCP:{DAEMON}\private$\q{queue}"

    def meter(self) -> Meter:
        return Meter(self._daemon.pid)

    @property
    def memory_mb(self) -> float:
        """Without the pages of the store, which the kernel takes back when it needs them."""
        status = Path(f"/proc/{self._daemon.pid}/status").read_text("ascii")
        return int(status.partition("RssAnon:")[2].split()[0]) / 1000

    def stop(self) -> None:
        self._daemon.stop()


def send_by_turns(senders: Sequence[mqqb.Sender], messages: int) -> int:
    """All sessions at once, each a round after the other; how many messages it was."""
    sent = 0
    while sent < messages:
        for each in senders:
            each.begin(each.encode(ROUND), ROUND)
        for each in senders:
            each.finish()
        sent += ROUND * len(senders)
    return sent


def us(meter: Meter, count: int) -> float:
    return meter.seconds / count * 1e6


def sessions(place: Path, counts: Sequence[int]) -> Iterator[str]:
    yield f"{'sessions':>10}{'each begins':>14}{'all send':>12}{'one sends':>12}{'memory':>11}"
    for count in counts:
        grown = Grown(place, 1)
        try:
            send_by_turns([grown.sender()], MESSAGES)  # warm
            meter = grown.meter()
            senders = [grown.sender() for _ in range(count)]
            begins = us(meter, count)
            meter = grown.meter()
            all_send = us(meter, send_by_turns(senders, MESSAGES))
            meter = grown.meter()
            one_sends = us(meter, send_by_turns(senders[:1], MESSAGES))
            memory = grown.memory_mb
            for each in senders:
                each.close()
        finally:
            grown.stop()
        yield f"{count:>10,}{begins:>11,.0f} us{all_send:>9.1f} us{one_sends:>9.1f} us{memory:>8.0f} MB"


def queues(place: Path, counts: Sequence[int]) -> Iterator[str]:
    yield f"{'queues':>10}{'start':>14}{'to all':>12}{'to one':>12}{'memory':>11}"
    for count in counts:
        grown = Grown(place, count)
        try:
            sender = grown.sender()
            send_by_turns([sender], MESSAGES)  # warm
            guid = uuid4()
            packets = [mqqb.message(guid, grown.name(each), bytes(BODY_SIZE)) for each in range(count)]
            total = max(MESSAGES, count) // ROUND * ROUND
            meter = grown.meter()
            for first in range(0, total, ROUND):
                numbers = range(first, first + ROUND)
                sender.begin(
                    b"".join(mqqb.numbered(packets[each % count], each + 1) for each in numbers), ROUND
                )
                sender.finish()
            to_all = us(meter, total)
            meter = grown.meter()
            to_one = us(meter, send_by_turns([sender], MESSAGES))
            memory = grown.memory_mb
            sender.close()
        finally:
            grown.stop()
        yield f"{count:>10,}{grown.start_s:>12.2f} s{to_all:>9.1f} us{to_one:>9.1f} us{memory:>8.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sessions", type=int, nargs="*", default=[1, 10, 100, 1000])
    parser.add_argument("--queues", type=int, nargs="*", default=[1, 10, 100, 1000, 10_000])
    arguments = parser.parse_args()
    print("Processor time of the daemon for each session and message; 1 KiB, recoverable, window 64")
    with folder() as place:
        for line in sessions(place, arguments.sessions):
            print(line, flush=True)
        print()
        for line in queues(place, arguments.queues):
            print(line, flush=True)


if __name__ == "__main__":
    main()
