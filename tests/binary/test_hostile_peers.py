"""What peers may send and mean no good by it: it must cost them more than us."""

from uuid import UUID

from engine.harness import ALL_ACKNOWLEDGEMENTS
from tiercel.binary.settings import Settings
from tiercel.model.format_name import FormatName, PrivateFormatName
from tiercel.model.identifiers import MessageId, TxSequenceId
from tiercel.model.limits import MAX_PACKET_SIZE
from tiercel.store.interface import Keyspace

from .nodes import Hand, Net, Qm, asking


def test_the_largest_message_is_refused_without_its_body(here: Qm, hand: Hand) -> None:
    """With the body and its names, the acknowledgement would be larger than a packet may be."""
    box, admin = here.create("tx", transactional=True), here.create("admin")
    assert box.state.queue.private_queue_number is not None
    name = PrivateFormatName(here.guid, box.state.queue.private_queue_number)
    empty = hand.message(name, **asking(admin, ALL_ACKNOWLEDGEMENTS))
    full = hand.message(
        name, b"x" * (MAX_PACKET_SIZE - empty.packet_size), **asking(admin, ALL_ACKNOWLEDGEMENTS)
    )
    assert full.packet_size == MAX_PACKET_SIZE
    hand.call(here).send(full)
    assert [each.body for each in admin.drain()] == [b""]


def test_one_stream_however_its_name_is_spelled(net: Net) -> None:
    sender, receiver = net.qm("SENDER"), net.qm("RECEIVER")
    box = receiver.create("tx", transactional=True)
    names = (rf"DIRECT=TCP:{receiver.address}\private$\tx", rf"DIRECT=TCP:{receiver.address}\PRIVATE$\TX")
    boxes = [sender.box(name) for name in names]
    for number in range(8):
        sender.send_together((boxes[number % 2], b"%d" % number))
        net.sleep(1)
    assert box.bodies() == [b"%d" % number for number in range(8)]


def test_order_acks_for_two_queues_that_do_not_exist(here: Qm, hand: Hand) -> None:
    hand.call(here)
    for queue, ordinal in (("a", 1), ("b", 2)):
        name = FormatName.parse(rf"DIRECT=TCP:{here.address}\private$\{queue}")
        hand.send(hand.transactional(name, 1, tx_sequence_id=TxSequenceId(7, ordinal)))
    here.net.sleep(1)
    assert len(hand.order_acks) == 2


def test_a_sender_that_says_it_is_us_fills_nothing(here: Qm, hand: Hand) -> None:
    here.create("tx", transactional=True)
    name = here.name_of("tx")
    hand.guid = here.guid
    hand.call(here).send(hand.transactional(name, 1))
    here.net.sleep(1)
    assert here.box("order_queue$").state.count == 0


def test_a_name_of_ours_with_another_address_reaches_no_queue(net: Net) -> None:
    router = net.qm("ROUTER", settings=Settings(routing_server=True))
    hand = net.hand()
    packet = hand.message(FormatName.parse(rf"DIRECT=TCP:{router.address}\private$\awaiting_final_ack$"))
    packet.data = packet.data[:32] + UUID(int=5).bytes + packet.data[48:]
    hand.call(router).send(type(packet)(packet.data))
    assert router.engine._catalog.awaiting_final_ack.count == 0


def test_strangers_are_not_remembered_for_nothing(here: Qm, hand: Hand) -> None:
    """Out of order from the first: nothing was taken, so nothing is kept."""
    here.create("tx", transactional=True)
    hand.call(here).send(hand.transactional(here.name_of("tx"), 5, 4))
    assert not here.backup().spaces[Keyspace.INCOMING]


def test_a_message_that_claims_to_be_ours_is_not_delivered(here: Qm, hand: Hand) -> None:
    """It could pass for a copy of ours in a journal or a dead-letter queue."""
    box = here.create("q")
    forged = hand.message(here.name_of("q"), id=MessageId(here.guid, 7), positive_journaling=True)
    hand.call(here).send(forged, hand.message(here.name_of("q"), b"honest"))
    assert box.bodies() == [b"honest"]
    assert hand.is_connected
    assert [line.reason for line in here.engine.ledger.lines()] == [
        "it came back to its sender, or is forged"
    ]


def test_a_router_passes_on_no_message_that_claims_to_be_its_own(net: Net) -> None:
    """It would be taken for a part of the router's own stream."""
    router = net.qm("ROUTER", settings=Settings(routing_server=True))
    hand = net.hand()
    name = PrivateFormatName(UUID(int=5), 9)
    hand.call(router).send(hand.transactional(name, 1, id=MessageId(router.guid, 7)))
    assert not list(router.engine.outgoing.queues())
