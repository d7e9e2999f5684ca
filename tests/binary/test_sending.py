"""[MS-MQQB] 3.1.7.1, 3.1.7.12, 3.1.7.16: how a message leaves."""

import pytest

from engine.harness import RECOVERABLE, Box
from tiercel.binary.actions import Dial
from tiercel.binary.flight import Entry
from tiercel.binary.settings import Peer, Settings
from tiercel.model.codes import DeliveryGuarantee, OutgoingQueueState
from tiercel.model.format_name import FormatName
from tiercel.store.interface import Keyspace
from tiercel.store.memory_store import MemoryStore

from .nodes import Hand, Net, Qm

EXPRESS = DeliveryGuarantee.EXPRESS


class TestMessagePositionAvailable:
    """3.1.7.12."""

    @pytest.mark.conformance("MQQB-099")
    @pytest.mark.parametrize(
        ("name", "state", "calls"),
        [
            (r"DIRECT=TCP:{}\private$\q", OutgoingQueueState.INACTIVE, 1),
            (r"DIRECT=TCP:{}\private$\q", OutgoingQueueState.LOCKED, 0),
            (r"DIRECT=TCP:{}\private$\q", OutgoingQueueState.ON_HOLD, 0),
            ("DIRECT=HTTP://{}/msmq/q", OutgoingQueueState.INACTIVE, 0),
            ("DIRECT=HTTPS://{}/msmq/q", OutgoingQueueState.INACTIVE, 0),
            ("MULTICAST=234.1.1.1:8001", OutgoingQueueState.INACTIVE, 0),
        ],
    )
    def test_a_queue_of_this_protocol_is_connected_once_and_no_other(
        self, net: Net, here: Qm, hand: Hand, name: str, state: OutgoingQueueState, calls: int
    ) -> None:
        box = Box(here, FormatName.parse(name.format(hand.address)))
        here.left_outgoing(box.name)
        here.outgoing(box).state = state
        packet = hand.message(hand.name_of("q"))
        for _ in range(2):
            here.run(lambda: here.engine.delivery.arrive(packet, box.state))
            net.settle()
            assert len(hand.calls) == calls
        assert here.outgoing(box).message_count == 2

    @pytest.mark.conformance("MQQB-100")
    def test_a_new_entry_has_no_number_and_no_mark_and_comes_last(
        self, net: Net, here: Qm, hand: Hand
    ) -> None:
        net.down.add(hand.address)
        box = here.to(hand, "q")
        box.send_all(b"1", b"2")
        [taken] = here.run(lambda: here.engine.outgoing.take(box.state, 2))
        for body, each in zip((b"1", b"2"), taken.singles(), strict=True):
            assert (each.packet.body, each.sequence, each.number) == (body, 0, 0)
            entry = Entry(each, is_recoverable=each.packet.is_recoverable)
            assert (entry.first_number, entry.acked, entry.ordered, entry.is_over) == (0, 0, 0, False)


class TestDestinations:
    def test_one_that_is_not_used_leaves_nothing(self, net: Net, here: Qm, hand: Hand) -> None:
        box = here.to(hand, "q")
        box.send(b"1")
        net.settle()
        hand.ack()
        box.close()
        hand.hang_up()
        assert list(here.engine.outgoing.queues()) == []
        assert here.protocol._next_hops == {}

    def test_a_dial_that_succeeds_too_late_is_hung_up(self, net: Net, here: Qm, hand: Hand) -> None:
        """The peer has connected to us meanwhile."""
        here.configure(peers=(Peer(guid=hand.guid, addresses=(hand.address,)),))
        here.configure(machines={hand.guid: (hand.address,)})
        here.to_private(hand, 7).send(b"1")
        here.perform(here.actions.popleft())
        dial = here.actions.popleft()
        assert isinstance(dial, Dial)
        first = hand.call(here).line
        assert hand.bodies == [b"1"]
        here.perform(dial)
        assert hand.line is not first
        net.settle()
        assert not hand.is_connected
        assert first is not None
        assert first.is_up


class TestSending:
    """3.1.7.1, 3.1.7.16."""

    @pytest.mark.conformance("MQQB-101")
    def test_only_when_the_queue_is_connected(self, net: Net, here: Qm, hand: Hand) -> None:
        box = here.to(hand, "q")
        box.send(b"1")
        queue = here.outgoing(box)
        while queue.state is not OutgoingQueueState.WAITING:
            here.perform(here.actions.popleft())
        assert (hand.calls, hand.bodies) == ([], [])
        net.settle()
        assert (queue.state, hand.bodies) == (OutgoingQueueState.CONNECTED, [b"1"])

    @pytest.mark.conformance("MQQB-102")
    def test_identifiers_only_grow_whatever_happens(self, here: Qm, hand: Hand) -> None:
        box = here.to(hand, "q")
        numbers = []
        for _ in range(3):
            numbers += [box.send(delivery=delivery).uniquifier for delivery in (RECOVERABLE, EXPRESS)]
            here.kill()
        assert numbers[0] == 1  # 0 would mean that it has none (MQQB T20)
        assert numbers == sorted(set(numbers))

    def test_identifiers_begin_anew_after_four_billion(self, here: Qm, hand: Hand) -> None:
        assert isinstance(here.store, MemoryStore)
        here.store.spaces[Keyspace.META][b"message_ordinal"] = (0xFFFF_FFFE).to_bytes(8, "big")
        here.restart()
        box = here.to(hand, "q")
        assert [box.send().uniquifier for _ in range(2)] == [0xFFFF_FFFF, 1]

    @pytest.mark.conformance("MQQB-104")
    def test_what_cannot_be_sent_is_tried_again_only_when_something_has_changed(self, net: Net) -> None:
        here, hand = net.qm(settings=Settings(window_size=2)), net.hand()
        box = here.to(hand, "q")
        box.send_all(b"1", b"2", b"3")
        net.settle()
        assert hand.bodies == [b"1", b"2"]
        for _ in range(3):
            here.run(lambda: None)
            assert not here.actions
        hand.ack()
        assert hand.bodies == [b"1", b"2", b"3"]
        here.run(lambda: here.engine.outgoing.pause(box.state))
        box.send(b"4")
        net.settle()
        assert hand.bodies[3:] == []
        hand.ack()
        here.run(lambda: here.engine.outgoing.resume(box.state))
        net.settle()
        assert hand.bodies[3:] == [b"4"]

    @pytest.mark.conformance("MQQB-105")
    def test_express_messages_survive_the_network_but_no_restart(
        self, net: Net, here: Qm, hand: Hand
    ) -> None:
        box = here.to(hand, "q")
        box.send(b"1", delivery=EXPRESS)
        net.settle()
        assert isinstance(here.store, MemoryStore)
        writes = here.store.writes
        box.send(b"2", delivery=EXPRESS)
        net.settle()
        here.cut()
        net.sleep(5)
        assert hand.bodies == [b"1", b"2", b"1", b"2"]
        assert len(here.store.spaces[Keyspace.MESSAGES]) == 0
        assert here.store.writes == writes
        here.restart()
        net.sleep(60)
        assert hand.bodies[4:] == []

    @pytest.mark.conformance("MQQB-106")
    def test_recoverable_messages_are_on_disk_before_they_leave(self, net: Net, here: Qm, hand: Hand) -> None:
        here.to(hand, "q").send(b"1")
        assert not hand.bodies
        for _ in range(2):  # before and after it was sent, but not acknowledged
            here.kill()
            net.settle()
            assert hand.bodies[-1:] == [b"1"]
        hand.ack()
        net.sleep(1)
        hand.clear()
        here.kill()
        net.settle()
        assert not hand.bodies
