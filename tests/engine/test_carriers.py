"""Carriers register for the names that they carry; a name that none takes is refused, or waits."""

import pytest

from tiercel.engine.carriers import AbsentCarrier
from tiercel.model.codes import ConnectionStatus, MessageClass, OutgoingQueueState, QueueAccess
from tiercel.model.errors import UnsupportedFormatNameOperationError
from tiercel.model.format_name import DirectFormatName, FormatName
from tiercel.model.queue import OutgoingQueue

from .harness import ALL_ACKNOWLEDGEMENTS, Box, World, refused

HTTP = "DIRECT=HTTP://there/msmq/private$/q"
OS = r"DIRECT=OS:there\private$\q"
UNSUPPORTED = 0xC00E0020


def _is_os(name: FormatName) -> bool:
    return isinstance(name, DirectFormatName) and name.protocol == "OS"


class Os(AbsentCarrier):
    """Carries DIRECT=OS names, to nowhere."""

    def __init__(self) -> None:
        super().__init__(_is_os, ("DIRECT=OS",))


@pytest.fixture
def carried(world: World) -> World:
    world.engine.carriers.register(Os())
    return world


def outgoing(box: Box) -> OutgoingQueue:
    queue = box.state.queue
    assert isinstance(queue, OutgoingQueue)
    return queue


class TestANameThatNobodyCarries:
    @pytest.mark.parametrize(
        "name", [HTTP, "MULTICAST=234.1.1.1:8001", r"DIRECT=SPX:00000012.00a0234f7500\q"]
    )
    def test_is_refused_when_it_is_opened(self, carried: World, name: str) -> None:
        with pytest.raises(UnsupportedFormatNameOperationError) as caught:
            carried.box(name).open(QueueAccess.SEND)
        kind = name.partition(":")[0].partition("=2")[0]
        multicast = " ([multicast] is off or not available)" if kind == "MULTICAST" else ""
        off = " ([srmp] is off)" if name == HTTP else multicast
        subject = f"{FormatName.parse(name)}: cannot send: this queue manager"
        assert str(caught.value) == (
            f"{subject} has no transport for {kind} names{off}. "
            "Use a name of another kind (DIRECT=OS). [MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION 0xC00E0020]"
        )
        assert not [each for each in carried.engine.queues.all() if each.is_outgoing]

    def test_is_refused_in_a_list_and_nothing_of_the_list_stays_open(self, carried: World) -> None:
        multicast = "MULTICAST=234.1.1.1:8001"  # after the other, which is open by then
        with refused(UNSUPPORTED):
            carried.box(f"{OS},{multicast}").open(QueueAccess.SEND)
        assert not carried.box(OS).state.handles
        carried.box(f"{OS},DIRECT=OS:other\\q").open(QueueAccess.SEND)

    def test_has_a_line_in_the_ledger_when_an_acknowledgement_goes_there(self, carried: World) -> None:
        box = carried.create("q")
        name = FormatName.parse(HTTP)
        assert box.arrive(b"x", acknowledgements=ALL_ACKNOWLEDGEMENTS, administration_queue=name) is None
        assert box.bodies() == [b"x"]
        (line,) = carried.discards()
        assert (line.queue, line.message_class) == (HTTP, MessageClass.NACK_BAD_DST_Q)
        assert "no transport for DIRECT=HTTP names" in line.reason

    def test_is_taken_without_carriers(self, world: World) -> None:
        world.box(HTTP).send(b"1")
        assert world.box(HTTP).state.count == 1


class TestAQueueOfTheStoreThatNobodyCarries:
    @pytest.fixture
    def box(self, durable_world: World) -> Box:
        """Messages that an earlier configuration had a carrier for."""
        box = durable_world.box(HTTP)
        box.send(b"soon", time_to_reach_queue=60, negative_journaling=True)
        box.send(b"later")
        durable_world.restart()
        self.queues = durable_world.engine.carriers.register(Os())
        durable_world.run(durable_world.engine.outgoing.start)
        assert self.queues.take_ready() == []
        return box

    def test_says_why_it_waits(self, box: Box) -> None:
        queue = outgoing(box)
        assert queue.state is OutgoingQueueState.NEED_VALIDATION
        assert queue.reason == (
            "this queue manager has no transport for DIRECT=HTTP names; "
            "configure one and restart, or purge the queue"
        )
        (entry,) = queue.connection_history
        assert entry.status is ConnectionStatus.ROUTING_DATA_NOT_AVAILABLE
        assert box.state.count == 2

    def test_takes_no_more(self, box: Box) -> None:
        with refused(UNSUPPORTED):
            box.send(b"more")
        assert box.state.count == 2

    def test_becomes_dead_letters_in_time(self, box: Box) -> None:
        world = box.world
        world.sleep(61)
        assert (box.state.count, world.dead_letters.bodies()) == (1, [b"soon"])
        assert world.discarded() == [MessageClass.NACK_REACH_QUEUE_TIMEOUT]

    def test_can_be_paused_and_resumed_and_says_why_once(self, box: Box) -> None:
        world, queue = box.world, outgoing(box)
        world.run(lambda: world.engine.outgoing.pause(box.state))
        states = [queue.state]
        world.run(lambda: world.engine.outgoing.resume(box.state))
        assert self.queues.take_ready() == []
        assert [*states, queue.state] == [OutgoingQueueState.ON_HOLD, OutgoingQueueState.NEED_VALIDATION]
        assert len(queue.connection_history) == 1

    def test_can_be_purged(self, box: Box) -> None:
        world = box.world
        opened = box.open(QueueAccess.RECEIVE | QueueAccess.ADMIN)
        assert world.run(lambda: world.engine.purging.purge(opened)) == 2
        assert box.state.count == 0

    def test_goes_on_with_a_carrier(self, box: Box) -> None:
        world = box.world
        world.restart()
        queues = world.engine.carriers.register(AbsentCarrier(lambda _name: True, ()))
        world.run(world.engine.outgoing.start)
        assert queues.take_ready() == [box.state]
        assert (outgoing(box).reason, outgoing(box).state) == ("", OutgoingQueueState.INACTIVE)


def test_each_carrier_has_its_own_work(world: World) -> None:
    by_os = world.engine.carriers.register(Os())
    the_rest = world.engine.carriers.register(AbsentCarrier(lambda _name: True, ()))
    first, second = world.box(OS), world.box(HTTP)
    first.send(b"1")
    second.send(b"2")
    assert the_rest.has_ready
    assert the_rest.take_ready() == [second.state]
    assert not the_rest.has_ready
    assert by_os.take_ready() == [first.state]
    first.send(b"3")
    world.run(lambda: world.engine.outgoing.pause(first.state))
    assert by_os.take_ready() == [], "it is paused"
    world.run(lambda: world.engine.outgoing.resume(first.state))
    assert (by_os.take_ready(), the_rest.take_ready()) == ([first.state], [])
