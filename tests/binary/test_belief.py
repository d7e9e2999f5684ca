"""Who is believed: forged acknowledgements, stolen identities, and honest peers that look odd.

[MS-MQQB] 3.1.5.6, 3.1.5.7 and 3.1.5.8.6, with evidence asked for. Message ids, GUIDs, names and start times
are no secret; the ordinal of a sequence is.
"""

from collections.abc import Callable
from uuid import UUID

import pytest

from engine.harness import Box
from tiercel.binary.actions import SessionEvent
from tiercel.binary.settings import Peer
from tiercel.engine.belief import Doubt
from tiercel.model.codes import MessageClass
from tiercel.model.identifiers import MessageId, TxSequenceId
from tiercel.wire.order_ack import build_final_ack, build_order_ack
from tiercel.wire.structure import decode_tx_sequence_id
from tiercel.wire.user_message import UserMessage

from .nodes import Hand, Net, Qm, reached_through
from .test_transactional_sending import awaiting, send, waiting

DAY = 86_400
RECEIVED, REFUSED = MessageClass.ACK_RECEIVE, MessageClass.NACK_RECEIVE_TIMEOUT


@pytest.fixture
def box(here: Qm, hand: Hand) -> Box:
    return here.to(hand, "tx")


@pytest.fixture
def stranger(net: Net) -> Hand:
    return net.hand()


def stored(box: Box) -> list[UserMessage]:
    """The packets that wait in an outgoing queue, whether they were sent or not."""
    state, core, at, found = box.state, box.world.engine._core, 0, []
    while (each := state.next_available(core, at)) is not None:
        at = each[0]
        found.append(UserMessage(each[1].packet))
    return found


def order_ack(hand: Hand, here: Qm, sequence: int, number: int, source: UUID | None = None) -> None:
    identifier = MessageId(source or hand.guid, 77)
    hand.send(build_order_ack(identifier, int(here.now), here.guid, sequence, number))


def final_ack(hand: Hand, here: Qm, packet: UserMessage, reason: MessageClass = RECEIVED) -> None:
    hand.send(build_final_ack(MessageId(hand.guid, 77), int(here.now), reason, packet))


class TestOrderAcks:
    def test_what_was_not_sent_cannot_be_acknowledged(
        self, net: Net, here: Qm, hand: Hand, stranger: Hand, box: Box
    ) -> None:
        """Not even by somebody who knows everything, the sequence included."""
        net.down.add(hand.address)
        send(box, *(b"%d" % number for number in range(10)))
        sequence = stored(box)[0].sequence[0]
        stranger.guid = hand.guid
        stranger.call(here)
        for number in range(1, 11):
            order_ack(stranger, here, sequence, number)
        assert here.protocol.doubts == {Doubt.NOT_SENT: 10}
        stranger.hang_up()
        net.down.clear()
        net.sleep(60)
        assert hand.bodies[:10] == [b"%d" % number for number in range(10)]
        assert waiting(box) == 10

    def test_a_sequence_cannot_be_guessed(
        self, net: Net, here: Qm, hand: Hand, stranger: Hand, box: Box
    ) -> None:
        start = int(net.now)
        send(box, b"1")
        stranger.guid = hand.guid
        guesses = [start + second << 32 | ordinal for second in range(-2, 2) for ordinal in range(1, 124)]
        tried = 0
        while guesses:
            stranger.call(here)
            while guesses and stranger.is_connected:
                order_ack(stranger, here, guesses.pop(), 1)
                tried += 1
            assert tried % 101 == 0 or not guesses, "the session ends with the 101st"
        assert here.protocol.doubts[Doubt.UNKNOWN_SEQUENCE] == 4 * 123
        assert waiting(box) == 1

    def test_another_queue_manager_is_not_believed(
        self, here: Qm, hand: Hand, stranger: Hand, box: Box
    ) -> None:
        send(box, b"1")
        hand.ack()
        (packet,) = hand.messages
        stranger.call(here).order_ack(packet)
        order_ack(stranger, here, *packet.sequence, source=hand.guid)  # it is no router
        assert (waiting(box), here.protocol.doubts) == (1, {Doubt.OTHER_QUEUE_MANAGER: 2})
        hand.order_ack(packet)
        assert waiting(box) == 0

    def test_a_number_beyond_what_was_sent_is_not_believed(self, here: Qm, hand: Hand, box: Box) -> None:
        send(box, b"1")
        hand.ack()
        hand.order_ack(hand.messages[0], 2)
        assert (waiting(box), here.protocol.doubts) == (1, {Doubt.NOT_SENT: 1})
        hand.order_ack(hand.messages[0], 1)
        assert waiting(box) == 0

    def test_a_session_that_only_guesses_is_closed_after_it_was_acknowledged(
        self, here: Qm, hand: Hand, stranger: Hand, box: Box
    ) -> None:
        send(box, b"1")
        stranger.call(here)
        for _ in range(101):
            order_ack(stranger, here, 12345, 1)
        assert not stranger.is_connected
        assert stranger.headers[-1].ack_sequence_number == 101, "an honest peer does not repeat them"
        assert hand.is_connected

    def test_late_ones_of_an_honest_peer_never_close_its_session(
        self, here: Qm, hand: Hand, box: Box
    ) -> None:
        send(box, b"1")
        hand.ack()
        hand.order_ack(hand.messages[0])
        send(box, b"2")
        for _ in range(300):
            hand.order_ack(hand.messages[0])
        assert hand.is_connected
        assert (waiting(box), here.protocol.doubts) == (1, {Doubt.STALE: 300})

    def test_the_log_says_who_and_why(
        self, here: Qm, stranger: Hand, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        events: list[SessionEvent] = []
        perform = here.perform
        monkeypatch.setattr(
            here,
            "perform",
            lambda action: events.append(action) if isinstance(action, SessionEvent) else perform(action),
        )
        order_ack(stranger.call(here), here, 12345, 1)
        (told,) = [event for event in events if event.event == "doubted"]
        assert (told.address, told.peer) == (stranger.address, stranger.guid)
        assert told.reason == "OrderAck: there is no such sequence"


class TestOddButHonest:
    """Each of these acknowledges what it has, in an unusual way."""

    def test_from_another_address(self, net: Net, here: Qm, hand: Hand, box: Box) -> None:
        """A second network card, a new lease of DHCP, or NAT: only the address differs."""
        send(box, b"1")
        hand.ack()
        other = net.hand()
        other.guid = hand.guid
        other.call(here).order_ack(hand.messages[0])
        assert (waiting(box), here.protocol.doubts) == (0, {Doubt.OTHER_ADDRESS: 1})

    def test_on_a_session_that_it_dialled_itself(self, net: Net, here: Qm, hand: Hand, box: Box) -> None:
        send(box, b"1")
        hand.ack()
        (packet,) = hand.messages
        hand.hang_up()
        net.down.add(hand.address)
        hand.call(here).order_ack(packet)
        assert waiting(box) == 0

    @pytest.mark.parametrize("crash", [Qm.kill, Qm.restart])
    def test_days_later_on_a_new_connection_after_our_restart(
        self, net: Net, here: Qm, hand: Hand, box: Box, crash: Callable[[Qm], None]
    ) -> None:
        send(box, b"1", b"2", positive_journaling=True)
        hand.ack()
        net.down.add(hand.address)
        hand.hang_up()
        crash(here)
        net.sleep(3 * DAY)
        hand.call(here).order_ack(hand.messages[1])
        assert (waiting(box), awaiting(here)) == (0, [b"1", b"2"])
        hand.hang_up()
        crash(here)
        net.sleep(3 * DAY)
        hand.call(here)
        for packet in hand.messages[:2]:
            hand.final_ack(packet, RECEIVED)
        assert (awaiting(here), here.journal.bodies()) == ([], [b"1", b"2"])

    def test_a_reinstalled_receiver(self, net: Net, here: Qm, hand: Hand, box: Box) -> None:
        """A new GUID at the same address: it gets everything again, and its word counts."""
        send(box, b"1", b"2")
        hand.hang_up()
        old, hand.guid = hand.guid, UUID(int=0x5555, version=4)
        hand.clear()
        net.sleep(10)
        assert hand.bodies == [b"1", b"2"]
        last = hand.messages[-1]
        ghost = net.hand()
        ghost.guid = old
        ghost.call(here).order_ack(last)
        assert waiting(box) == 2
        hand.ack()
        hand.order_ack(last)
        assert waiting(box) == 0

    def test_the_destination_names_the_queue_manager(self, here: Qm, hand: Hand) -> None:
        """And cannot be dialled at all: it is pinned, and takes what waits for it on a session of its own."""
        here.configure(peers=(Peer(guid=hand.guid, addresses=(hand.address,)),))
        box = here.to_private(hand, 7)
        hand.call(here)
        send(box, b"1")
        hand.ack()
        hand.order_ack(hand.messages[0])
        assert waiting(box) == 0

    def test_through_a_router_each_way(self, net: Net, here: Qm) -> None:
        router, there = net.qm("ROUTER"), net.qm("THERE")
        there.create("tx", transactional=True)
        box = reached_through(router, here, there, "tx")
        send(box, b"1", positive_journaling=True)
        net.sleep(5)
        assert [each.body for each in there.box("tx").drain()] == [b"1"]
        net.sleep(5)
        assert (waiting(box), awaiting(here), here.journal.bodies()) == (0, [], [b"1"])
        assert here.protocol.doubts == there.protocol.doubts == {}

    def test_a_router_refuses_in_its_own_name(self, net: Net, here: Qm) -> None:
        router, there = net.qm("ROUTER"), net.qm("THERE")
        there.create("tx", transactional=True)
        box = reached_through(router, here, there, "tx")
        router.configure(routing_server=False)
        send(box, b"1", negative_journaling=True)
        net.sleep(5)
        assert here.transactional_dead_letters.bodies() == [b"1"]


class TestFinalAcks:
    def test_message_ids_alone_prove_nothing(
        self, net: Net, here: Qm, hand: Hand, stranger: Hand, box: Box
    ) -> None:
        net.down.add(hand.address)
        send(box, *(b"%d" % number for number in range(5)), positive_journaling=True)
        stranger.guid = hand.guid
        stranger.call(here)
        for number in range(1, 60):
            final_ack(stranger, here, stranger.transactional(box.name, 1, id=MessageId(here.guid, number)))
        assert (waiting(box), here.journal.bodies()) == (5, [])

    def test_what_was_not_sent_has_no_end(
        self, net: Net, here: Qm, hand: Hand, stranger: Hand, box: Box
    ) -> None:
        net.down.add(hand.address)
        send(box, b"1", negative_journaling=True)
        stranger.guid = hand.guid
        final_ack(stranger.call(here), here, stored(box)[0], REFUSED)
        assert (waiting(box), here.transactional_dead_letters.bodies()) == (1, [])
        assert here.protocol.doubts == {Doubt.NOT_SENT: 1}

    @pytest.mark.conformance("MQQB-149")
    @pytest.mark.parametrize("wrong", ["sequence", "number", "source", "message", "queue manager"])
    @pytest.mark.parametrize("is_ordered", [True, False])
    def test_everything_must_be_right(
        self, here: Qm, hand: Hand, stranger: Hand, box: Box, wrong: str, is_ordered: bool
    ) -> None:
        send(box, b"1", positive_journaling=True)
        (packet,) = hand.messages
        hand.ack()
        if is_ordered:
            hand.order_ack(packet)
        sequence, number = packet.sequence
        sequence += wrong == "sequence"
        identifier = MessageId(
            hand.guid if wrong == "source" else here.guid, packet.id.uniquifier + (wrong == "message")
        )
        forged = hand.transactional(
            box.name,
            number + (wrong == "number"),
            id=identifier,
            tx_sequence_id=decode_tx_sequence_id(sequence),
        )
        liar = stranger.call(here) if wrong == "queue manager" else hand
        final = build_final_ack(MessageId(liar.guid, 77), int(here.now), RECEIVED, forged)
        liar.send(_to(final, here))
        assert here.journal.bodies() == []
        assert sum(here.protocol.doubts.values()) == 1
        hand.final_ack(packet, RECEIVED)
        assert here.journal.bodies() == [b"1"]


def _to(ack: UserMessage, here: Qm) -> UserMessage:
    """An acknowledgement is addressed to the source that it names; this one to `here` all the same."""
    data = ack.data[:32] + here.guid.bytes_le + ack.data[48:]
    return UserMessage(data)


class TestForeignSenders:
    @pytest.fixture
    def queue(self, here: Qm) -> Box:
        return here.create("tx", transactional=True)

    def test_nobody_moves_the_stream_of_another(
        self, net: Net, here: Qm, hand: Hand, stranger: Hand, queue: Box
    ) -> None:
        name = here.name_of("tx")
        poison = stranger.transactional(
            name, 1, 0, id=MessageId(hand.guid, 1), tx_sequence_id=TxSequenceId(1_700_000_000, 0xFFFF_FFFF)
        )
        stranger.call(here).send(poison)
        net.sleep(5)
        assert (queue.bodies(), stranger.order_acks, stranger.final_acks) == ([], [], [])
        assert here.protocol.doubts == {Doubt.FOREIGN_SENDER: 1}
        hand.call(here).send(hand.transactional(name, 1))
        net.sleep(5)
        assert queue.bodies() == [b"1"]
        assert [number for _, number in hand.order_acks] == [1]

    @pytest.mark.parametrize("routers", [("{0}",), ("192.0.2.0/24",), ("router",)])
    def test_a_listed_router_may_pass_on_messages(
        self, net: Net, here: Qm, hand: Hand, stranger: Hand, queue: Box, routers: tuple[str, ...]
    ) -> None:
        here.configure(in_routing_servers=tuple(each.format(stranger.address) for each in routers))
        net.settle()
        here.run(lambda: here.protocol.resolved("router", [stranger.address]))
        stranger.call(here).send(
            stranger.transactional(here.private_name("tx"), 1, id=MessageId(hand.guid, 1))
        )
        assert (queue.bodies(), here.protocol.doubts) == ([b"1"], {})

    @pytest.mark.conformance("MQQB-151")
    def test_a_sequence_from_the_future_blocks_nothing(
        self, net: Net, here: Qm, hand: Hand, queue: Box
    ) -> None:
        name, now = here.name_of("tx"), int(net.now)
        hand.call(here)
        hand.send(hand.transactional(name, 1, tx_sequence_id=TxSequenceId(now + DAY + 60, 1)))
        hand.send(hand.transactional(name, 1, tx_sequence_id=TxSequenceId(0xFFFF_FFFF, 0xFFFF_FFFF)))
        net.sleep(5)
        assert (queue.bodies(), hand.order_acks) == ([], [])
        assert here.protocol.doubts == {Doubt.EARLY_TIMESTAMP: 2}
        hand.send(hand.transactional(name, 1, tx_sequence_id=TxSequenceId(now + DAY - 60, 1)))
        assert queue.bodies() == [b"1"]

    def test_time_heals_it(self, net: Net, here: Qm, hand: Hand, queue: Box) -> None:
        packet = hand.call(here).transactional(
            here.name_of("tx"), 1, tx_sequence_id=TxSequenceId(int(net.now) + 2 * DAY, 1)
        )
        hand.send(packet)
        assert queue.bodies() == []
        net.sleep(DAY + 10)
        hand.call(here).send(packet)
        assert queue.bodies() == [b"1"]


class TestPeers:
    """`[[peers]]` and `[access] only_peers`."""

    @pytest.mark.parametrize("addresses", [("192.0.2.12",), ("192.0.2.8/29",), ("server-a",)])
    def test_a_pinned_guid_is_accepted_from_its_addresses_only(
        self, net: Net, here: Qm, hand: Hand, stranger: Hand, addresses: tuple[str, ...]
    ) -> None:
        assert hand.address == "192.0.2.12"
        stranger.address = "198.51.100.1"
        here.configure(peers=(Peer(name="a", guid=hand.guid, addresses=addresses),))
        net.settle()
        here.run(lambda: here.protocol.resolved("server-a", [hand.address]))
        stranger.guid = hand.guid
        assert not stranger.call(here).is_connected
        assert hand.call(here).is_connected
        other = net.hand()
        assert other.call(here).is_connected, "others are not concerned"

    def test_who_answers_at_another_address_is_not_the_pinned_one(
        self, here: Qm, hand: Hand, stranger: Hand
    ) -> None:
        here.configure(peers=(Peer(name="a", guid=hand.guid, addresses=(hand.address,)),))
        stranger.guid = hand.guid
        box = here.to(stranger, "tx")
        send(box, b"1")
        assert (stranger.bodies, stranger.is_connected) == ([], False)
        assert waiting(box) == 1

    def test_only_peers(self, net: Net, here: Qm, hand: Hand, stranger: Hand) -> None:
        by_address = net.hand()
        here.configure(
            only_peers=True,
            peers=(Peer(name="a", guid=hand.guid), Peer(name="b", addresses=(by_address.address,))),
        )
        connected = [each.call(here).is_connected for each in (hand, by_address, stranger)]
        assert connected == [True, True, False]

    def test_a_failed_lookup_keeps_the_last_answer(self, here: Qm, hand: Hand) -> None:
        here.configure(peers=(Peer(name="a", guid=hand.guid, addresses=("server-a",)),))
        assert not hand.call(here).is_connected, "not known yet"
        here.run(lambda: here.protocol.resolved("server-a", [hand.address]))
        here.run(lambda: here.protocol.resolved("server-a", []))
        assert hand.call(here).is_connected
