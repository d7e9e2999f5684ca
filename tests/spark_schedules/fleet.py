"""One stream over many real queue managers, of which some are killed and come back while it runs.

`python tests/spark_schedules/fleet.py [--managers 20] [--rounds 60]` counts the messages, and prints the time
from sent to seen beside that of one queue manager. The stream is the reader, called as Spark calls it.
"""

import argparse
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from pyspark.sql.streaming.datasource import ReadMaxRows

from addresses import own_address
from pyspark_msmq import schema
from pyspark_msmq.options import read_stream_options
from pyspark_msmq.stream_reader import ConsumeReader
from spark.served import PATIENCE_S, Served

_MORTAL: Final = 2
_NUMBERS: Final = count(1)  # each run has a consumer of its own


class Stream:
    """Reads until it is told to end; a batch counts when all of it is read."""

    def __init__(self, servers: Sequence[Served], consumer: str) -> None:
        url = ",".join(server.url for server in servers)
        options = {"url": url, "queue": "orders", "consumer": consumer, "onUnreachable": "wait"}
        self._reader = ConsumeReader(read_stream_options(options), schema.of_messages(["body"]))
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._problem: Exception | None = None
        self.seen: list[tuple[str, float]] = []
        self._thread.start()

    def _run(self) -> None:
        offset = self._reader.initialOffset()
        try:
            while not self._is_over.is_set():
                end = self._reader.latestOffset(offset, ReadMaxRows(200))
                if end != offset:
                    found = self._bodies(offset, end)
                    now = time.time()
                    self.seen += [(body, now) for body in found]
                    offset = end
        except Exception as problem:  # noqa: BLE001  # for the one who waits
            self._problem = problem

    def _bodies(self, start: dict[str, Any], end: dict[str, Any]) -> list[str]:
        """The tasks of a batch run side by side, each waiting for its own queue manager."""
        pieces = self._reader.partitions(start, end)
        with ThreadPoolExecutor(max(len(pieces), 1)) as tasks:
            found = list(tasks.map(lambda piece: list(self._reader.read(piece)), pieces))
        return [
            body.decode() for each in found for batch in each for body in batch.column("body").to_pylist()
        ]

    def wait_for(self, many: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while len(self.seen) < many:
            if self._problem is not None:
                raise self._problem
            assert time.monotonic() < deadline, f"{len(self.seen)} of {many} messages"
            time.sleep(0.05)

    def end(self) -> None:
        self._is_over.set()
        self._thread.join(PATIENCE_S)
        if self._reader._managers is not None:
            self._reader._managers.close()


class Fleet:
    def __init__(self, folder: Path, many: int) -> None:
        # Those that may die have addresses of their own, where nobody takes their ports meanwhile.
        self.servers = [
            Served(folder / f"m{number}", host=own_address(4 + number if number < _MORTAL else 4 + _MORTAL))
            for number in range(many)
        ]
        self.sent: list[str] = []
        self.kills = 0

    def start(self) -> None:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda server: server.start(), self.servers))
        for server in self.servers:
            server.make_queue("orders")

    def stop(self) -> None:
        for server in self.servers:
            server.stop()

    def send(self, server: Served, many: int) -> None:
        for _ in range(many):
            self.sent.append(f"{len(self.sent)} {time.time()}")
            server.send("orders", self.sent[-1])

    def run(self, rounds: int, rand: random.Random, victims: int = _MORTAL) -> list[float]:
        """Sends while victims die and come back; the seconds from sent to seen of those that never died."""
        mortal = self.servers[:victims]
        stream, down, first = Stream(self.servers, f"fleet{next(_NUMBERS)}"), set[Served](), len(self.sent)
        for _ in range(rounds):
            for victim in mortal:
                if victim in down and rand.random() < 0.5:
                    victim.start()
                    down.discard(victim)
                elif victim not in down and rand.random() < 0.2:
                    victim.kill()
                    self.kills += 1
                    down.add(victim)
            up = [server for server in self.servers if server not in down]
            self.send(rand.choice(up), rand.randint(1, 5))
            time.sleep(0.05)  # a load, not a wait
        for victim in down:
            victim.start()
        stream.wait_for(len(self.sent) - first)
        stream.end()
        self._check(stream, first)
        return [seen - float(body.split()[1]) for body, seen in stream.seen]

    def _check(self, stream: Stream, first: int) -> None:
        counts = Counter(body for body, _ in stream.seen)
        missing = [body for body in self.sent[first:] if body not in counts]
        assert not missing, f"lost: {missing[:5]}"
        assert max(counts.values(), default=1) == 1, f"doubled: {counts.most_common(5)}"


def p95(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=20)[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description="One stream over many queue managers, two of them mortal.")
    parser.add_argument("--managers", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    chosen = parser.parse_args()
    fleet = Fleet(Path(tempfile.mkdtemp(prefix="fleet-")), chosen.managers)
    fleet.start()
    try:
        alone = Fleet(Path(), 0)
        alone.servers = fleet.servers[-1:]
        one = p95(alone.run(chosen.rounds, random.Random(chosen.seed), victims=0))
        every = p95(fleet.run(chosen.rounds, random.Random(chosen.seed), victims=0))
        fleet.run(chosen.rounds, random.Random(chosen.seed))
    finally:
        fleet.stop()
    print(  # noqa: T201 -- a script
        f"seed {chosen.seed}: {len(fleet.sent)} messages from {chosen.managers} queue managers, "
        f"{fleet.kills} kills of two of them; none lost, none doubled. "
        f"Sent to seen, p95: {1000 * every:.0f} ms, {every / one:.1f} times that of one queue manager"
    )


if __name__ == "__main__":
    main()
