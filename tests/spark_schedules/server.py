"""Queue managers in this process: the engine and the operations of the data endpoint, on a store in memory.

A client has the methods of `DataClient`, and its calls go wrong as calls over a network do: an answer is lost
after the work is done, the queue manager dies and comes back with what it had committed, and whoever called
dies himself.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from types import TracebackType
from typing import Any, Self, TypeVar
from unittest import mock

import pyarrow as pa

import tiercel
from pyspark_msmq.data_client import EndpointError, EndpointLostError
from pyspark_msmq.endpoints import Endpoint
from tiercel.admin.claims import Claims
from tiercel.admin.sources import Source
from tiercel.admin.stages import Stages
from tiercel.admin.waits import Waits
from tiercel.api.problems import problem_of
from tiercel.data import ranges, staged_rows
from tiercel.data.queries import Queries
from tiercel.engine.engine import Engine
from tiercel.engine.handles import Found, Waiter
from tiercel.engine.stage_records import StageId
from tiercel.model.errors import MqError
from tiercel.model.message import Message
from tiercel.server.driver import Driver
from tiercel.store.interface import Keyspace
from tiercel.store.memory_store import MemoryStore

T = TypeVar("T")
ORDERS, COPIES = r".\private$\orders", r".\private$\copies"


class KilledError(BaseException):
    """The driver is dead: nobody below catches this."""


class Faults:
    """What goes wrong, and when; all from one seed."""

    def __init__(self, rand: random.Random) -> None:
        self.rand = rand
        self.are_on = True
        self.kills = self.restarts = self.repeats = 0

    def happens(self, probability: float) -> bool:
        return self.are_on and self.rand.random() < probability

    def point(self) -> None:
        """A place where the driver may die."""
        if self.happens(0.04):
            self.kills += 1
            raise KilledError


class QueueManager:
    """A queue manager that can be killed between any two calls, and its messages."""

    def __init__(self, faults: Faults, *, transactional: bool) -> None:
        self.faults = faults
        self._loop = asyncio.new_event_loop()
        self._store = MemoryStore()
        self._start()
        self.open.create_queue(ORDERS, transactional=transactional)
        self.open.create_queue(COPIES, transactional=True)
        self._is_transactional = transactional

    def _start(self) -> None:
        with mock.patch("tiercel.server.driver.open_store", return_value=self._store):
            self.open = tiercel.open("memory:", computer_name="SRV")
        self.driver: Driver = self.open._runtime.driver
        self.claims, self.stages, self.queries = Claims(self, Waits()), Stages(self), Queries(self)

    def restart(self) -> None:
        """As after kill -9: the last commit is what there is."""
        self.faults.restarts += 1
        self._store = self._store.crash()
        self._start()

    def close(self) -> None:
        self._loop.close()

    # As the runner of the operations.

    turns = 0

    def call(self, command: Callable[[Engine], T], *, is_last: bool = False) -> "asyncio.Future[T]":  # noqa: ARG002  # it always is
        future: asyncio.Future[T] = self._loop.create_future()
        try:
            future.set_result(self.driver.run(lambda: command(self.driver.engine)))
        except MqError as problem:
            future.set_exception(problem)
        return future

    async def read(self, command: Callable[[Engine], Found | Waiter]) -> Found:
        raise NotImplementedError  # nobody receives here

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    # What tests look at.

    def send(self, numbers: Iterable[int]) -> None:
        queue = self.open.queue(ORDERS)
        if self._is_transactional:
            with self.open.transaction() as transaction:
                for number in numbers:
                    queue.send(Message(b"%d" % number, delivery=1), transaction=transaction)
            return
        for number in numbers:
            queue.send(Message(b"%d" % number, delivery=1))

    def copies(self) -> list[int]:
        return [int(message.body) for message in self.open.queue(COPIES).cursor()]

    def left(self) -> int:
        """Messages that are visible or claimed."""
        claimed = self.driver.run(lambda: sum(each.count for each in self.driver.engine.claims.all()))
        return self.open.queue(ORDERS).count + claimed

    # As the reader of the data process.

    @contextmanager
    def piece(
        self, space: Keyspace, at_least: bytes, below: bytes, max_rows: int, _max_bytes: int
    ) -> Iterator[tuple[list[memoryview], list[memoryview]]]:
        with self._store.snapshot() as view:
            found = list(islice(view.range(space, at_least, below), max_rows))
            yield [memoryview(key) for key, _ in found], [memoryview(value) for _, value in found]


class Client:
    """The methods of `DataClient`, without a connection."""

    managers: Mapping[str, QueueManager] = {}  # by host, for the schedule that runs now

    def __init__(self, endpoint: Endpoint, *, patience_s: float = 60.0) -> None:
        self._qm = self.managers[endpoint.url.host]
        self._endpoint = endpoint
        self.patience_s = patience_s

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def close(self) -> None:
        pass

    def queues(self, pattern: str | None = None, source: str = "queue") -> dict[str, Any]:
        return self._ask(lambda: self._qm.queries.queues(pattern, Source(source)))

    def head(self, queue: str | None, source: str = "queue", consumer: str | None = None) -> dict[str, Any]:
        return self._ask(lambda: self._qm.queries.head(queue, Source(source), consumer, None))

    def attach(self, consumer: str, queues: Sequence[str], epoch: int | None = None) -> dict[str, Any]:
        return self._ask(lambda: self._qm.claims.attach(consumer, list(queues), create=True, epoch=epoch))

    def look(self, consumer: str, queues: Sequence[str]) -> dict[str, Any]:
        return self._ask(
            lambda: self._qm.claims.attach(consumer, list(queues), create=True, epoch=None, dry_run=True)
        )

    def claim(self, consumer: str, **what: Any) -> dict[str, Any]:
        options = {"start": what["start"], "limit": what["limit"], "byte_limit": what["bytes"]}
        return self._ask(
            lambda: self._qm.claims.claim(
                consumer, what["epoch"], what["queue"], **options, acknowledge=0, wait_s=0
            )
        )

    def acknowledge(self, consumer: str, epoch: int, queue: str, up_to: int) -> None:
        self._ask(lambda: self._qm.claims.acknowledge(consumer, epoch, queue, up_to))

    def stage(self, stage: str, chunk: int, payload: pa.Buffer) -> int:
        data = payload.to_pybytes()
        rows = staged_rows.check(data)
        self._ask(lambda: self._qm.stages.stage(StageId.parse(stage), chunk, data, rows))
        return rows

    def publish(self, app: str, batch: str, stages: Sequence[str], **more: Any) -> dict[str, Any]:
        ids, rows_of = [StageId.parse(each) for each in stages], staged_rows.rows_of(more["queue"])
        return self._ask(
            lambda: self._qm.stages.publish(app, batch, ids, rows_of, transactional=more["transactional"])
        )

    def discard(self, app: str, batch: str, *, for_good: bool) -> None:
        self._ask(lambda: self._qm.stages.discard(app, batch, for_good=for_good))

    def range(self, query: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        place = self._ask(lambda: self._qm.queries.place(query["queue"], Source.QUEUE, query["consumer"]))
        projection = ranges.Projection(tuple(query["columns"].split(",")), None, query["badMessageMode"])
        where = ranges.StoredQueue.of_answer(place)
        yield from ranges.claimed(self._qm, where, query["lo"], query["hi"], projection)  # type: ignore[arg-type]

    def _ask(self, request: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The caller may die before and after, the queue manager too; a lost answer is asked for again."""
        faults, qm = self._qm.faults, self._qm
        faults.point()
        if faults.happens(0.03):
            qm.restart()
            self._lose()
        answer = self._answer(request)
        faults.point()
        if faults.happens(0.03):
            qm.restart()
            self._lose()
            answer = self._answer(request)
        elif faults.happens(0.05):
            faults.repeats += 1
            answer = self._answer(request)
        return answer

    def _lose(self) -> None:
        """A client without patience tells its caller; another one asks again."""
        if not self.patience_s:
            raise EndpointLostError(f"{self._endpoint}: connection lost")

    def _answer(self, request: Callable[[], Coroutine[Any, Any, T]]) -> T:
        try:
            return self._qm.run(request())
        except MqError as error:
            problem = problem_of(error)
            raise EndpointError(str(problem["detail"]), int(str(problem["status"])), error.name) from error
