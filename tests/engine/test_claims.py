"""Claims: what a consumer takes, keeps over crashes, acknowledges and gives back."""

from collections.abc import Iterator

import pytest

from tiercel.engine import claims as engine_claims
from tiercel.engine.check import Checker
from tiercel.engine.claim_records import find_claim, weights
from tiercel.engine.claims import Claim, Claims, ClaimStatus
from tiercel.model.codes import DeliveryGuarantee, MessageClass, QueueAccess, ShareMode
from tiercel.model.errors import (
    ClaimLostError,
    ConsumerFencedError,
    ConsumerNotFoundError,
    IllegalOperationError,
    InsufficientResourcesError,
    InvalidParameterError,
    QueueDeletedError,
    SharingViolationError,
    StoreDamagedError,
)
from tiercel.model.identifiers import TxSequenceId
from tiercel.store.interface import Keyspace
from tiercel.store.memory_store import MemoryStore
from tiercel.wire.user_message import UserMessage

from .harness import ALL_ACKNOWLEDGEMENTS, Box, World, result_of
from .test_damage import DAMAGES, Damage

EXPRESS = DeliveryGuarantee.EXPRESS


class Consumer:
    """A consumer by its name, attached when it is made."""

    def __init__(self, world: World, name: str = "spark") -> None:
        self.world, self.name = world, name
        self.epoch = world.run(lambda: self.claims.attach(name))

    @property
    def claims(self) -> Claims:
        return self.world.engine.claims

    def claim(self, box: Box, limit: int = 1000, byte_limit: int | None = None, **how: int) -> Claim:
        return self.world.run(
            lambda: self.claims.claim(self.name, self.epoch, box.state, limit, byte_limit, **how)
        )

    def acknowledge(self, box: Box, up_to: int) -> int:
        return self.world.run(lambda: self.claims.acknowledge(self.name, self.epoch, box.state, up_to))

    def release(self, box: Box | None = None, **how: int) -> int:
        state = None if box is None else box.state
        return self.world.run(lambda: self.claims.release(self.name, state, **how))

    def held(self, box: Box, lo: int = 0, hi: int = 1000) -> dict[int, bytes]:
        """The bodies by their numbers."""
        found = self.world.run(lambda: list(self.claims.messages(self.name, box.state, lo, hi)))
        return {each.claim_seq: UserMessage(each.record.packet).body for each in found}

    def status(self, box: Box) -> ClaimStatus:
        return self.world.run(lambda: self.claims.status(self.name, box.state))


@pytest.fixture
def box(world: World) -> Box:
    return world.create("q")


@pytest.fixture
def orders(world: World) -> Box:
    return world.create("orders", transactional=True)


@pytest.fixture
def spark(world: World) -> Consumer:
    return Consumer(world)


@pytest.fixture(autouse=True)
def _sound(request: pytest.FixtureRequest) -> Iterator[None]:
    """After every test the store is what `tiercel check` calls sound, and nothing is counted twice."""
    names = [name for name in ("world", "durable_world") if name in request.fixturenames]
    worlds: list[World] = [request.getfixturevalue(name) for name in names]
    yield
    for world in worlds:
        world.run(lambda: None)
        with world.store.snapshot() as view:
            found = [str(problem) for problem in Checker(view).problems()]
        assert [each for each in found if not each.startswith("damaged")] == []
        states = list(world.engine._catalog.by_slot.values())
        held = sum(state.size_bytes + state.claimed_bytes + state.held_bytes for state in states)
        assert world.total_bytes == held


class TestClaiming:
    def test_messages_get_numbers_in_the_order_of_the_queue(self, box: Box, spark: Consumer) -> None:
        for body, priority in ((b"low", 0), (b"high", 7), (b"middle", 3), (b"high too", 7)):
            box.send(body, priority=priority)
        assert spark.claim(box, 3)[:2] == (0, 3)
        assert spark.held(box) == {1: b"high", 2: b"high too", 3: b"middle"}
        assert box.bodies() == [b"low"]
        box.send(b"urgent", priority=7)
        assert spark.claim(box)[:2] == (3, 5)
        assert spark.held(box, 3) == {4: b"urgent", 5: b"low"}

    def test_nobody_else_sees_them(self, box: Box, spark: Consumer, world: World) -> None:
        box.send_all(b"1", b"2", b"3")
        lookup_id = box.peek().lookup_id
        spark.claim(box, 2)
        assert (box.bodies(), box.state.count) == ([b"3"], 1)
        with pytest.raises(Exception, match="MESSAGE_NOT_FOUND"):
            box.lookup(lookup_id)
        assert Consumer(world, "other").claim(box)[:2] == (0, 1)

    def test_nothing_to_claim_writes_nothing(self, box: Box, spark: Consumer, world: World) -> None:
        assert isinstance(world.store, MemoryStore)
        before = world.store.writes
        assert spark.claim(box, start=0) == Claim(0, 0)
        with world.store.snapshot() as view:
            assert view.count(Keyspace.CONSUMERS) == 1
        assert world.store.writes == before

    def test_each_consumer_and_each_queue_has_numbers_of_its_own(
        self, box: Box, spark: Consumer, world: World
    ) -> None:
        other, second = world.create("other"), Consumer(world, "second")
        box.send_all(b"1", b"2", b"3")
        other.send(b"4")
        assert [spark.claim(box, 1)[:2], second.claim(box, 1)[:2], spark.claim(box, 1)[:2]] == [
            (0, 1),
            (0, 1),
            (1, 2),
        ]
        assert spark.claim(other)[:2] == (0, 1)
        assert (spark.held(box), second.held(box)) == ({1: b"1", 2: b"3"}, {1: b"2"})

    def test_the_size_is_limited_but_one_message_always_fits(self, box: Box, spark: Consumer) -> None:
        box.send_all(bytes(1000), bytes(1000), bytes(1000), bytes(9000), bytes(10))
        size = len(box.messages()) and box.state.size_bytes // 5
        assert spark.claim(box, byte_limit=2500)[:2] == (0, 2)
        assert spark.claim(box, byte_limit=1)[:2] == (2, 3)
        assert spark.claim(box, byte_limit=5000)[:2] == (3, 4)
        assert size > 0

    def test_locked_messages_are_skipped(self, box: Box, spark: Consumer) -> None:
        box.send_all(b"1", b"2", b"3", b"4")
        first = box.take()
        middle = box.lookup(box.messages()[1].lookup_id, peek=False, two_phase=True)
        spark.claim(box)
        assert spark.held(box) == {1: b"2", 2: b"4"}
        for taken in (first, middle):
            box.end(taken, delete=False)
        assert box.bodies() == [b"1", b"3"]

    def test_express_messages_become_durable(self, box: Box, spark: Consumer, world: World) -> None:
        box.send_all(b"1", b"2", delivery=EXPRESS)
        box.send(b"3")
        box.send(b"4", delivery=EXPRESS)
        spark.claim(box, 3)
        world.kill()
        assert spark.held(box) == {1: b"1", 2: b"2", 3: b"3"}
        assert (box.bodies(), box.state.claimed_count) == ([], 3)

    def test_a_claim_that_nobody_heard_of_is_offered_again(
        self, box: Box, spark: Consumer, world: World
    ) -> None:
        box.send_all(b"1", b"2", b"3")
        spark.claim(box, 2, start=0)
        world.kill()
        again = Consumer(world)
        assert again.claim(box, 1, start=0) == Claim(0, 2, is_repeat=True)
        assert again.held(box, 0, 2) == {1: b"1", 2: b"2"}
        assert again.claim(box, start=2)[:2] == (2, 3)

    def test_reading_changes_nothing(self, box: Box, spark: Consumer) -> None:
        box.send_all(b"1", b"2", b"3")
        spark.claim(box)
        assert [spark.held(box, 0, 2), spark.held(box, 0, 2)] == [{1: b"1", 2: b"2"}] * 2
        assert (spark.held(box, 1, 2), spark.held(box, 3, 9)) == ({2: b"2"}, {})

    @pytest.mark.parametrize("name", ["DEADLETTER", "journal", "subqueue"])
    def test_other_queues_that_can_be_claimed_from(self, world: World, spark: Consumer, name: str) -> None:
        box = world.create("q", journaling=True)
        box.send(b"1", time_to_be_received=5, negative_journaling=True)
        source = {"DEADLETTER": world.dead_letters, "journal": box.journal, "subqueue": box.subqueue("s")}
        if name == "DEADLETTER":
            world.sleep(6)
        elif name == "journal":
            box.receive()
        else:
            box.move(box.peek(), source[name])
        spark.claim(source[name])
        source[name].close()
        world.kill()
        assert spark.held(source[name]) == {1: b"1"}
        assert spark.acknowledge(source[name], 1) == 1
        assert spark.status(source[name]).hi == 1

    def test_queues_that_cannot_be_claimed_from(self, world: World, box: Box, spark: Consumer) -> None:
        away = world.box(r"DIRECT=OS:there\private$\q")
        away.send(b"1")
        for each in (away, world.box("order_queue$")):
            with pytest.raises(IllegalOperationError):
                spark.claim(each)
        opened = box.open(QueueAccess.RECEIVE, ShareMode.DENY_RECEIVE)
        with pytest.raises(SharingViolationError):
            spark.claim(box)
        assert opened.is_open
        state = box.state
        box.delete()
        with pytest.raises(QueueDeletedError):
            world.run(lambda: spark.claims.claim("spark", spark.epoch, state, 1))

    @pytest.mark.parametrize(
        "how",
        [
            {"limit": 0},
            {"limit": True},
            {"byte_limit": 0},
            {"start": -1},
            {"acknowledge": -1},
            {"limit": "1"},
        ],
        ids=str,
    )
    def test_bad_numbers_are_refused(self, box: Box, spark: Consumer, how: dict[str, int]) -> None:
        box.send(b"1")
        with pytest.raises(InvalidParameterError):
            spark.claim(box, **how)
        assert box.bodies() == [b"1"]


class TestWholeTransactions:
    def sent(self, world: World, orders: Box, *bodies: bytes) -> None:
        with world.transaction() as sending:
            orders.send_all(*bodies, transaction=sending)

    def test_a_claim_ends_before_one_that_passes_the_limit(
        self, world: World, orders: Box, spark: Consumer
    ) -> None:
        for bodies in ((b"1", b"2"), (b"3", b"4", b"5"), (b"6",)):
            self.sent(world, orders, *bodies)
        assert [spark.claim(orders, 4)[:2] for _ in range(3)] == [(0, 2), (2, 6), (6, 6)]

    def test_the_first_is_taken_whole_whatever_the_limit(
        self, world: World, orders: Box, spark: Consumer
    ) -> None:
        self.sent(world, orders, *[b"%d" % number for number in range(10)])
        self.sent(world, orders, b"next")
        assert spark.claim(orders, 3)[:2] == (0, 10)
        assert spark.claim(orders, byte_limit=1)[:2] == (10, 11)

    def test_one_whose_end_has_not_arrived_is_left_with_all_behind_it(
        self, world: World, orders: Box, spark: Consumer
    ) -> None:
        arrive(orders, b"a1", stream=1, number=1, first=True, last=True)
        arrive(orders, b"b1", stream=2, number=7, first=True)
        arrive(orders, b"c1", stream=1, number=2, first=True, last=True)
        assert spark.claim(orders)[:2] == (0, 1)
        world.sleep(30)
        arrive(orders, b"b2", stream=2, number=7)
        assert spark.claim(orders)[:2] == (1, 1)
        arrive(orders, b"b3", stream=2, number=7, last=True)
        assert spark.claim(orders)[:2] == (1, 5)
        assert list(spark.held(orders, 1).values()) == [b"b1", b"c1", b"b2", b"b3"]

    def test_but_not_for_ever(self, world: World, orders: Box, spark: Consumer) -> None:
        arrive(orders, b"b1", stream=2, number=7, first=True)
        world.sleep(engine_claims.TRANSACTION_WAIT_S - 1)
        arrive(orders, b"b2", stream=2, number=7)
        assert spark.claim(orders)[:2] == (0, 0)
        world.sleep(1)
        assert spark.claim(orders)[:2] == (0, 2)

    def test_interleaved_ones_are_not_torn_apart(self, orders: Box, spark: Consumer) -> None:
        """A cut before b1 would tear a apart: so a waits for the end of b too."""
        arrive(orders, b"0", stream=1, number=1, first=True, last=True)
        arrive(orders, b"a1", stream=1, number=2, first=True)
        arrive(orders, b"b1", stream=2, number=7, first=True)
        arrive(orders, b"a2", stream=1, number=2, last=True)
        assert spark.claim(orders)[:2] == (0, 1)
        arrive(orders, b"b2", stream=2, number=7, last=True)
        assert spark.claim(orders, 1)[:2] == (1, 5)

    def test_an_end_that_somebody_else_has_taken_is_not_waited_for(
        self, world: World, orders: Box, spark: Consumer
    ) -> None:
        self.sent(world, orders, b"1", b"2")
        self.sent(world, orders, b"3")
        orders.lookup(orders.messages()[1].lookup_id, peek=False)
        assert spark.claim(orders)[:2] == (0, 2)

    def test_nor_keeps_it_the_next_one_from_being_waited_for(
        self, world: World, orders: Box, spark: Consumer
    ) -> None:
        arrive(orders, b"a1", stream=1, number=1, first=True)
        world.sleep(engine_claims.TRANSACTION_WAIT_S)
        arrive(orders, b"b1", stream=1, number=2, first=True)
        assert spark.claim(orders)[:2] == (0, 1)

    def test_many_parts_are_not_looked_at_again_and_again(
        self, world: World, orders: Box, spark: Consumer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(engine_claims, "SLICE", 2)
        for body in (b"1", b"2", b"3"):
            arrive(orders, body, stream=1, number=1, first=body == b"1")
        assert spark.claim(orders)[:2] == (0, 0)
        arrive(orders, b"4", stream=1, number=1, last=True)
        assert spark.claim(orders)[:2] == (0, 0)
        world.sleep(0.001)
        assert spark.claim(orders)[:2] == (0, 4)

    def test_the_same_number_in_another_stream_is_another_transaction(
        self, orders: Box, spark: Consumer
    ) -> None:
        arrive(orders, b"a1", stream=1, number=7, first=True)
        arrive(orders, b"b1", stream=2, number=7, first=True, last=True)
        assert spark.claim(orders)[:2] == (0, 0)
        arrive(orders, b"a2", stream=1, number=7, last=True)
        assert spark.claim(orders)[:2] == (0, 3)

    def test_a_look_in_vain_is_not_taken_again_at_once(
        self, world: World, orders: Box, spark: Consumer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Else a transaction without an end, and a backlog behind it, keep the queue manager busy."""
        monkeypatch.setattr("tiercel.engine.claims.SLICE", 2)
        monkeypatch.setattr("tiercel.engine.claims._REST_S", 0.4)
        arrive(orders, b"a1", stream=1, number=1, first=True)
        for number in range(2, 6):
            arrive(orders, b"b", stream=2, number=number, first=True, last=True)
        assert spark.claim(orders)[:2] == (0, 0)
        arrive(orders, b"a2", stream=1, number=1, last=True)
        world.sleep(1)
        assert spark.claim(orders)[:2] == (0, 0)
        world.sleep(1)
        assert spark.claim(orders)[:2] == (0, 6)

    def test_a_large_one_is_read_again_when_it_is_moved(
        self, world: World, orders: Box, spark: Consumer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tiercel.engine.selection._IN_MEMORY", 1000)
        bodies = [b"%d" % number * 100 for number in range(10)]
        self.sent(world, orders, *bodies)
        spark.claim(orders)
        assert list(spark.held(orders).values()) == bodies


def arrive(
    box: Box, body: bytes, *, stream: int, number: int, first: bool = False, last: bool = False
) -> None:
    """One message of a transaction of another computer."""
    refused = box.arrive(
        body,
        transaction_id=number,
        tx_sequence_id=TxSequenceId(1, stream),
        first_in_transaction=first,
        last_in_transaction=last,
    )
    assert refused is None


class TestAcknowledging:
    def test_the_messages_end_as_received(self, world: World, spark: Consumer) -> None:
        admin = world.create("admin")
        box = world.create("q", journaling=True)
        for body in (b"1", b"2", b"3"):
            box.send(body, acknowledgements=ALL_ACKNOWLEDGEMENTS, administration_queue=admin.name)
        admin.drain()
        spark.claim(box)
        assert (admin.state.count, box.journal.state.count) == (0, 0)
        assert spark.acknowledge(box, 2) == 2
        assert world.removed() == [MessageClass.ACK_RECEIVE] * 2
        assert admin.classes() == [MessageClass.ACK_RECEIVE] * 2
        assert box.journal.bodies() == [b"1", b"2"]
        assert (spark.held(box), world.discards()) == ({3: b"3"}, [])

    def test_a_target_journal_keeps_plain_ones_too(self, world: World, spark: Consumer) -> None:
        box = world.create("q", journaling=True)
        sub = box.subqueue("s")
        box.send_all(b"1", b"2")
        box.move(box.peek(), sub)
        for source in (box, sub):
            spark.claim(source)
            spark.acknowledge(source, 1)
        assert box.journal.bodies() == [b"2", b"1"]

    def test_plain_ones_too(self, world: World, box: Box, spark: Consumer) -> None:
        box.send_all(b"1", b"2", b"3")
        spark.claim(box)
        spark.acknowledge(box, 3)
        assert world.removed() == [MessageClass.ACK_RECEIVE] * 3
        assert (box.state.claimed_count, box.state.claimed_bytes, world.total_bytes) == (0, 0, 0)

    def test_positive_journaling_of_a_transactional_message_and_its_final_ack(
        self, world: World, orders: Box, spark: Consumer
    ) -> None:
        with world.transaction() as sending:
            orders.send(b"1", transaction=sending, positive_journaling=True)
        spark.claim(orders)
        assert world.journal.state.count == 0
        spark.acknowledge(orders, 1)
        assert world.journal.bodies() == [b"1"]

    def test_a_second_time_changes_nothing(self, box: Box, spark: Consumer) -> None:
        box.send_all(b"1", b"2", b"3")
        spark.claim(box)
        assert [spark.acknowledge(box, 2), spark.acknowledge(box, 2), spark.acknowledge(box, 1)] == [2, 0, 0]
        assert (spark.status(box).lo, spark.held(box)) == (2, {3: b"3"})

    def test_together_with_the_next_claim(self, box: Box, spark: Consumer) -> None:
        box.send_all(b"1", b"2", b"3")
        spark.claim(box, 2)
        assert spark.claim(box, acknowledge=2, start=2)[:2] == (2, 3)
        assert spark.held(box) == {3: b"3"}
        assert spark.claim(box, acknowledge=3, start=3)[:2] == (3, 3)
        assert spark.held(box) == {}

    def test_numbers_that_it_does_not_hold_are_refused(self, box: Box, spark: Consumer) -> None:
        box.send_all(b"1", b"2", b"3")
        spark.claim(box, 2)
        spark.acknowledge(box, 1)
        with pytest.raises(ClaimLostError, match="never claimed"):
            spark.acknowledge(box, 3)
        with pytest.raises(ClaimLostError, match="the messages after 0 have ended"):
            spark.claim(box, start=0)
        with pytest.raises(ClaimLostError, match="the messages after 9 were never claimed"):
            spark.claim(box, start=9)
        with pytest.raises(ClaimLostError):
            spark.claim(box, start=1, acknowledge=2)
        assert (spark.held(box), box.bodies()) == ({2: b"2"}, [b"3"])

    def test_many_go_in_slices(self, box: Box, spark: Consumer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(engine_claims, "SLICE", 3)
        box.send_all(*[b"%d" % number for number in range(10)])
        spark.claim(box)
        assert spark.acknowledge(box, 8) == 8
        assert spark.held(box) == {9: b"8", 10: b"9"}


class TestEpochs:
    def test_whoever_was_replaced_is_refused(self, world: World, box: Box, spark: Consumer) -> None:
        box.send_all(b"1", b"2", b"3")
        spark.claim(box, 1)
        again = Consumer(world)
        assert again.epoch > spark.epoch
        for act in (
            lambda: spark.claim(box),
            lambda: spark.acknowledge(box, 1),
            lambda: world.run(lambda: spark.claims.check("spark", spark.epoch)),
        ):
            with pytest.raises(ConsumerFencedError, match=f"epoch {spark.epoch}"):
                act()
        assert (again.held(box), box.bodies()) == ({1: b"1"}, [b"2", b"3"])
        assert again.acknowledge(box, 1) == 1

    def test_an_epoch_never_comes_again(self, durable_world: World) -> None:
        epochs = [Consumer(durable_world).epoch]
        durable_world.kill()
        epochs += [Consumer(durable_world).epoch, Consumer(durable_world, "b").epoch]
        durable_world.run(lambda: durable_world.engine.claims.forget("spark"))
        durable_world.kill()
        epochs += [Consumer(durable_world).epoch]
        assert sorted(set(epochs)) == epochs

    def test_a_restart_fences_nobody(self, durable_world: World) -> None:
        box, spark = durable_world.create("q"), Consumer(durable_world)
        box.send_all(b"1", b"2")
        spark.claim(box, 1)
        durable_world.kill()
        assert spark.claim(box, start=1)[:2] == (1, 2)

    @pytest.mark.parametrize("name", ["", "a b", "a/b", "ü", "x" * 65, "a\0b", "a\n"])
    def test_names(self, world: World, name: str) -> None:
        with pytest.raises(InvalidParameterError):
            Consumer(world, name)

    def test_there_are_not_too_many(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tiercel.engine.consumers.MAX_CONSUMERS", 2)
        Consumer(world, "a")
        Consumer(world, "b")
        with pytest.raises(InsufficientResourcesError):
            Consumer(world, "c")
        Consumer(world, "a")

    def test_one_that_does_not_exist(self, world: World, box: Box) -> None:
        claims = world.engine.claims
        for act in (
            lambda: claims.attach("nobody", create=False),
            lambda: claims.claim("nobody", 1, box.state, 1),
            lambda: claims.release("nobody"),
            lambda: claims.status("nobody", box.state),
            lambda: claims.forget("nobody"),
        ):
            with pytest.raises(ConsumerNotFoundError):
                world.run(act)

    def test_forgetting(self, world: World, box: Box, spark: Consumer) -> None:
        box.send(b"1")
        spark.claim(box)
        with pytest.raises(IllegalOperationError, match="it holds 1 messages"):
            world.run(lambda: spark.claims.forget("spark"))
        spark.acknowledge(box, 1)
        world.run(lambda: spark.claims.forget("spark"))
        with world.store.snapshot() as view:
            assert view.count(Keyspace.CONSUMERS) == 0
        assert world.run(spark.claims.all) == []
        again = Consumer(world)
        with pytest.raises(ClaimLostError):  # the checkpoint of its first life
            again.claim(box, start=1)

    def test_a_subqueue_lasts_as_long_as_the_consumer(self, world: World, box: Box, spark: Consumer) -> None:
        box.send(b"1")
        sub = box.subqueue("s")
        box.move(box.peek(), sub)
        sub.close()
        spark.claim(sub)
        spark.acknowledge(sub, 1)
        assert spark.status(sub).lo == 1
        world.run(lambda: spark.claims.forget("spark"))
        assert world.engine.queues.find(sub.name) is None


class TestReleasing:
    def test_messages_return_to_their_places(self, box: Box, spark: Consumer) -> None:
        box.send_all(b"1", b"2", b"3")
        ids = [message.lookup_id for message in box.messages()]
        spark.claim(box, 2)
        box.send(b"4")
        assert spark.release() == 0
        assert [message.lookup_id for message in box.messages()][:3] == ids
        assert [(each.body, each.abort_count) for each in box.messages()] == [
            (b"1", 1),
            (b"2", 1),
            (b"3", 0),
            (b"4", 0),
        ]

    def test_the_run_is_fenced_and_the_numbers_are_not_given_again(
        self, world: World, box: Box, spark: Consumer
    ) -> None:
        box.send_all(b"1", b"2", b"3")
        spark.claim(box, 2)
        spark.release()
        with pytest.raises(ConsumerFencedError):
            spark.acknowledge(box, 1)
        again = Consumer(world)
        status = again.status(box)
        assert (status.lo, status.hi, status.count, status.size_bytes) == (2, 2, 0, 0)
        with pytest.raises(ClaimLostError):
            again.claim(box, start=0)
        assert again.claim(box, start=2)[:2] == (2, 5)

    def test_waiters_are_served(self, world: World, box: Box, spark: Consumer) -> None:
        box.send_all(b"1", b"2", b"3")
        spark.claim(box)
        first, second, peeking = box.wait(), box.wait(), box.wait_to_peek()
        spark.release()
        assert {*world.completed()} == {first, second, peeking}
        assert (result_of(first).body, result_of(second).body) == (b"1", b"2")
        assert result_of(peeking).body == b"1"
        assert box.bodies() == [b"3"]

    def test_one_queue_only(self, world: World, box: Box, spark: Consumer) -> None:
        other = world.create("other")
        box.send(b"1")
        other.send(b"2")
        spark.claim(box)
        spark.claim(other)
        assert spark.release(other) == 0
        assert (box.bodies(), other.bodies(), spark.held(box)) == ([], [b"2"], {1: b"1"})

    def test_many_go_in_slices(self, world: World, box: Box, spark: Consumer) -> None:
        other = world.create("other")
        box.send_all(b"1", b"2", b"3")
        other.send_all(b"4", b"5")
        spark.claim(box)
        spark.claim(other)
        assert spark.release(limit=2) == 3
        assert (box.bodies(), spark.held(box), spark.status(box).lo) == ([b"1", b"2"], {3: b"3"}, 2)
        world.kill()
        assert spark.release(limit=2) == 1
        assert spark.release(limit=2) == 0
        assert (box.bodies(), other.bodies()) == ([b"1", b"2", b"3"], [b"4", b"5"])

    def test_express_messages_are_in_memory_again(self, world: World, box: Box, spark: Consumer) -> None:
        box.send(b"1", delivery=EXPRESS)
        spark.claim(box)
        spark.release()
        assert (box.bodies(), box.state.stored_count) == ([b"1"], 0)
        world.kill()
        assert box.bodies() == []


class TestTime:
    def test_it_stands_still_while_a_message_is_claimed(self, durable_world: World) -> None:
        world = durable_world
        box, spark = world.create("q"), Consumer(world)
        box.send(b"1", time_to_be_received=10)
        world.sleep(4)
        spark.claim(box)
        world.sleep(1000)
        world.kill()
        assert spark.held(box) == {1: b"1"}
        spark.release()
        assert box.peek().time_to_be_received == 1010
        world.sleep(5)
        assert box.bodies() == [b"1"]
        world.sleep(1)
        assert (box.bodies(), world.discarded()) == ([], [MessageClass.NACK_RECEIVE_TIMEOUT])

    def test_of_an_express_message_too(self, world: World, box: Box, spark: Consumer) -> None:
        box.send(b"1", time_to_be_received=10, delivery=EXPRESS)
        spark.claim(box)
        world.sleep(100)
        spark.release()
        world.sleep(9)
        assert box.bodies() == [b"1"]
        world.sleep(1)
        assert box.bodies() == []

    def test_it_never_becomes_infinite(self, world: World, box: Box, spark: Consumer) -> None:
        box.send(b"1", time_to_be_received=0xFFFF_FFF0)
        spark.claim(box)
        world.sleep(1000)
        spark.release()
        assert box.peek().time_to_be_received == 0xFFFF_FFFE

    def test_it_is_not_shortened_by_a_clock_that_was_set_back(self, durable_world: World) -> None:
        world = durable_world
        box, spark = world.create("q"), Consumer(world)
        box.send(b"1", time_to_be_received=10)
        spark.claim(box)
        world.now -= 1000
        world.kill()
        assert spark.status(box).oldest_s == 0
        spark.release()
        assert (box.bodies(), box.peek().time_to_be_received) == ([b"1"], 10)

    def test_a_dead_letter_in_a_queue_of_an_application_has_none(
        self, world: World, box: Box, spark: Consumer
    ) -> None:
        dead = world.create("dead")
        path = dead.state.queue.pathname
        box.send(b"1", time_to_be_received=5, negative_journaling=True, dead_letter_queue=path)
        world.sleep(10)
        assert spark.claim(dead)[:2] == (0, 1)
        world.sleep(10)
        spark.release()
        assert (dead.bodies(), dead.peek().time_to_be_received) == ([b"1"], 5)

    def test_what_ends_in_this_moment_is_not_claimed(self, world: World, box: Box, spark: Consumer) -> None:
        box.send(b"1", time_to_be_received=10)
        box.send(b"2")
        world.now += 10
        spark.claim(box)
        assert spark.held(box) == {1: b"2"}
        assert world.discarded() == [MessageClass.NACK_RECEIVE_TIMEOUT]


class TestQuotas:
    def test_claimed_messages_count_to_the_byte(self, world: World, spark: Consumer) -> None:
        box = world.create("q", quota_kib=2)
        box.send(bytes(700))
        size = box.state.size_bytes
        left = 2048 - 2 * size
        spark.claim(box)
        assert (box.state.claimed_bytes, box.state.used_bytes) == (size, size)
        box.send(bytes(700 + left))
        with pytest.raises(InsufficientResourcesError):
            box.send(b"")
        spark.claim(box)
        world.kill()
        with pytest.raises(InsufficientResourcesError):
            box.send(b"")
        spark.acknowledge(box, 1)
        box.send(bytes(700))
        with pytest.raises(InsufficientResourcesError):
            box.send(b"")

    def test_those_of_the_queue_manager_too(self, world: World, box: Box, spark: Consumer) -> None:
        world.set(queue_manager_quota_kib=1)
        box.send(bytes(700))
        spark.claim(box)
        with pytest.raises(InsufficientResourcesError):
            box.send(bytes(700))
        world.kill()
        with pytest.raises(InsufficientResourcesError):
            box.send(bytes(700))
        spark.release()
        with pytest.raises(InsufficientResourcesError):
            box.send(bytes(700))
        box.receive()
        box.send(bytes(700))


class TestQueuesThatChange:
    def test_a_purge_keeps_them_and_raises_the_epoch_of_the_queue(
        self, world: World, box: Box, spark: Consumer
    ) -> None:
        box.send_all(b"1", b"2")
        spark.claim(box, 1)
        assert (box.purge(), box.state.epoch) == (1, 1)
        world.kill()
        assert (spark.held(box), box.state.epoch) == ({1: b"1"}, 1)
        assert (box.purge(), box.state.epoch) == (0, 1)
        assert spark.acknowledge(box, 1) == 1

    def test_a_purge_of_what_somebody_holds_raises_it_too(self, box: Box) -> None:
        box.send(b"1")
        box.take()
        assert (box.purge(), box.state.epoch) == (0, 1)

    def test_of_a_journal_too(self, world: World) -> None:
        box = world.create("q", journaling=True)
        box.send(b"1")
        box.receive()
        box.journal.purge()
        world.kill()
        assert (box.state.epoch, box.journal.state.epoch) == (0, 1)

    def test_they_end_with_their_queue(self, world: World, box: Box, spark: Consumer) -> None:
        admin = world.create("admin")
        how = {"acknowledgements": ALL_ACKNOWLEDGEMENTS, "administration_queue": admin.name}
        box.send_all(b"1", b"2", **how)
        admin.drain()
        spark.claim(box, 1)
        box.delete()
        assert admin.classes() == [MessageClass.NACK_Q_DELETED] * 2
        assert world.discarded() == [MessageClass.NACK_Q_DELETED] * 2
        with world.store.snapshot() as view:
            assert (view.count(Keyspace.CLAIMED), view.count(Keyspace.CONSUMERS)) == (0, 1)
        world.kill()
        box = world.create("q")
        assert spark.status(box).hi == 0

    def test_a_damaged_one_as_well(self, world: World, box: Box, spark: Consumer) -> None:
        box.send_all(b"first", b"second")
        spark.claim(box)
        damage(world, b"first", DAMAGES["zeros"])
        box.delete()
        assert len(world.discards()) == 2
        assert world.total_bytes == 0


def damage(world: World, body: bytes, how: Damage) -> None:
    """Changes the record of a claimed message."""
    batch = world.store.begin()
    (key,) = (key for key, data in batch.range(Keyspace.CLAIMED, b"\0", b"\xff" * 13) if body in data)
    old = batch.get(Keyspace.CLAIMED, key)
    assert old is not None
    batch.put(Keyspace.CLAIMED, key, how(old))
    batch.commit()


class TestDamage:
    @pytest.mark.parametrize("how", DAMAGES.values(), ids=DAMAGES.keys())
    @pytest.mark.parametrize("act", ["read", "acknowledge", "release"])
    def test_a_damaged_message_is_set_aside_and_its_number_is_missing(
        self, durable_world: World, how: Damage, act: str
    ) -> None:
        world = durable_world
        box, spark = world.create("q"), Consumer(world)
        box.send_all(b"first", b"second", b"third")
        spark.claim(box)
        damage(world, b"second", how)
        match act:
            case "read":
                assert spark.held(box) == {1: b"first", 3: b"third"}
                world.kill()
                assert spark.held(box) == {1: b"first", 3: b"third"}
            case "acknowledge":
                assert spark.acknowledge(box, 3) == 2
            case "release":
                assert spark.release() == 0
                assert box.bodies() == [b"first", b"third"]
                assert spark.status(box).lo == 3
        (line,) = world.discards()
        assert "message 2 that consumer spark claimed" in line.queue
        assert "damaged" in line.reason
        with world.store.snapshot() as view:
            assert view.count(Keyspace.DAMAGED) == 1

    def test_the_number_of_a_damaged_message_is_not_given_again(
        self, world: World, box: Box, spark: Consumer
    ) -> None:
        box.send_all(b"first", b"second")
        spark.claim(box)
        damage(world, b"second", DAMAGES["zeros"])
        spark.held(box)
        spark.release()
        assert (spark.status(box).lo, spark.status(box).hi) == (2, 2)

    def test_a_damaged_message_is_not_claimed(self, durable_world: World) -> None:
        world = durable_world
        box, spark = world.create("q"), Consumer(world)
        box.send_all(b"first", b"second", b"third")
        batch = world.store.begin()
        (key,) = (
            key for key, data in batch.range(Keyspace.MESSAGES, b"\0", b"\xff" * 13) if b"second" in data
        )
        batch.put(Keyspace.MESSAGES, key, b"nonsense")
        batch.commit()
        spark.claim(box)
        assert spark.held(box) == {1: b"first", 2: b"third"}
        assert len(world.discards()) == 1

    @pytest.mark.parametrize("key", [b"spark", b"spark\0"], ids=["consumer", "claim"])
    def test_numbers_that_cannot_be_trusted_are_an_error_at_the_start(
        self, world: World, box: Box, spark: Consumer, key: bytes
    ) -> None:
        box.send(b"1")
        spark.claim(box)
        assert isinstance(world.store, MemoryStore)
        space = world.store.spaces[Keyspace.CONSUMERS]
        (found,) = (
            each for each in space if each[: len(key)] == key and (len(each) == len(key) or key[-1:] == b"\0")
        )
        sound = space[found]
        for at in range(len(sound)):
            space[found] = sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :]
            with pytest.raises(StoreDamagedError, match="spark"):
                world.start()
            world.store._batch = None
        space[found] = sound
        world.start()


class TestListing:
    def test_what_a_consumer_holds(self, world: World, box: Box, spark: Consumer) -> None:
        box.send_all(b"1", b"2", b"3")
        size = box.state.size_bytes // 3
        spark.claim(box, 2)
        world.sleep(5)
        spark.claim(box)
        world.sleep(7)
        spark.acknowledge(box, 1)
        world.sleep(1)
        (status,) = world.run(spark.claims.all)
        assert status == spark.status(box)
        assert (status.consumer, status.queue, status.epoch) == ("spark", r"HERE\private$\q", spark.epoch)
        assert (status.identifier, status.queue_epoch) == (box.state.queue.identifier, 0)
        assert (status.lo, status.hi, status.count, status.size_bytes) == (1, 3, 2, 2 * size)
        assert (status.oldest_s, status.last_seen) == (13, int(world.now) - 1)
        world.kill()
        assert world.run(spark.claims.all) == [status]

    def test_a_snapshot_tells_where_the_messages_are(self, durable_world: World) -> None:
        box, spark = durable_world.create("q"), Consumer(durable_world)
        box.send_all(*[b"%d" % number for number in range(5)])
        spark.claim(box)
        spark.acknowledge(box, 1)
        with durable_world.store.snapshot() as view:
            row = find_claim(view, "spark", box.state.queue.identifier)
            assert row is not None
            assert (row.floor, row.hi, row.count) == (1, 5, 4)
            found = weights(view, row.slot, 1, 5, every=2)
            assert [seq for seq, _ in found] == [3, 5]
            assert find_claim(view, "spar", box.state.queue.identifier) is None
