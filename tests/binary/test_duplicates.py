"""[MS-MQQB] 3.1.5.8.1, 3.1.1.3: no message comes twice."""

import pytest

from tiercel.engine.history import History
from tiercel.model.codes import DeliveryGuarantee, QueueAccess
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message
from tiercel.wire.user_message import UserMessage
from wire.packets import frame, replaced

from .nodes import Hand, Net, Qm

MINUTE = 60


def fresh_frame(net: Net) -> UserMessage:
    """The message of the worked example, sent just now."""
    return UserMessage(replaced(frame(7), 52, int(net.now).to_bytes(4, "little")))


def history(qm: Qm) -> History:
    return qm.engine.arrivals.history


@pytest.mark.conformance("MQQB-115")
def test_a_message_whose_id_is_known_is_not_delivered_again(net: Net, here: Qm, hand: Hand) -> None:
    box = here.create(r".\q")
    packet = fresh_frame(net)
    hand.call(here).send(packet)
    first = history(here).time_of(packet.identity)
    net.sleep(5)
    hand.hang_up()
    hand.call(here).send(packet)
    assert len(box.messages()) == 1
    assert (first, history(here).time_of(packet.identity)) == (net.now - 5, net.now)


@pytest.mark.conformance("MQQB-115")
def test_transactional_messages_bypass_the_history(here: Qm, hand: Hand) -> None:
    here.create("tx", transactional=True)
    packet = hand.call(here).transactional(here.name_of("tx"), 1)
    hand.send(packet)
    assert len(history(here)) == 0


@pytest.mark.conformance("MQQB-116")
def test_a_duplicate_still_counts_for_the_session(net: Net, here: Qm, hand: Hand) -> None:
    here.create("q")
    packet = hand.call(here).message(here.name_of("q"))
    hand.send(packet, packet, packet)
    net.sleep(10)
    assert [each.ack_sequence_number for each in hand.headers] == [3]
    hand.ack()  # and its counts still agree with ours
    assert hand.is_connected


@pytest.mark.conformance("MQQB-117")
def test_equal_numbers_of_two_senders_are_two_messages(net: Net, here: Qm, hand: Hand) -> None:
    box, other = here.create("q"), net.hand()
    for sender in (hand, other):
        sender.call(here)
        packet = sender.message(box.name, sender.address.encode(), id=MessageId(sender.guid, 7))
        sender.send(packet, packet)
        assert history(here).time_of(packet.identity) == net.now
    assert box.bodies() == [hand.address.encode(), other.address.encode()]


def test_a_stranger_cannot_use_up_the_ids_of_another_sender(net: Net, here: Qm, hand: Hand) -> None:
    box, stranger = here.create("q"), net.hand()
    stranger.call(here)
    stranger.send(stranger.message(box.name, b"forged", id=MessageId(hand.guid, 7)))
    packet = hand.call(here).message(box.name, b"honest", id=MessageId(hand.guid, 7))
    hand.send(packet, packet)
    assert box.bodies() == [b"forged", b"honest"]


@pytest.mark.conformance("MQQB-118")
def test_the_earliest_goes_when_there_are_too_many(here: Qm) -> None:
    limit = here.settings.history_size
    assert limit == 10_000
    names = [number.to_bytes(20, "big") for number in range(limit + 1)]

    def remember() -> None:
        for name in names:
            history(here).remember([name], recoverable=True)

    here.run(remember)
    for _ in range(2):  # the same after a restart
        assert len(history(here)) == limit
        assert names[0] not in history(here)
        assert {names[1], names[-1]} <= history(here)._seen.keys()
        here.kill()


class TestCleanUp:
    """3.1.6.7."""

    @pytest.mark.conformance("MQQB-119")
    def test_what_was_not_heard_of_for_a_whole_period_is_forgotten(
        self, net: Net, here: Qm, hand: Hand
    ) -> None:
        here.create("q")
        old, renewed = hand.message(here.name_of("q")), hand.message(here.name_of("q"))
        hand.call(here).send(old, renewed)
        net.sleep(20 * MINUTE)
        hand.call(here).send(renewed)
        seen = []
        for _ in range(5):
            net.sleep(10 * MINUTE + 1)
            seen.append((old.identity in history(here), renewed.identity in history(here)))
        # At 30 minutes the old one is just old enough to stay; both are gone with the run at 60.
        assert [renewed for _, renewed in seen] == [True, True, True, False, False]
        assert seen[-1] == (False, False)
        assert here.protocol.next_deadline is None

    @pytest.mark.conformance("MQQB-120")
    def test_the_history_survives_a_restart_and_is_cleaned_up_after_it(
        self, net: Net, here: Qm, hand: Hand
    ) -> None:
        box = here.create("q")
        packet = hand.recoverable(box.name, b"1")
        hand.call(here).send(packet)
        here.kill()
        assert here.protocol.next_deadline == net.now + 30 * MINUTE
        hand.call(here).send(packet)
        assert box.bodies() == [b"1"]
        net.sleep(61 * MINUTE)
        assert len(history(here)) == 0


def test_one_object_sent_several_times_arrives_as_often(net: Net, here: Qm) -> None:
    there, message = net.qm(), Message(b"again", delivery=DeliveryGuarantee.RECOVERABLE)
    box = there.create("q")
    opened, sending = here.to(there, "q").handle(QueueAccess.SEND), here.engine.sending
    here.run(lambda: sending.send_many(opened, [message, message, message]))
    net.settle()
    assert box.bodies() == [b"again"] * 3
