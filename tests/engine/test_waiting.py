"""[MS-MQDMPR] 3.1.2.3, 3.1.7.1.17, 3.1.7.2.2, 3.1.7.3.1: reads that wait, and who is served first."""

import pytest

from tiercel.engine.handles import Waiter
from tiercel.model.codes import MessageClass, QueueAccess
from tiercel.model.errors import IoTimeoutError, OperationCancelledError
from tiercel.model.message import Message

from .harness import Box, Walk, World, refused, result_of

TIMEOUT = 0xC00E001B
CANCELLED = 0xC00E0008
QUEUE_DELETED = 0xC00E005A


@pytest.fixture
def box(world: World) -> Box:
    return world.create("q")


class TestWaitingMessageReadOperation:
    """3.1.1.10."""

    @pytest.mark.conformance("DMPR-069")
    def test_it_records_what_it_waits_for(self, box: Box) -> None:
        walk = Walk(box)
        receive, peek = box.wait(tag=7), walk.start_peek(None)
        assert isinstance(peek, Waiter)
        assert (receive.is_receive, receive.tag, receive.cursor) == (True, 7, None)
        assert (peek.is_receive, peek.tag, peek.cursor) == (False, None, walk.cursor)
        assert box.state.waiters == [receive, peek]


class TestWaitingMessageReadTimer:
    """3.1.2.3 and 3.1.6.3."""

    @pytest.mark.conformance("DMPR-118", "DMPR-152", "DMPR-259")
    def test_each_wait_has_its_own_timer_and_infinite_has_none(self, world: World, box: Box) -> None:
        soon, later, never = box.wait(2), box.wait_to_peek(5), box.wait()
        assert world.engine.next_deadline == world.now + 2
        world.sleep(1.9)
        assert world.completed() == []
        world.sleep(0.1)
        assert (world.completed(), world.engine.next_deadline) == ([soon], world.now + 3)
        world.sleep(3)
        assert world.completed() == [later]
        assert not world.engine.next_deadline
        for waiter in (soon, later):
            with refused(TIMEOUT):
                waiter.result()
        world.sleep(86_400 * 365)
        assert box.state.waiters == [never]

    @pytest.mark.conformance("DMPR-258")
    @pytest.mark.parametrize("timeout", [0, -1])
    def test_no_time_is_no_wait(self, world: World, box: Box, timeout: float) -> None:
        with refused(TIMEOUT):
            box.start_receive(timeout)
        opened = box.receiving
        with refused(TIMEOUT):
            world.run(lambda: world.engine.reading.peek(opened, timeout))
        assert (box.state.waiters, world.engine.next_deadline) == ([], None)

    @pytest.mark.conformance("DMPR-259", "DMPR-265")
    @pytest.mark.parametrize("ending", ["message", "timeout", "cancel"])
    def test_however_it_ends_no_waiter_and_no_timer_stay(self, world: World, box: Box, ending: str) -> None:
        waiter = box.wait(10, tag=1)
        match ending:
            case "message":
                box.send(b"x")
                assert result_of(waiter).body == b"x"
            case "timeout":
                world.sleep(10)
                with refused(TIMEOUT):
                    waiter.result()
            case "cancel":
                world.run(lambda: world.engine.waiting.cancel(box.state, 1))
                with refused(CANCELLED):
                    waiter.result()
        assert world.completed() == [waiter]
        assert (box.state.waiters, world.engine.next_deadline) == ([], None)
        world.sleep(10)
        assert world.completed() == []

    def test_a_message_at_the_last_moment_is_not_lost(self, world: World, box: Box) -> None:
        waiter = box.wait(5)
        world.now += 5
        box.send(b"x")
        with refused(TIMEOUT):
            waiter.result()
        assert box.bodies() == [b"x"]


class TestMessagePositionAvailable:
    """3.1.7.2.2: a new message is handed to waiting readers before anybody else sees it."""

    @pytest.mark.conformance("DMPR-251")
    def test_one_message_ends_one_receive(self, world: World, box: Box) -> None:
        first, second = box.wait(), box.wait()
        box.send(b"1")
        assert (world.completed(), box.state.waiters) == ([first], [second])
        box.send(b"2")
        assert [result_of(each).body for each in (first, second)] == [b"1", b"2"]

    @pytest.mark.conformance("DMPR-252", "DMPR-213")
    def test_all_peeks_and_one_receive(self, world: World, box: Box) -> None:
        peeks = [box.wait_to_peek(), box.wait_to_peek()]
        receives = [box.wait(), box.wait()]
        late_peek = box.wait_to_peek()
        box.send(b"1")
        assert {id(each) for each in world.completed()} == {
            id(each) for each in (*peeks, late_peek, receives[0])
        }
        assert world.completed()[-1] is receives[0]
        assert box.state.waiters == [receives[1]]
        assert (box.state.count, world.removed()) == (0, [MessageClass.ACK_RECEIVE])

    @pytest.mark.conformance("DMPR-250", "DMPR-112")
    def test_readers_are_served_in_the_order_of_their_coming(self, box: Box) -> None:
        """T-29: one line for the queue, whichever handle they came through."""
        one, two = box.open(QueueAccess.RECEIVE), box.open(QueueAccess.RECEIVE)
        line = [box.wait(opened=opened) for opened in (one, two, two, one)]
        before = box.state.size_bytes
        box.send_all(b"1", b"2", b"3", b"4")
        assert [result_of(waiter).body for waiter in line] == [b"1", b"2", b"3", b"4"]
        assert (box.state.size_bytes, before) == (0, 0)

    @pytest.mark.conformance("DMPR-250")
    def test_with_nobody_waiting_the_message_is_counted_and_available(self, box: Box) -> None:
        box.send(b"x" * 1000)
        assert box.state.size_bytes > 1000
        assert box.bodies() == [b"x" * 1000]

    @pytest.mark.conformance("DMPR-192", "DMPR-137")
    def test_a_reader_gets_a_transactional_message_at_its_commit(self, world: World) -> None:
        orders, plain = world.create("orders", transactional=True), world.create("plain")
        waiter, other = orders.wait(), plain.wait()
        sending = world.begin()
        orders.send(b"t", transaction=sending)
        assert (world.completed(), waiter.is_done) == ([], False)
        plain.send(b"p")
        assert world.completed() == [other]
        world.commit(sending)
        assert world.completed() == [waiter]

    def test_a_message_that_is_given_back_goes_to_the_next_reader(self, world: World, box: Box) -> None:
        box.send(b"1")
        taken, waiter = box.take(), box.wait()
        box.end(taken, delete=False)
        assert world.completed() == [waiter]
        assert (result_of(waiter).body, box.state.count) == (b"1", 0)

    def test_a_reader_in_a_transaction_holds_what_it_was_handed(self, world: World) -> None:
        orders = world.create("orders", transactional=True)
        reading = world.begin()
        waiter = orders.wait(transaction=reading)
        with world.transaction() as sending:
            orders.send(b"1", transaction=sending)
        assert result_of(waiter).body == b"1"
        assert orders.bodies() == []
        world.abort(reading)
        assert orders.bodies() == [b"1"]

    @pytest.mark.parametrize("ending", ["commit", "abort", "prepare"])
    def test_a_reader_whose_transaction_ends_waits_no_longer(self, world: World, ending: str) -> None:
        """A message that it got would be locked for ever."""
        orders = world.create("orders", transactional=True)
        reading = world.begin()
        waiter = orders.wait(transaction=reading)
        getattr(world, ending)(reading)
        with world.transaction() as sending:
            orders.send(b"1", transaction=sending)
        assert orders.bodies() == [b"1"]
        with refused(0xC00E0051):
            waiter.result()

    @pytest.mark.conformance("DMPR-205")
    def test_a_receive_in_two_phases_waits_and_then_locks(self, world: World, box: Box) -> None:
        cancelled, waiter = box.wait(two_phase=True, tag=5), box.wait(two_phase=True, tag=6)
        assert world.run(lambda: world.engine.waiting.cancel(box.state, 5))
        with refused(CANCELLED):
            cancelled.result()
        box.send(b"1")
        assert (result_of(waiter).body, box.state.count, box.bodies()) == (b"1", 1, [])
        box.end(result_of(waiter), delete=True)
        assert box.state.count == 0

    def test_effects_leave_only_with_the_commit(self, world: World, box: Box) -> None:
        waiter = box.wait()
        opened = box.handle(QueueAccess.SEND)
        world.engine.begin(world.now)
        world.engine.sending.send(opened, Message(b"x"))
        assert world.completed() == []
        world.effects = world.engine.commit()
        assert world.completed() == [waiter]


class TestCancelWaitingMessageReadRequest:
    """3.1.7.1.17."""

    @pytest.mark.conformance("DMPR-216")
    def test_the_wait_with_the_tag_ends_with_the_status_and_the_others_go_on(
        self, world: World, box: Box
    ) -> None:
        one, two = box.open(QueueAccess.RECEIVE), box.open(QueueAccess.RECEIVE)
        seven, eight = box.wait(opened=one, tag=7), box.wait(opened=two, tag=8)
        cancel, queue = world.engine.waiting.cancel, box.state
        assert not world.run(lambda: cancel(queue, 7, opened=two))
        assert world.run(lambda: cancel(queue, 7, OperationCancelledError("q")))
        assert world.completed() == [seven]
        with refused(CANCELLED):
            seven.result()
        assert box.state.waiters == [eight]
        assert not world.run(lambda: cancel(queue, 7))
        assert box.state.waiters == [eight]

    def test_a_peek_can_be_cancelled_too(self, world: World, box: Box) -> None:
        waiter = box.wait_to_peek(tag=3)
        assert world.run(lambda: world.engine.waiting.cancel(box.state, 3))
        assert (waiter.is_done, box.state.waiters) == (True, [])


class TestNobodyIsLeftToWaitForNothing:
    """T-07."""

    @pytest.mark.conformance("DMPR-183", "DMPR-184")
    def test_closing_the_queue_cancels_its_waits_and_no_others(self, world: World, box: Box) -> None:
        opened, other = box.open(QueueAccess.RECEIVE), box.open(QueueAccess.RECEIVE)
        walk = Walk(box, opened)
        cursor_wait = walk.start_peek(None)
        waits = [box.wait(opened=opened, tag=1), box.wait_to_peek(opened=opened), cursor_wait]
        stays = box.wait(opened=other)
        world.run(lambda: world.engine.opening.close(opened))
        assert {id(each) for each in world.completed()} == {id(each) for each in waits}
        for waiter in world.completed():
            with refused(CANCELLED):
                waiter.result()
        assert (box.state.waiters, len(opened.cursors)) == ([stays], 0)
        assert opened.handle not in box.state.handles

    def test_deleting_the_queue_tells_every_reader(self, world: World, box: Box) -> None:
        waits = [box.wait(), box.wait_to_peek(tag=4)]
        box.delete()
        assert world.completed() == waits
        for waiter in waits:
            with refused(QUEUE_DELETED):
                waiter.result()

    def test_stopping_the_queue_manager_tells_every_reader(self, world: World, box: Box) -> None:
        waits = [box.wait(), box.wait_to_peek(), world.create("other").wait(5)]
        world.effects = world.engine.stop()
        assert {id(each) for each in world.completed()} == {id(each) for each in waits}
        for waiter in waits:
            with refused(CANCELLED):
                waiter.result()


class TestNews:
    def wait(self, box: Box, timeout: float) -> Waiter:
        opened = box.handle(QueueAccess.PEEK)
        return box.world.run(lambda: box.world.engine.reading.wait_for_news(opened, timeout))

    def test_comes_whatever_is_there_already(self, world: World) -> None:
        box = world.create("q")
        box.send(b"old")
        waiter = self.wait(box, 60)
        assert not waiter.is_done
        box.send(b"new")
        assert world.completed() == [waiter]
        assert waiter.result().queue is box.state

    def test_comes_with_what_is_given_back(self, world: World) -> None:
        box = world.create("q")
        box.send(b"1")
        taken = box.take()
        waiter = self.wait(box, 60)
        box.end(taken, delete=False)
        assert waiter.result().lookup_id == taken.lookup_id

    def test_ends_in_time(self, world: World) -> None:
        box = world.create("q")
        box.send(b"old")
        waiter = self.wait(box, 5)
        world.sleep(6)
        with pytest.raises(IoTimeoutError):
            waiter.result()
