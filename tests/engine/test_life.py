"""The record of what happened to each message, in `engine/life.py`."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from tiercel.engine.check import Checker
from tiercel.engine.life import TAIL_KEY, LifeEvent, LifeKind
from tiercel.model.codes import DeliveryGuarantee, MessageClass
from tiercel.model.errors import StoreFullError
from tiercel.model.identifiers import MessageId
from tiercel.sim.recorded_lives import disagreements
from tiercel.store import Keyspace
from tiercel.store.memory_store import MemoryStore

from .harness import NOW, World

RING = 4096
EXPRESS = DeliveryGuarantee.EXPRESS


@pytest.fixture
def world() -> Iterator[World]:
    made = World(life_bytes=1 << 20)
    yield made
    made.store.close()


def events(world: World, wanted: MessageId) -> list[LifeEvent]:
    found, end = world.run(lambda: world.engine.life.look(wanted, b"", 1_000_000))
    assert end is None
    return found


def kinds(world: World, wanted: MessageId) -> list[LifeKind]:
    return [each.kind for each in events(world, wanted)]


def rows(world: World) -> list[bytes]:
    with world.store.snapshot() as view:
        tail = view.get(Keyspace.STATS, TAIL_KEY)
        found = [row for _, row in view.range(Keyspace.LIFE, b"\0", b"\xff" * 9)]
        return found if tail is None else [*found, tail]


class TestRecording:
    def test_from_send_to_receive(self, world: World) -> None:
        orders = world.create("orders")
        sent, other = orders.send(b"one"), orders.send(b"two")
        world.now += 5
        orders.receive()
        slot = orders.state.slot
        assert events(world, sent) == [
            LifeEvent(NOW, LifeKind.ENTERED, slot, 0, 0),
            LifeEvent(NOW + 5, LifeKind.ENDED, slot, MessageClass.ACK_RECEIVE, 0),
        ]
        assert kinds(world, other) == [LifeKind.ENTERED]

    def test_what_readers_and_consumers_do(self, world: World) -> None:
        orders = world.create("orders")
        sent = orders.send(b"one")
        orders.end(orders.take(), delete=False)
        claims, state = world.engine.claims, orders.state
        epoch = world.run(lambda: claims.attach("spark", [state]))
        world.run(lambda: claims.claim("spark", epoch, state, 10))
        world.run(lambda: claims.release("spark", state))
        epoch = world.run(lambda: claims.attach("spark", [state]))
        world.run(lambda: claims.claim("spark", epoch, state, 10))
        world.run(lambda: claims.acknowledge("spark", epoch, state, 2))
        found = events(world, sent)
        assert [each.kind for each in found] == [
            LifeKind.ENTERED,
            LifeKind.HELD,
            LifeKind.RETURNED,
            LifeKind.CLAIMED,
            LifeKind.RELEASED,
            LifeKind.CLAIMED,
            LifeKind.ENDED,
        ]
        name = world.engine.life.actor_name
        assert [world.run(lambda each=each: name(each.actor)) for each in found[-2:]] == [  # type: ignore[misc]
            "consumer spark",
            "consumer spark",
        ]

    def test_an_end_with_a_copy(self, world: World) -> None:
        orders = world.create("orders")
        sent = orders.send(b"one", negative_journaling=True, time_to_be_received=1)
        world.sleep(2)
        ended, copied = events(world, sent)[1:]
        assert (ended.kind, ended.message_class) == (LifeKind.ENDED, MessageClass.NACK_RECEIVE_TIMEOUT)
        assert (copied.kind, copied.slot) == (LifeKind.COPIED, world.dead_letters.state.slot)

    def test_a_refused_message(self, world: World) -> None:
        full = world.create("full", quota_kib=0)
        assert full.arrive(b"x" * 2000) == MessageClass.NACK_Q_EXCEED_QUOTA
        (line,) = world.discards()
        (event,) = events(world, MessageId.parse(line.message_id))
        assert (event.kind, event.message_class) == (LifeKind.REFUSED, MessageClass.NACK_Q_EXCEED_QUOTA)

    def test_many_of_one_commit_share_an_entry(self, world: World) -> None:
        orders = world.create("orders", transactional=True)
        before = sum(map(len, rows(world)))
        with world.transaction() as transaction:
            sent = [orders.send(b"%d" % each, transaction=transaction) for each in range(100)]
        assert sum(map(len, rows(world))) - before == 36 + 100 * 4
        assert all(kinds(world, each) == [LifeKind.ENTERED] for each in sent)

    def test_off(self) -> None:
        world = World()
        orders = world.create("orders")
        sent = orders.send(b"one")
        assert (events(world, sent), rows(world)) == ([], [])


class TestExpressMessages:
    """They need no commit of the store, and their events must not cause one."""

    def test_their_events_wait_for_the_next_commit(self, world: World) -> None:
        orders = world.create("orders")
        before = rows(world)
        sent = orders.send(b"one", delivery=EXPRESS)
        assert rows(world) == before
        assert kinds(world, sent) == [LifeKind.ENTERED]
        orders.send(b"two")
        assert rows(world) != before
        world.kill()
        assert kinds(world, sent) == [LifeKind.ENTERED]

    def test_they_are_written_when_there_are_many(self, world: World) -> None:
        orders = world.create("orders")
        before = len(rows(world))
        for _ in range(1000):  # each in a second of its own, so that none share an entry
            world.now += 1
            orders.send(delivery=EXPRESS)
            orders.receive()
        assert len(rows(world)) > before


class TestRing:
    @pytest.mark.parametrize("is_on_disk", [False, True])
    def test_it_is_bounded(self, tmp_path: Path, is_on_disk: bool) -> None:
        world = World(tmp_path / "data" if is_on_disk else None, life_bytes=RING)
        orders = world.create("orders")
        first = last = orders.send(b"first")
        for each in range(300):
            last = orders.send(b"%d" % each)
            world.now += 1
        assert sum(map(len, rows(world))) <= RING
        assert sum(map(len, rows(world))) > RING // 2
        assert (kinds(world, first), kinds(world, last)) == ([], [LifeKind.ENTERED])
        oldest = world.run(lambda: world.engine.life.oldest)
        assert oldest is not None
        assert NOW < oldest < world.now
        size, before = world.engine.life.size_bytes, rows(world)
        world.restart()
        assert (world.engine.life.size_bytes, rows(world)) == (size, before)
        orders.send(b"after the restart")
        assert sum(map(len, rows(world))) <= RING
        world.store.close()

    def test_a_lower_limit_counts_after_a_restart(self, world: World) -> None:
        orders = world.create("orders")
        for _ in range(300):
            orders.send(b"x")
        world.options["life_bytes"] = RING
        world.restart()
        orders.send(b"x")
        assert sum(map(len, rows(world))) <= RING
        world.options["life_bytes"] = 0
        world.restart()
        orders.send(b"x")
        assert rows(world) == []

    def test_a_full_store_can_be_emptied(self) -> None:
        store = MemoryStore(max_bytes=400_000)
        world = World(store=store, life_bytes=1 << 20)
        orders = world.create("orders")
        with pytest.raises(StoreFullError):
            orders.send_all(*[b"x" * 100] * 10_000)
        kept = sum(map(len, rows(world)))
        assert kept <= 400_000 // 8
        while orders.state.count:
            orders.receive()
        assert sum(map(len, rows(world))) <= 400_000 // 8

    def test_names_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tiercel.engine.life._MAX_NAMES", 10)
        world = World(life_bytes=1 << 20)
        for each in range(30):
            with world.engine.life.acting(f"192.0.2.{each}"):
                world.create(f"q{each}").delete()
        with world.store.snapshot() as view:
            assert len(list(view.range(Keyspace.LIFE_NAMES, b"\0", b"\xff"))) == 20
        life = world.engine.life
        assert world.run(lambda: life.actor_name(30)) == "192.0.2.29"
        assert world.run(lambda: life.actor_name(1)) == ""


class TestNames:
    def test_of_a_deleted_queue(self, world: World) -> None:
        orders = world.create("orders")
        sent, slot = orders.send(b"one"), orders.state.slot
        orders.delete()
        assert [each.slot for each in events(world, sent)] == [slot, slot]
        world.restart()
        assert world.run(lambda: world.engine.life.removed_queue(slot)).endswith(r"private$\orders")

    def test_who_sent_and_who_waited(self, world: World) -> None:
        orders = world.create("orders")
        life = world.engine.life
        with life.acting("bob"):
            orders.wait(10)
        with life.acting("alice"):
            sent = orders.send(b"one")
        entered, ended = events(world, sent)
        assert world.run(lambda: (life.actor_name(entered.actor), life.actor_name(ended.actor))) == (
            "alice",
            "bob",
        )

    def test_an_actor_keeps_its_number_over_a_restart(self, world: World) -> None:
        orders = world.create("orders")
        with world.engine.life.acting("alice"):
            first = orders.send(b"one")
        world.restart()
        with world.engine.life.acting("alice"):
            second = orders.send(b"two")
        assert events(world, first)[0].actor == events(world, second)[0].actor > 0


class TestReading:
    def test_in_slices(self, world: World) -> None:
        orders = world.create("orders")
        sent = orders.send(b"one")
        for _ in range(10):
            orders.send(b"x")
        orders.receive()
        found, at = [], b""
        while True:
            part, end = world.run(lambda at=at: world.engine.life.look(sent, at, 3))  # type: ignore[misc]
            found += part
            if end is None:
                break
            at = end
        assert [each.kind for each in found] == [LifeKind.ENTERED, LifeKind.ENDED]

    def test_bytes_of_two_numbers_are_not_a_message(self, world: World) -> None:
        orders = world.create("orders")
        with world.engine._core.life.acting(""):
            source = world.engine.queue_manager.identifier
            head = bytes(16) + source.bytes_le + bytes(24)
            packets = [head + number + bytes(8) for number in (b"\1\2\3\4", b"\5\6\7\x08")]
            world.run(lambda: world.engine.life.add(LifeKind.ENTERED, orders.state.slot, packets))
        orders.send(b"x")
        assert kinds(world, MessageId(source, int.from_bytes(b"\1\2\3\4", "little"))) == [LifeKind.ENTERED]
        assert kinds(world, MessageId(source, int.from_bytes(b"\3\4\5\6", "little"))) == []
        assert kinds(world, MessageId(UUID(int=7), int.from_bytes(b"\1\2\3\4", "little"))) == []

    def test_a_damaged_row_is_passed_over(self, world: World) -> None:
        orders = world.create("orders")
        sent = orders.send(b"one")
        (tail,) = rows(world)
        world.run(lambda: world.engine.batch.put(Keyspace.LIFE, bytes(8), bytes(8) + tail[:-1]))
        orders.send(b"two")
        assert kinds(world, sent) == [LifeKind.ENTERED]
        with world.store.snapshot() as view:
            assert [each.text for each in Checker(view).problems()] == ["row 0 cannot be read"]
        world.run(lambda: world.engine.batch.put(Keyspace.STATS, TAIL_KEY, tail[:-1]))
        with world.store.snapshot() as view:
            texts = [each.text for each in Checker(view).problems()]
        assert texts == ["the newest events cannot be read", "row 0 cannot be read"]


class TestAgreement:
    """What `sim/recorded_lives.py` finds; the model and the simulator use it after every step or run."""

    def test_nothing_where_all_is_well(self, world: World) -> None:
        orders = world.create("orders", journaling=True)
        orders.send_all(b"one", b"two", b"three")
        orders.receive()
        orders.hand_over(orders.peek(), world.create("other"))
        with world.store.snapshot() as view:
            assert list(disagreements(view, lambda _: True)) == []

    def test_a_message_that_is_not_recorded(self, world: World) -> None:
        orders = world.create("orders")
        world.engine.life.max_bytes = 0
        orders.send(b"one")
        with world.store.snapshot() as view:
            (problem,) = disagreements(view, lambda _: True)
        assert problem.endswith("its life says {}")
