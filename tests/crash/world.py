"""A queue manager for scenarios, and what can be seen of one in a line per queue."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import tiercel
from tiercel.engine.check import Checker
from tiercel.engine.claims import Claimed, ClaimStatus
from tiercel.engine.queue_state import QueueState
from tiercel.engine.records import decode_record
from tiercel.engine.stage_records import BY_NAME, Ending, decode_outcome
from tiercel.model.codes import MessageClass
from tiercel.model.identifiers import MessageId, TxSequenceId
from tiercel.server.driver import Driver
from tiercel.store import Keyspace, Store
from tiercel.wire.message import decode_message
from tiercel.wire.user_message import UserMessage

START = 1_700_000_000


def open_on(store: Store, clock: Callable[[], float]) -> tiercel.EmbeddedQueueManager:
    """The embedded queue manager on any store, in place of the one that it would open itself."""
    with patch("tiercel.server.driver.open_store", return_value=store):
        return tiercel.open("unused", computer_name="HOST", clock=clock)


class World:
    """What a scenario acts on. `reopen` gives the store after a crash, and the hook keeps counting there."""

    def __init__(self, store: Store, reopen: Callable[[Store], Store]) -> None:
        self.store = store
        self.now = float(START)
        self.qm = open_on(store, lambda: self.now)
        self.known_ids: set[MessageId] = set()  # of sends that were acknowledged
        self._in_batch: list[tuple[MessageId, int]] = []
        self.known_lookup_ids: set[int] = set()
        self._reopen = reopen

    @property
    def driver(self) -> Driver:
        return self.qm.driver

    def queue(self, name: str) -> tiercel.EmbeddedQueue:
        return self.qm.queue(rf".\private$\{name}")

    def create(self, name: str, **properties: Any) -> tiercel.EmbeddedQueue:
        return self.qm.create_queue(rf".\private$\{name}", **properties)

    def send(
        self,
        queue: str,
        *labels: str,
        transaction: tiercel.EmbeddedTransaction | None = None,
        delivery: tiercel.DeliveryGuarantee = tiercel.DeliveryGuarantee.RECOVERABLE,
        **properties: Any,
    ) -> None:
        for label in labels:
            message = tiercel.Message(label.encode() * 50, label=label, delivery=delivery, **properties)
            self._know(self.queue(queue).send(message, transaction=transaction), 0)

    def _know(self, message_id: MessageId, lookup_id: int) -> None:
        self._in_batch.append((message_id, lookup_id))
        if not self.driver._batches:
            self.acknowledged()

    def acknowledged(self) -> None:
        """A call has returned, and no batch is open: its numbers are known to the world."""
        self.known_ids.update(message_id for message_id, _ in self._in_batch)
        self.known_lookup_ids.update(lookup_id for _, lookup_id in self._in_batch)
        self._in_batch.clear()

    def receive(
        self, queue: str, *, transaction: tiercel.EmbeddedTransaction | None = None
    ) -> tiercel.Message:
        message = self.queue(queue).receive(0, transaction=transaction)
        self._know(message.id, message.lookup_id)
        return message

    def prepare(self, transaction: tiercel.EmbeddedTransaction) -> None:
        engine = self.driver.engine
        self.driver.run(lambda: engine.transactions.prepare(transaction.of(self.driver).id))

    def end_in_doubt(self, *, commit: bool) -> None:
        """The coordinator has decided about every transaction that is in doubt."""
        transactions = self.driver.engine.transactions
        with self.qm.batch():
            for each in list(transactions.in_doubt()):
                (transactions.commit if commit else transactions.abort)(each.id)

    def wait(self, seconds: float) -> None:
        """Time passes, and what is due happens."""
        self.now += seconds
        self.driver.run(lambda: None)

    def restart(self) -> None:
        """The machine stops and starts again."""
        self.store = self._reopen(self.store)
        self.qm = open_on(self.store, lambda: self.now)


@contextmanager
def opened(store: Store, now: float) -> Iterator[tiercel.EmbeddedQueueManager]:
    qm = open_on(store, lambda: now)
    try:
        yield qm
    finally:
        qm.close()


def problems_of(store: Store) -> list[str]:
    """Counts against a recount, expiries against messages, orphans, reserved numbers: what check knows."""
    with store.snapshot() as view:
        return [str(problem) for problem in Checker(view).problems()]


def observe(qm: tiercel.EmbeddedQueueManager) -> str:
    """Every queue with its messages in order, one line each; journals and the like only when they hold any.

    (label) is taken and not yet kept, label~2 was given back twice, <ACK_RECEIVE> is an acknowledgement.
    """
    lines = []
    with qm.batch():
        engine = qm.driver.engine
        for state in sorted(engine._catalog.by_slot.values(), key=_local_name):
            labels = [_describe(state, *found) for found in messages(qm, state)]
            if labels or engine.queues.is_visible(state):
                lines.append(f"{_name(state)}: {' '.join(labels)}".rstrip())
            assert state.count == len(labels), f"{state} counts {state.count}"
        lines += [_describe_claim(qm, status) for status in engine.claims.all()]
        discards = [line.label or line.reason for line in engine.ledger.lines()]
        in_doubt = list(engine.transactions.in_doubt())
        staged = [f"{stage.id}={stage.rows}" for stage in engine.stages.stages()]
        batches = [_ending(*row) for row in engine.batch.range(Keyspace.PUBLISHED, BY_NAME, b"\xff")]
    lines += [f"discards: {' '.join(discards)}"] if discards else []
    lines += [f"in doubt: {len(in_doubt)}"] if in_doubt else []
    lines += [f"batches: {' '.join(batches)}"] if batches else []
    lines += [f"staged: {' '.join(staged)}"] if staged else []
    return "\n".join(lines)


def _ending(name: bytes, data: bytes) -> str:
    """app/batch=7 was published as 7 messages, app/batch! was discarded."""
    outcome = decode_outcome(data)
    return name.decode() + ("!" if outcome.ending is Ending.DISCARDED else f"={outcome.messages}")


def _describe_claim(qm: tiercel.EmbeddedQueueManager, status: ClaimStatus) -> str:
    """One line as "spark holds a 2-4: x y z": the numbers are those of the first and the last message."""
    found = held(qm, status)
    labels = [_label(UserMessage(each.record.packet), each.record.abort_count) for each in found]
    assert [each.claim_seq for each in found] == list(range(status.lo + 1, status.hi + 1)), "a gap"
    assert (status.count, status.size_bytes) == (len(found), sum(len(each.record.packet) for each in found))
    queue = status.queue.rpartition("\\")[2]
    return f"{status.consumer} holds {queue} {status.lo + 1}-{status.hi}: {' '.join(labels)}".rstrip()


def held(qm: tiercel.EmbeddedQueueManager, status: ClaimStatus) -> list[Claimed]:
    engine = qm.driver.engine
    state = next(
        each for each in engine._catalog.by_slot.values() if each.queue.identifier == status.identifier
    )
    return list(engine.claims.messages(status.consumer, state, status.lo, status.hi))


def messages(qm: tiercel.EmbeddedQueueManager, state: QueueState) -> Iterator[tuple[int, UserMessage, int]]:
    """Lookup id, packet and abort count of every message in a queue, taken or not."""
    core = qm.driver.engine._core
    at = 0
    while (found := state.at_or_after(core, at)) is not None:
        lookup_id, data = found
        record = decode_record(data) if isinstance(data, bytes) else data
        yield lookup_id, UserMessage(record.packet), record.abort_count
        at = lookup_id + 1


def _describe(state: QueueState, lookup_id: int, packet: UserMessage, aborts: int) -> str:
    text = _label(packet, aborts)
    return f"({text})" if lookup_id in state.locks else text


def _label(packet: UserMessage, aborts: int) -> str:
    text = packet.label
    if not text:
        text = next(f"<{each.name}>" for each in MessageClass if each == packet.message_class)
    return f"{text}~{aborts}" if aborts else text


def _local_name(state: QueueState) -> str:
    path = state.queue.pathname
    if path is None:
        return state.queue.label.rpartition("\\")[2]
    return path.local_name.removeprefix("private$\\")


def _name(state: QueueState) -> str:
    label = "" if state.is_outgoing else state.queue.label
    return f"{_local_name(state)}[{label}]" if label else _local_name(state)


def all_ids(qm: tiercel.EmbeddedQueueManager) -> tuple[list[int], list[MessageId]]:
    lookup_ids, ids = [], []
    with qm.batch():
        for state in list(qm.driver.engine._catalog.by_slot.values()):
            for lookup_id, packet, _ in messages(qm, state):
                lookup_ids.append(lookup_id)
                ids.append(packet.id)
        for status in qm.driver.engine.claims.all():
            for each in held(qm, status):
                lookup_ids.append(each.lookup_id)
                ids.append(UserMessage(each.record.packet).id)
    return lookup_ids, ids


def sequence_numbers(qm: tiercel.EmbeddedQueueManager) -> list[tuple[TxSequenceId, int]]:
    """The place in its stream of every transactional message, but for copies in journals."""
    found = []
    with qm.batch():
        for state in list(qm.driver.engine._catalog.by_slot.values()):
            for _, packet, _ in messages(qm, state) if not state.keeps_messages else ():
                message = decode_message(packet)
                if message.is_transactional:
                    found.append((message.tx_sequence_id, message.tx_sequence_number))
    return found
