"""[MS-MQDMPR] 3.1.1.18 and 3.1.7.3.9: which outgoing message leaves next."""

import pytest

from tiercel.engine.dispatch import Dispatch, DispatchEntry
from tiercel.model.codes import DeliveryGuarantee, OutgoingQueueState
from tiercel.model.queue import OutgoingQueue

from .harness import Box, World


class Wire:
    """Both senders: keeps what it is given, in order, until the test says that it is done."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.binary: list[DispatchEntry] = []
        self.srmp: list[DispatchEntry] = []
        self.dispatch.send_binary = self.binary.append
        self.dispatch.send_srmp = self.srmp.append

    @property
    def dispatch(self) -> Dispatch:
        return self.world.engine.dispatch

    def add(self, box: Box, data: object = "protocol data") -> None:
        """Adds every message of an outgoing queue, oldest first, as a protocol does when it is told."""

        def add() -> None:
            for lookup_id in list(box.state.express):
                self.dispatch.add(box.state, lookup_id, data)

        self.world.run(add)

    def done(self, entry: DispatchEntry) -> None:
        self.world.run(lambda: self.dispatch.remove(entry.queue, entry.lookup_id))


def outgoing(world: World, number: int, *priorities: int, base_priority: int = 0) -> Box:
    box = world.box(rf"DIRECT=OS:there\private$\q{number}")
    for priority in priorities:
        box.send(b"x", priority=priority, delivery=DeliveryGuarantee.EXPRESS)
    box.state.queue.base_priority = base_priority
    return box


@pytest.fixture
def wire(world: World) -> Wire:
    return Wire(world)


@pytest.mark.conformance("DMPR-116", "DMPR-230")
def test_one_collection_holds_the_messages_of_all_outgoing_queues(world: World, wire: Wire) -> None:
    boxes = [outgoing(world, number, 3, base_priority=number) for number in (1, 2, 3)]
    for box in boxes:
        wire.add(box)
    entries = wire.dispatch.entries()
    assert [(entry.queue, entry.priority, entry.data) for entry in entries] == [
        (box.state, 3 + number, "protocol data") for number, box in enumerate(boxes, 1)
    ]
    assert [entry.send_in_progress for entry in entries] == [True, False, False]


def test_a_protocol_is_told_of_every_message_to_send(world: World) -> None:
    box = outgoing(world, 1, 3)
    assert list(world.engine.outgoing.take_ready()) == [box.state]


@pytest.mark.conformance("DMPR-233")
def test_the_highest_priority_goes_next_and_one_at_a_time(world: World, wire: Wire) -> None:
    wire.add(outgoing(world, 1, 3))
    for number, priority in ((2, 1), (3, 7), (4, 5)):
        wire.add(outgoing(world, number, priority))
    assert len(wire.binary) == 1
    order = []
    for _ in range(4):
        order.append(wire.binary[-1].priority)
        wire.done(wire.binary[-1])
    assert order == [3, 7, 5, 1]
    assert wire.dispatch.entries() == []


@pytest.mark.conformance("DMPR-041")
def test_the_base_priority_orders_queues_and_not_the_messages_of_one(world: World, wire: Wire) -> None:
    wire.add(outgoing(world, 0, 0))  # in progress
    slow, fast = outgoing(world, 1, 7, 7), outgoing(world, 2, 3, 3, base_priority=5)
    wire.add(slow)
    wire.add(fast)
    sent = []
    for _ in range(5):
        sent.append(wire.binary[-1])
        wire.done(wire.binary[-1])
    assert [entry.queue for entry in sent[1:]] == [fast.state, fast.state, slow.state, slow.state]
    assert sent[1].lookup_id < sent[2].lookup_id


@pytest.mark.conformance("DMPR-231")
def test_removing_starts_the_next_even_if_it_was_not_there(world: World, wire: Wire) -> None:
    box = outgoing(world, 1, 3, 3)
    wire.add(box)
    wire.done(wire.binary[0])
    assert len(wire.binary) == 2
    world.run(lambda: wire.dispatch.remove(box.state, 12345))
    assert len(wire.binary) == 2  # the second is still on its way


@pytest.mark.conformance("DMPR-232")
def test_the_messages_of_a_paused_queue_leave_the_collection(world: World, wire: Wire) -> None:
    paused, other = outgoing(world, 1, 7, 7, 7, 7, 7), outgoing(world, 2, 3)
    wire.add(paused)
    wire.add(other)
    world.run(lambda: wire.dispatch.remove_queue(paused.state))
    assert [entry.queue for entry in wire.dispatch.entries()] == [other.state]
    assert wire.binary[-1].queue is other.state


@pytest.mark.conformance("DMPR-234")
def test_protocol_data_decides_which_protocol_sends(world: World, wire: Wire) -> None:
    wire.add(outgoing(world, 1, 3))
    wire.done(wire.binary[0])
    wire.add(outgoing(world, 2, 3), data=None)
    assert (len(wire.binary), len(wire.srmp)) == (1, 1)


def test_a_message_that_is_gone_is_skipped(world: World, wire: Wire) -> None:
    wire.add(outgoing(world, 1, 7))
    gone = outgoing(world, 2, 5)
    wire.add(gone)
    wire.add(outgoing(world, 3, 3))
    gone.state.express.clear()
    wire.done(wire.binary[0])
    assert [entry.priority for entry in wire.binary] == [7, 3]


def test_a_sender_that_is_done_at_once_does_not_recurse(world: World, wire: Wire) -> None:
    wire.dispatch.send_binary = wire.done
    wire.add(outgoing(world, 1, *[3] * 2000))
    assert wire.dispatch.entries() == []


@pytest.mark.conformance("DMPR-253")
def test_a_queue_on_hold_sends_nothing_until_it_is_resumed(world: World, wire: Wire) -> None:
    paused, other = outgoing(world, 1, 7, 7, 7), outgoing(world, 2, 3)
    queue = paused.state.queue
    assert isinstance(queue, OutgoingQueue)
    wire.add(paused)
    wire.add(other)
    world.run(lambda: world.engine.outgoing.pause(paused.state))
    states = [queue.state]
    wire.done(wire.binary[0])  # it was on its way
    assert [entry.queue for entry in wire.binary] == [paused.state, other.state]
    wire.done(wire.binary[1])
    assert len(wire.binary) == 2, "two are left, and stay"
    world.run(lambda: world.engine.outgoing.resume(paused.state))
    world.run(world.engine.dispatch.send)
    assert [*states, queue.state] == [OutgoingQueueState.ON_HOLD, OutgoingQueueState.INACTIVE]
    for index in (2, 3):
        assert wire.binary[index].queue is paused.state
        wire.done(wire.binary[index])
    assert (len(wire.binary), wire.dispatch.entries()) == (4, [])


def test_a_locked_queue_sends_nothing(world: World, wire: Wire) -> None:
    box = outgoing(world, 1, 3)
    queue = box.state.queue
    assert isinstance(queue, OutgoingQueue)
    queue.state = OutgoingQueueState.LOCKED
    wire.add(box)
    assert wire.binary == []
