"""Acknowledgements go to where their messages came from, whoever else claims to be the sender.

`hand` is the honest sender. It is behind NAT, so it cannot be dialled; nothing is pinned.
"""

from typing import Any

import pytest

from engine.harness import Box
from tiercel.model.codes import Acknowledgements, MessageClass
from tiercel.model.format_name import PrivateFormatName
from tiercel.model.identifiers import TxSequenceId
from tiercel.wire.queue_names import DirectQueueFormatName

from .nodes import SEQUENCE, Hand, Net, Qm

LATER = SEQUENCE._replace(ordinal=SEQUENCE.ordinal + 1)
EARLIER = SEQUENCE._replace(ordinal=SEQUENCE.ordinal - 1)


@pytest.fixture
def box(here: Qm) -> Box:
    here.create("other", transactional=True)
    return here.create("tx", transactional=True)


@pytest.fixture
def enemy(net: Net, hand: Hand) -> Hand:
    enemy = net.hand()
    enemy.guid = hand.guid
    net.down.add(hand.address)
    return enemy


@pytest.fixture
def outrun(here: Qm, hand: Hand, enemy: Hand, box: Box) -> None:
    """The enemy came first, and then a message of the sender, which waits for its reader."""
    enemy.call(here).send(enemy.transactional(here.name_of("other"), 1))
    hand.call(here).send(hand.transactional(here.name_of("tx"), 1, final_ack_required=True))
    assert box.state.count == 1


@pytest.fixture
def moved(net: Net, here: Qm, hand: Hand, box: Box) -> Hand:
    """The sender with a new address; a message that it sent from the old one has been received."""
    hand.call(here).send(hand.transactional(here.name_of("tx"), 1, final_ack_required=True))
    hand.hang_up()
    net.down.add(hand.address)
    assert box.receive().body == b"1"
    moved = net.hand()
    moved.guid = hand.guid
    return moved


class TestFinalAcks:
    @pytest.mark.usefixtures("outrun")
    def test_go_to_the_sender_although_an_enemy_came_first_and_stays(
        self, net: Net, here: Qm, hand: Hand, enemy: Hand, box: Box
    ) -> None:
        assert here.engine.peers.address(hand.guid) == enemy.address
        assert box.receive().body == b"1"
        net.sleep(10)
        assert [code for _, code in hand.final_acks] == [MessageClass.ACK_RECEIVE]
        assert enemy.final_acks == []

    @pytest.mark.usefixtures("box")
    def test_of_refused_messages_too(self, net: Net, here: Qm, hand: Hand, enemy: Hand) -> None:
        """The first contact of the enemy leaves its address, although its message is out of order."""
        enemy.call(here).send(enemy.transactional(here.name_of("tx"), 7))
        hand.call(here).send(hand.transactional(here.name_of("missing"), 1))
        net.sleep(10)
        assert [code for _, code in hand.final_acks] == [MessageClass.NACK_BAD_DST_Q]
        assert enemy.final_acks == []

    @pytest.mark.usefixtures("outrun")
    def test_wait_for_a_later_session_over_a_restart(
        self, net: Net, here: Qm, hand: Hand, enemy: Hand, box: Box
    ) -> None:
        hand.hang_up()
        here.restart()
        assert box.receive().body == b"1"
        here.restart()
        enemy.call(here)
        net.sleep(600)
        assert enemy.final_acks == []
        hand.call(here)
        net.sleep(10)
        assert [code for _, code in hand.final_acks] == [MessageClass.ACK_RECEIVE]

    def test_follow_a_sender_that_continues_its_sequence_elsewhere(
        self, net: Net, here: Qm, moved: Hand
    ) -> None:
        """Nobody else knows the id of the sequence."""
        net.sleep(10)
        moved.call(here).send(moved.transactional(here.name_of("tx"), 2))
        net.sleep(15)
        assert [code for _, code in moved.final_acks] == [MessageClass.ACK_RECEIVE]

    def test_follow_a_sender_that_cannot_be_reached_for_an_hour(
        self, net: Net, here: Qm, moved: Hand
    ) -> None:
        """It has a new address, and nothing to send to the same queue."""
        moved.call(here).send(moved.transactional(here.name_of("other"), 1))
        net.sleep(3000)
        assert moved.final_acks == []
        net.sleep(700)
        assert {code for _, code in moved.final_acks} == {MessageClass.ACK_RECEIVE}

    def test_go_through_the_router_to_a_sender_that_cannot_be_reached_for_an_hour(
        self, net: Net, here: Qm, hand: Hand
    ) -> None:
        """It has another address, where only the router finds it, and nothing to send to the same queue."""
        router, box = net.hand(), here.create("tx", transactional=True)
        here.create("other", transactional=True)
        here.configure(out_routing_servers=(router.address,))
        hand.call(here).send(hand.transactional(here.name_of("tx"), 1, final_ack_required=True))
        hand.hang_up()
        net.down.add(hand.address)
        assert box.receive().body == b"1"
        router.call(here).send(hand.transactional(here.name_of("other"), 1))
        router.clear()
        net.sleep(3000)
        assert router.final_acks == []
        net.sleep(700)
        assert [code for _, code in router.final_acks] == [MessageClass.ACK_RECEIVE]

    def test_of_an_unknown_sender_wait_for_it_however_long(
        self, net: Net, here: Qm, hand: Hand, enemy: Hand
    ) -> None:
        """Nothing is known of the sender but where its message came from."""
        hand.call(here).send(hand.transactional(here.name_of("missing"), 1))
        hand.hang_up()
        hand.clear()
        net.sleep(2 * 3600)
        enemy.call(here)
        net.sleep(100)
        assert enemy.final_acks == []
        hand.call(here)
        net.sleep(10)
        assert [code for _, code in hand.final_acks] == [MessageClass.NACK_BAD_DST_Q]

    @pytest.mark.usefixtures("outrun")
    @pytest.mark.conformance("MQQB-169")
    def test_have_the_address_of_their_session(self, net: Net, hand: Hand, box: Box) -> None:
        box.receive()
        net.sleep(10)
        names = [each.destination_queue for _, each in hand.arrivals]
        assert names == [DirectQueueFormatName.of(rf"TCP:{hand.address}\PRIVATE$\order_queue$")] * 2


class TestAcknowledgements:
    """Those of an administration queue at the sender, which is named by its GUID."""

    ASKED = Acknowledgements.FULL_REACH_QUEUE | Acknowledgements.FULL_RECEIVE

    @staticmethod
    def classes(hand: Hand) -> list[int]:
        return [each.message_class for each in hand.messages]

    @pytest.mark.parametrize("kind", ["express", "recoverable", "transactional"])
    @pytest.mark.parametrize("ends", [False, True])
    def test_go_to_the_sender_although_an_enemy_came_first_and_stays(
        self, net: Net, here: Qm, hand: Hand, enemy: Hand, kind: str, *, ends: bool
    ) -> None:
        """Whether its session stays, or it comes back after them."""
        box = here.create("tx", transactional=kind == "transactional")
        name, admin = here.name_of("tx"), PrivateFormatName(hand.guid, 9)
        asking: dict[str, Any] = {"administration_queue": admin, "acknowledgements": self.ASKED}
        enemy.call(here).send(enemy.recoverable(name, b"-"))
        hand.call(here)
        if kind == "transactional":
            hand.send(hand.transactional(name, 1, **asking))
        else:
            build = hand.recoverable if kind == "recoverable" else hand.message
            hand.send(build(name, b"1", **asking))
        net.sleep(1)
        assert self.classes(hand) == [MessageClass.ACK_REACH_QUEUE]
        if ends:
            hand.hang_up()
        while box.state.count:
            box.receive()
        net.sleep(10)
        if ends:
            hand.call(here)
            net.sleep(1)
        assert self.classes(hand)[-1] == MessageClass.ACK_RECEIVE
        assert self.classes(enemy) == []

    def test_follow_a_sender_that_cannot_be_reached_for_an_hour(
        self, net: Net, here: Qm, hand: Hand, box: Box
    ) -> None:
        """It has a new address, from which it continues with a transactional message."""
        here.create("plain")
        admin = PrivateFormatName(hand.guid, 9)
        hand.call(here).send(
            hand.recoverable(
                here.name_of("plain"), b"1", administration_queue=admin, acknowledgements=self.ASKED
            )
        )
        hand.hang_up()
        net.down.add(hand.address)
        here.box("plain").receive()
        moved = net.hand()
        moved.guid = hand.guid
        moved.call(here).send(moved.transactional(here.name_of("tx"), 1))
        net.sleep(3000)
        assert self.classes(moved) == []
        net.sleep(700)
        assert MessageClass.ACK_RECEIVE in self.classes(moved)
        assert box.state.count == 1


class TestOrderAcks:
    """They contain the id of the sender's sequence, with which others could forge acknowledgements."""

    @pytest.mark.parametrize("identifier", [EARLIER, TxSequenceId(0xFFFF_0000, 1)], ids=["old", "too new"])
    def test_tell_others_nothing_of_the_sequence(
        self, net: Net, here: Qm, hand: Hand, enemy: Hand, box: Box, identifier: TxSequenceId
    ) -> None:
        hand.call(here).send(hand.transactional(here.name_of("tx"), 1))
        enemy.call(here).send(enemy.transactional(here.name_of("tx"), 1, tx_sequence_id=identifier))
        net.sleep(10)
        assert len(hand.order_acks) == 1
        assert enemy.order_acks == []
        assert box.bodies() == [b"1"]

    @pytest.mark.usefixtures("box")
    def test_of_a_session_are_not_sent_once_another_has_begun_a_sequence(
        self, net: Net, here: Qm, hand: Hand, enemy: Hand
    ) -> None:
        enemy.call(here).send(enemy.transactional(here.name_of("tx"), 1))
        hand.call(here).send(hand.transactional(here.name_of("tx"), 1, tx_sequence_id=LATER))
        net.sleep(10)
        assert (len(hand.order_acks), enemy.order_acks) == (1, [])

    def test_answer_a_sender_that_repeats_its_message_from_another_address(
        self, net: Net, here: Qm, hand: Hand, box: Box
    ) -> None:
        message = hand.transactional(here.name_of("tx"), 1)
        hand.call(here).send(message)
        hand.hang_up()
        moved = net.hand()
        moved.guid = hand.guid
        moved.call(here).send(message)
        net.sleep(10)
        assert len(moved.order_acks) == 1
        assert box.bodies() == [b"1"]
