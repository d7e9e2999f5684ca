"""State that all parts of the engine share while a batch runs: the store's batch, the time, the effects."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from tiercel.engine.discards import Ledger
from tiercel.engine.life import Life
from tiercel.engine.records import Record, encode_stats, message_key, slot_key, stored_packet_size
from tiercel.model.codes import CoordinatorAnswer, MessageClass
from tiercel.model.errors import StoreDamagedError, StoreFailedError
from tiercel.model.identifiers import MessageId
from tiercel.store.interface import Batch, Keyspace, Store

if TYPE_CHECKING:
    from tiercel.engine.handles import Waiter
    from tiercel.engine.queue_state import QueueState

# Numbers are reserved in blocks, so that giving one out needs no write of its own.
COUNTER_BLOCK = 4096


class Completed(NamedTuple):
    """A waiting read has its message, or the error that ended the wait."""

    waiter: "Waiter"


class Removed(NamedTuple):
    """A message left its queue, and why; only with `tells_removed`."""

    queue: "QueueState"
    record: Record
    reason: MessageClass


class Refused(NamedTuple):
    """A message never came into its queue; for the log."""

    queue: str
    message: MessageId
    reason: str


class Answered(NamedTuple):
    """The answer to a request of a transaction's coordinator."""

    transaction: UUID
    answer: CoordinatorAnswer


Effect = Completed | Removed | Refused | Answered


def earliest(*deadlines: float | None) -> float | None:
    """The earliest of the given times, None if there is none."""
    known = [each for each in deadlines if each is not None]
    return min(known) if known else None


class Counter:
    """Unique across crashes; numbers may be skipped after a restart."""

    __slots__ = ("_core", "_key", "_reserved", "_value")

    def __init__(self, core: "Core", name: str) -> None:
        self._core = core
        self._key = name.encode()
        stored = core.batch.get(Keyspace.META, self._key)
        if stored is not None and len(stored) != 8:  # a repeated number would be worse than not starting
            raise StoreDamagedError(f"counter {name}", present=f"{len(stored)} bytes", limit="8 bytes")
        self._value = self._reserved = int.from_bytes(stored or b"", "big")

    @property
    def last(self) -> int:
        """The last number given out."""
        return self._value

    def next(self) -> int:
        if self._value == self._reserved:
            self._reserved += COUNTER_BLOCK
            self._core.batch.put(Keyspace.META, self._key, self._reserved.to_bytes(8, "big"))
        self._value += 1
        return self._value

    def next_many(self, count: int) -> range:
        """The next `count` numbers."""
        first = self._value + 1
        self._value += count
        if self._value > self._reserved:
            while self._value > self._reserved:
                self._reserved += COUNTER_BLOCK
            self._core.batch.put(Keyspace.META, self._key, self._reserved.to_bytes(8, "big"))
        return range(first, first + count)


class Core:
    def __init__(
        self, store: Store, new_guid: Callable[[], UUID], *, tells_removed: bool = False, life_bytes: int = 0
    ) -> None:
        self.new_guid = new_guid
        self.tells_removed = tells_removed
        self.now = 0.0
        self.seconds = 0  # the same in whole seconds
        self.failure: StoreFailedError | None = None
        self.pending_bytes = 0  # of sends that wait for their commit, for which the store must keep room
        self.total_bytes = 0  # of all messages in all queues, and of sends that wait for their commit
        self.effects: list[Effect] = []
        self.ready: dict[QueueState, None] = {}  # outgoing queues with something new to send
        self._store = store
        self._batch: Batch | None = None
        self._touched: dict[QueueState, None] = {}  # in the order of their first change, the same every run
        self.ledger = Ledger(self)
        self.life = Life(self, life_bytes, store.space().limit)

    @property
    def batch(self) -> Batch:
        """The store's batch, begun when it is first needed: express messages need none."""
        if self._batch is None:
            self._batch = self._store.begin()
        return self._batch

    def advance(self, now: float) -> None:
        """Time never runs backwards, whatever the clock does."""
        self.now = max(self.now, now)
        self.seconds = int(self.now)

    def set_aside_row(self, space: Keyspace, key: bytes, data: bytes, what: str, problem: object) -> None:
        """Moves a damaged record of another kind to the damaged ones, and logs it in the ledger."""
        self.batch.put(Keyspace.DAMAGED, space.encode() + key, data)
        self.batch.delete(space, key)
        self.ledger.add_sentence(what, len(data), f"the record is damaged: {problem}")

    def touch(self, queue: "QueueState") -> None:
        """Write the queue's count and size with the commit."""
        self._touched[queue] = None

    @property
    def has_changes(self) -> bool:
        return bool(self._touched)

    def set_aside(self, queue: "QueueState", lookup_id: int, data: bytes, problem: StoreDamagedError) -> None:
        """Takes a damaged record out of its queue, keeps its bytes, and logs it in the ledger."""
        key = message_key(queue.slot, lookup_id)
        self.batch.put(Keyspace.DAMAGED, Keyspace.MESSAGES.encode() + key, data)
        self.batch.delete(Keyspace.MESSAGES, key)
        queue.stored_count -= 1
        size = min(stored_packet_size(data), queue.stored_bytes) if queue.stored_count else queue.stored_bytes
        queue.stored_bytes -= size
        self.total_bytes -= size
        queue.publish()
        self.touch(queue)
        self.ledger.add_damaged(queue, lookup_id, len(data), problem)

    def reserve(self, size: int, writes: int = 1) -> None:
        """Asks the store for room, in addition to the pending sends of open transactions."""
        self.batch.reserve(size + self.pending_bytes, writes)

    def reserve_to_move(self, count: int, size: int) -> None:
        """`reserve` for records that replace others: the room is needed only until the commit."""
        self.batch.reserve_to_move(count, size + self.pending_bytes)

    def checkpoint(self) -> None:
        """Makes the batch so far durable, but releases no effects yet."""
        self._write()

    def fail(self, problem: str) -> None:
        """Aborts the batch for good: memory and store differ, so the engine cannot go on."""
        self.failure = StoreFailedError("queue manager", problem=problem, fix="close it, and open it again")
        self.effects.clear()
        if self._batch is not None:
            batch, self._batch = self._batch, None
            batch.abort()

    def commit(self) -> list[Effect]:
        """Makes everything since the last commit durable; returns its effects, which may leave now."""
        try:
            self._write()
        except BaseException as problem:
            self.fail(f"the last batch could not be made durable ({problem})")
            raise
        effects, self.effects = self.effects, []
        return effects

    def _write(self) -> None:
        self.ledger.flush()
        if self._touched:  # else there may be nothing to write
            self.life.flush()
        for queue in self._touched:
            if not queue.is_deleted:
                stats = encode_stats(queue.stored_count, queue.stored_bytes)
                self.batch.put(Keyspace.STATS, slot_key(queue.slot), stats)
        self._touched.clear()
        if self._batch is not None:
            batch, self._batch = self._batch, None
            batch.commit()
