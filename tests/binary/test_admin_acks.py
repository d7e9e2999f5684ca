"""[MS-MQQB] 3.1.5.8.10, 3.1.7.2.1, 3.1.7.15: administration acknowledgements."""

from typing import Any
from uuid import UUID

import pytest

from engine.harness import ALICE, BOB, RECOVERABLE, Box
from tiercel.model.codes import (
    Acknowledgements,
    DeliveryGuarantee,
    MessageClass,
    QueueFormatType,
    QueuePrivacyLevel,
    SenderIdType,
)
from tiercel.model.format_name import FormatName, PrivateFormatName, PublicFormatName
from tiercel.model.identifiers import NULL_GUID, MessageId
from tiercel.model.limits import INFINITE, ROUTING_HOPS_MAX
from tiercel.model.limits import TIME_TO_REACH_QUEUE_DEFAULT_S as FOUR_DAYS
from tiercel.wire.structure import encode_guid
from tiercel.wire.user_header import ADMIN_SHIFT

from .nodes import SEQUENCE, Hand, Net, Qm, asking, with_hop_count
from .test_receiving import granting

EXPRESS = DeliveryGuarantee.EXPRESS
IN_A_STREAM: dict[str, Any] = {"transaction_id": 1, "tx_sequence_id": SEQUENCE, "tx_sequence_number": 1}


@pytest.fixture
def admin(here: Qm) -> Box:
    return here.create("admin")


class TestArrival:
    """3.1.5.8.10, 3.1.5.8.2, 3.1.5.8.3, 3.1.5.8.8."""

    @pytest.mark.conformance("MQQB-172")
    @pytest.mark.parametrize("wanted", [Acknowledgements.POS_ARRIVAL, Acknowledgements.NONE])
    def test_after_it_is_in_its_queue(
        self, here: Qm, hand: Hand, admin: Box, wanted: Acknowledgements
    ) -> None:
        box = here.create("q")
        hand.call(here).send(hand.message(here.name_of("q"), b"1", **asking(admin, wanted)))
        assert box.bodies() == [b"1"]
        told = [(each.message_class, each.body) for each in admin.messages()]
        assert told == ([(MessageClass.ACK_REACH_QUEUE, b"")] if wanted else [])

    @pytest.mark.conformance("MQQB-173")
    @pytest.mark.parametrize(
        ("reason", "queue", "message"),
        [
            (0x8000, None, {}),
            (0x8002, {}, {"time_to_reach_queue": 1, "sent_time": 1}),
            (0x8003, {"quota_kib": 0}, {}),
            (0x8004, {"security": granting("")}, {}),
            (0x8006, {"authentication": True}, {}),
            (0x8007, {"privacy_level": QueuePrivacyLevel.BODY}, {}),
            (0x8007, {"privacy_level": QueuePrivacyLevel.NONE}, {"privacy_level": 1}),
            (0x8009, {}, IN_A_STREAM),
            (0x800A, {"transactional": True}, {}),
        ],
    )
    @pytest.mark.parametrize("wanted", [Acknowledgements.NEG_ARRIVAL, Acknowledgements.POS_ARRIVAL])
    def test_each_refusal_has_its_class(
        self,
        here: Qm,
        hand: Hand,
        admin: Box,
        reason: int,
        queue: dict[str, Any] | None,
        message: dict[str, Any],
        wanted: Acknowledgements,
    ) -> None:
        here.set(send_insecure_nacks=True)
        if queue is not None:
            here.create("q", **queue)
        hand.call(here).send(hand.message(here.name_of("q"), **message, **asking(admin, wanted)))
        assert admin.classes() == ([reason] if wanted is Acknowledgements.NEG_ARRIVAL else [])
        assert queue is None or here.box("q").state.count == 0

    @pytest.mark.conformance("MQQB-173")
    def test_too_many_computers(self, here: Qm, hand: Hand, admin: Box) -> None:
        here.configure(routing_server=True)
        packet = hand.call(here).message(PrivateFormatName(UUID(int=7), 10), **asking(admin))
        hand.send(with_hop_count(packet, ROUTING_HOPS_MAX))
        assert admin.classes() == [MessageClass.NACK_HOP_COUNT_EXCEEDED]


class TestRemoval:
    """3.1.7.2.1."""

    @pytest.mark.conformance("MQQB-174")
    @pytest.mark.parametrize("is_wanted", [True, False])
    @pytest.mark.parametrize(
        ("end", "reason"),
        [
            ("receive", MessageClass.ACK_RECEIVE),
            ("delete", MessageClass.NACK_Q_DELETED),
            ("purge", MessageClass.NACK_Q_PURGED),
            ("wait", MessageClass.NACK_RECEIVE_TIMEOUT),
            ("reject", MessageClass.NACK_RECEIVE_REJECTED),
        ],
    )
    def test_how_it_ended(
        self, net: Net, here: Qm, hand: Hand, admin: Box, end: str, reason: MessageClass, is_wanted: bool
    ) -> None:
        box = here.create("q")
        received, other = Acknowledgements.POS_RECEIVE, Acknowledgements.NEG_RECEIVE
        wanted = received if (end == "receive") is is_wanted else other
        hand.call(here).send(
            hand.message(here.name_of("q"), time_to_be_received=100, **asking(admin, wanted))
        )
        if end == "wait":
            net.jump(100)
        elif end == "reject":
            here.run(lambda: reject(here, box))
        else:
            getattr(box, end)()
        assert admin.classes() == ([reason] if is_wanted else [])


def reject(here: Qm, box: Box) -> None:
    """What a receiver that gives a message back for good will do ([MC-MQAC])."""
    found = box.state.next_available(here.engine._core, 0)
    assert found is not None
    here.engine.delivery.finish(box.state, *found, MessageClass.NACK_RECEIVE_REJECTED)


class TestSending:
    """3.1.7.15."""

    @pytest.mark.conformance("MQQB-175")
    @pytest.mark.parametrize(
        "properties",
        [
            {"acknowledgements": 0xF},
            {"acknowledgements": 0xF, "administration_queue": FormatName.parse(r"DIRECT=OS:.\private$\gone")},
            {"acknowledgements": 0xF, "administration_queue": PublicFormatName(UUID(int=7))},
        ],
    )
    def test_nothing_without_a_queue_for_it(
        self, net: Net, here: Qm, hand: Hand, properties: dict[str, Any]
    ) -> None:
        box = here.create("q")
        hand.call(here).send(hand.message(here.name_of("q"), b"1", **properties))
        assert box.receive().body == b"1"
        net.sleep(100)
        assert (hand.arrivals, hand.calls, list(here.engine.outgoing.queues())) == ([], [], [])

    @pytest.mark.conformance("MQQB-176")
    @pytest.mark.parametrize("is_permitted", [True, False])
    def test_what_a_stranger_must_not_know_is_told_only_where_it_is_permitted(
        self, here: Qm, hand: Hand, admin: Box, is_permitted: bool
    ) -> None:
        assert not here.engine.queue_manager.send_insecure_nacks
        here.set(send_insecure_nacks=is_permitted)
        here.restart()
        here.create("signed", transactional=True, authentication=True)
        here.create("secret", transactional=True, privacy_level=QueuePrivacyLevel.BODY)
        here.create("closed", transactional=True, security=granting(""))
        reasons = {"gone": 0x8000, "signed": 0x8006, "secret": 0x8007, "closed": 0x8004}
        hand.call(here)
        for queue in reasons:
            hand.send(hand.transactional(here.name_of(queue), 1, **asking(admin)))
        assert admin.classes() == (list(reasons.values()) if is_permitted else [])
        assert [reason for _, reason in hand.final_acks] == list(reasons.values())

    @pytest.mark.conformance("MQQB-177")
    @pytest.mark.parametrize("kind", [each for each in QueueFormatType if each in {2, 3, 5, 6, 7}])
    def test_where_it_goes(self, net: Net, here: Qm, hand: Hand, kind: QueueFormatType) -> None:
        other = net.hand()
        here.create("q")
        admin, public = here.create("admin"), here.create(r".\public")
        here.configure(machines={hand.guid: (hand.address,), other.guid: (other.address,)})
        local = here.private_name("admin").number
        places: dict[QueueFormatType, tuple[FormatName, Box | Hand]] = {
            QueueFormatType.PRIVATE_ON_SOURCE: (PrivateFormatName(hand.guid, 7), hand),
            QueueFormatType.PRIVATE_ON_DESTINATION: (PrivateFormatName(here.guid, local), admin),
            QueueFormatType.PUBLIC: (PublicFormatName(public.state.queue.identifier), public),
            QueueFormatType.PRIVATE_ON_OTHER: (PrivateFormatName(other.guid, 7), other),
            QueueFormatType.DIRECT: (other.name_of("admin"), other),
        }
        name, place = places[kind]
        packet = hand.call(here).message(
            here.private_name("q"), administration_queue=name, acknowledgements=Acknowledgements.POS_ARRIVAL
        )
        assert packet.flags >> ADMIN_SHIFT & 7 == kind
        hand.send(packet)
        if isinstance(place, Hand):
            classes = [each.message_class for each in place.messages]
        else:
            classes = place.classes()
        assert classes == [MessageClass.ACK_REACH_QUEUE]
        assert here.engine.queues.find(name) is not None

    def test_at_the_destination_of_a_direct_name_is_here(self, here: Qm, hand: Hand) -> None:
        """Such a message has no QueueManagerAddress (MQQB T01)."""
        here.create("q")
        admin = here.create("admin")
        packet = hand.call(here).message(
            here.name_of("q"),
            administration_queue=PrivateFormatName(NULL_GUID, here.private_name("admin").number),
            acknowledgements=Acknowledgements.POS_ARRIVAL,
        )
        assert packet.flags >> ADMIN_SHIFT & 7 == QueueFormatType.PRIVATE_ON_DESTINATION
        hand.send(packet)
        assert admin.classes() == [MessageClass.ACK_REACH_QUEUE]

    @pytest.mark.conformance("MQQB-178")
    @pytest.mark.parametrize("kind", ["direct", "private", "public"])
    def test_what_it_refers_to(self, here: Qm, hand: Hand, admin: Box, kind: str) -> None:
        here.create("q")
        public = here.create(r".\public").state.queue.identifier
        source = UUID("11EA26C6-B6E6-4997-9595-9150557358D1")  # of the worked example
        name: FormatName = {
            "direct": here.name_of("q"),
            "private": here.private_name("q"),
            "public": PublicFormatName(public),
        }[kind]
        where: dict[str, Any] = {"destination_queue_manager": here.guid} if kind == "public" else {}
        hand.call(here).send(hand.message(name, id=MessageId(source, 0x8EE), **where, **asking(admin)))
        (ack,) = admin.messages()
        assert ack.correlation_id == encode_guid(source) + bytes.fromhex("EE 08 00 00")
        assert ack.response_queue == name

    @pytest.mark.conformance("MQQB-179")
    @pytest.mark.parametrize("delivery", [EXPRESS, RECOVERABLE])
    def test_it_is_as_durable_as_the_message_and_asks_for_nothing(
        self, here: Qm, hand: Hand, admin: Box, delivery: DeliveryGuarantee
    ) -> None:
        here.create("q")
        hand.call(here).send(
            hand.message(
                here.name_of("q"),
                delivery=delivery,
                positive_journaling=True,
                negative_journaling=True,
                time_to_be_received=10,
                **asking(admin, Acknowledgements.POS_ARRIVAL),
            )
        )
        (ack,) = admin.messages()
        assert (ack.delivery, ack.acknowledgements) == (delivery, 0)
        # Not infinite, as the text says: anybody can ask for one on a computer that does not exist.
        assert (ack.time_to_reach_queue, ack.time_to_be_received) == (FOUR_DAYS, INFINITE)
        assert (ack.positive_journaling, ack.negative_journaling) == (False, False)
        assert (ack.privacy_level, ack.authentication_level, ack.signature) == (0, 0, b"")

    @pytest.mark.conformance("MQQB-180")
    @pytest.mark.parametrize(
        ("properties", "body"),
        [
            (IN_A_STREAM, b"0123456789"),
            (IN_A_STREAM | {"privacy_level": 1, "symmetric_key": b"k"}, b""),
            ({}, b""),
        ],
    )
    def test_a_negative_one_carries_the_body_unless_it_is_a_secret(
        self, here: Qm, hand: Hand, admin: Box, properties: dict[str, Any], body: bytes
    ) -> None:
        here.create("q")
        hand.call(here).send(hand.message(here.name_of("q"), b"0123456789", **properties, **asking(admin)))
        (ack,) = admin.messages()
        expected = MessageClass.NACK_NOT_TRANSACTIONAL_Q if properties else MessageClass.ACK_REACH_QUEUE
        assert (ack.message_class, ack.body) == (expected, body)

    @pytest.mark.conformance("MQQB-181")
    def test_over_the_session_that_is_there_or_a_new_one(self, net: Net, here: Qm, hand: Hand) -> None:
        here.create("q")
        here.configure(machines={hand.guid: (hand.address,)})
        third = net.hand()
        hand.call(here)
        for admin in (PrivateFormatName(hand.guid, 7), third.name_of("admin")):
            hand.send(hand.message(here.name_of("q"), administration_queue=admin, acknowledgements=0xF))
        assert (hand.calls, third.calls) == ([], [here.guid])
        assert [len(each.messages) for each in (hand, third)] == [1, 1]

    @pytest.mark.conformance("MQQB-182")
    def test_one_that_comes_is_a_message_like_any_other(
        self, net: Net, here: Qm, hand: Hand, admin: Box
    ) -> None:
        ack = hand.call(here).message(
            here.name_of("admin"),
            b"body",
            message_class=MessageClass.NACK_NOT_TRANSACTIONAL_Q,
            correlation_id=bytes(range(20)),
        )
        hand.send(ack, ack)
        (message,) = admin.messages()
        assert (message.message_class, message.correlation_id, message.body) == (
            MessageClass.NACK_NOT_TRANSACTIONAL_Q,
            bytes(range(20)),
            b"body",
        )
        net.sleep(10)
        assert [each.ack_sequence_number for each in hand.headers] == [2]


class TestSenders:
    """3.1.5.8.3, where senders are believed without proof."""

    @pytest.fixture
    def here(self, net: Net) -> Qm:
        return net.qm(believe_unsigned_senders=True)

    @pytest.mark.conformance("MQQB-198")
    @pytest.mark.parametrize(("rights", "taken"), [("(A;;0x4;;;AN)", 1), ("(A;;0x4;;;AU)", 0), ("", 0)])
    def test_who_says_nothing_of_himself_is_nobody_in_particular(
        self, here: Qm, hand: Hand, rights: str, taken: int
    ) -> None:
        box = here.create("q", security=granting(rights))
        packet = hand.call(here).message(here.name_of("q"))
        assert packet.security is None
        hand.send(packet)
        assert box.state.count == taken

    @pytest.mark.conformance("MQQB-211")
    def test_the_sender_needs_the_right_to_write(self, here: Qm, hand: Hand, admin: Box) -> None:
        here.set(send_insecure_nacks=True)
        box = here.create("tx", transactional=True, security=granting(f"(A;;0x4;;;{ALICE.user})"))
        hand.call(here)
        for number, sender in enumerate((ALICE, BOB), 1):
            identity: dict[str, Any] = {"sender_id": sender.user.encode(), "sender_id_type": SenderIdType.SID}
            hand.send(hand.transactional(here.name_of("tx"), number, **identity, **asking(admin)))
        assert box.bodies() == [b"1"]
        assert admin.classes() == [MessageClass.ACK_REACH_QUEUE, MessageClass.NACK_ACCESS_DENIED]
        assert [reason for _, reason in hand.final_acks] == [MessageClass.NACK_ACCESS_DENIED]

    @pytest.mark.conformance("MQQB-211")
    @pytest.mark.parametrize(
        ("rights", "taken"),
        [("0x4", True), ("0xffff_fffb", False), ("0x2", False), ("0x8", False), ("0x1_0000", False)],
    )
    def test_that_right_and_no_other(self, here: Qm, hand: Hand, rights: str, taken: bool) -> None:
        mask = int(rights, 16) & 0x0FFF_FFFB | (4 if taken else 0)  # without the generic rights
        box = here.create("q", security=granting(f"(A;;{mask:#x};;;{ALICE.user})"))
        sender: dict[str, Any] = {"sender_id": ALICE.user.encode(), "sender_id_type": SenderIdType.SID}
        hand.call(here).send(hand.message(here.name_of("q"), **sender))
        assert box.state.count == taken
        assert here.discarded() == ([] if taken else [MessageClass.NACK_ACCESS_DENIED])

    @pytest.mark.conformance("MQQB-211")
    def test_only_the_final_ack_says_so_unless_insecure_nacks_are_allowed(
        self, here: Qm, hand: Hand, admin: Box
    ) -> None:
        here.set(send_insecure_nacks=False)
        here.create("tx", transactional=True, security=granting(""))
        hand.call(here).send(hand.transactional(here.name_of("tx"), 1, **asking(admin)))
        assert admin.classes() == []
        assert [reason for _, reason in hand.final_acks] == [MessageClass.NACK_ACCESS_DENIED]

    @pytest.mark.conformance("MQQB-211")
    @pytest.mark.parametrize(("trustee", "taken"), [("WD", 1), ("AN", 0), ("AU", 0), ("SY", 0)])
    def test_a_queue_manager_is_everyone(self, here: Qm, hand: Hand, trustee: str, taken: int) -> None:
        box = here.create("q", security=granting(f"(A;;0x4;;;{trustee})"))
        identity: dict[str, Any] = {"sender_id": hand.guid.bytes_le, "sender_id_type": SenderIdType.QM}
        hand.call(here).send(hand.message(here.name_of("q"), **identity))
        assert box.state.count == taken
