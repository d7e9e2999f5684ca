"""Browsing by visibility sequence: where a queue begins and ends, where a time is, what only memory has."""

import pytest

from tiercel.engine.browsing import LAST_SEQUENCE, Head, key_ranges, lookup_ids
from tiercel.engine.records import message_key
from tiercel.model.codes import DeliveryGuarantee
from tiercel.model.identifiers import lookup_id, lookup_id_sequence
from tiercel.wire.message import read_message
from tiercel.wire.user_message import UserMessage

from .harness import NOW, Box, World
from .test_damage import damage

EXPRESS = DeliveryGuarantee.EXPRESS


@pytest.fixture
def box(world: World) -> Box:
    return world.create("q")


def head(box: Box) -> Head:
    world = box.world
    return world.run(lambda: world.engine.browsing.head(box.state))


def at(box: Box, time: float) -> int:
    world = box.world
    return world.run(lambda: world.engine.browsing.sequence_at(box.state, time))


def express(box: Box, lo: int, hi: int, after: int = 0, rows: int = 100, size: int = 10**6) -> list[int]:
    world = box.world
    found = world.run(lambda: list(world.engine.browsing.express(box.state, lo, hi, after, rows, size)))
    assert all(data == box.state.express[lookup_id].encode() for lookup_id, data in found)
    return [lookup_id for lookup_id, _ in found]


class TestHead:
    def test_of_all_priorities_stored_or_not(self, box: Box) -> None:
        assert head(box) == Head(0, 0)
        for number in range(16):
            box.send(priority=number % 8, delivery=EXPRESS if number % 3 else DeliveryGuarantee.RECOVERABLE)
        assert head(box) == Head(0, 16)
        box.receive()  # of priority 7: the eighth
        assert head(box) == Head(0, 16)
        box.world.create("other").send()
        box.send(priority=0)
        assert head(box) == Head(0, 18)
        while box.state.count:
            box.receive()
        assert head(box) == Head(0, 0)

    def test_begins_before_the_first_that_is_left(self, box: Box) -> None:
        box.send_all(b"1", b"2", b"3", priority=3)
        box.receive()
        assert head(box) == Head(1, 3)


class TestTimes:
    def test_each_message_is_found_by_its_own(self, box: Box) -> None:
        for number in range(20):
            box.send(priority=number % 8, delivery=EXPRESS if number % 5 else DeliveryGuarantee.RECOVERABLE)
            box.world.sleep(10)
        for number in range(20):
            assert at(box, NOW + 10 * number) == number
            assert at(box, NOW + 10 * number + 0.5) == number + 1
        assert at(box, 0) == 0
        assert at(box, NOW + 10**6) == 20

    def test_in_an_empty_queue(self, box: Box) -> None:
        assert at(box, NOW) == 0

    @pytest.mark.parametrize("time", [0, NOW + 1])
    def test_a_damaged_message_has_none(self, durable_world: World, time: int) -> None:
        box = durable_world.create("q")
        box.send(b"damaged")
        damage(durable_world, b"damaged", lambda data: data[:3])
        assert at(box, time) == 0
        assert box.state.count == 0


class TestExpress:
    def test_stretches_and_slices(self, box: Box) -> None:
        for number in range(24):
            box.send(b"x" * 50, priority=number % 8, delivery=EXPRESS)
        box.send(b"stored")
        everything = express(box, 0, LAST_SEQUENCE)
        assert everything == sorted(everything)
        assert sorted(map(lookup_id_sequence, everything)) == list(range(1, 25))
        assert sorted(map(lookup_id_sequence, express(box, 5, 9))) == [6, 7, 8, 9]
        slices, after = [], 0
        while found := express(box, 0, LAST_SEQUENCE, after, rows=5):
            assert len(found) <= 5
            slices += found
            after = found[-1]
        assert slices == everything
        assert len(express(box, 0, LAST_SEQUENCE, size=1)) == 1


def test_key_ranges_hold_exactly_the_stretch() -> None:
    ranges = key_ranges(7, 10, 12)
    assert len(ranges) == 8
    for priority in range(8):
        for sequence in range(9, 15):
            key = message_key(7, lookup_id(priority, sequence))
            is_in = any(first <= key < end for first, end in ranges)
            assert is_in is (10 < sequence <= 12)
    assert key_ranges(7, 12, 12) == []
    assert lookup_ids(0, LAST_SEQUENCE)[0] == (1, LAST_SEQUENCE)


class TestOrders:
    def labels(self, box: Box, order: str, after: int) -> list[bytes]:
        world = box.world
        browse = getattr(world.engine.browsing, order)
        return [
            read_message(UserMessage(seen.record.packet)).body
            for seen in world.run(lambda: list(browse(box.state, after)))
        ]

    def fill(self, box: Box) -> None:
        for number in range(6):
            delivery = EXPRESS if number % 2 else DeliveryGuarantee.RECOVERABLE
            box.send(b"%d" % number, priority=number % 3, delivery=delivery)

    def test_as_they_are_received(self, box: Box) -> None:
        self.fill(box)
        assert self.labels(box, "in_order", -1) == [b"2", b"5", b"1", b"4", b"0", b"3"]
        assert self.labels(box, "in_order", lookup_id(1, 2)) == [b"4", b"0", b"3"]

    def test_as_they_have_come(self, box: Box) -> None:
        self.fill(box)
        assert self.labels(box, "by_arrival", 0) == [b"0", b"1", b"2", b"3", b"4", b"5"]
        assert self.labels(box, "by_arrival", 4) == [b"4", b"5"]
        assert self.labels(box, "by_arrival", 6) == []

    def test_the_last_ones(self, box: Box) -> None:
        world = box.world
        assert world.run(lambda: world.engine.browsing.before_last(box.state, 3)) == 0
        self.fill(box)
        world.create("other").send()
        before_last = world.engine.browsing.before_last
        assert world.run(lambda: [before_last(box.state, count) for count in (1, 3, 99)]) == [5, 3, 0]
        assert world.engine.browsing.newest(box.state) == 7

    def test_what_somebody_holds_is_marked_and_what_is_purged_is_gone(self, box: Box) -> None:
        world = box.world
        box.send_all(b"1", b"2")
        box.take()
        seen = world.run(lambda: list(world.engine.browsing.in_order(box.state, -1)))
        assert [each.is_locked for each in seen] == [True, False]
        box.purge()
        assert world.run(lambda: list(world.engine.browsing.in_order(box.state, -1))) == []

    def test_the_oldest(self, box: Box) -> None:
        world = box.world

        def oldest() -> int | None:
            return world.run(lambda: world.engine.browsing.oldest_arrival(box.state))

        assert oldest() is None
        box.send(priority=0)
        world.sleep(10)
        box.send(priority=7)
        assert oldest() == NOW
        box.receive()
        assert oldest() == NOW
        box.receive()
        assert oldest() is None
