"""[MS-MQDMPR] 3.1.7.1.9 and T-08: quotas, exact through everything that can happen to a message."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from tiercel.engine.records import message_key, split_expiry_key
from tiercel.engine.transaction import Transaction
from tiercel.model.codes import MessageClass, TransactionalOperationType
from tiercel.model.errors import InsufficientResourcesError, IoTimeoutError, MqError
from tiercel.model.limits import INFINITE
from tiercel.model.message import Message
from tiercel.store.interface import Keyspace
from tiercel.wire.user_message import UserMessage

from .harness import ALL_ACKNOWLEDGEMENTS, RECOVERABLE, Box, World, refused

FULL = 0xC00E0027


def who_refuses(send: Callable[[], object]) -> str:
    with pytest.raises(InsufficientResourcesError) as caught:
        send()
    return "queue manager" if caught.value.subject.startswith("queue manager") else "queue"


class TestQueueQuota:
    @pytest.mark.conformance("DMPR-034", "DMPR-193")
    @pytest.mark.parametrize("delivery", [0, RECOVERABLE], ids=["express", "recoverable"])
    def test_a_full_queue_refuses_and_takes_again_after_a_receive(self, world: World, delivery: int) -> None:
        box = world.create("q", quota_kib=1)
        box.send(b"x" * 600, delivery=delivery)
        with refused(FULL):
            box.send(b"y" * 600, delivery=delivery)
        assert box.state.count == 1
        assert world.discarded() == [MessageClass.NACK_Q_EXCEED_QUOTA]
        box.receive()
        box.send(b"z" * 600, delivery=delivery)
        assert box.bodies() == [b"z" * 600]

    def test_the_limit_itself_is_still_allowed(self, world: World) -> None:
        box = world.create("q")
        box.send(b"x" * 800)
        overhead = box.state.size_bytes - 800
        box.purge()
        box.set(quota_kib=1)
        box.send(b"x" * (1024 - overhead))
        assert box.state.size_bytes == 1024
        with refused(FULL):
            box.send(b"")

    def test_sends_of_a_transaction_count_before_its_commit(self, world: World) -> None:
        box = world.create("q", quota_kib=1, transactional=True)
        one, two = world.begin(), world.begin()
        box.send(b"x" * 600, transaction=one)
        with refused(FULL):
            box.send(b"x" * 600, transaction=two)
        world.abort(one)
        box.send(b"x" * 600, transaction=two)
        world.commit(two)
        assert box.state.count == 1

    def test_an_arriving_message_is_refused_with_its_class(self, world: World) -> None:
        box = world.create("q", quota_kib=1)
        assert box.arrive(b"x" * 600) is None
        assert box.arrive(b"x" * 600) == MessageClass.NACK_Q_EXCEED_QUOTA
        assert box.state.count == 1


class TestQueueManagerQuota:
    @pytest.mark.conformance("DMPR-008")
    def test_its_default_and_no_limit_at_all(self, world: World) -> None:
        assert world.engine.queue_manager.queue_manager_quota_kib == 0x0010_0000
        box = world.create("q")
        world.set(queue_manager_quota_kib=0)
        with refused(FULL):
            box.send(b"x")
        world.set(queue_manager_quota_kib=INFINITE)
        box.send(b"x" * 100_000)
        assert box.state.count == 1

    @pytest.mark.conformance("DMPR-008")
    def test_it_counts_all_queues_together_and_kilobytes(self, world: World) -> None:
        world.set(queue_manager_quota_kib=2)
        boxes = [world.create(f"q{n}") for n in range(3)]
        for box in boxes[:2]:
            box.send(b"x" * 800)
        assert who_refuses(lambda: boxes[2].send(b"x" * 800)) == "queue manager"
        boxes[0].receive()
        boxes[2].send(b"x" * 800)

    @pytest.mark.conformance("DMPR-188", "DMPR-193")
    def test_it_is_asked_before_the_queue(self, world: World) -> None:
        box = world.create("q", quota_kib=1)
        box.send(b"x" * 600)
        assert who_refuses(lambda: box.send(b"x" * 600)) == "queue"
        world.set(queue_manager_quota_kib=1)
        assert who_refuses(lambda: box.send(b"x" * 600)) == "queue manager"

    @pytest.mark.conformance("DMPR-188", "DMPR-254", "DMPR-021")
    def test_flow_control_refuses_everything_until_it_ends(self, world: World) -> None:
        box = world.create("q")
        box.send(b"0")
        world.run(world.engine.administration.begin_flow_control)
        assert world.engine.queue_manager.throttled
        assert who_refuses(lambda: box.send(b"1")) == "queue manager"
        with pytest.raises(InsufficientResourcesError):  # no refusal: its sender keeps it (MQQB-127)
            box.arrive(b"1")
        assert box.receive().body == b"0"
        world.run(world.engine.administration.end_flow_control)
        box.send(b"2")
        assert box.bodies() == [b"2"]

    @pytest.mark.conformance("DMPR-021")
    def test_flow_control_is_off_after_a_restart(self, world: World) -> None:
        world.run(world.engine.administration.begin_flow_control)
        world.restart()
        assert not world.engine.queue_manager.throttled
        world.create("q").send(b"1")


class TestJournalQuotas:
    @pytest.mark.conformance("DMPR-035")
    def test_the_journal_of_a_queue(self, world: World) -> None:
        box = world.create("q", journaling=True, journal_quota_kib=1)
        box.send_all(*[b"x" * 500] * 3)
        assert [len(message.body) for message in box.drain()] == [500] * 3
        assert box.state.journal is not None
        assert (box.state.journal.count, box.state.journal.size_bytes <= 1024) == (1, True)
        assert world.discarded() == [MessageClass.NACK_Q_EXCEED_QUOTA] * 2
        box.set(journal_quota_kib=INFINITE)
        box.send(b"x" * 500)
        box.receive()
        assert box.state.journal.count == 2

    @pytest.mark.conformance("DMPR-035")
    def test_the_journal_of_the_computer(self, world: World) -> None:
        assert world.engine.queue_manager.journal_quota_kib == INFINITE
        world.set(journal_quota_kib=1)
        world.restart()
        box = world.create("q")
        for _ in range(3):
            box.send(b"x" * 500, positive_journaling=True)
        assert (box.state.count, world.journal.state.count) == (3, 1)
        assert world.journal.state.size_bytes <= 1024


def live_bytes(world: World) -> dict[int, tuple[int, int]]:
    """What is really there: by queue, the number and the bytes of the messages."""
    found: dict[int, tuple[int, int]] = {}
    view = world.engine._core.batch
    for key, data in view.range(Keyspace.MESSAGES, b"\0", b"\xff" * 16):
        slot = int.from_bytes(key[:4], "big")
        count, size = found.get(slot, (0, 0))
        packet = data[data.index(b"LIOR") - 4 :] if b"LIOR" in data else data
        found[slot] = (count + 1, size + UserMessage(packet).packet_size)
    for slot, state in world.engine._catalog.by_slot.items():
        for record in state.express.values():
            count, size = found.get(slot, (0, 0))
            found[slot] = (count + 1, size + len(record.packet))
    world.engine.commit()
    return found


def assert_timers_belong_to_messages(world: World) -> None:
    with world.store.snapshot() as view:
        for key, _ in view.range(Keyspace.EXPIRIES, b"\0", b"\xff" * 21):
            _, slot, lookup_id = split_expiry_key(key)
            assert view.get(Keyspace.MESSAGES, message_key(slot, lookup_id)) is not None


def assert_counts_are_exact(world: World) -> None:
    found = live_bytes(world)
    waiting: dict[int, int] = {}  # sends whose transaction has not ended, by queue
    for transaction in world.engine.transactions._living.values():
        for each in transaction.operations:
            if each.kind == TransactionalOperationType.ENQUEUE:
                waiting[each.queue.slot] = waiting.get(each.queue.slot, 0) + len(each.record.packet)
    total = sum(waiting.values())
    for slot, state in world.engine._catalog.by_slot.items():
        total += state.size_bytes
        assert (state.count, state.size_bytes) == found.pop(slot, (0, 0)), state
        assert state.held_bytes == waiting.get(slot, 0)
    assert found == {}, "messages of no queue"
    assert_timers_belong_to_messages(world)
    assert world.total_bytes == total


class RandomWork:
    """Does anything that an application may do, at random: `step` calls one of the methods below it."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.plain = world.create("plain", quota_kib=20, journaling=True, journal_quota_kib=10)
        self.orders = world.create("orders", transactional=True, journaling=True)
        self.admin = world.create("admin", quota_kib=5)
        self.away = world.box(r"DIRECT=OS:there\private$\q")
        self.open: list[Transaction] = []
        self.taken: list[tuple[Box, Message]] = []
        often = [self.send] * 3 + [self.send_in_transaction, self.receive, self.commit, self.abort] * 2
        seldom = [self.send_away, self.arrive, self.receive_in_transaction, self.take, self.end, self.move]
        self.actions = [*often, *seldom, self.move_in_transaction, self.sleep]
        self.rare = [self.purge, self.delete, self.restart, self.kill]

    def step(self) -> None:
        action = self.random.choice(self.actions if self.random.random() < 0.95 else self.rare)
        try:
            action()
        except (InsufficientResourcesError, IoTimeoutError):
            pass
        except MqError as error:  # gone, ended or not there any more
            if error.code not in {0xC00E0051, 0xC00E0088, 0xC00E0003, 0xC00E0007}:
                raise

    def message(self) -> dict[str, Any]:
        draw = self.random
        return {
            "body": bytes(draw.randrange(1500)),
            "priority": draw.randrange(8),
            "delivery": draw.randrange(2),
            "time_to_be_received": draw.choice([INFINITE, INFINITE, 0, 3, 20]),
            "time_to_reach_queue": draw.choice([INFINITE, 5]),
            "acknowledgements": draw.choice([0, ALL_ACKNOWLEDGEMENTS]),
            "administration_queue": self.admin.name,
            "positive_journaling": draw.random() < 0.2,
            "negative_journaling": draw.random() < 0.2,
        }

    def transaction(self) -> Transaction:
        if not self.open or self.random.random() < 0.3:
            self.open.append(self.world.begin())
        return self.random.choice(self.open)

    def box(self) -> Box:
        return self.random.choice([self.plain, self.orders])

    def send(self) -> None:
        self.plain.send(**self.message())

    def send_in_transaction(self) -> None:
        self.orders.send(transaction=self.transaction(), **self.message())

    def send_away(self) -> None:
        self.away.send(**self.message())

    def arrive(self) -> None:
        self.plain.arrive(**self.message())

    def receive(self) -> None:
        self.box().receive()

    def receive_in_transaction(self) -> None:
        self.orders.receive(transaction=self.transaction())

    def take(self) -> None:
        box = self.box()
        self.taken.append((box, box.take()))

    def end(self) -> None:
        if self.taken:
            queue, message = self.taken.pop()
            queue.end(message, delete=self.random.random() < 0.5)

    def move(self) -> None:
        box = self.box()
        box.move(box.peek(), box.subqueue(self.random.choice("ab")))

    def move_in_transaction(self) -> None:
        source, target = self.random.sample([self.orders, self.orders.subqueue("a")], 2)
        source.move(source.peek(), target, self.transaction())

    def commit(self) -> None:
        if self.open:
            self.world.commit(self.open.pop(self.random.randrange(len(self.open))))

    def abort(self) -> None:
        if self.open:
            self.world.abort(self.open.pop(self.random.randrange(len(self.open))))

    def sleep(self) -> None:
        self.world.sleep(self.random.randrange(6))

    def purge(self) -> None:
        self.box().purge()

    def delete(self) -> None:
        self.orders.delete()
        self.world.create("orders", transactional=True, journaling=True)

    def restart(self) -> None:
        self.world.restart()
        self.forget()

    def kill(self) -> None:
        self.world.kill()
        self.forget()

    def forget(self) -> None:
        self.open.clear()
        self.taken.clear()


class TestTotalBytes:
    @pytest.mark.conformance("DMPR-044")
    @pytest.mark.parametrize("seed", range(12))
    def test_it_is_the_sum_of_the_live_messages_whatever_happens(self, world: World, seed: int) -> None:
        work = RandomWork(world, seed)
        for _ in range(250):
            work.step()
            assert_counts_are_exact(world)

    @pytest.mark.conformance("DMPR-044")
    def test_and_over_restarts_on_the_real_store(self, durable_world: World) -> None:
        work = RandomWork(durable_world, 4711)
        for index in range(150):
            work.step()
            if index % 30 == 0:
                work.kill()
            assert_counts_are_exact(durable_world)

    @pytest.mark.parametrize("delivery", [0, RECOVERABLE], ids=["express", "recoverable"])
    def test_giving_back_moving_and_purging_leave_no_trace(self, world: World, delivery: int) -> None:
        box = world.create("q")
        box.send(b"x" * 100, delivery=delivery)
        size = box.state.size_bytes
        for _ in range(3):
            box.end(box.take(), delete=False)
        assert (box.state.size_bytes, world.total_bytes) == (size, size)
        sub = box.subqueue("s")
        box.move(box.peek(), sub)
        assert (box.state.size_bytes, sub.state.size_bytes, world.total_bytes) == (0, size, size)
        sub.purge()
        assert (sub.state.size_bytes, world.total_bytes) == (0, 0)
