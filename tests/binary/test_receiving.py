"""[MS-MQQB] 3.1.5.8: what becomes of a message that arrives."""

from typing import Any
from uuid import UUID

import pytest

from engine.harness import RECOVERABLE, Box
from tiercel.model.codes import Acknowledgements, MessageClass, QueuePrivacyLevel
from tiercel.model.format_name import PrivateFormatName
from tiercel.model.identifiers import NULL_GUID
from tiercel.security.descriptor import SecurityDescriptor
from tiercel.store.memory_store import MemoryStore
from tiercel.wire.order_ack import OrderAck, recognise
from tiercel.wire.queue_names import DirectQueueFormatName
from tiercel.wire.user_message import UserMessage

from .nodes import Hand, Net, Qm, asking
from .test_duplicates import fresh_frame

NEGATIVE = Acknowledgements.NEG_ARRIVAL


def granting(text: str) -> bytes:
    return SecurityDescriptor.parse(f"O:SYG:SYD:{text}").encode()


@pytest.fixture
def admin(here: Qm) -> Box:
    """Where HERE tells what became of messages, secrets and all."""
    here.set(send_insecure_nacks=True)
    return here.create("admin")


class TestSteps:
    """The first reason that applies is the one that counts."""

    @pytest.mark.conformance("MQQB-114")
    def test_duplicates_come_before_everything_else(self, here: Qm, hand: Hand, admin: Box) -> None:
        packet = hand.call(here).message(here.name_of("gone"), **asking(admin))
        hand.send(packet, packet)
        assert admin.classes() == [MessageClass.NACK_BAD_DST_Q]

    @pytest.mark.conformance("MQQB-114")
    def test_then_kind_time_protection_rights_and_room(
        self, net: Net, here: Qm, hand: Hand, admin: Box
    ) -> None:
        box = here.create("tx", transactional=True, authentication=True, quota_kib=0)
        box.set(security=granting(""))
        hand.call(here)
        late: dict[str, Any] = {"time_to_reach_queue": 1, "sent_time": int(net.now) - 2}
        hand.send(hand.message(here.name_of("tx"), **late, **asking(admin)))
        told = [admin.classes()]
        repairs: list[tuple[dict[str, Any], dict[str, Any]]] = [
            ({}, late),
            ({}, {}),
            ({"authentication": False, "privacy_level": QueuePrivacyLevel.BODY}, {}),
            ({"privacy_level": QueuePrivacyLevel.OPTIONAL}, {}),
            ({"security": granting("(A;;0x4;;;WD)")}, {}),
            ({"quota_kib": 1}, {}),
        ]
        for number, (repair, properties) in enumerate(repairs, 1):
            box.set(**repair)
            hand.send(hand.transactional(here.name_of("tx"), number, **properties, **asking(admin)))
            told.append(admin.classes())
        assert told == [
            [MessageClass.NACK_NOT_TRANSACTIONAL_MSG],
            [MessageClass.NACK_REACH_QUEUE_TIMEOUT],
            [MessageClass.NACK_BAD_SIGNATURE],
            [MessageClass.NACK_BAD_ENCRYPTION],
            [MessageClass.NACK_ACCESS_DENIED],
            [MessageClass.NACK_Q_EXCEED_QUOTA],
            [MessageClass.ACK_REACH_QUEUE],
        ]


class TestGeneralProcessing:
    """3.1.5.8.2."""

    @pytest.mark.conformance("MQQB-121")
    def test_what_cannot_be_stored_is_not_counted_and_stays_with_its_sender(
        self, net: Net, here: Qm, hand: Hand
    ) -> None:
        there = net.qm("THERE")
        there.create("q")
        there.configure(routing_server=True, machines={hand.guid: (hand.address,)})
        here.configure(out_routing_servers=(there.address,))
        assert isinstance(there.store, MemoryStore)
        for name in (there.name_of("q"), PrivateFormatName(hand.guid, 10)):
            box = Box(here, name)
            there.store.max_bytes = there.store.size
            box.send(b"1")
            net.settle()
            assert here.outgoing(box).message_count == 1
            there.store.max_bytes = None
            net.sleep(60)
            assert here.outgoing(box).message_count == 0
            here.cut()
        assert there.box("q").bodies() == [b"1"]
        assert set(hand.bodies) == {b"1"}

    @pytest.mark.conformance("MQQB-121")
    def test_what_was_stored_is_counted_once(self, here: Qm, hand: Hand) -> None:
        here.create("q")
        hand.call(here)
        (session,) = here.protocol.sessions
        seen = []
        for make in (hand.message, hand.recoverable):
            hand.send(make(here.name_of("q")))
            receipts = session.receipts
            seen.append((receipts.received, receipts.recoverable_received, receipts.unacked))
        assert seen == [(1, 0, 1), (2, 1, 2)]

    @pytest.mark.conformance("MQQB-122")
    @pytest.mark.parametrize("is_direct", [True, False])
    def test_a_direct_name_decides_how_order_acks_are_addressed(
        self, net: Net, here: Qm, hand: Hand, is_direct: bool
    ) -> None:
        here.create("tx", transactional=True)
        name = here.name_of("tx") if is_direct else here.private_name("tx")
        hand.call(here).send(hand.transactional(name, 1))
        net.sleep(1)
        ((_, packet),) = hand.arrivals
        assert isinstance(recognise(packet), OrderAck)
        assert isinstance(packet.destination_queue, DirectQueueFormatName) is is_direct

    @pytest.mark.conformance("MQQB-123")
    def test_no_address_means_this_computer(self, net: Net, here: Qm, hand: Hand) -> None:
        here.configure(routing_server=True)
        box = here.create(r".\q")
        packet = fresh_frame(net)
        assert packet.queue_manager_address == NULL_GUID
        hand.call(here).send(packet)
        _, record = here.run(lambda: box.state.next_available(here.engine._core, 0)) or (0, None)
        assert record is not None
        assert UserMessage(record.packet).hop_count == 0
        assert [state.count for state in here.engine.outgoing.queues()] == []

    @pytest.mark.conformance("MQQB-123")
    def test_and_all_rules_for_messages_of_this_computer_hold(self, here: Qm, hand: Hand, admin: Box) -> None:
        """Streams, rights and acknowledgements, by a direct name as by a private one."""
        box = here.create("tx", transactional=True)
        hand.call(here)
        for name in (here.name_of("tx"), here.private_name("tx")):
            hand.send(hand.transactional(name, 1, **asking(admin)), hand.transactional(name, 3, 2))
            box.set(security=granting(""))
            hand.send(hand.transactional(name, 2, **asking(admin)))
            box.set(security=granting("(A;;0x4;;;WD)"))
            assert admin.classes() == [MessageClass.ACK_REACH_QUEUE, MessageClass.NACK_ACCESS_DENIED]
        assert box.bodies() == [b"1", b"1"]

    @pytest.mark.conformance("MQQB-124")
    def test_a_queue_that_is_not_there(self, here: Qm, hand: Hand, admin: Box) -> None:
        name = here.name_of("gone")
        ordered = hand.call(here).transactional(name, 1, **asking(admin))
        hand.send(hand.message(name, **asking(admin)), ordered)
        hand.send(hand.message(name, **asking(admin, Acknowledgements.POS_ARRIVAL)))
        assert admin.classes() == [MessageClass.NACK_BAD_DST_Q] * 2
        assert hand.final_acks == [(ordered.id.uniquifier, MessageClass.NACK_BAD_DST_Q)]
        assert here.discarded() == [MessageClass.NACK_BAD_DST_Q] * 3

    @pytest.mark.conformance("MQQB-125")
    def test_queue_and_message_must_be_of_one_kind(self, here: Qm, hand: Hand, admin: Box) -> None:
        boxes = here.create("q"), here.create("tx", transactional=True)
        hand.call(here)
        names = here.name_of("q"), here.name_of("tx")
        misfit = hand.transactional(names[0], 1, **asking(admin, NEGATIVE))
        hand.send(hand.message(names[0], b"fits", **asking(admin, NEGATIVE)), misfit)
        assert admin.classes() == [MessageClass.NACK_NOT_TRANSACTIONAL_Q]
        hand.send(hand.message(names[1], **asking(admin, NEGATIVE)))
        hand.send(hand.transactional(names[1], 1, body=b"fits", **asking(admin, NEGATIVE)))
        assert admin.classes() == [MessageClass.NACK_NOT_TRANSACTIONAL_MSG]
        assert [box.bodies() for box in boxes] == [[b"fits"], [b"fits"]]
        assert hand.final_acks == [(misfit.id.uniquifier, MessageClass.NACK_NOT_TRANSACTIONAL_Q)]

    @pytest.mark.conformance("MQQB-129")
    @pytest.mark.parametrize("properties", [{}, {"time_to_reach_queue": 1, "sent_time": 1}])
    def test_what_is_refused_is_acknowledged_too(
        self, net: Net, here: Qm, hand: Hand, properties: dict[str, Any]
    ) -> None:
        here.create("q")
        name = here.name_of("q" if properties else "gone")
        hand.call(here).send(hand.message(name, **properties))
        net.sleep(10)
        assert [header.ack_sequence_number for header in hand.headers] == [1]

    @pytest.mark.conformance("MQQB-129")
    def test_so_that_its_sender_stops_sending_it(self, net: Net, here: Qm) -> None:
        sender = net.qm("SENDER")
        box = sender.to(here, "gone")
        box.send(b"1", delivery=0)
        net.sleep(10)
        assert sender.outgoing(box).message_count == 0


class TestInserting:
    """3.1.5.8.8."""

    @pytest.mark.conformance("MQQB-126")
    def test_a_full_queue(self, here: Qm, hand: Hand, admin: Box) -> None:
        here.create("q", quota_kib=1)
        here.create("tx", transactional=True, quota_kib=1)
        body = bytes(2048)
        hand.call(here).send(
            hand.message(here.name_of("q"), body, **asking(admin, NEGATIVE)),
            hand.message(here.name_of("q"), body, negative_journaling=True),
        )
        ordered = hand.transactional(here.name_of("tx"), 1, body=body, negative_journaling=True)
        hand.send(ordered)
        assert admin.classes() == [MessageClass.NACK_Q_EXCEED_QUOTA]
        assert here.dead_letters.bodies() == [body]
        assert here.transactional_dead_letters.bodies() == []
        assert hand.final_acks == [(ordered.id.uniquifier, MessageClass.NACK_Q_EXCEED_QUOTA)]
        assert (here.box("q").bodies(), here.box("tx").bodies()) == ([], [])

    @pytest.mark.conformance("MQQB-127")
    def test_a_full_queue_manager_closes_the_session(self, net: Net, here: Qm) -> None:
        here.create("q")
        sender = net.qm("SENDER")
        admin, box = sender.create("admin"), sender.to(here, "q")
        here.set(queue_manager_quota_kib=1)
        box.send(bytes(2048), **asking(Box(sender, sender.name_of("admin"))))
        net.settle()
        assert (here.protocol.sessions, sender.outgoing(box).message_count) == ([], 1)
        here.set(queue_manager_quota_kib=100)
        net.sleep(5)
        assert here.box("q").bodies() == [bytes(2048)]
        assert admin.classes() == [MessageClass.ACK_REACH_QUEUE]

    @pytest.mark.conformance("MQQB-128")
    def test_everything_in_the_packet_can_be_read(self, net: Net, here: Qm, hand: Hand) -> None:
        box = here.create(r".\q")
        packet = fresh_frame(net)
        hand.call(here).send(packet)
        message = box.receive()
        assert (message.label, message.body_type, len(message.body)) == ("mqsender label", 8, 2000)
        assert (message.body, message.id) == (packet.body, packet.id)
        assert str(message.destination_queue) == r"DIRECT=OS:a04bm02\q"
        assert (message.priority, message.acknowledgements, message.sent_time) == (3, 0xF, net.now)
        assert (message.sender_id, message.message_class) == (packet.sender[1], MessageClass.NORMAL)

    @pytest.mark.conformance("MQQB-128")
    def test_what_is_for_another_goes_to_the_outgoing_queue_of_its_name(self, here: Qm, hand: Hand) -> None:
        here.configure(routing_server=True)
        name = PrivateFormatName(UUID(int=7), 10)
        hand.call(here).send(hand.message(name, b"1", delivery=RECOVERABLE))
        assert Box(here, name).state.count == 1


class TestAcknowledgementsOfAcknowledgements:
    """Appendix A, 2 and 62."""

    @pytest.mark.conformance("MQQB-131")
    @pytest.mark.parametrize("kind", [MessageClass.ACK_REACH_QUEUE, MessageClass.NACK_BAD_DST_Q])
    def test_there_are_none(self, here: Qm, hand: Hand, admin: Box, kind: MessageClass) -> None:
        here.create("q")
        hand.call(here)
        for queue in ("q", "gone"):
            hand.send(hand.message(here.name_of(queue), message_class=kind, **asking(admin)))
        assert len(here.box("q").drain()) == 1
        assert admin.classes() == []

    @pytest.mark.conformance("MQQB-131")
    def test_and_no_copies_at_their_source(self, net: Net, here: Qm, hand: Hand) -> None:
        for kind in (MessageClass.ACK_REACH_QUEUE, MessageClass.NORMAL):
            here.to(hand, "admin").send(b"1", message_class=kind, positive_journaling=True)
        net.settle()
        hand.ack()
        net.sleep(1)
        assert [each.message_class for each in here.journal.messages()] == [MessageClass.NORMAL]
