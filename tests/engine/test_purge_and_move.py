"""[MS-MQDMPR] 3.1.7.1.7 and 3.1.7.1.16: purging a queue and moving messages."""

import pytest

from tiercel.engine.operations import Moved
from tiercel.model.codes import MessageClass, QueueAccess
from tiercel.model.path_name import PathName
from tiercel.store.interface import Keyspace

from .harness import ALL_ACKNOWLEDGEMENTS, Box, World, refused, result_of

UNSUPPORTED = 0xC00E006A
MINE = PathName.parse(r".\private$\mine")


@pytest.fixture
def box(world: World) -> Box:
    return world.create("q")


@pytest.fixture
def admin(world: World) -> Box:
    return world.create("admin")


class TestPurgeQueue:
    @pytest.mark.conformance("DMPR-185")
    def test_every_available_message_ends(self, world: World, box: Box, admin: Box) -> None:
        for delivery in (0, 1, 1):
            box.send(
                b"x",
                delivery=delivery,
                acknowledgements=ALL_ACKNOWLEDGEMENTS,
                administration_queue=admin.name,
            )
        admin.drain()
        assert box.purge() == 3
        assert (box.state.count, box.state.size_bytes, world.total_bytes) == (0, 0, sum_of(admin))
        assert admin.classes() == [MessageClass.NACK_Q_PURGED] * 3
        assert world.discarded() == [MessageClass.NACK_Q_PURGED] * 3

    @pytest.mark.conformance("DMPR-186")
    def test_what_is_taken_ends_when_it_is_given_back(self, world: World) -> None:
        orders = world.create("orders", transactional=True)
        with world.transaction() as sending:
            orders.send_all(b"1", b"2", b"3", transaction=sending)
        reading = world.begin()
        orders.receive(transaction=reading)
        taken = orders.take()
        assert (orders.purge(), orders.state.count) == (1, 2)
        world.abort(reading)
        orders.end(taken, delete=False)
        assert (orders.bodies(), orders.state.count) == ([], 0)
        assert world.discarded() == [MessageClass.NACK_Q_PURGED] * 3

    @pytest.mark.parametrize("ending", ["end", "close", "kill"])
    def test_nothing_stays_of_a_purge_in_the_store(self, world: World, box: Box, ending: str) -> None:
        box.send(b"1")
        taken = box.take()
        box.purge()
        match ending:
            case "end":
                box.end(taken, delete=False)
            case "close":
                box.close()
            case "kill":
                world.kill()
        world.sleep(1)
        with world.store.snapshot() as view:
            assert (view.count(Keyspace.MESSAGES), view.count(Keyspace.EXPIRIES)) == (0, 0)

    def test_a_send_that_commits_later_is_not_purged(self, world: World) -> None:
        """T-22."""
        orders = world.create("orders", transactional=True)
        sending = world.begin()
        orders.send(b"1", transaction=sending)
        assert orders.purge() == 0
        world.commit(sending)
        assert orders.bodies() == [b"1"]

    def test_a_purge_stays_done_over_a_kill(self, durable_world: World) -> None:
        box = durable_world.create("q")
        box.send_all(b"1", b"2", b"3")
        box.take()
        box.purge()
        durable_world.kill()
        assert box.bodies() == []
        assert len(durable_world.discards()) == 3

    def test_of_an_outgoing_queue_the_messages_never_arrived(self, world: World, admin: Box) -> None:
        away = world.box(r"DIRECT=OS:there\private$\q")
        for _ in range(2):
            away.send(b"1", acknowledgements=ALL_ACKNOWLEDGEMENTS, administration_queue=admin.name)
        opened = away.open(QueueAccess.RECEIVE_ADMIN)
        away.start_receive(0, opened=opened)
        assert world.run(lambda: world.engine.purging.purge(opened)) == 1
        assert admin.classes() == [MessageClass.NACK_DELETED] * 2

    def test_nor_one_that_was_chosen(self, world: World, admin: Box) -> None:
        away = world.box(r"DIRECT=OS:there\private$\q")
        away.send(b"1", acknowledgements=ALL_ACKNOWLEDGEMENTS, administration_queue=admin.name)
        (seen,) = world.engine.browsing.in_order(away.state, 0)
        world.run(
            lambda: world.engine.purging.end_one(away.state, seen.lookup_id, MessageClass.NACK_Q_PURGED)
        )
        assert admin.classes() == [MessageClass.NACK_DELETED]


def sum_of(*boxes: Box) -> int:
    return sum(box.state.size_bytes for box in boxes)


class TestMoveMessage:
    @pytest.mark.conformance("DMPR-195")
    def test_the_message_goes_to_the_target_and_wakes_its_reader(
        self, world: World, box: Box, admin: Box
    ) -> None:
        box.send(b"1", acknowledgements=ALL_ACKNOWLEDGEMENTS, administration_queue=admin.name)
        box.send(b"2")
        admin.drain()
        sub = box.subqueue("s")
        waiter = sub.wait()
        box.move(box.peek(), sub)
        assert world.completed() == [waiter]
        assert (result_of(waiter).body, box.bodies(), sub.state.count) == (b"1", [b"2"], 0)
        assert admin.classes() == [MessageClass.ACK_RECEIVE]

    @pytest.mark.conformance("DMPR-195")
    def test_it_takes_its_place_by_the_rules_of_the_list(self, world: World, box: Box) -> None:
        sub = box.subqueue("s")
        for body, priority in ((b"low", 0), (b"high", 7), (b"middle", 3)):
            box.send(body, priority=priority)
            box.move(box.messages()[0], sub)
        assert sub.bodies() == [b"high", b"middle", b"low"]
        assert world.discarded() == []

    def test_a_move_tells_the_sender_nothing(self, world: World, box: Box, admin: Box) -> None:
        box.send(
            b"1",
            acknowledgements=ALL_ACKNOWLEDGEMENTS,
            administration_queue=admin.name,
            positive_journaling=True,
        )
        admin.drain()
        sub = box.subqueue("s")
        box.move(box.peek(), sub)
        sub.move(sub.peek(), box)
        assert (world.removed(), admin.classes(), world.journal.state.count) == ([], [], 1)
        assert (box.messages()[0].move_count, world.discarded()) == (2, [])

    @pytest.mark.conformance("DMPR-196")
    @pytest.mark.parametrize("transactional", [True, False])
    @pytest.mark.parametrize("target", ["system$;DEADXACT", r"private$\other", r"private$\orders"])
    def test_it_goes_between_a_queue_and_its_subqueues_only(
        self, world: World, target: str, transactional: bool
    ) -> None:
        orders = world.create("orders", transactional=True)
        world.create("other", transactional=True)
        with world.transaction() as sending:
            orders.send(b"1", transaction=sending)
        moving = world.begin() if transactional else None
        with refused(UNSUPPORTED):
            orders.move(orders.peek(), world.box(rf".\{target}"), moving)
        assert orders.bodies() == [b"1"]

    def test_what_is_not_there_or_taken_cannot_be_moved(self, box: Box) -> None:
        box.send(b"1")
        sub = box.subqueue("s")
        taken = box.take()
        for _ in range(2):
            with refused(0xC00E0088):
                box.move(taken, sub)
            box.end(taken, delete=True) if box.state.locks else None

    def test_a_moved_message_outlives_a_kill_once(self, durable_world: World) -> None:
        box = durable_world.create("q")
        box.send_all(b"1", b"2")
        sub = box.subqueue("s")
        box.move(box.peek(), sub)
        durable_world.kill()
        assert (box.bodies(), sub.bodies()) == ([b"2"], [b"1"])
        assert sub.messages()[0].move_count == 1


class TestPutBack:
    """A copy that goes from a journal or dead-letter queue to another queue is a message again."""

    @pytest.fixture
    def revived(self, world: World, admin: Box) -> Box:
        """A queue with journaling, and in it what was a dead letter a minute ago; it lives for 10 s."""
        world.create("lost").send(
            b"x",
            time_to_be_received=10,
            negative_journaling=True,
            acknowledgements=ALL_ACKNOWLEDGEMENTS,
            administration_queue=admin.name,
        )
        world.sleep(60)
        orders = world.create("orders", journaling=True)
        world.dead_letters.hand_over(world.dead_letters.peek(), orders)
        admin.drain()
        return orders

    def test_its_end_is_told_and_journaled(self, revived: Box, admin: Box) -> None:
        assert revived.receive().body == b"x"
        assert (revived.journal.bodies(), admin.classes()) == ([b"x"], [MessageClass.ACK_RECEIVE])

    def test_its_time_starts_anew(self, world: World, revived: Box) -> None:
        world.sleep(9)
        assert revived.peek().sent_time == int(world.now) - 9
        world.sleep(1)
        assert (revived.bodies(), world.dead_letters.bodies()) == ([], [b"x"])

    def test_in_the_store_too(self, durable_world: World) -> None:
        world = durable_world
        orders, mine = world.create("orders"), world.create("mine")
        orders.send(b"x", time_to_be_received=10, negative_journaling=True, dead_letter_queue=MINE)
        world.sleep(60)
        mine.hand_over(mine.peek(), orders)
        world.kill()
        assert (orders.bodies(), mine.bodies()) == ([b"x"], [])
        world.sleep(10)
        assert (orders.bodies(), mine.bodies()) == ([], [b"x"])

    @pytest.mark.parametrize("has_consumer", [False, True], ids=["at its place", "at the end"])
    def test_undone_it_is_a_dead_letter_again(self, durable_world: World, *, has_consumer: bool) -> None:
        """Its deadline has gone, also from the store, and nobody is told anything a second time."""
        world = durable_world
        orders, mine, admin = (
            world.create("orders", journaling=True),
            world.create("mine"),
            world.create("admin"),
        )
        if has_consumer:
            mine.send(b"claimed")
            claims = world.engine.claims
            epoch = world.run(lambda: claims.attach("spark"))
            world.run(lambda: claims.claim("spark", epoch, mine.state, 1000, None))
        orders.send(
            b"x",
            time_to_be_received=10,
            negative_journaling=True,
            dead_letter_queue=MINE,
            acknowledgements=ALL_ACKNOWLEDGEMENTS,
            administration_queue=admin.name,
        )
        world.sleep(60)
        (seen,) = world.run(lambda: list(world.engine.browsing.in_order(mine.state, -1)))
        mine.hand_over(mine.peek(), orders)
        admin.drain()
        (now,) = orders.messages()
        before, sent_time = seen.record, int(world.now) - 60
        moved = Moved(
            seen.lookup_id,
            now.lookup_id,
            orders.state.slot,
            sent_time,
            before.abort_count,
            before.reason,
            is_copy=True,
        )
        source, home = orders.receiving, mine.handle(QueueAccess.MOVE)
        assert world.run(lambda: world.engine.moving.move_back(source, moved, home))
        assert not world.run(lambda: world.engine.moving.move_back(source, moved, home))
        assert not list(world.store.begin().range(Keyspace.EXPIRIES, b"", b"\xff" * 21))
        world.kill()
        world.sleep(3600)
        (after,) = world.run(lambda: list(world.engine.browsing.in_order(mine.state, -1)))
        assert (after.record.is_copy, after.record.reason) == (True, before.reason)
        assert after.record.packet == before.packet
        assert (after.lookup_id == seen.lookup_id) is not has_consumer
        assert (orders.bodies(), orders.journal.bodies(), admin.classes()) == ([], [], [])

    def test_in_a_subqueue_of_its_own_queue_it_stays_a_copy(self, world: World) -> None:
        world.create("orders").send(
            b"x", time_to_be_received=10, negative_journaling=True, dead_letter_queue=MINE
        )
        mine = world.create("mine")
        world.sleep(60)
        mine.move(mine.peek(), mine.subqueue("seen"))
        world.sleep(60)
        assert mine.subqueue("seen").bodies() == [b"x"]


class TestPurgeInParts:
    def purge(self, box: Box, newest: int, limit: int) -> int:
        opened = box.receiving
        return box.world.run(lambda: box.world.engine.purging.purge(opened, newest=newest, limit=limit))

    def test_until_what_was_there_has_gone(self, world: World, box: Box) -> None:
        box.send_all(b"1", b"2", b"3")
        newest = world.engine.browsing.newest(box.state)
        assert self.purge(box, newest, 2) == 2
        box.send(b"4", priority=7)
        assert [self.purge(box, newest, 2), self.purge(box, newest, 2)] == [1, 0]
        assert (box.bodies(), len(world.discards())) == ([b"4"], 3)

    def test_what_was_taken_later_is_not_doomed(self, world: World, box: Box) -> None:
        box.send(b"old")
        old, newest = box.take(), world.engine.browsing.newest(box.state)
        self.purge(box, newest, 1)
        box.send(b"new")
        new = box.take()
        self.purge(box, newest, 1)
        box.end(old, delete=False)
        box.end(new, delete=False)
        assert box.bodies() == [b"new"]
