"""[MS-MQQB] 3.1.5.8.2, 3.1.5.8.5: messages for other queue managers, on their way through this one."""

from dataclasses import dataclass
from typing import Any

import pytest

from engine.harness import Box
from tiercel.engine.belief import Doubt
from tiercel.model.codes import Acknowledgements, DeliveryGuarantee, MessageClass, PrivacyLevel
from tiercel.model.format_name import PrivateFormatName

from .nodes import Hand, Net, Qm, asking, reached_through, with_hop_count

EXPRESS = DeliveryGuarantee.EXPRESS


@dataclass
class Chain:
    """A source, a router and a destination; the source knows the router alone."""

    net: Net
    source: Qm
    router: Qm
    destination: Qm

    def to(self, queue: str) -> Box:
        return reached_through(self.router, self.source, self.destination, queue)


@pytest.fixture
def chain(net: Net) -> Chain:
    source, router, destination = net.qm("SOURCE"), net.qm("ROUTER"), net.qm("DESTINATION")
    destination.create("q")
    destination.create("tx", transactional=True)
    return Chain(net, source, router, destination)


@pytest.fixture
def router(net: Net) -> Qm:
    router = net.qm("ROUTER")
    router.configure(routing_server=True)
    return router


class TestHopCount:
    """3.1.5.8.2."""

    def pass_on(self, net: Net, router: Qm, hand: Hand, hops: int, **properties: Any) -> Hand:
        target = net.hand()
        router.configure(machines={target.guid: (target.address,)})
        packet = hand.call(router).transactional(PrivateFormatName(target.guid, 7), 1, **properties)
        hand.send(with_hop_count(packet, hops))
        return target

    @pytest.mark.conformance("MQQB-190")
    def test_it_grows(self, net: Net, router: Qm, hand: Hand) -> None:
        target = self.pass_on(net, router, hand, 0x1C)
        assert [each.hop_count for each in target.messages] == [0x1D]

    @pytest.mark.conformance("MQQB-190")
    def test_up_to_its_limit(self, net: Net, router: Qm, hand: Hand) -> None:
        admin = router.create("admin")
        target = self.pass_on(net, router, hand, 0x1D, **asking(admin, Acknowledgements.NEG_ARRIVAL))
        assert target.messages == []
        assert admin.classes() == [MessageClass.NACK_HOP_COUNT_EXCEEDED]
        assert [reason for _, reason in hand.final_acks] == [MessageClass.NACK_HOP_COUNT_EXCEEDED]

    def test_who_is_no_router_says_so(self, net: Net, router: Qm, hand: Hand) -> None:
        router.configure(routing_server=False)
        target = self.pass_on(net, router, hand, 0)
        assert target.messages == []
        assert [reason for _, reason in hand.final_acks] == [MessageClass.NACK_BAD_DST_Q]


class TestPassingOn:
    @pytest.mark.conformance("MQQB-191")
    def test_by_the_outgoing_queue_of_its_name(self, chain: Chain) -> None:
        """Without a directory anywhere."""
        chain.net.down.add(chain.destination.address)
        box = chain.to("q")
        box.send(b"1")
        chain.net.settle()
        assert Box(chain.router, box.name).state.count == 1
        chain.net.down.clear()
        chain.net.sleep(60)
        assert chain.destination.box("q").bodies() == [b"1"]
        assert Box(chain.router, box.name).state.count == 0

    @pytest.mark.conformance("MQQB-192")
    def test_a_router_keeps_what_it_cannot_pass_on_yet(self, chain: Chain) -> None:
        chain.net.down.add(chain.destination.address)
        chain.to("q").send(b"1")
        chain.net.sleep(10)
        assert chain.to("q").state.count == 0
        chain.router.kill()
        chain.net.down.clear()
        chain.net.sleep(60)
        assert chain.destination.box("q").bodies() == [b"1"]

    @pytest.mark.conformance("MQQB-195")
    def test_the_first_hop_releases_the_source(self, chain: Chain) -> None:
        chain.net.down.add(chain.destination.address)
        box = chain.to("q")
        box.send(b"1", delivery=EXPRESS)
        chain.net.sleep(10)
        assert box.state.count == 0
        assert Box(chain.router, box.name).state.count == 1

    @pytest.mark.conformance("MQQB-196")
    def test_a_direct_name_goes_nowhere_else(self, net: Net, router: Qm, hand: Hand) -> None:
        router.set(send_insecure_nacks=True)
        admin = router.create("admin")
        hand.call(router).send(hand.message(net.hand().name_of("elsewhere"), **asking(admin)))
        assert admin.classes() == [MessageClass.NACK_BAD_DST_Q]
        assert list(router.engine.outgoing.queues()) == []

    @pytest.mark.conformance("MQQB-194")
    def test_nothing_but_the_hop_count_changes(self, net: Net, router: Qm, hand: Hand) -> None:
        """Neither a signature nor a cipher is touched, and what was asked for is left to the destination."""
        target, admin = net.hand(), router.create("admin")
        router.configure(machines={target.guid: (target.address,)})
        packet = hand.call(router).message(
            PrivateFormatName(target.guid, 7),
            b"\xa5" * 16,
            privacy_level=PrivacyLevel.BASE,
            symmetric_key=bytes(76),
            signature=bytes(64),
            sender_certificate=b"no certificate",
            sender_id=b"no SID",
            **asking(admin, Acknowledgements.POS_ARRIVAL),
        )
        hand.send(packet)
        (passed,) = target.messages
        assert passed.data == with_hop_count(packet, 1).data
        assert admin.classes() == []


class TestStreams:
    """3.1.1.5, 3.1.1.6.2."""

    @pytest.mark.conformance("MQQB-193")
    def test_headers_and_acknowledgements_pass_untouched(self, net: Net, router: Qm, hand: Hand) -> None:
        target = net.hand()
        machines = {each.guid: (each.address,) for each in (hand, target)}
        router.configure(machines=machines)
        packet = hand.call(router).transactional(PrivateFormatName(target.guid, 7), 5, 3)
        hand.send(packet)
        net.sleep(1)
        assert [each.transaction for each in target.messages] == [packet.transaction]
        assert hand.arrivals == []  # the router itself confirms nothing
        target.order_ack(packet)
        target.final_ack(packet, MessageClass.ACK_RECEIVE)
        assert hand.order_acks == [(packet.sequence[0], 5)]
        assert hand.final_acks == [(packet.id.uniquifier, MessageClass.ACK_RECEIVE)]

    @pytest.mark.conformance("MQQB-193")
    def test_once_and_in_order_whatever_is_lost(self, chain: Chain) -> None:
        box = chain.to("tx")
        for number in range(20):
            chain.source.send_together((box, b"%d" % number), final_ack_required=True)
            if number % 3 == 0:
                (chain.source if number % 2 else chain.destination).cut()
            if number == 10:
                chain.router.kill()
            chain.net.sleep(3)
        chain.net.sleep(600)
        assert [each.body for each in chain.destination.box("tx").drain()] == [b"%d" % n for n in range(20)]
        chain.net.sleep(600)
        assert box.state.count == 0
        assert chain.source.engine._catalog.awaiting_final_ack.count == 0

    @pytest.fixture
    def started(self, chain: Chain) -> Chain:
        """The source starts where the name of its router cannot be looked up; its message was received."""
        box = chain.to("tx")
        chain.net.names["router"] = [chain.router.address]
        chain.source.configure(out_routing_servers=("router",))
        chain.source.send_together((box, b"1"), final_ack_required=True)
        chain.net.sleep(5)
        chain.net.names["router"] = []
        chain.source.kill()
        chain.destination.box("tx").receive()
        chain.net.sleep(60)
        assert chain.source.engine._catalog.awaiting_final_ack.count == 1
        return chain

    def test_acknowledgements_wait_until_the_name_of_the_router_is_known(self, started: Chain) -> None:
        """Nobody knows yet that it may pass on what others say."""
        assert started.source.protocol.doubts == {}
        started.net.names.clear()
        started.net.names["router"] = [started.router.address]
        started.net.sleep(600)
        assert started.source.engine._catalog.awaiting_final_ack.count == 0

    def test_but_not_for_ever(self, started: Chain) -> None:
        """The name may be wrong, and other messages must not wait behind the acknowledgement."""
        started.net.sleep(3600)
        assert started.source.protocol.doubts.keys() == {Doubt.OTHER_QUEUE_MANAGER}
