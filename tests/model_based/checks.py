"""What must hold of the engine after every step, whatever the step was."""

from collections import Counter

from tiercel.engine.handles import OpenQueue
from tiercel.engine.queue_state import QueueState
from tiercel.engine.records import decode_record, decode_stats, slot_key, split_expiry_key, split_message_key
from tiercel.engine.transaction import Operation, Transaction
from tiercel.model.codes import TransactionalOperationType
from tiercel.sim.recorded_lives import disagreements
from tiercel.store import Keyspace

from .engine_world import EngineWorld, Line, name_of
from .reference import ACK_RECEIVE

HAD_ARRIVED = 0x4000  # a bit of the class: the message was in its queue before it ended
_ENQUEUE = TransactionalOperationType.ENQUEUE


def check_sizes(world: EngineWorld) -> None:
    """Every count and size is the sum of what is there: queues, reservations, the total, the store's own."""
    core, total = world.engine._core, 0
    pending: Counter[QueueState] = Counter()
    for operation in operations(world):
        if operation.kind == _ENQUEUE:
            pending[operation.queue] += len(operation.record.packet)
    claimed: dict[int, list[int]] = {}
    for claim in world.claim_rows():
        sizes = [len(record.packet) for _, record in world.claimed(claim)]
        assert (claim.count, claim.size_bytes) == (len(sizes), sum(sizes)), "what a claim says of itself"
        claimed.setdefault(claim.queue_slot, []).extend(sizes)
    for state in world.states():
        seen = world.look_at(state)
        size = sum(each.size for each in seen)
        held = claimed.get(state.slot, [])
        assert (state.claimed_count, state.claimed_bytes) == (len(held), sum(held)), "what is claimed of it"
        assert (state.count, state.size_bytes) == (len(seen), size), f"size of {name_of(state)}"
        assert state.held_bytes == pending[state], f"reservations of {name_of(state)}"
        kept = [each.size for each in seen if each.is_recoverable]
        row = world.store.spaces[Keyspace.STATS].get(slot_key(state.slot))
        assert (decode_stats(row) if row else (0, 0)) == (len(kept), sum(kept)), "what the store says of it"
        total += size + state.held_bytes + state.claimed_bytes
    gone = sum(size for state, size in pending.items() if state.is_deleted)
    assert core.total_bytes - gone == total, "the size of all queues together"


def check_no_orphans(world: EngineWorld) -> None:
    """Every row of the store belongs to something that is there."""
    slots = set(world.engine._catalog.by_slot)
    spaces = world.store.spaces
    messages = {split_message_key(key) for key in spaces[Keyspace.MESSAGES]}
    assert {slot for slot, _ in messages} <= slots, "messages of no queue"
    claims = {row.slot: row for row in world.claim_rows()}
    assert {row.queue_slot for row in claims.values()} <= slots, "a claim on no queue"
    held = {split_message_key(key)[0] for key in spaces[Keyspace.CLAIMED]}
    assert held <= set(claims), "claimed messages of no claim"
    assert {split_expiry_key(key)[1:] for key in spaces[Keyspace.EXPIRIES]} <= messages, "expiry of nothing"
    living = {each.id.bytes for each in world.engine.transactions._living.values()}
    assert {key[:16] for key in spaces[Keyspace.TRANSACTIONS]} <= living, "operations of no transaction"


def check_locks(world: EngineWorld) -> None:
    """No lock without a living owner and a message, and no operation without its lock."""
    living = set(world.engine.transactions._living.values())
    for state in world.states():
        present = {seen.lookup_id for seen in world.look_at(state)}
        for lookup_id, lock in state.locks.items():
            assert lookup_id in present, f"{name_of(state)}: a lock on no message"
            if isinstance(lock.owner, OpenQueue):
                assert lock.owner.is_open, f"{name_of(state)}: a lock of a closed handle"
                assert lock.owner.state is state
            else:
                assert lock.owner in living, f"{name_of(state)}: a lock of an ended transaction"
                assert any(_is_on(operation, state, lookup_id) for operation in lock.owner.operations)
    for operation in operations(world):
        if operation.kind != _ENQUEUE and not operation.queue.is_deleted:
            own = operation.queue.locks.get(operation.lookup_id)
            assert own is not None, "an operation without its lock"
            assert isinstance(own.owner, Transaction)


def check_waiters(world: EngineWorld) -> None:
    """Whoever waits is in the line of an open queue, is not done, and has a timer if he wants one."""
    for state in world.states():
        for waiter in state.waiters:
            assert not waiter.is_done, "who is served waits no more"
            assert waiter.opened.is_open
            assert waiter.opened.state is state
            if waiter.deadline is not None:
                next_deadline = world.engine.next_deadline
                assert next_deadline is not None
                assert next_deadline <= waiter.deadline
            if waiter.transaction is not None:
                assert waiter.transaction in world.engine.transactions._living.values()


def check_conservation(world: EngineWorld) -> None:
    """Sent = present + in a transaction + received + discarded + lost with a restart, message by message."""
    fates = world.fates
    count: Counter[str] = fates.received + fates.discarded + fates.lost + fates.withdrawn
    for state in world.states():
        count.update(seen.name for seen in world.look_at(state) if not seen.is_copy)
    for row in world.claim_rows():
        count.update(world.name(record) for _, record in world.claimed(row) if not record.is_copy)
    for operation in operations(world):
        if operation.kind == _ENQUEUE:
            count[world.name(operation.record)] += 1
    wrong = {name: count[name] for name in fates.sent if count[name] != 1}
    assert not wrong, f"each must be in one place, once: {wrong}"
    never_given = {name for name in fates.received if name in fates.sent and not fates.given[name]}
    assert not never_given, f"received by nobody: {never_given}"


def note_fates(world: EngineWorld, lines: list[Line]) -> None:
    """Counts who was received and who was discarded since the last step; copies do not count."""
    for gone in world.removed:
        received = gone.reason == ACK_RECEIVE
        (world.fates.received if received else world.fates.discarded)[gone.name] += 1
    world.removed = []
    refused = [line.name for line in lines if not line.reason & HAD_ARRIVED]
    world.fates.discarded.update(refused)


def check_engine(world: EngineWorld) -> None:
    check_sizes(world)
    check_no_orphans(world)
    check_locks(world)
    check_waiters(world)
    check_conservation(world)
    check_life(world)


def check_life(world: EngineWorld) -> None:
    """What is recorded of each message agrees with where it is."""
    packets = (decode_record(data).packet for data in world.store.spaces[Keyspace.MESSAGES].values())
    world.ever_stored |= {packet[16:32] + packet[56:60] for packet in packets}
    with world.store.snapshot() as view:
        wrong = list(disagreements(view, world.ever_stored.__contains__))
    assert not wrong, "what is recorded of each message"


def operations(world: EngineWorld) -> list[Operation]:
    return [each for tx in world.engine.transactions._living.values() for each in tx.operations]


def _is_on(operation: Operation, state: QueueState, lookup_id: int) -> bool:
    return operation.queue is state and operation.lookup_id == lookup_id and operation.kind != _ENQUEUE
