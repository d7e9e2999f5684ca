"""What a packet claims about its security counts for nothing."""

from dataclasses import replace
from typing import Any

import pytest

from tiercel.admin.browsing import message_of
from tiercel.client.translate import message_of as message_of_program
from tiercel.columns.stored import StoredRows, batch_of, slow_batch_of
from tiercel.engine.handles import Found
from tiercel.engine.records import Record
from tiercel.model.codes import Acknowledgements, MessageClass, PrivacyLevel
from tiercel.model.format_name import PrivateFormatName
from tiercel.model.sid import ADMINISTRATORS
from tiercel.remote_read.packet import serve
from tiercel.security.descriptor import SecurityDescriptor
from tiercel.wire.message import decode_message
from tiercel.wire.user_message import UserMessage

from .nodes import Hand, Net, Qm, asking, with_hop_count

AUTHENTICATED, SIGNATURE_2_0 = 0x0010, 3 << 8
CIPHERTEXT = {"privacy_level": PrivacyLevel.BASE, "symmetric_key": bytes(76)}
ADMINISTRATORS_ONLY = SecurityDescriptor.parse(f"O:{ADMINISTRATORS}D:(A;;GA;;;{ADMINISTRATORS})").encode()


def claiming(packet: UserMessage) -> UserMessage:
    """The packet with AU = 1 and AS = 3, which only a queue manager that verified a signature sets."""
    security = packet.security
    assert security is not None
    claimed = replace(security, flags=security.flags | AUTHENTICATED | SIGNATURE_2_0)
    return UserMessage(packet.data.replace(security.encode(), claimed.encode()))


@pytest.fixture
def forged(here: Qm, hand: Hand) -> UserMessage:
    """A message without a signature that says that one was verified."""
    here.create("q")
    return claiming(hand.message(here.name_of("q"), b"x", sender_id=ADMINISTRATORS.encode()))


class TestSignatures:
    def test_readers_are_shown_not_authenticated(self, here: Qm, hand: Hand, forged: UserMessage) -> None:
        hand.call(here).send(forged)
        (message,) = here.box("q").messages()
        assert (message.body, message.authentication_level) == (b"x", 0)

    def test_by_every_way_of_reading(self, here: Qm, forged: UserMessage) -> None:
        assert decode_message(forged).authentication_level == 3
        record = Record(forged.data, 1)
        assert message_of(1, record).authentication_level == 0
        assert message_of_program(Found(here.box("q").state, 1, record)).authentication_level == 0
        rows = StoredRows.of([1], [record.encode()])
        for columns in (batch_of, slow_batch_of):
            shown = columns(rows, ["authenticated", "auth_level", "verified_sender"]).to_pylist()
            assert shown == [{"authenticated": False, "auth_level": 0, "verified_sender": None}]
        served = UserMessage(serve(forged, record))
        assert decode_message(served).authentication_level == 0
        assert not served.security_flags & AUTHENTICATED
        assert served.security_data() == forged.security_data()

    @pytest.mark.conformance("MQQB-201")
    @pytest.mark.parametrize("is_transactional", [False, True])
    def test_garbage_is_refused(self, here: Qm, hand: Hand, *, is_transactional: bool) -> None:
        here.set(send_insecure_nacks=True)
        admin, box = here.create("admin"), here.create("q", transactional=is_transactional)
        hand.call(here)
        properties: dict[str, Any] = asking(admin, Acknowledgements.NEG_ARRIVAL)
        properties |= {"signature": b"garbage!" * 8, "sender_id": ADMINISTRATORS.encode()}
        if is_transactional:
            hand.send(hand.transactional(here.name_of("q"), 1, **properties))
        else:
            hand.send(hand.message(here.name_of("q"), b"x", **properties))
        assert box.bodies() == []
        assert admin.classes() == [MessageClass.NACK_BAD_SIGNATURE]
        assert here.discarded() == [MessageClass.NACK_BAD_SIGNATURE]
        if is_transactional:
            here.net.sleep(1)
            assert [code for _, code in hand.final_acks] == [MessageClass.NACK_BAD_SIGNATURE]

    def test_the_stored_packet_stays_as_it_came(self, here: Qm, hand: Hand, forged: UserMessage) -> None:
        hand.call(here).send(forged)
        (found,) = here.engine.browsing.in_order(here.box("q").state, 0)
        assert found.record.packet == forged.data


class TestEncryption:
    @pytest.mark.parametrize("is_transactional", [False, True])
    def test_ciphertext_for_a_local_queue_is_refused(
        self, here: Qm, hand: Hand, is_transactional: bool
    ) -> None:
        here.set(send_insecure_nacks=True)
        admin, box = here.create("admin"), here.create("q", transactional=is_transactional)
        hand.call(here)
        properties: dict[str, Any] = CIPHERTEXT | asking(admin, Acknowledgements.NEG_ARRIVAL)
        if is_transactional:
            hand.send(hand.transactional(here.name_of("q"), 1, body=b"12345678", **properties))
        else:
            hand.send(hand.message(here.name_of("q"), b"12345678", **properties))
        assert box.bodies() == []
        assert admin.classes() == [MessageClass.NACK_BAD_ENCRYPTION]
        assert here.discarded() == [MessageClass.NACK_BAD_ENCRYPTION]
        if is_transactional:
            here.net.sleep(1)
            assert [code for _, code in hand.final_acks] == [MessageClass.NACK_BAD_ENCRYPTION]

    def test_ciphertext_for_others_is_passed_on(self, net: Net, here: Qm, hand: Hand) -> None:
        target = net.hand()
        here.configure(routing_server=True, machines={target.guid: (target.address,)})
        packet = hand.call(here).message(PrivateFormatName(target.guid, 7), b"12345678", **CIPHERTEXT)
        hand.send(packet)
        assert [each.data for each in target.messages] == [with_hop_count(packet, 1).data]


class TestSenders:
    @pytest.mark.parametrize("is_believed", [False, True])
    def test_an_unsigned_administrator_counts_as_anonymous(
        self, net: Net, hand: Hand, is_believed: bool
    ) -> None:
        here = net.qm("HERE", believe_unsigned_senders=is_believed)
        box = here.create("closed", security=ADMINISTRATORS_ONLY)
        sender = ADMINISTRATORS.encode()
        hand.call(here).send(hand.message(here.name_of("closed"), b"x", sender_id=sender))
        assert box.bodies() == ([b"x"] if is_believed else [])
        assert here.discarded() == ([] if is_believed else [MessageClass.NACK_ACCESS_DENIED])

    @pytest.mark.parametrize("is_believed", [False, True])
    @pytest.mark.parametrize("wanted", [Acknowledgements.POS_ARRIVAL, Acknowledgements.NEG_RECEIVE])
    def test_nobody_gets_an_acknowledgement_into_a_queue_that_takes_nothing_of_his(
        self, net: Net, hand: Hand, wanted: Acknowledgements, is_believed: bool
    ) -> None:
        here = net.qm("HERE", believe_unsigned_senders=is_believed)
        closed = here.create("closed", security=ADMINISTRATORS_ONLY)
        name, properties = here.create("q").name, asking(closed, wanted)
        expiring: dict[str, Any] = {"time_to_be_received": 1, "sender_id": ADMINISTRATORS.encode()}
        hand.call(here).send(hand.message(name, b"my own words", **expiring, **properties))
        net.sleep(2)
        assert len(closed.bodies()) == is_believed
        refused = [line.reason for line in here.discards() if line.queue == str(closed.name)]
        why = "the sender of the message that it is about may not write to the queue"
        assert refused == ([] if is_believed else [why])

    def test_nor_a_report(self, here: Qm, hand: Hand) -> None:
        closed = here.create("closed", security=ADMINISTRATORS_ONLY)
        identifier = closed.state.queue.identifier
        hand.call(here)
        hand.send(hand.message(here.create("q").name, tracing=True, tracing_queue=identifier))
        assert closed.bodies() == []
        assert here.discarded() == [MessageClass.NACK_ACCESS_DENIED]

    def test_applications_of_this_computer_get_theirs(self, here: Qm) -> None:
        closed = here.create("closed", security=ADMINISTRATORS_ONLY)
        here.create("q").send(b"x", **asking(closed, Acknowledgements.POS_ARRIVAL))
        assert closed.classes() == [MessageClass.ACK_REACH_QUEUE]
