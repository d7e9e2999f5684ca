"""[MS-MQDMPR] 3.1.2.4, 3.1.7.2.7 and T-04, T-39: time-to-be-received and time-to-reach-queue."""

import pytest

from tiercel.engine.deadlines import _SPARE
from tiercel.engine.handles import Found, Waiter
from tiercel.engine.transaction import Transaction
from tiercel.model.codes import MessageClass, QueueAccess
from tiercel.model.message import Message

from .harness import ALL_ACKNOWLEDGEMENTS, NOW, RECOVERABLE, Box, World, refused

EXPIRED = MessageClass.NACK_RECEIVE_TIMEOUT
TOO_LATE = MessageClass.NACK_REACH_QUEUE_TIMEOUT
EITHER = pytest.mark.parametrize("delivery", [0, RECOVERABLE], ids=["express", "recoverable"])


@pytest.fixture
def box(world: World) -> Box:
    return world.create("q")


@pytest.fixture
def orders(world: World) -> Box:
    return world.create("orders", transactional=True)


class TestTimeToBeReceivedTimer:
    """3.1.2.4."""

    @EITHER
    @pytest.mark.conformance("DMPR-095", "DMPR-119", "DMPR-191", "DMPR-255")
    def test_it_is_there_until_its_time_is_over(self, world: World, box: Box, delivery: int) -> None:
        admin = world.create("admin")
        box.send(
            b"x",
            delivery=delivery,
            time_to_be_received=5,
            acknowledgements=ALL_ACKNOWLEDGEMENTS,
            administration_queue=admin.name,
        )
        assert world.engine.next_deadline == NOW + 5
        world.sleep(4)
        assert box.bodies() == [b"x"]
        world.sleep(2)
        assert (box.bodies(), box.state.count) == ([], 0)
        assert not world.engine.next_deadline
        assert admin.classes() == [MessageClass.ACK_REACH_QUEUE, EXPIRED]
        assert world.discarded() == [EXPIRED]

    @EITHER
    @pytest.mark.conformance("DMPR-119")
    def test_no_time_at_all_is_over_at_once(self, world: World, box: Box, delivery: int) -> None:
        waiter = box.wait()
        box.send(b"x", delivery=delivery, time_to_be_received=0)
        assert world.removed() == [EXPIRED]
        assert (box.state.count, waiter.is_done, world.discarded()) == (0, False, [EXPIRED])

    @EITHER
    @pytest.mark.conformance("DMPR-119")
    def test_nor_can_it_be_received_in_the_same_batch(self, world: World, box: Box, delivery: int) -> None:
        sending, receiving = box.open(QueueAccess.SEND), box.open(QueueAccess.RECEIVE)

        def send_and_receive() -> Found | Waiter:
            message = Message(b"x", delivery=delivery, time_to_be_received=0)
            world.engine.sending.send(sending, message)
            return world.engine.reading.receive(receiving, 5)

        assert isinstance(world.run(send_and_receive), Waiter)
        assert world.discarded() == [EXPIRED]

    @EITHER
    @pytest.mark.conformance("DMPR-119", "DMPR-095")
    def test_infinite_has_no_timer(self, world: World, box: Box, delivery: int) -> None:
        box.send(b"x", delivery=delivery)
        assert world.engine.next_deadline is None
        world.sleep(10**8)
        assert box.bodies() == [b"x"]
        assert box.messages()[0].time_to_be_received == 0xFFFF_FFFF

    @EITHER
    @pytest.mark.conformance("DMPR-119")
    def test_what_was_received_in_time_is_told_nothing_later(
        self, world: World, box: Box, delivery: int
    ) -> None:
        admin = world.create("admin")
        box.send(
            b"x",
            delivery=delivery,
            time_to_be_received=5,
            acknowledgements=ALL_ACKNOWLEDGEMENTS,
            administration_queue=admin.name,
        )
        box.receive()
        world.sleep(10)
        assert admin.classes() == [MessageClass.ACK_REACH_QUEUE, MessageClass.ACK_RECEIVE]
        assert world.discarded() == []

    @pytest.mark.conformance("DMPR-119")
    def test_a_restart_goes_on_with_the_time_that_is_left(self, durable_world: World) -> None:
        box = durable_world.create("q")
        box.send(b"x", time_to_be_received=10)
        box.send(b"y", time_to_be_received=30)
        durable_world.sleep(6)
        durable_world.kill()
        assert durable_world.engine.next_deadline == NOW + 10
        assert box.bodies() == [b"x", b"y"]
        durable_world.sleep(4)
        assert box.bodies() == [b"y"]
        durable_world.now += 100
        durable_world.restart()
        assert (box.bodies(), durable_world.discarded()) == ([], [EXPIRED, EXPIRED])

    def test_a_read_that_comes_before_any_timer_does_not_get_it(self, world: World, box: Box) -> None:
        box.send(b"x", time_to_be_received=5)
        box.receiving  # noqa: B018  # opened, so that the next batch is the read
        world.now += 5
        with refused(0xC00E001B):
            box.receive()

    def test_messages_that_were_received_in_time_take_no_memory(self, world: World, box: Box) -> None:
        for _ in range(3 * _SPARE // 2):
            box.send(b"x", delivery=0, time_to_be_received=3600)
            box.receive()
        assert len(world.engine._deadlines._express) <= _SPARE
        box.send(b"late", delivery=0, time_to_be_received=5)
        world.sleep(5)
        assert (box.bodies(), world.discarded()) == ([], [EXPIRED])

    @pytest.mark.conformance("DMPR-095")
    def test_it_counts_from_when_the_message_was_sent(self, box: Box) -> None:
        """T-39."""
        assert box.arrive(b"x", sent_time=NOW - 8, time_to_be_received=10) is None
        box.world.sleep(1)
        assert box.bodies() == [b"x"]
        box.world.sleep(1)
        assert box.bodies() == []

    def test_many_expire_in_one_go(self, world: World, box: Box) -> None:
        opened = box.open(QueueAccess.SEND)
        world.engine.begin(world.now)
        for n in range(200):
            world.engine.sending.send(opened, Message(b"", time_to_be_received=1 + n % 3, delivery=n % 2))
        world.engine.commit()
        world.sleep(2)
        assert box.state.count == 66
        world.sleep(1)
        assert (box.state.count, len(world.discards()), world.total_bytes) == (0, 200, 0)

    def test_a_moved_message_takes_its_time_along(self, world: World, box: Box) -> None:
        box.send(b"x", time_to_be_received=5)
        sub = box.subqueue("s")
        box.move(box.peek(), sub)
        world.restart()
        world.sleep(5)
        assert (sub.bodies(), world.discarded()) == ([], [EXPIRED])

    def test_time_never_runs_backwards(self, world: World, box: Box) -> None:
        world.sleep(100)
        world.now -= 50
        box.send(b"x", time_to_be_received=10)
        assert world.engine.next_deadline == NOW + 110


class TestTimeToReachQueue:
    @pytest.mark.conformance("DMPR-094")
    def test_an_outgoing_message_is_given_up(self, durable_world: World) -> None:
        admin, away = durable_world.create("admin"), durable_world.box(r"DIRECT=OS:there\private$\q")
        away.send(
            b"x",
            time_to_reach_queue=5,
            acknowledgements=ALL_ACKNOWLEDGEMENTS,
            administration_queue=admin.name,
        )
        durable_world.restart()
        durable_world.sleep(5)
        assert away.state.count == 1  # it may still leave in the second in which its time ends (MQQB-107)
        durable_world.sleep(1)
        assert (away.state.count, admin.classes()) == (0, [TOO_LATE])
        assert durable_world.discarded() == [TOO_LATE]

    def test_in_its_queue_it_has_no_meaning_any_more(self, world: World, box: Box) -> None:
        box.send(b"x", time_to_reach_queue=5)
        world.sleep(100)
        assert box.bodies() == [b"x"]

    @pytest.mark.conformance("DMPR-189")
    @pytest.mark.parametrize(
        ("sent", "reach", "receive", "taken"),
        [
            (NOW - 10, 5, 0xFFFF_FFFF, False),
            (NOW - 10, 0xFFFF_FFFF, 5, False),
            (NOW - 10, 0xFFFF_FFFF, 10, False),
            (NOW - 10, 10, 0xFFFF_FFFF, True),
            (NOW - 10, 11, 0xFFFF_FFFF, True),
            (NOW + 1000, 5, 0xFFFF_FFFF, True),  # a clock that is ahead
        ],
    )
    def test_what_comes_too_late_is_not_stored(
        self, world: World, box: Box, sent: int, reach: int, receive: int, taken: bool
    ) -> None:
        refusal = box.arrive(b"x", sent_time=sent, time_to_reach_queue=reach, time_to_be_received=receive)
        assert (refusal is None, box.bodies()) == (taken, [b"x"] * taken)
        assert world.discarded() == ([] if taken else [refusal])


class TestExpiryOfATakenMessage:
    """T-04: not the transaction that sent it decides, but the one that holds it."""

    def send(self, world: World, orders: Box) -> Transaction:
        with world.transaction() as sending:
            orders.send(b"x", transaction=sending, time_to_be_received=5)
        reading = world.begin()
        orders.receive(transaction=reading)
        return reading

    def test_a_transactional_message_that_nobody_holds_expires(self, world: World, orders: Box) -> None:
        with world.transaction() as sending:
            orders.send(b"x", transaction=sending, time_to_be_received=5)
        world.sleep(5)
        assert (orders.state.count, world.removed()) == (0, [EXPIRED])

    @pytest.mark.conformance("DMPR-256")
    def test_a_commit_removes_it(self, world: World, orders: Box) -> None:
        reading = self.send(world, orders)
        world.sleep(6)
        assert orders.state.count == 1
        world.commit(reading)
        assert (orders.state.count, orders.state.locks) == (0, {})

    @pytest.mark.conformance("DMPR-256")
    def test_an_abort_does_not_bring_it_back(self, world: World, orders: Box) -> None:
        reading = self.send(world, orders)
        world.sleep(6)
        world.abort(reading)
        assert world.removed() == [EXPIRED]
        assert (orders.state.count, orders.state.locks, world.discarded()) == (0, {}, [EXPIRED])

    def test_a_crash_does_not_bring_it_back(self, world: World, orders: Box) -> None:
        self.send(world, orders)
        world.sleep(6)
        world.kill()
        world.sleep(1)
        assert (orders.bodies(), world.discarded()) == ([], [EXPIRED])

    @pytest.mark.parametrize(("delete", "line"), [(True, []), (False, [EXPIRED])])
    def test_in_a_two_phase_read_its_end_decides(
        self, world: World, box: Box, delete: bool, line: list[int]
    ) -> None:
        box.send(b"x", time_to_be_received=5)
        taken = box.take()
        world.sleep(6)
        box.end(taken, delete=delete)
        assert (box.state.count, world.discarded()) == (0, line)
        with refused(0xC00E001B):
            box.receive()
