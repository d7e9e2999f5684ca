"""Consumers by name: their epochs and their claims on queues."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tiercel.engine.catalog import Catalog
from tiercel.engine.claim_records import (
    ClaimRow,
    decode_claim,
    decode_consumer,
    encode_consumer,
    is_claim_key,
)
from tiercel.engine.core import Core, Counter
from tiercel.engine.queue_state import QueueState
from tiercel.model.errors import (
    ConsumerFencedError,
    ConsumerNotFoundError,
    IllegalOperationError,
    InsufficientResourcesError,
    InvalidParameterError,
    StoreDamagedError,
)
from tiercel.store.interface import Keyspace

MAX_CONSUMERS = 1000  # each may hold messages for ever, so their number is bounded
ROW_BYTES = 256  # of a consumer or one of its claims, with the store's overhead

_CONSUMERS = Keyspace.CONSUMERS
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)


@dataclass(slots=True)
class Consumer:
    name: str
    epoch: int = 0
    last_seen: int = 0
    claims: dict[int, ClaimRow] = field(default_factory=dict)  # by the slot of the queue
    attached: set[QueueState] = field(default_factory=set)  # that its present owner has named

    def claim_on(self, queue: QueueState) -> ClaimRow:
        """Its claim on a queue; a new one, not stored yet, when it has claimed nothing there."""
        row = self.claims.get(queue.slot)
        identifier = queue.queue.identifier
        return row or ClaimRow(consumer=self.name, queue_slot=queue.slot, slot=0, queue=identifier)


class Consumers:
    def __init__(self, core: Core, catalog: Catalog) -> None:
        self._core = core
        self._catalog = catalog
        self._epochs = Counter(core, "consumer_epoch")
        self._by_name: dict[str, Consumer] = {}

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self._by_name.values())

    def attach(self, name: str, *, create: bool) -> Consumer:
        """The consumer in a new epoch; needs no room, because a consumer may empty a full store."""
        consumer = self._by_name.get(name)
        if consumer is None:
            self._check_new(name, create=create)
        consumer = self._by_name.setdefault(name, Consumer(name))
        self.fence(consumer)
        return consumer

    def _check_new(self, name: str, *, create: bool) -> None:
        if not _NAME.fullmatch(name):
            fix = "use 1 to 64 letters, digits, dots, underscores and hyphens"
            raise InvalidParameterError("name of the consumer", present=ascii(name)[:80], fix=fix)
        if not create:
            raise ConsumerNotFoundError(f"consumer {name}")
        if len(self._by_name) >= MAX_CONSUMERS:
            fix, problem = "forget unused consumers", "there are too many"
            raise InsufficientResourcesError("consumers", problem=problem, limit=MAX_CONSUMERS, fix=fix)

    def fence(self, consumer: Consumer) -> None:
        """Begins a new epoch: callers with the old one are refused from now on. Epochs are unique."""
        consumer.epoch, consumer.last_seen = self._epochs.next(), self._core.seconds
        consumer.attached.clear()
        row = encode_consumer(consumer.epoch, consumer.last_seen)
        self._core.batch.put(_CONSUMERS, consumer.name.encode(), row)

    def find(self, name: str) -> Consumer:
        consumer = self._by_name.get(name)
        if consumer is None:
            raise ConsumerNotFoundError(f"consumer {ascii(name)[:80]}")
        return consumer

    def current(self, name: str, epoch: int, queue: QueueState | None = None) -> Consumer:
        """The consumer, if it is still in this epoch; the error says when its owner reads other queues."""
        consumer = self.find(name)
        if epoch == consumer.epoch:
            return consumer
        present, limit = f"epoch {epoch}", f"epoch {consumer.epoch}"
        if queue is None or not consumer.attached or queue in consumer.attached:
            raise ConsumerFencedError(f"consumer {name}", present=present, limit=limit)
        others = ", ".join(sorted(str(each.queue.pathname) for each in consumer.attached))
        raise ConsumerFencedError(
            f"consumer {name}",
            problem=f"it was attached since for other queues ({others[:200]})",
            present=present,
            limit=limit,
            fix="use a consumer of its own for each source, or one source for all the queues",
        )

    def forget(self, name: str) -> None:
        consumer = self.find(name)
        held = sum(row.count for row in consumer.claims.values())
        if held:
            fix = "acknowledge or release them first"
            raise IllegalOperationError(f"consumer {name}", problem=f"it holds {held} messages", fix=fix)
        del self._by_name[name]
        self._core.batch.delete(_CONSUMERS, name.encode())
        for row in consumer.claims.values():
            self.drop(row, self.queue(row))

    # Claims.

    def queue(self, row: ClaimRow) -> QueueState:
        return self._catalog.by_slot[row.queue_slot]

    def keep(self, consumer: Consumer, queue: QueueState, row: ClaimRow) -> None:
        """Gives a new claim its place in the store."""
        if not row.slot:
            row.slot = self._catalog.new_slot()
            consumer.claims[queue.slot] = row
            queue.consumers += 1

    def count(self, queue: QueueState, row: ClaimRow, count: int, size: int) -> None:
        row.count += count
        # The size of a damaged record is a guess; an empty claim holds no bytes.
        if not row.count or row.size_bytes + size < 0:
            size = -row.size_bytes
        row.size_bytes += size
        queue.claim(self._core, count, size)

    def save(self, row: ClaimRow) -> None:
        if row.slot:
            row.last_seen = self._by_name[row.consumer].last_seen
            self._core.batch.put(_CONSUMERS, row.key, row.encode())

    def drop(self, row: ClaimRow, queue: QueueState) -> None:
        self._core.batch.delete(_CONSUMERS, row.key)
        queue.consumers -= 1
        self._catalog.drop_empty_subqueue(queue)

    def load(self) -> None:
        """Reads the consumers and their claims, but none of the messages."""
        for key, data in self._core.batch.range(_CONSUMERS, b"\0", b"\xff"):
            if is_claim_key(key):
                self._load_claim(decode_claim(key, data))
            else:
                self._by_name[key.decode()] = Consumer(key.decode(), *decode_consumer(key, data))

    def _load_claim(self, row: ClaimRow) -> None:
        consumer, queue = self._by_name.get(row.consumer), self._catalog.by_slot.get(row.queue_slot)
        if consumer is None or queue is None:
            problem = "the consumer or the queue that it belongs to is lost"
            raise StoreDamagedError(f"claim of consumer {row.consumer}", problem=problem)
        consumer.claims[row.queue_slot] = row
        consumer.last_seen = max(consumer.last_seen, row.last_seen)
        queue.consumers += 1
        queue.claim(self._core, row.count, row.size_bytes)
