"""One stream over many real queue managers, of which some are killed and come back while it runs.

`python tests/spark_schedules/fleet.py [--managers 20] [--rounds 200]` runs a query of Spark, counts the
messages, and prints the time from sent to seen beside that of one queue manager.
"""

import argparse
import random
import shutil
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
from typing import Any, Final, Protocol

sys.path.insert(0, str(Path(__file__).parents[1]))

from pyspark.sql import DataFrame
from pyspark.sql.streaming.datasource import ReadMaxRows

import pyspark_msmq
from addresses import own_address
from pyspark_msmq import schema
from pyspark_msmq.options import read_stream_options
from pyspark_msmq.stream_reader import ConsumeReader
from spark.served import PATIENCE_S, Served

_MORTAL: Final = 2
_NUMBERS: Final = count(1)  # each run has a consumer of its own


Seen = tuple[str, float]  # a body, and when it was seen


class Stream(Protocol):
    """Reads until it is told to end."""

    def __init__(self, servers: Sequence[Served], consumer: str) -> None: ...

    def seen(self) -> list[Seen]: ...

    def keep_running(self) -> None: ...

    def end(self) -> None: ...


class Reader:
    """The reader alone, called as Spark calls it; a batch counts when all of it is read."""

    def __init__(self, servers: Sequence[Served], consumer: str) -> None:
        url = ",".join(server.url for server in servers)
        options = {"url": url, "queue": "orders", "consumer": consumer, "onUnreachable": "wait"}
        self._reader = ConsumeReader(read_stream_options(options), schema.of_messages(["body"]))
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._problem: Exception | None = None
        self._seen: list[Seen] = []
        self._thread.start()

    def seen(self) -> list[Seen]:
        return self._seen

    def keep_running(self) -> None:
        if self._problem is not None:
            raise self._problem

    def _run(self) -> None:
        offset = self._reader.initialOffset()
        try:
            while not self._is_over.is_set():
                end = self._reader.latestOffset(offset, ReadMaxRows(200))
                if end != offset:
                    found = self._bodies(offset, end)
                    now = time.time()
                    self._seen += [(body, now) for body in found]
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

    def end(self) -> None:
        self._is_over.set()
        self._thread.join(PATIENCE_S)
        if self._reader._managers is not None:
            self._reader._managers.close()


class Query:
    """A query of Spark; a batch that is repeated replaces itself. It is started again when it fails."""

    def __init__(self, servers: Sequence[Served], consumer: str) -> None:
        self.starts = 0
        self._options = {"url": ",".join(server.url for server in servers), "consumer": consumer}
        self._checkpoint = tempfile.mkdtemp(prefix="fleet-log-")
        self._batches: dict[int, list[Seen]] = {}
        self._start()

    def _start(self) -> None:
        self.starts += 1
        spark = pyspark_msmq.session("fleet", "local[2,4]", spark_ui_enabled=False)
        spark.sparkContext.setLogLevel("OFF")
        frame = spark.readStream.format("msmq").options(**self._options, queue="orders")
        writer = frame.schema("body binary").load().writeStream.foreachBatch(self._note)
        self._query = writer.option("checkpointLocation", self._checkpoint).start()

    def _note(self, batch: DataFrame, number: int) -> None:
        bodies = [bytes(row.body).decode() for row in batch.collect()]
        now = time.time()
        self._batches[number] = [(body, now) for body in bodies]

    def seen(self) -> list[Seen]:
        return [each for batch in list(self._batches.values()) for each in batch]

    def keep_running(self) -> None:
        if not self._query.isActive:
            self._start()

    def end(self) -> None:
        self._query.stop()
        shutil.rmtree(self._checkpoint, ignore_errors=True)


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

    def run(
        self, rounds: int, rand: random.Random, victims: int = _MORTAL, kind: type[Stream] = Reader
    ) -> list[float]:
        """Sends while victims die and come back; the seconds from sent to seen."""
        mortal = self.servers[:victims]
        stream, down, first = kind(self.servers, f"fleet{next(_NUMBERS)}"), set[Served](), len(self.sent)
        for server in self.servers:  # until the stream has begun everywhere
            self.send(server, 1)
        _wait_for(stream, len(self.servers))
        begun = time.time()
        for _ in range(rounds):
            stream.keep_running()
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
        _wait_for(stream, len(self.sent) - first)
        stream.end()
        self._check(stream.seen(), first)
        sent = [(float(body.split()[1]), seen) for body, seen in stream.seen()]
        return [seen - when for when, seen in sent if when > begun]

    def _check(self, seen: list[Seen], first: int) -> None:
        counts = Counter(body for body, _ in seen)
        missing = [body for body in self.sent[first:] if body not in counts]
        assert not missing, f"lost: {missing[:5]}"
        assert max(counts.values(), default=1) == 1, f"doubled: {counts.most_common(5)}"


def _wait_for(stream: Stream, many: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(stream.seen()) < many:
        stream.keep_running()
        assert time.monotonic() < deadline, f"{len(stream.seen())} of {many} messages"
        time.sleep(0.05)


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

        def run(some: Fleet, victims: int = 0) -> float:
            return p95(some.run(chosen.rounds, random.Random(chosen.seed), victims, Query))

        run(alone)  # Java warms up
        one, every = run(alone), run(fleet)
        run(fleet, _MORTAL)
    finally:
        fleet.stop()
    print(  # noqa: T201 -- a script
        f"seed {chosen.seed}: one query of Spark, {len(fleet.sent)} messages "
        f"from {chosen.managers} queue managers, {fleet.kills} kills of two; none lost, none doubled; "
        f"sent to seen, p95: {1000 * every:.0f} ms; of one queue manager {1000 * one:.0f} ms, "
        f"a ratio of {every / one:.1f}"
    )


if __name__ == "__main__":
    main()
