"""One query after another over the same checkpoint, as Spark runs them, until every message is in the sink.

The readers and writers are those of `pyspark_msmq`; this is Spark: it writes the log of offsets before it
reads a batch and the log of commits after the sink has it, runs tasks again, at once or never, and dies.
"""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from pyspark_msmq import consumer, lanes, reading, schema, writers
from pyspark_msmq.data_client import EndpointLostError
from pyspark_msmq.options import read_stream_options, read_write_options
from pyspark_msmq.stream_reader import ConsumeReader
from pyspark_msmq.writers import Staged, StreamWriter
from spark_schedules.server import COPIES, Client, Faults, KilledError, QueueManager

_STEPS: Final = 10
_QUERY: Final = "query"


class TaskError(RuntimeError):
    """A task that failed as often as Spark tries it."""


class Done:
    """A thread that has ended: in a schedule, lanes do their work at once, in a known order."""

    def join(self) -> None: ...


class Schedule:
    def __init__(self, seed: int) -> None:
        self.rand = random.Random(seed)
        self.faults = Faults(self.rand)
        many = self.rand.choice((1, 1, 2, 3))
        self.managers = {
            f"m{number}": QueueManager(self.faults, transactional=self.rand.random() < 0.3)
            for number in range(many)
        }
        self.options = {
            "url": ",".join(f"http://{host}:1" for host in self.managers),
            "queue": "orders",
            "consumer": "proof",
            "pollTimeoutMs": "0",
            "resumeConsumer": "true",  # for a kill between the first claim and the first line of the log
            "ackTiming": self.rand.choice(("eager", "commit")),
            "minPartitions": str(self.rand.choice((1, 2, 3))),
        }
        if self.rand.random() < 0.5:
            self.options["onUnreachable"] = self.rand.choice(("wait", "fail"))
        self.limit: ReadLimit = (
            ReadMaxRows(self.rand.randint(1, 12)) if self.rand.random() < 0.7 else ReadAllAvailable()
        )
        self.to_queue = self.rand.random() < 0.5
        self.offsets: list[dict[str, Any]] = []  # Spark's log, with the initial offset before it
        self.commits = 0
        self.table: dict[int, list[int]] = {}  # a sink that has each batch once
        self.sent = 0
        self.runs = 0
        self._attempts = 0

    # The schedule.

    def run(self) -> None:
        """Raises an AssertionError if a message is lost, doubled or out of order."""
        with ExitStack() as stack:
            for module in (consumer, reading, writers):
                stack.enter_context(mock.patch.object(module, "DataClient", Client))
            stack.enter_context(mock.patch.object(Client, "managers", self.managers))
            stack.enter_context(mock.patch.object(lanes.Lane, "start", _start_at_once))
            stack.enter_context(mock.patch("tiercel.admin.stages._STORED", 2))  # messages: else one turn
            stack.enter_context(mock.patch.object(lanes, "_FIRST_PAUSE_S", 0.0))
            stack.enter_context(mock.patch.object(lanes, "_LONGEST_PAUSE_S", 0.0))
            stack.enter_context(mock.patch("pyspark_msmq.managers._GRACE_S", 0.0))
            stack.enter_context(mock.patch.object(writers, "TaskContext", SimpleNamespace(get=self._context)))
            stack.enter_context(mock.patch.object(writers, "spare_imports"))
            stack.enter_context(mock.patch.object(reading, "spare_imports"))
            stack.enter_context(mock.patch.object(reading, "_fetched_ahead", iter))
            stack.enter_context(mock.patch.object(reading, "side_by_side", map))
            try:
                self._run()
            finally:
                for manager in self.managers.values():
                    manager.close()

    def _run(self) -> None:
        for step in range(_STEPS):
            self._send()
            self.faults.are_on = step < _STEPS - 1
            self._live(self.rand.randint(1, 6))
        for _ in range(200):
            if not any(manager.left() for manager in self.managers.values()):
                break
            # With ackTiming=commit, the last batch is acknowledged when the next one has data.
            self.options["ackTiming"] = "eager"
            self._live(3)
        self.check()

    def _send(self) -> None:
        for manager in self.managers.values():
            many = self.rand.choice((0, 0, 1, 3, 10))
            manager.send(range(self.sent, self.sent + many))
            self.sent += many

    def _live(self, batches: int) -> None:
        """One run of the query, until it ends or dies."""
        self.runs += 1
        reader = ConsumeReader(read_stream_options(self.options), schema.of_messages(["body"]))
        try:
            if not self.offsets:
                self.offsets.append(reader.initialOffset())
            self._query(reader, batches)
        except (KilledError, TaskError):
            pass
        except EndpointLostError:
            assert not read_stream_options(self.options).waits_for_managers

    def _query(self, reader: ConsumeReader, batches: int) -> None:
        if len(self.offsets) - 1 > self.commits:
            self._batch(reader)
        for _ in range(batches):
            start = self.offsets[-1]
            end = reader.latestOffset(start, self.limit)
            self.faults.point()
            if end == start:
                continue
            self.offsets.append(end)
            self.faults.point()
            if self.commits:
                reader.commit(start)
            self._batch(reader)

    def _batch(self, reader: ConsumeReader) -> None:
        number = self.commits
        pieces = reader.partitions(self.offsets[-2], self.offsets[-1])
        if self.to_queue:
            self._to_queue(reader, pieces, number)
        else:
            rows = [number for piece in pieces for number in self._task(reader, piece)]
            self.faults.point()
            assert self.table.get(number, rows) == rows, f"batch {number} is not the same again"
            self.table[number] = rows
        self.faults.point()
        self.commits += 1
        self.faults.point()

    def _task(self, reader: ConsumeReader, piece: InputPartition) -> list[int]:
        if self.faults.happens(0.1):
            self._read(reader, piece)  # an attempt that nobody needed
        return self._read(reader, piece)

    def _read(self, reader: ConsumeReader, piece: InputPartition) -> list[int]:
        return [int(body) for batch in reader.read(piece) for body in batch.column("body").to_pylist()]

    # The queue as a sink.

    def _to_queue(self, reader: ConsumeReader, pieces: Any, number: int) -> None:
        options = read_write_options({"url": "http://m0:1", "queue": COPIES})
        writer = StreamWriter(options)
        staged: list[Staged | None] = []
        try:
            for partition, piece in enumerate(pieces):
                staged.append(self._attempts_of(writer, reader, piece, partition, number))
            self.faults.point()
            StreamWriter(options).commit(staged, number)
        except TaskError:
            StreamWriter(options).abort([*staged, None], number)
            raise

    def _attempts_of(
        self, writer: StreamWriter, reader: ConsumeReader, piece: InputPartition, partition: int, batch: int
    ) -> Staged:
        """Attempts that fail after they have staged everything; two at once, of which one counts."""
        for _ in range(4):
            attempts = [self._stage(writer, reader, piece, partition, batch)]
            if self.faults.happens(0.1):
                attempts.append(self._stage(writer, reader, piece, partition, batch))
            if not self.faults.happens(0.1):
                return self.rand.choice(attempts)
        raise TaskError

    def _stage(
        self, writer: StreamWriter, reader: ConsumeReader, piece: InputPartition, partition: int, batch: int
    ) -> Staged:
        self._attempts += 1
        self._now = (partition, batch)
        return writer.write(_named(reader.read(piece)))

    def _context(self) -> SimpleNamespace:
        partition, batch = self._now
        properties = {"sql.streaming.queryId": _QUERY, "streaming.sql.batchId": str(batch)}
        return SimpleNamespace(
            taskAttemptId=lambda: self._attempts,
            partitionId=lambda: partition,
            getLocalProperty=properties.get,
        )

    # The end.

    def check(self) -> None:
        assert not any(manager.left() for manager in self.managers.values()), "it does not come to an end"
        if self.to_queue:
            found = self.managers["m0"].copies()
        else:
            found = [number for _, rows in sorted(self.table.items()) for number in rows]
        assert sorted(found) == list(range(self.sent)), _difference(found, self.sent)


def _difference(found: list[int], sent: int) -> str:
    missing = sorted(set(range(sent)) - set(found))
    doubled = sorted({number for number in found if found.count(number) > 1})
    return f"missing {missing[:10]}, doubled {doubled[:10]} of {sent}"


def _named(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.select(["body"])


def _start_at_once(self: lanes.Lane, work: lanes.Work) -> None:
    self._thread = Done()  # type: ignore[assignment]
    self._run(work)
