"""Many messages at once: the same as one by one, but all or none."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiercel.engine.core import COUNTER_BLOCK, Counter
from tiercel.engine.handles import Found
from tiercel.engine.transaction import Transaction
from tiercel.model.codes import Acknowledgements, MessageClass, QueueAccess
from tiercel.model.errors import InsufficientResourcesError, MqError, TransactionUsageError
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message
from tiercel.model.path_name import PathName
from tiercel.store.interface import Keyspace
from tiercel.store.memory_store import MemoryStore

from .harness import RECOVERABLE, Box, World, found

FULL = Acknowledgements.POS_ARRIVAL | Acknowledgements.POS_RECEIVE


def send_many(box: Box, *messages: Message, transaction: Transaction | None = None) -> list[MessageId]:
    opened, engine = box.handle(QueueAccess.SEND), box.world.engine
    return box.world.run(lambda: engine.sending.send_many(opened, messages, transaction))


def receive_many(box: Box, limit: int, transaction: Transaction | None = None) -> list[Message]:
    opened, engine = box.receiving, box.world.engine
    return [
        found(each) for each in box.world.run(lambda: engine.reading.receive_many(opened, limit, transaction))
    ]


def messages(*bodies: bytes, **properties: Any) -> list[Message]:
    properties.setdefault("delivery", RECOVERABLE)
    return [Message(body, **properties) for body in bodies]


@contextmanager
def one_batch(world: World) -> Iterator[None]:
    """Commands in the block are made durable together."""
    run = world.run
    world.engine.begin(world.now)
    try:
        world.run = lambda command: command()  # type: ignore[method-assign]
        yield
    finally:
        world.run = run  # type: ignore[method-assign]
        world.effects = world.engine.commit()


@pytest.fixture
def box(world: World) -> Box:
    return world.create("q")


class TestSending:
    def test_in_their_order_and_with_their_ids(self, box: Box) -> None:
        sent = messages(b"a", b"b", b"c")
        ids = send_many(box, *sent)
        seen = box.messages()
        assert [message.body for message in seen] == [b"a", b"b", b"c"]
        assert [message.id for message in seen] == ids == [message.id for message in sent]
        assert len(set(ids)) == 3

    def test_one_object_several_times_is_several_messages(self, box: Box) -> None:
        message = Message(b"again", delivery=RECOVERABLE)
        ids = send_many(box, message, message, message)
        assert [each.id for each in box.messages()] == ids
        assert len(set(ids)) == 3

    def test_none_at_all(self, box: Box) -> None:
        assert send_many(box) == []
        assert box.state.count == 0

    def test_priorities_count(self, box: Box) -> None:
        box.send(b"first")
        send_many(box, *messages(b"low", priority=1), *messages(b"high", priority=7))
        assert box.bodies() == [b"high", b"first", b"low"]

    def test_they_outlive_a_kill(self, durable_world: World) -> None:
        box = durable_world.create("q")
        send_many(box, *messages(*[b"%d" % number for number in range(300)]))
        size = durable_world.total_bytes
        durable_world.kill()
        assert box.bodies() == [b"%d" % number for number in range(300)]
        assert durable_world.total_bytes == size

    def test_waiting_readers_are_served_first(self, world: World, box: Box) -> None:
        waiters = [box.wait(), box.wait()]
        send_many(box, *messages(b"a", b"b", b"c"))
        assert world.completed() == waiters
        assert [found(waiter.result()).body for waiter in waiters] == [b"a", b"b"]
        assert box.bodies() == [b"c"]

    def test_what_comes_of_a_message_comes_of_it(self, world: World, box: Box) -> None:
        admin = world.create("admin")
        own = PathName.parse(r".\private$\admin")
        send_many(
            box,
            *messages(b"acked", acknowledgements=FULL, administration_queue=admin.name),
            *messages(b"limited", time_to_be_received=5, negative_journaling=True, dead_letter_queue=own),
            *messages(b"journaled", positive_journaling=True),
            *messages(b"express", delivery=0),
            *messages(b"plain"),
        )
        assert box.bodies() == [b"acked", b"limited", b"journaled", b"express", b"plain"]
        assert world.journal.bodies() == [b"journaled"]
        assert admin.classes() == [MessageClass.ACK_REACH_QUEUE]
        world.sleep(6)
        assert admin.bodies() == [b"limited"]
        world.kill()
        assert box.bodies() == [b"acked", b"journaled", b"plain"]

    def test_in_a_transaction(self, world: World) -> None:
        box = world.create("t", transactional=True)
        with world.transaction() as transaction:
            send_many(box, *messages(b"a", b"b"), transaction=transaction)
            assert box.bodies() == []
        assert [message.last_in_transaction for message in box.messages()] == [False, True]

    def test_to_a_list_of_queues(self, world: World) -> None:
        one, two = world.create("one"), world.create("two")
        both = world.box(f"{one.name},{two.name}")
        send_many(both, *messages(b"a", b"b"))
        assert (one.bodies(), two.bodies()) == ([b"a", b"b"], [b"a", b"b"])

    def test_to_another_computer(self, world: World) -> None:
        far = world.box(r"DIRECT=TCP:10.9.8.7\private$\far")
        send_many(far, *messages(b"a", b"b"))
        assert far.state.count == 2


class TestAllOrNone:
    @pytest.mark.parametrize("how", [{}, {"time_to_be_received": 100}], ids=["plain", "not plain"])
    def test_when_one_is_wrong(self, world: World, box: Box, how: dict[str, Any]) -> None:
        wrong = Message(b"b", delivery=RECOVERABLE)
        wrong.label = "x" * 300
        with pytest.raises(MqError):
            send_many(box, *messages(b"a", **how), wrong, *messages(b"c"))
        assert (box.bodies(), world.total_bytes, world.engine._core.pending_bytes) == ([], 0, 0)

    def test_over_the_quota_of_the_queue(self, world: World) -> None:
        box = world.create("q", quota_kib=2)
        with pytest.raises(InsufficientResourcesError):
            send_many(box, *messages(b"a" * 600, b"b" * 600, b"c" * 600))
        assert (box.bodies(), world.total_bytes) == ([], 0)
        assert world.discarded() == [MessageClass.NACK_Q_EXCEED_QUOTA] * 3
        send_many(box, *messages(b"a" * 600, b"b" * 600))
        assert box.state.count == 2

    def test_in_a_transaction_that_goes_on(self, world: World) -> None:
        box = world.create("t", transactional=True, quota_kib=2)
        with world.transaction() as transaction:
            send_many(box, *messages(b"before"), transaction=transaction)
            with pytest.raises(InsufficientResourcesError):
                send_many(box, *messages(b"a" * 1000, b"b" * 1000), transaction=transaction)
            send_many(box, *messages(b"after"), transaction=transaction)
        assert box.bodies() == [b"before", b"after"]
        assert (box.state.held_bytes, world.engine._core.pending_bytes) == (0, 0)
        assert world.total_bytes == box.state.size_bytes

    def test_to_a_queue_of_the_other_kind(self, world: World) -> None:
        box = world.create("t", transactional=True)
        with pytest.raises(TransactionUsageError):
            send_many(box, *messages(b"a", b"b"))
        assert box.bodies() == []


class TestReceiving:
    def test_as_many_as_there_are(self, world: World, box: Box) -> None:
        send_many(box, *messages(b"a", b"b", b"c", b"d", b"e"))
        assert [message.body for message in receive_many(box, 2)] == [b"a", b"b"]
        assert world.removed() == [MessageClass.ACK_RECEIVE] * 2
        assert [message.body for message in receive_many(box, 10)] == [b"c", b"d", b"e"]
        assert receive_many(box, 10) == []
        assert (world.total_bytes, box.state.count, box.state.size_bytes) == (0, 0, 0)

    def test_express_between_recoverable(self, box: Box) -> None:
        for number in range(6):
            box.send(b"%d" % number, delivery=number % 2)
        assert [message.body for message in receive_many(box, 4)] == [b"0", b"1", b"2", b"3"]
        assert box.bodies() == [b"4", b"5"]

    def test_not_what_others_hold(self, box: Box) -> None:
        send_many(box, *messages(b"a", b"b", b"c"))
        taken = box.take()
        assert [message.body for message in receive_many(box, 5)] == [b"b", b"c"]
        box.end(taken, delete=False)
        assert [message.body for message in receive_many(box, 5)] == [b"a"]

    def test_in_a_transaction(self, world: World) -> None:
        box = world.create("t", transactional=True)
        with world.transaction() as transaction:
            send_many(box, *messages(b"a", b"b", b"c"), transaction=transaction)
        transaction = world.begin()
        assert [message.body for message in receive_many(box, 2, transaction)] == [b"a", b"b"]
        assert box.bodies() == [b"c"]
        world.abort(transaction)
        assert box.bodies() == [b"a", b"b", b"c"]

    def test_what_comes_of_receiving_comes_of_it(self, world: World) -> None:
        box, admin = world.create("q", journaling=True), world.create("admin")
        asked: dict[str, Any] = {"acknowledgements": FULL, "administration_queue": admin.name}
        box.send(b"a", time_to_be_received=50, **asked)
        box.send(b"b")
        admin.drain()
        receive_many(box, 2)
        assert box.journal.bodies() == [b"a", b"b"]
        assert admin.classes() == [MessageClass.ACK_RECEIVE]
        assert (
            world.engine.next_deadline is None
            or world.run(lambda: world.engine.batch.count(Keyspace.EXPIRIES)) == 0
        )

    def test_an_empty_subqueue_goes(self, world: World, box: Box) -> None:
        send_many(box, *messages(b"a", b"b"))
        retry = box.subqueue("retry")
        for message in box.messages():
            box.move(message, retry)
        assert len(receive_many(retry, 5)) == 2
        retry.close()
        assert world.engine.queues.find(retry.name) is None

    def test_damaged_records_are_set_aside(self, world: World, box: Box) -> None:
        send_many(box, *messages(b"a", b"b", b"c", b"d"))
        assert isinstance(world.store, MemoryStore)
        space = world.store.spaces[Keyspace.MESSAGES]
        for key in list(space)[:2]:
            space[key] = space[key][:-1] + b"?"
        assert [message.body for message in receive_many(box, 2)] == [b"c", b"d"]
        assert (box.state.count, box.state.size_bytes, world.total_bytes) == (0, 0, 0)
        assert world.run(lambda: world.engine.batch.count(Keyspace.DAMAGED)) == 2


def end_received(box: Box, *ended: Message) -> list[bool]:
    """Which of these held messages ended together."""
    opened, engine = box.receiving, box.world.engine
    reads = [(opened, message.lookup_id) for message in ended]
    done = box.world.run(lambda: engine.reading.end_received(reads))
    return [read in done for read in reads]


class TestEnding:
    def test_the_same_as_one_by_one(self, world: World) -> None:
        def state_of(box: Box, *, together: bool) -> tuple[Any, ...]:
            asked: dict[str, Any] = {"acknowledgements": FULL, "administration_queue": admin.name}
            box.send(b"plain")
            box.send(b"expires", time_to_be_received=50)
            box.send(b"tells", priority=7, **asked)
            box.send(b"stays")
            admin.drain()
            taken = [box.take() for _ in range(3)]
            if together:
                assert end_received(box, *taken) == [True] * 3
            else:
                for message in taken:
                    box.end(message, delete=True)
            deadlines = world.run(lambda: world.engine.batch.count(Keyspace.EXPIRIES))
            state = box.state
            return (
                [box.bodies(), box.journal.bodies(), admin.classes(), deadlines],
                [state.count, state.size_bytes, state.left, state.held_by_readers, len(state.locks)],
            )

        admin = world.create("admin")
        first, second = (world.create(name, journaling=True) for name in ("q1", "q2"))
        single = state_of(first, together=False)
        assert single == state_of(second, together=True)
        assert single[0] == [[b"stays"], [b"tells", b"plain", b"expires"], [MessageClass.ACK_RECEIVE], 0]

    def test_they_outlive_a_kill(self, durable_world: World) -> None:
        box = durable_world.create("q")
        send_many(box, *messages(b"a", b"b", b"c"))
        assert end_received(box, box.take(), box.take()) == [True, True]
        durable_world.kill()
        assert box.bodies() == [b"c"]
        assert durable_world.total_bytes == box.state.size_bytes

    def test_what_needs_more_is_left(self, world: World, box: Box) -> None:
        """Nothing is done about messages that are doomed, express, in a transaction or not held."""
        box.send(b"purged")
        purged = box.take()
        box.purge()
        box.send(b"express", delivery=0)
        express = box.take()
        box.send(b"of another")
        other = found(box.start_receive(0, opened=box.open(QueueAccess.RECEIVE), two_phase=True))
        box.send(b"free")
        ordered = world.create("t", transactional=True)
        with world.transaction() as transaction:
            send_many(ordered, *messages(b"in a transaction"), transaction=transaction)
        reading = world.begin()
        inside = ordered.receive(transaction=reading)
        assert end_received(box, purged, express, other, box.messages()[0]) == [False] * 4
        assert end_received(ordered, inside) == [False]
        world.abort(reading)
        assert ordered.bodies() == [b"in a transaction"]
        box.close()
        assert box.bodies() == [b"express", b"free"]

    def test_of_a_closed_queue_is_left(self, box: Box) -> None:
        box.send(b"a")
        taken, opened = box.take(), box.receiving
        box.close()
        assert not box.world.run(lambda: box.world.engine.reading.end_received([(opened, taken.lookup_id)]))
        assert box.bodies() == [b"a"]

    def test_an_empty_subqueue_goes(self, world: World, box: Box) -> None:
        box.send(b"a")
        retry = box.subqueue("retry")
        box.move(box.messages()[0], retry)
        taken = retry.take()
        assert end_received(retry, taken) == [True]
        retry.close()
        assert world.engine.queues.find(retry.name) is None


def test_numbers_are_reserved_before_they_are_used(durable_world: World) -> None:
    world = durable_world

    def use() -> list[int]:
        counter = Counter(world.engine._core, "test")
        return [*counter.next_many(COUNTER_BLOCK - 1), counter.next(), *counter.next_many(3 * COUNTER_BLOCK)]

    first = world.run(use)
    world.kill()
    second = world.run(use)
    assert first == list(range(1, len(first) + 1))
    assert not set(first) & set(second)
    assert second == sorted(set(second))


SENT = st.fixed_dictionaries(
    {"body": st.binary(max_size=5), "delivery": st.sampled_from([1, 1, 1, 0])},
    optional={
        "priority": st.integers(0, 7),
        "label": st.text(max_size=3),
        "time_to_be_received": st.sampled_from([0, 5]),
        "acknowledgements": st.sampled_from([1, 2, 15]),
        "positive_journaling": st.just(True),
        "negative_journaling": st.just(True),
    },
)


@settings(max_examples=60, deadline=None)
@given(
    rounds=st.lists(st.tuples(st.lists(SENT, max_size=6), st.integers(1, 8)), min_size=1, max_size=4),
    journaling=st.booleans(),
    in_transactions=st.booleans(),
)
def test_many_leave_what_one_by_one_leaves(
    rounds: list[tuple[list[dict[str, Any]], int]], journaling: bool, in_transactions: bool
) -> None:
    """The same records, counts, deadlines, copies and acknowledgements, whichever way they went."""
    many, single = World(), World()
    for world in (many, single):
        box = world.create("q", journaling=journaling, transactional=in_transactions)
        admin = world.create("admin")
        for sent, limit in rounds:
            batch = [Message(**each, administration_queue=admin.name) for each in sent]
            transaction = world.begin() if in_transactions else None
            if world is many:
                send_many(box, *batch, transaction=transaction)
            else:
                opened = box.handle(QueueAccess.SEND)
                with one_batch(world):
                    for message in batch:
                        world.engine.sending.send(opened, message, transaction)
            if transaction is not None:
                world.commit(transaction)
            if world is many:
                receive_many(box, limit)
            else:
                opened = box.receiving
                with one_batch(world):
                    for _ in range(min(limit, box.state.count)):
                        assert isinstance(world.engine.reading.receive(opened, 0), Found)
            world.sleep(2)
    assert visible(many) == visible(single)


def visible(world: World) -> dict[str, object]:
    """What is in every queue, and what is stored beside; ids are given out in another order."""
    names = (r".\private$\q", r".\private$\q;JOURNAL", r".\private$\admin", r".\system$;JOURNAL")
    seen: dict[str, object] = {name: list(map(shown, world.box(name).messages())) for name in names}
    seen["dead"] = list(map(shown, world.dead_letters.messages()))
    seen["dead in transactions"] = list(map(shown, world.transactional_dead_letters.messages()))
    for space in (Keyspace.STATS, Keyspace.EXPIRIES, Keyspace.SEQUENCES):
        seen[space] = stored(world, space)
    discards = [(line.queue, line.label, line.message_class) for line in world.discards()]
    return seen | {"discards": discards, "bytes": world.total_bytes}


def stored(world: World, space: Keyspace) -> list[tuple[bytes, bytes]]:
    return world.run(lambda: list(world.engine.batch.range(space, b"", b"\xff" * 20)))


def shown(message: Message) -> tuple[object, ...]:
    sent = (message.body, message.label, message.priority, message.delivery, message.message_class)
    times = (message.sent_time, message.arrival_time, message.time_to_be_received)
    place = (message.first_in_transaction, message.last_in_transaction, message.tx_sequence_number)
    return (*sent, *times, *place)
