"""What a stranger can make a queue manager keep or do has a bound; docs/limits.md lists them."""

from typing import Any
from uuid import UUID

import pytest

from tiercel.binary import lookups
from tiercel.binary.actions import Action, Resolve
from tiercel.binary.next_hop import NextHop
from tiercel.binary.settings import Peer
from tiercel.engine import acknowledgements, final_acks, incoming_streams, peers
from tiercel.engine.acknowledgements import ACKNOWLEDGEMENT_QUEUES_MAX
from tiercel.engine.belief import Doubt
from tiercel.model.codes import Acknowledgements, MessageClass
from tiercel.model.format_name import FormatName, PrivateFormatName
from tiercel.model.limits import TIME_TO_REACH_QUEUE_DEFAULT_S
from tiercel.store.interface import Keyspace

from .nodes import Hand, Net, Qm


class Deaf(Qm):
    """A queue manager whose name server never answers."""

    def perform(self, action: Action) -> None:
        if not isinstance(action, Resolve):
            super().perform(action)
            return
        self.asked.append(action.host)

    asked: list[str]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.asked = []
        super().__init__(*arguments, **options)


@pytest.fixture
def deaf(net: Net) -> Deaf:
    deaf = Deaf(net, "HERE", "192.0.2.99", net.qm("OTHER").settings)
    deaf.create("q")
    return deaf


def made_up(number: int) -> FormatName:
    return FormatName.parse(rf"DIRECT=OS:made-up-{number}\private$\admin")


def asking(number: int) -> dict[str, Any]:
    return {"administration_queue": made_up(number), "acknowledgements": Acknowledgements.POS_ARRIVAL}


def flood(qm: Qm, hand: Hand, first: int, count: int) -> None:
    """Messages that each name an administration queue on another computer that does not exist."""
    for number in range(first, first + count):
        hand.send(hand.message(qm.name_of("q"), **asking(number)))


class TestAcknowledgementsToMadeUpHosts:
    def test_outgoing_queues_have_a_budget(
        self, deaf: Deaf, hand: Hand, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert ACKNOWLEDGEMENT_QUEUES_MAX == 1000
        monkeypatch.setattr(acknowledgements, "ACKNOWLEDGEMENT_QUEUES_MAX", 10)
        hand.call(deaf)
        flood(deaf, hand, 0, 50)
        names = {str(queue.queue.label) for queue in deaf.engine.outgoing.queues()}
        assert names == {str(made_up(number)) for number in range(40, 50)}
        assert deaf.discarded() == [MessageClass.NACK_DELETED] * 40

    def test_the_budget_holds_after_a_restart(
        self, deaf: Deaf, hand: Hand, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(acknowledgements, "ACKNOWLEDGEMENT_QUEUES_MAX", 10)
        hand.call(deaf)
        for number in range(10):
            hand.send(hand.recoverable(deaf.name_of("q"), **asking(number)))
        deaf.restart()
        hand.call(deaf)
        flood(deaf, hand, 10, 10)
        assert len(list(deaf.engine.outgoing.queues())) == 10

    def test_a_queue_that_an_application_uses_is_not_counted(
        self, deaf: Deaf, hand: Hand, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(acknowledgements, "ACKNOWLEDGEMENT_QUEUES_MAX", 10)
        hand.call(deaf)
        flood(deaf, hand, 0, 1)
        deaf.run(lambda: deaf.engine.queues.destination(made_up(0)))
        flood(deaf, hand, 1, 50)
        queue = deaf.engine.queues.get(made_up(0))
        assert queue.count == 1
        assert len(list(deaf.engine.outgoing.queues())) == 11

    def test_final_acks_are_never_given_up_for_them(
        self, net: Net, here: Qm, hand: Hand, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """All names are addresses, so that none of them looks made up."""
        monkeypatch.setattr(acknowledgements, "ACKNOWLEDGEMENT_QUEUES_MAX", 5)
        box = here.create("tx", transactional=True)
        here.create("q")
        net.down.add(hand.address)
        hand.call(here).send(hand.transactional(here.name_of("tx"), 1, final_ack_required=True))
        hand.hang_up()
        box.receive()
        net.sleep(10)
        enemy = net.hand().call(here)
        for number in range(30):
            admin = FormatName.parse(rf"DIRECT=TCP:198.51.100.{number}\private$\a")
            wanted = Acknowledgements.POS_ARRIVAL
            enemy.send(enemy.message(here.name_of("q"), administration_queue=admin, acknowledgements=wanted))
            net.sleep(0.1)
        hand.call(here)
        net.sleep(1)
        assert [code for _, code in hand.final_acks] == [MessageClass.ACK_RECEIVE]

    def test_an_acknowledgement_has_a_time_to_reach_its_queue(self, deaf: Deaf, hand: Hand) -> None:
        hand.call(deaf)
        flood(deaf, hand, 0, 1)
        assert len(list(deaf.engine.outgoing.queues())) == 1
        deaf.net.now += TIME_TO_REACH_QUEUE_DEFAULT_S + 2
        deaf.run(lambda: None)
        assert deaf.discarded() == [MessageClass.NACK_REACH_QUEUE_TIMEOUT]

    def test_lookups_in_flight_are_few_and_leave_room_for_applications(self, deaf: Deaf, hand: Hand) -> None:
        hand.call(deaf)
        flood(deaf, hand, 0, 100)
        assert deaf.asked == [f"made-up-{number}" for number in range(lookups.AT_ONCE_FOR_ACKNOWLEDGEMENTS)]
        deaf.to(hand, "real").send(b"1")
        deaf.net.settle()
        assert deaf.asked[-1] == hand.address

    def test_lookups_of_configured_names_count_too(self, deaf: Deaf) -> None:
        hosts = tuple(f"host-{number:02}" for number in range(2 * lookups.AT_ONCE))
        deaf.configure(peers=(Peer(guid=UUID(int=7), addresses=hosts),))
        deaf.net.settle()
        assert deaf.asked == list(hosts[: lookups.AT_ONCE])
        for host in hosts:
            deaf.run(lambda host=host: deaf.protocol.resolved(host, ["192.0.2.7"]))  # type: ignore[misc]
        deaf.net.settle()
        assert deaf.asked == list(hosts)

    def test_an_answer_concerns_only_those_who_asked(
        self, deaf: Deaf, hand: Hand, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Every answer used to visit every next hop: the work grew with the square of their number."""
        hand.call(deaf)
        flood(deaf, hand, 0, 100)
        visited = []
        monkeypatch.setattr(NextHop, "_resolved", lambda hop, _addresses: visited.append(hop))

        def answer_all() -> None:
            for host in list(deaf.asked):
                deaf.protocol.resolved(host, [])

        deaf.run(answer_all)
        assert len(visited) <= len(deaf.asked)


class TestPartialPackets:
    """One budget for all sessions; the packet that has been incomplete for the longest time is given up."""

    @staticmethod
    def begin(hand: Hand, qm: Qm, size: int = 300_000) -> bytes:
        """Sends the first `size` bytes of a message; the rest of it."""
        assert hand.line is not None
        data = hand.message(qm.name_of("q"), bytes(400_000)).data
        hand.line.write(hand, data[:size])
        hand.net.settle()
        return data[size:]

    def test_they_have_a_budget(self, net: Net, here: Qm) -> None:
        assert here.settings.partial_packet_bytes == 64 << 20
        here.configure(partial_packet_bytes=1_000_000)
        here.create("q")
        hands = [net.hand().call(here) for _ in range(5)]
        for hand in hands:
            self.begin(hand, here)
        assert [hand.is_connected for hand in hands] == [False, False, True, True, True]

    def test_whoever_goes_on_is_not_the_oldest(self, net: Net, here: Qm) -> None:
        """The second peer completes its packet and begins another: the third is older then."""
        here.configure(partial_packet_bytes=1_000_000)
        box = here.create("q")
        hands = [net.hand().call(here) for _ in range(4)]
        rests = [self.begin(hand, here) for hand in hands[:3]]
        hands[0].hang_up()
        assert hands[1].line is not None
        hands[1].line.write(hands[1], rests[1])
        net.settle()
        assert box.state.count == 1
        self.begin(hands[1], here)
        self.begin(hands[0].call(here), here)
        self.begin(hands[3], here)
        assert [hand.is_connected for hand in hands] == [True, True, False, True]

    def test_the_memory_of_a_closed_session_is_free_at_once(self, net: Net, here: Qm) -> None:
        """However long something still refers to the session."""
        here.configure(partial_packet_bytes=1_000_000)
        hands = [net.hand().call(here) for _ in range(4)]
        oldest = here.protocol.sessions[0]
        for hand in hands:
            self.begin(hand, here)
        assert not hands[0].is_connected
        assert oldest._framer.buffered == 0

    def test_small_ones_are_not_counted(self, net: Net, here: Qm) -> None:
        here.configure(partial_packet_bytes=100_000)
        here.create("q")
        hands = [net.hand().call(here) for _ in range(5)]
        for hand in hands:
            self.begin(hand, here, 60_000)
        assert all(hand.is_connected for hand in hands)


class TestRefusedStrangers:
    """A refused first contact leaves a line in the discards and its place in its stream, up to a limit."""

    @staticmethod
    def kept(qm: Qm) -> tuple[int, int, int]:
        """Known senders and streams in the store, and outgoing queues."""
        batch, queues = qm.engine.batch, list(qm.engine.outgoing.queues())
        streams = batch.count(Keyspace.INCOMING) + batch.count(Keyspace.ORPHANS)
        return batch.count(Keyspace.PEERS), streams, len(queues)

    @pytest.mark.parametrize("queue", ["q", "missing"])
    def test_leave_no_record_of_their_sender(self, here: Qm, hand: Hand, queue: str) -> None:
        """The queue is not transactional, or there is none."""
        here.create("q")
        hand.call(here).send(hand.transactional(here.name_of(queue), 1))
        here.net.sleep(1)
        assert len(hand.final_acks) == len(hand.order_acks) == 1
        hand.ack()
        hand.hang_up()
        here.net.sleep(100)
        assert self.kept(here) == (0, 1, 0)
        assert len(here.discarded()) == 1

    @pytest.mark.parametrize("queue", ["q", "missing"])
    @pytest.mark.parametrize("limit", ["STREAMS_OF_STRANGERS_MAX", "QUEUES_MAX"])
    def test_are_answered_up_to_a_limit(
        self, net: Net, here: Qm, monkeypatch: pytest.MonkeyPatch, queue: str, limit: str
    ) -> None:
        assert (final_acks.STREAMS_OF_STRANGERS_MAX, final_acks.QUEUES_MAX) == (10_000, 1000)
        monkeypatch.setattr(final_acks, limit, 5)
        here.create("q")
        for number in range(20):
            hand = net.hand().call(here)
            hand.send(hand.transactional(here.name_of(queue), 1))
            net.sleep(1)
            assert len(hand.final_acks) == len(hand.order_acks) == (number < 5)
            net.down.add(hand.address)
            hand.hang_up()
        assert self.kept(here) == (0, 5, 5)
        assert len(here.discarded()) == 5
        assert here.protocol.doubts[Doubt.REFUSED_STRANGER] == 15

    def test_answers_to_strangers_end_after_days(self, net: Net, here: Qm, hand: Hand) -> None:
        net.down.add(hand.address)
        hand.call(here).send(hand.transactional(here.name_of("missing"), 1))
        hand.hang_up()
        net.now += TIME_TO_REACH_QUEUE_DEFAULT_S + 2
        net.sleep(100)
        assert self.kept(here) == (0, 1, 0)
        assert here.discarded() == [MessageClass.NACK_BAD_DST_Q, MessageClass.NACK_REACH_QUEUE_TIMEOUT]
        here.restart()
        assert self.kept(here) == (0, 0, 0)

    def test_old_ones_make_room(
        self, net: Net, here: Qm, hand: Hand, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Those to queues that do not exist, when their answers are over; without a restart."""
        monkeypatch.setattr(final_acks, "STREAMS_OF_STRANGERS_MAX", 1)
        net.down.add(hand.address)
        hand.call(here).send(hand.transactional(here.name_of("missing"), 1))
        hand.hang_up()
        net.now += TIME_TO_REACH_QUEUE_DEFAULT_S + 2
        other = net.hand().call(here)
        for _ in range(2):
            other.send(other.transactional(here.name_of("missing"), 1))
            net.sleep(1)
        assert [code for _, code in other.final_acks] == [MessageClass.NACK_BAD_DST_Q]

    def test_known_senders_have_room_beyond_that_of_strangers(
        self, here: Qm, hand: Hand, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What was taken from them makes them known; names of queues can be made up."""
        assert incoming_streams.ORPHANS_MAX == 2 * final_acks.STREAMS_OF_STRANGERS_MAX
        monkeypatch.setattr(final_acks, "STREAMS_OF_STRANGERS_MAX", 0)
        monkeypatch.setattr(incoming_streams, "ORPHANS_MAX", 5)
        here.create("tx", transactional=True)
        hand.call(here).send(hand.transactional(here.name_of("tx"), 1))
        for number in range(20):
            hand.send(hand.transactional(here.name_of(f"missing{number}"), 1))
        assert self.kept(here)[:2] == (1, 1 + 5)
        assert len(here.discarded()) == 5
        assert here.protocol.doubts[Doubt.REFUSED_STRANGER] == 15
        hand.send(hand.transactional(here.name_of("missing4"), 2, 1))
        assert len(here.discarded()) == 6
        box = here.create("missing9", transactional=True)
        hand.send(hand.transactional(here.name_of("missing9"), 1))
        assert box.bodies() == [b"1"]

    def test_names_of_queues_that_do_not_exist_take_no_room(self, here: Qm, hand: Hand) -> None:
        hand.call(here).send(hand.transactional(here.name_of("x" * 124), 1))
        assert len(here.discarded()) == 1
        ((_, data),) = here.engine.batch.range(Keyspace.ORPHANS, b"", b"\xff" * 25)
        assert len(data) < 100

    def test_are_refused_once_also_after_a_restart(self, net: Net, here: Qm, hand: Hand) -> None:
        here.create("q")
        net.down.add(hand.address)
        message = hand.transactional(here.name_of("q"), 1)
        hand.call(here).send(message)
        here.restart()
        hand.call(here).send(message)
        net.sleep(1)
        assert len(here.discarded()) == 1
        assert hand.order_acks

    def test_beyond_the_limit_a_message_that_is_taken_makes_its_sender_known(
        self, here: Qm, hand: Hand, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(final_acks, "STREAMS_OF_STRANGERS_MAX", 0)
        box = here.create("tx", transactional=True)
        hand.call(here).send(hand.transactional(here.name_of("tx"), 1))
        assert box.bodies() == [b"1"]
        assert self.kept(here) == (1, 1, 0)

    def test_for_another_computer_count_too(
        self, here: Qm, hand: Hand, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(final_acks, "QUEUES_MAX", 0)
        hand.call(here).send(hand.transactional(PrivateFormatName(UUID(int=7), 7), 1))
        assert self.kept(here) == (0, 0, 0)

    def test_senders_behind_routers_have_a_limit_of_their_own(
        self, net: Net, here: Qm, hand: Hand, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert peers.STRANGERS_KEPT == 10_000
        monkeypatch.setattr(peers, "STRANGERS_KEPT", 1)
        here.configure(in_routing_servers=(hand.address,))
        hand.call(here)
        for _ in range(3):
            hand.send(net.hand().transactional(here.name_of("missing"), 1))
        assert self.kept(here)[0] == 1
        assert here.protocol.doubts[Doubt.REFUSED_STRANGER] == 2


class TestMessagesThatWaitForAGuid:
    """Messages of applications leave on sessions that we dialled, or whose GUID is pinned."""

    def test_do_not_leave_on_a_session_that_claims_it(self, net: Net, here: Qm, hand: Hand) -> None:
        box = here.to_private(hand, 7)
        box.send(b"secret")
        net.settle()
        hand.call(here)
        net.sleep(10)
        assert hand.bodies == []
        assert box.state.count == 1

    def test_leave_on_one_that_we_dialled(self, here: Qm, hand: Hand) -> None:
        here.configure(machines={hand.guid: (hand.address,)})
        here.to_private(hand, 7).send(b"1")
        here.net.settle()
        assert hand.bodies == [b"1"]
        assert hand.calls == [here.guid]

    def test_leave_on_one_that_is_pinned(self, net: Net, here: Qm, hand: Hand) -> None:
        here.configure(peers=(Peer(guid=hand.guid, addresses=(hand.address,)),))
        here.to_private(hand, 7).send(b"1")
        hand.call(here)
        net.settle()
        assert hand.bodies == [b"1"]

    def test_a_host_that_we_dial_only_to_acknowledge_cannot_claim_it(self, net: Net, here: Qm) -> None:
        """An enemy names an administration queue on its own computer, and answers with the GUID."""
        here.create("q")
        honest, enemy, decoy = net.hand(), net.hand(), net.hand()
        box = here.to_private(honest, 7)
        box.send(b"secret")
        decoy.guid = honest.guid
        admin: dict[str, Any] = {
            "administration_queue": decoy.name_of("a"),
            "acknowledgements": Acknowledgements.POS_ARRIVAL,
        }
        enemy.call(here).send(enemy.message(here.name_of("q"), **admin))
        net.sleep(10)
        assert decoy.calls == [here.guid]
        assert b"secret" not in decoy.bodies
        assert box.state.count == 1

    def test_acknowledgements_go_back_on_a_later_session_with_the_same_address(
        self, net: Net, here: Qm, hand: Hand
    ) -> None:
        """A sender behind NAT or a firewall cannot be dialled."""
        box = here.create("tx", transactional=True)
        hand.call(here).send(hand.transactional(here.name_of("tx"), 1, final_ack_required=True))
        net.sleep(1)
        net.down.add(hand.address)
        hand.hang_up()
        hand.clear()
        assert box.receive().body == b"1"
        impostor = net.hand()
        impostor.guid = hand.guid
        impostor.call(here)
        net.sleep(1)
        assert impostor.final_acks == []
        hand.call(here)
        net.sleep(1)
        assert [code for _, code in hand.final_acks] == [MessageClass.ACK_RECEIVE]


class TestLearnedAddresses:
    def test_an_address_is_kept_while_its_owner_is_connected(self, net: Net, here: Qm, hand: Hand) -> None:
        here.create("tx", transactional=True)
        hand.call(here).send(hand.transactional(here.name_of("tx"), 1))
        impostor = net.hand()
        impostor.guid = hand.guid
        impostor.call(here).send(impostor.transactional(here.name_of("tx"), 2))
        assert here.engine.peers.address(hand.guid) == hand.address
        hand.hang_up()
        impostor.send(impostor.transactional(here.name_of("tx"), 3))
        assert here.engine.peers.address(hand.guid) == impostor.address

    def test_they_are_listed_and_forgotten(self, here: Qm, hand: Hand) -> None:
        here.create("tx", transactional=True)
        hand.call(here).send(hand.transactional(here.name_of("tx"), 1))
        assert [peer[:2] for peer in here.engine.peers.all()] == [(hand.guid, hand.address)]
        assert here.run(lambda: here.engine.peers.forget(hand.guid))
        assert list(here.engine.peers.all()) == []
        assert not here.run(lambda: here.engine.peers.forget(hand.guid))

    def test_an_address_in_machines_replaces_a_claimed_one_and_stays(
        self, net: Net, here: Qm, hand: Hand
    ) -> None:
        here.configure(machines={hand.guid: (hand.address,)})
        here.create("tx", transactional=True)
        impostor = claim(net, here, hand)
        hand.call(here).send(hand.transactional(here.name_of("tx"), 2))
        assert here.engine.peers.address(hand.guid) == hand.address
        hand.hang_up()
        impostor.send(impostor.transactional(here.name_of("tx"), 3))
        assert here.engine.peers.address(hand.guid) == hand.address

    def test_a_repeated_message_does_not_replace_the_address_of_a_connected_sender(
        self, net: Net, here: Qm, hand: Hand
    ) -> None:
        """The sender is behind NAT, and in `[machines]` with its inner address."""
        inner = net.hand()
        inner.guid = hand.guid
        here.configure(machines={hand.guid: (inner.address,)})
        here.create("tx", transactional=True)
        message = hand.transactional(here.name_of("tx"), 1)
        hand.call(here).send(message)
        inner.call(here).send(message)
        assert here.engine.peers.address(hand.guid) == hand.address

    def test_one_in_machines_that_is_dialled_in_vain_can_be_replaced(
        self, net: Net, here: Qm, hand: Hand
    ) -> None:
        inner = net.hand()
        inner.guid = hand.guid
        here.configure(machines={hand.guid: (inner.address,)})
        box = here.create("tx", transactional=True)
        message = hand.transactional(here.name_of("tx"), 1, final_ack_required=True)
        inner.call(here).send(message)
        inner.hang_up()
        net.down.add(inner.address)
        box.receive()
        net.sleep(10)
        hand.call(here).send(hand.transactional(here.name_of("tx"), 2))
        hand.hang_up()
        hand.call(here)
        net.sleep(10)
        assert [code for _, code in hand.final_acks] == [MessageClass.ACK_RECEIVE]

    def test_a_claimed_one_is_not_dialled_against_a_pin(self, net: Net, here: Qm, hand: Hand) -> None:
        here.create("tx", transactional=True)
        impostor = claim(net, here, hand)
        impostor.hang_up()
        here.configure(peers=(Peer(guid=hand.guid, addresses=(hand.address,)),))
        here.to_private(hand, 7).send(b"secret")
        net.sleep(10)
        assert impostor.calls == []


class TestRoutingServersAndClaimedAddresses:
    """Anybody can claim a GUID; the routing servers were configured."""

    def test_messages_of_applications_take_the_router(self, net: Net, here: Qm, hand: Hand) -> None:
        router = net.hand()
        here.configure(out_routing_servers=(router.address,))
        here.create("tx", transactional=True)
        impostor = claim(net, here, hand)
        here.to_private(hand, 7).send(b"secret")
        net.sleep(10)
        assert (router.bodies, impostor.bodies, impostor.calls) == ([b"secret"], [], [])

    def test_acknowledgements_to_an_administration_queue_take_it(
        self, net: Net, here: Qm, hand: Hand
    ) -> None:
        router = net.hand()
        here.configure(out_routing_servers=(router.address,))
        here.create("tx", transactional=True)
        here.create("q")
        impostor, sender = claim(net, here, hand), net.hand()
        admin = PrivateFormatName(hand.guid, 7)
        wanted = Acknowledgements.POS_ARRIVAL
        message = sender.message(here.name_of("q"), administration_queue=admin, acknowledgements=wanted)
        sender.call(here).send(message)
        net.sleep(10)
        assert [each.message_class for each in router.messages] == [MessageClass.ACK_REACH_QUEUE]
        assert (impostor.messages, impostor.calls) == ([], [])

    def test_a_sender_that_a_router_speaks_for_is_told_through_it(
        self, net: Net, here: Qm, hand: Hand
    ) -> None:
        router = net.hand()
        here.configure(out_routing_servers=(router.address,))
        here.create("tx", transactional=True)
        box = here.create("other", transactional=True)
        impostor = claim(net, here, hand)
        message = hand.transactional(here.name_of("other"), 1, final_ack_required=True)
        router.call(here).send(message)
        impostor.send(impostor.transactional(here.name_of("tx"), 2))
        assert here.engine.peers.address(hand.guid) is None
        assert box.receive().body == b"1"
        net.sleep(10)
        assert [code for _, code in router.final_acks] == [MessageClass.ACK_RECEIVE]
        assert (impostor.final_acks, impostor.calls) == ([], [])

    def test_a_sender_that_came_itself_is_told_on_its_session(self, net: Net, here: Qm, hand: Hand) -> None:
        """The router may not know it."""
        router = net.hand()
        here.configure(out_routing_servers=(router.address,))
        box = here.create("tx", transactional=True)
        hand.call(here).send(hand.transactional(here.name_of("tx"), 1, final_ack_required=True))
        assert box.receive().body == b"1"
        net.sleep(10)
        assert [code for _, code in hand.final_acks] == [MessageClass.ACK_RECEIVE]
        assert router.calls == []


def claim(net: Net, here: Qm, hand: Hand) -> Hand:
    """An impostor that has sent a transactional message with the GUID of `hand`, and is still connected."""
    impostor = net.hand()
    impostor.guid = hand.guid
    impostor.call(here).send(impostor.transactional(here.name_of("tx"), 1))
    return impostor
