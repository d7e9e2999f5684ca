"""Damaged records are set aside, told of, and never delivered."""

from collections.abc import Callable

import pytest

from tiercel.engine.handles import Waiter
from tiercel.engine.records import slot_key
from tiercel.model.codes import MessageSeekAction
from tiercel.model.errors import MqError, StoreDamagedError
from tiercel.model.path_name import PathName
from tiercel.store.interface import Keyspace

from .harness import Box, Walk, World

Damage = Callable[[bytes], bytes]
DAMAGES: dict[str, Damage] = {
    "a flipped bit at the end": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "a flipped bit in the head": lambda data: data[:9] + bytes([data[9] ^ 1]) + data[10:],
    "a wrong checksum": lambda data: bytes([data[0] ^ 1]) + data[1:],
    "cut short": lambda data: data[:-10],
    "too long": lambda data: data + b"more",
    "almost nothing": lambda data: data[:3],
    "nothing": lambda _data: b"",
    "zeros": lambda data: bytes(len(data)),
}


def damage(world: World, body: bytes, how: Damage) -> None:
    """Changes the stored record that holds the body."""
    batch = world.store.begin()
    keys = [key for key, data in batch.range(Keyspace.MESSAGES, b"\0", b"\xff" * 13) if body in data]
    assert len(keys) == 1
    (old,) = (batch.get(Keyspace.MESSAGES, key) for key in keys)
    assert old is not None
    batch.put(Keyspace.MESSAGES, keys[0], how(old))
    batch.commit()


@pytest.fixture
def box(durable_world: World) -> Box:
    made = durable_world.create("q")
    made.send_all(b"first", b"second", b"third")
    return made


@pytest.fixture
def world(durable_world: World) -> World:
    return durable_world


class TestADamagedRecord:
    @pytest.mark.parametrize("how", DAMAGES.values(), ids=DAMAGES.keys())
    @pytest.mark.parametrize("restart", [False, True])
    def test_it_is_never_delivered_and_the_others_are(
        self, world: World, box: Box, how: Damage, restart: bool
    ) -> None:
        damage(world, b"first", how)
        if restart:
            world.kill()
        assert [message.body for message in box.drain()] == [b"second", b"third"]
        (line,) = world.discards()
        assert (line.queue, line.message_class) == (r"queue HERE\private$\q", 0)
        assert "damaged" in line.reason
        world.kill()
        with world.store.snapshot() as view:
            assert view.count(Keyspace.DAMAGED) == 1
            assert view.count(Keyspace.MESSAGES) == 0
        assert (box.state.count, box.state.size_bytes, world.total_bytes) == (0, 0, 0)

    @pytest.mark.parametrize("read", ["peek", "walk", "lookup", "last", "previous", "purge", "move", "wait"])
    def test_whichever_way_it_is_come_upon(self, world: World, box: Box, read: str) -> None:
        ids = {message.body: message.lookup_id for message in box.messages()}
        damage(world, b"third" if read in {"last", "wait"} else b"second", DAMAGES["zeros"])
        match read:
            case "peek":
                box.receive()
                assert box.peek().body == b"third"
            case "walk":
                walk = Walk(box)
                assert [walk.peek().body, walk.peek_next().body] == [b"first", b"third"]
            case "lookup":
                with pytest.raises(MqError):
                    box.lookup(ids[b"second"], peek=False)
            case "last":
                assert box.lookup(0, MessageSeekAction.SEEK_LAST).body == b"second"
            case "previous":
                assert box.lookup(ids[b"third"], MessageSeekAction.SEEK_PREVIOUS).body == b"first"
            case "purge":
                assert box.purge() == 2
                assert box.state.count == 0
            case "move":
                message = box.peek()
                message.lookup_id = ids[b"second"]
                with pytest.raises(MqError):
                    box.move(message, box.subqueue("s"))
            case "wait":
                box.receive()
                box.receive()
                assert isinstance(box.start_receive(5), Waiter)
        assert sum("damaged" in line.reason for line in world.discards()) == 1
        assert len(box.messages()) == box.state.count

    def test_the_bytes_are_kept_for_whoever_can_read_them(self, world: World, box: Box) -> None:
        damage(world, b"first", DAMAGES["a wrong checksum"])
        box.peek()
        with world.store.snapshot() as view:
            ((_, kept),) = view.range(Keyspace.DAMAGED, b"\0", b"\xff" * 40)
        assert b"first" in kept

    def test_the_count_stays_exact_for_a_message_with_a_dead_letter_queue(self, world: World) -> None:
        box = world.create("other")
        own = PathName.parse(r".\private$\letters")
        box.send(b"damaged one", dead_letter_queue=own)
        box.send(b"good one")
        size = box.state.size_bytes
        damage(world, b"damaged one", DAMAGES["a wrong checksum"])
        assert box.bodies() == [b"good one"]
        box.receive()
        assert (box.state.count, box.state.size_bytes, size > 0) == (0, 0, True)

    def test_one_that_runs_out_of_time(self, world: World) -> None:
        box = world.create("other")
        box.send(b"timed", time_to_be_received=5)
        damage(world, b"timed", DAMAGES["zeros"])
        world.sleep(6)
        assert (box.state.count, box.bodies()) == (0, [])
        assert ["damaged" in line.reason for line in world.discards()] == [True]

    def test_the_last_number_of_a_stream(self, world: World) -> None:
        """A repeated number would be worse than a queue manager that stops."""
        orders = world.create("orders", transactional=True)
        with world.transaction() as sending:
            orders.send(b"1", transaction=sending)
        batch = world.store.begin()
        batch.put(Keyspace.SEQUENCES, slot_key(orders.state.slot), b"short")
        batch.commit()
        sending = world.begin()
        orders.send(b"2", transaction=sending)
        with pytest.raises(StoreDamagedError, match="5 bytes"):
            world.commit(sending)

    def test_an_operation_of_a_prepared_transaction(self, world: World) -> None:
        orders = world.create("orders", transactional=True)
        sending = world.begin()
        orders.send(b"1", transaction=sending)
        world.prepare(sending)
        batch = world.store.begin()
        *_, (key, _) = batch.range(Keyspace.TRANSACTIONS, b"", b"\xff" * 21)
        batch.put(Keyspace.TRANSACTIONS, key, b"short")
        batch.commit()
        world.kill()
        with world.store.snapshot() as view:
            damaged = dict(view.range(Keyspace.DAMAGED, b"\0", b"\xff" * 40))
            assert damaged == {Keyspace.TRANSACTIONS.encode() + key: b"short"}
        assert ["damaged" in line.reason for line in world.discards()] == [True]

    def test_one_that_a_prepared_transaction_holds(self, world: World) -> None:
        orders = world.create("orders", transactional=True)
        with world.transaction() as sending:
            orders.send_all(b"held", b"free", transaction=sending)
        reading = world.begin()
        orders.receive(transaction=reading)
        world.prepare(reading)
        damage(world, b"held", DAMAGES["zeros"])
        world.kill()
        world.commit(reading)
        assert (orders.bodies(), orders.state.count) == ([b"free"], 1)
        assert ["damaged" in line.reason for line in world.discards()] == [True]
