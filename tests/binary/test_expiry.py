"""[MS-MQQB] 3.1.7.1.2: messages whose time ends on the way."""

from typing import Any

import pytest

from tiercel.model.codes import Acknowledgements, DeliveryGuarantee, MessageClass
from tiercel.model.limits import INFINITE
from tiercel.model.path_name import PathName
from tiercel.wire.user_message import UserMessage
from wire.packets import frame, replaced

from .nodes import Hand, Net, Qm

EXPRESS = DeliveryGuarantee.EXPRESS
TEN_YEARS = 10 * 365 * 86400


class TestAtTheSender:
    @pytest.mark.conformance("MQQB-107")
    @pytest.mark.parametrize(("seconds", "is_sent"), [(10, True), (11, False)])
    def test_a_message_that_waits_to_be_sent(
        self, net: Net, here: Qm, hand: Hand, seconds: int, is_sent: bool
    ) -> None:
        net.down.add(hand.address)
        box = here.to(hand, "q")
        box.send(b"1", time_to_reach_queue=10)
        net.settle()
        net.down.clear()
        net.jump(seconds)
        assert bool(hand.bodies) is is_sent
        assert here.outgoing(box).message_count == is_sent

    @pytest.mark.conformance("MQQB-107")
    @pytest.mark.parametrize(("seconds", "is_sent"), [(10, True), (11, False)])
    def test_a_message_that_waits_for_its_session_ack(
        self, net: Net, here: Qm, hand: Hand, seconds: int, is_sent: bool
    ) -> None:
        box = here.to(hand, "q")
        box.send(b"1", time_to_reach_queue=10)
        net.settle()
        net.jump(seconds - 5)
        here.cut()
        net.jump(5)
        assert hand.bodies == [b"1"] * (1 + is_sent)
        assert here.outgoing(box).message_count == is_sent

    @pytest.mark.conformance("MQQB-107")
    @pytest.mark.parametrize(("limit", "is_sent"), [(30, True), (29, False)])
    def test_a_message_that_waits_for_its_order_ack(
        self, net: Net, here: Qm, hand: Hand, limit: int, is_sent: bool
    ) -> None:
        box = here.to(hand, "tx")
        here.send_together((box, b"1"), time_to_reach_queue=limit)
        net.settle()
        hand.ack()
        net.sleep(30)
        assert hand.bodies == [b"1"] * (1 + is_sent)
        assert here.outgoing(box).message_count == is_sent

    @pytest.mark.conformance("MQQB-108")
    def test_one_without_a_limit_never_ends(self, net: Net, hand: Hand) -> None:
        here = net.qm(long_lived_s=INFINITE)
        net.down.add(hand.address)
        here.to(hand, "q").send(b"1", time_to_reach_queue=INFINITE)
        net.settle()
        net.down.clear()
        net.jump(TEN_YEARS)
        assert hand.bodies == [b"1"]

    @pytest.mark.conformance("MQQB-108")
    def test_a_clock_that_is_ahead_kills_nothing(self, net: Net, here: Qm, hand: Hand) -> None:
        here.create("q")
        there = net.qm("THERE")
        there.configure(routing_server=True, machines={here.guid: (here.address,)})
        hand.call(there)
        hand.send(
            hand.message(here.private_name("q"), b"1", sent_time=int(net.now) + 60, time_to_reach_queue=10)
        )
        assert here.box("q").bodies() == [b"1"]

    @pytest.mark.conformance("MQQB-109")
    @pytest.mark.parametrize("wanted", [Acknowledgements.NEG_ARRIVAL, Acknowledgements.POS_ARRIVAL])
    def test_its_sender_is_told_if_it_has_asked(
        self, net: Net, here: Qm, hand: Hand, wanted: Acknowledgements
    ) -> None:
        net.down.add(hand.address)
        admin = here.create("admin")
        identifier = here.to(hand, "q").send(
            b"1", time_to_reach_queue=10, administration_queue=admin.name, acknowledgements=wanted
        )
        net.sleep(11)
        told = [(each.message_class, each.correlation_id) for each in admin.messages()]
        correlation = identifier.lineage.bytes_le + identifier.uniquifier.to_bytes(4, "little")
        expected = [(MessageClass.NACK_REACH_QUEUE_TIMEOUT, correlation)]
        assert told == (expected if wanted is Acknowledgements.NEG_ARRIVAL else [])

    @pytest.mark.conformance("MQQB-110")
    @pytest.mark.parametrize("journaling", [True, False])
    def test_it_is_kept_where_it_belongs(self, net: Net, here: Qm, hand: Hand, journaling: bool) -> None:
        net.down.add(hand.address)
        own = here.create("own", transactional=True)
        box, stream = here.to(hand, "q"), here.to(hand, "tx")
        how: dict[str, Any] = {"time_to_reach_queue": 10, "negative_journaling": journaling}
        box.send(b"plain", **how)
        here.send_together((stream, b"transactional"), **how)
        here.send_together((stream, b"own"), dead_letter_queue=PathName.parse(r".\private$\own"), **how)
        net.sleep(11)
        kept = [each.bodies() for each in (here.dead_letters, here.transactional_dead_letters, own)]
        assert kept == ([[b"plain"], [b"transactional"], [b"own"]] if journaling else [[], [], []])

    @pytest.mark.conformance("MQQB-113")
    def test_the_gap_that_it_leaves_is_bridged(self, net: Net, here: Qm, hand: Hand) -> None:
        box = here.to(hand, "tx")
        for body, limit in ((b"1", 100), (b"2", 20), (b"3", 100)):
            here.send_together((box, body), time_to_reach_queue=limit)
        net.settle()
        hand.ack()
        places = [(each.sequence[1], each.previous_number) for each in hand.messages]
        assert places == [(1, 0), (2, 1), (3, 2)]
        hand.clear()
        net.sleep(30)
        assert [(each.sequence[1], each.previous_number) for each in hand.messages] == [(1, 0), (3, 1)]
        there = net.qm("THERE")  # a receiver that took the first alone takes the last as it stands now
        there.create("tx", transactional=True)
        sender = net.hand().call(there)
        name = there.name_of("tx")
        sender.send(sender.transactional(name, 1), sender.transactional(name, 3, 1))
        assert there.box("tx").bodies() == [b"1", b"3"]


class TestAtTheReceiver:
    @pytest.mark.conformance("MQQB-111")
    @pytest.mark.parametrize(("age", "taken"), [(400_000, 0), (345_600, 1)])
    def test_what_comes_too_late_is_counted_and_dropped(
        self, net: Net, here: Qm, hand: Hand, age: int, taken: int
    ) -> None:
        box = here.create(r".\q")
        data = replaced(frame(7), 12, (345_600).to_bytes(4, "little"))
        hand.call(here)
        hand.send(UserMessage(replaced(data, 52, (int(net.now) - age).to_bytes(4, "little"))))
        assert len(box.messages()) == taken
        net.sleep(10)
        assert [each.ack_sequence_number for each in hand.headers] == [1]

    @pytest.mark.conformance("MQQB-111")
    def test_the_sender_of_a_late_message_is_told_both_ways(self, net: Net, here: Qm, hand: Hand) -> None:
        here.create("tx", transactional=True)
        admin = here.create("admin")
        late = hand.call(here).transactional(
            here.name_of("tx"),
            1,
            time_to_reach_queue=10,
            sent_time=int(net.now) - 11,
            acknowledgements=Acknowledgements.NEG_ARRIVAL,
            administration_queue=admin.name,
        )
        hand.send(late)
        assert admin.classes() == [MessageClass.NACK_REACH_QUEUE_TIMEOUT]
        assert hand.final_acks == [(late.id.uniquifier, MessageClass.NACK_REACH_QUEUE_TIMEOUT)]

    @pytest.mark.conformance("MQQB-112")
    def test_in_its_queue_the_time_to_be_received_runs(self, net: Net, here: Qm, hand: Hand) -> None:
        box, stream, admin = here.create("q"), here.create("tx", transactional=True), here.create("admin")
        how: dict[str, Any] = {
            "time_to_be_received": 5,
            "acknowledgements": Acknowledgements.NEG_RECEIVE,
            "administration_queue": admin.name,
        }
        plain = hand.call(here).recoverable(here.name_of("q"), b"1", **how)
        ordered = hand.transactional(here.name_of("tx"), 1, negative_journaling=True, **how)
        hand.send(plain, ordered)
        net.sleep(4)
        assert (box.state.count, stream.state.count, admin.classes()) == (1, 1, [])
        net.sleep(1)
        assert (box.state.count, stream.state.count) == (0, 0)
        assert admin.classes() == [MessageClass.NACK_RECEIVE_TIMEOUT] * 2
        assert hand.final_acks == [(ordered.id.uniquifier, MessageClass.NACK_RECEIVE_TIMEOUT)]
