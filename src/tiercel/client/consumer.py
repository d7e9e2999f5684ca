r"""A consumer takes messages in batches that it can read again, and acknowledges them when it is done.

    spark = qm.consumer("spark")
    for message in spark.claim("orders", 1000):
        ...
    spark.acknowledge("orders", message.claim_seq)

Messages that were claimed and not acknowledged are given again, in the same order and with the same numbers,
to the next client that attaches the same name. A name has one user at a time: attaching takes it over.
"""

from collections.abc import Iterator
from itertools import islice
from uuid import UUID

from tiercel.client.blocking import blocking, run_at_once
from tiercel.client.interfaces import QueueName
from tiercel.client.translate import check_number, format_name_of
from tiercel.engine import claims as engine_claims
from tiercel.engine.messages import set_record
from tiercel.engine.queue_state import QueueState
from tiercel.model.format_name import FormatName
from tiercel.model.message import ReceivedMessage
from tiercel.server.driver import Driver
from tiercel.wire.message import reader_of
from tiercel.wire.user_message import UserMessage

_SLICE = 1000  # messages per batch of the store, so that others get their turn
_READ = 100  # messages in memory at once while a claim is read


class ClaimedMessage(ReceivedMessage):
    """A message that a consumer holds, with its number among those claimed from the queue."""

    __slots__ = ("claim_seq",)
    claim_seq: int

    @classmethod
    def of(cls, found: engine_claims.Claimed) -> "ClaimedMessage":
        message = cls.unread(reader_of(UserMessage(found.record.packet)))
        set_record(message, found.lookup_id, found.record)
        message.claim_seq = found.claim_seq
        return message


class Claim:
    """The messages lo + 1 to hi of a consumer; iterating reads them, any number of times."""

    def __init__(self, consumer: "AsyncConsumer", queue: FormatName, lo: int, hi: int) -> None:
        self._consumer = consumer
        self._queue = queue
        self.lo = lo
        self.hi = hi

    def __repr__(self) -> str:
        return f"<Claim {self.lo + 1} to {self.hi} of {self._consumer.name} on {self._queue}>"

    def __len__(self) -> int:
        return self.hi - self.lo

    def __iter__(self) -> Iterator[ClaimedMessage]:
        return self._consumer.messages(self._queue, self.lo, self.hi)


class AsyncConsumer:
    """Reading the messages of a claim needs no `await`: they are there."""

    def __init__(self, driver: Driver, name: str) -> None:
        self.name = name
        self._driver = driver
        self._claims = driver.engine.claims
        self._seen: dict[UUID, int] = {}  # the last number that was given out here, by queue
        self.epoch = driver.run(lambda: self._claims.attach(name))

    def __repr__(self) -> str:
        return f"<Consumer {self.name}, epoch {self.epoch}>"

    async def claim(
        self,
        queue: QueueName,
        limit: int = 1000,
        *,
        byte_limit: int | None = None,
        acknowledge: int = 0,
    ) -> Claim:
        """Takes up to `limit` messages, or as many as there are, and never waits.

        Messages that were claimed under this name and not acknowledged come first. Messages up to the number
        `acknowledge` end in the same step. The messages of one transaction are never split.
        """
        name = _name(queue)

        def take() -> engine_claims.Claim:
            state = self._state(name)
            status = self._claims.status(self.name, state)
            start = max(self._seen.get(status.identifier, 0), status.lo, acknowledge)
            taken = self._claims.claim(
                self.name, self.epoch, state, limit, byte_limit, start=start, acknowledge=acknowledge
            )
            self._seen[status.identifier] = taken.hi
            return taken

        taken = self._driver.run(take)
        return Claim(self, name, taken.lo, taken.hi)

    def messages(self, queue: QueueName, lo: int, hi: int) -> Iterator[ClaimedMessage]:
        """The messages lo + 1 to hi, as far as they are still held; damaged ones are left out."""
        name = _name(queue)

        def read() -> list[engine_claims.Claimed]:
            return list(islice(self._claims.messages(self.name, self._state(name), lo, hi), _READ))

        while lo < hi and (found := self._driver.run(read)):
            yield from map(ClaimedMessage.of, found)
            lo = found[-1].claim_seq

    async def acknowledge(self, queue: QueueName, up_to: int) -> int:
        """Ends the messages up to a number as received; returns how many there were."""
        name = _name(queue)
        floor = self._driver.run(lambda: self._claims.status(self.name, self._state(name)).lo)
        steps = range(floor + _SLICE, check_number("up_to", up_to), _SLICE)
        return sum(self._acknowledge(name, number) for number in (*steps, up_to))

    def _acknowledge(self, name: FormatName, up_to: int) -> int:
        acknowledge = self._claims.acknowledge
        return self._driver.run(lambda: acknowledge(self.name, self.epoch, self._state(name), up_to))

    async def release(self, queue: QueueName | None = None) -> None:
        """Gives back all messages that it holds, or those of one queue."""
        release(self._driver, self.name, queue)
        self._seen.clear()
        self.epoch = self._driver.run(lambda: self._claims.attach(self.name))

    def _state(self, name: FormatName) -> QueueState:
        return self._driver.engine.queues.get(name)


class Consumer:
    _run = staticmethod(run_at_once)

    def __init__(self, driver: Driver, name: str) -> None:
        self._target = AsyncConsumer(driver, name)

    def __repr__(self) -> str:
        return repr(self._target)

    @property
    def name(self) -> str:
        return self._target.name

    @property
    def epoch(self) -> int:
        """The number of this attachment; a later one refuses it."""
        return self._target.epoch

    def messages(self, queue: QueueName, lo: int, hi: int) -> Iterator[ClaimedMessage]:
        """The messages lo + 1 to hi, as far as they are still held; damaged ones are left out."""
        return self._target.messages(queue, lo, hi)

    claim = blocking(AsyncConsumer.claim)
    acknowledge = blocking(AsyncConsumer.acknowledge)
    release = blocking(AsyncConsumer.release)


def release(driver: Driver, consumer: str, queue: QueueName | None = None) -> None:
    """Gives back the messages of a consumer, a slice at a time; an attached client is then refused."""
    engine, name = driver.engine, None if queue is None else _name(queue)

    def give_back() -> int:
        state = None if name is None else engine.queues.get(name)
        return engine.claims.release(consumer, state, limit=_SLICE)

    while driver.run(give_back):
        pass


def _name(queue: QueueName) -> FormatName:
    return format_name_of(getattr(queue, "format_name", queue))
