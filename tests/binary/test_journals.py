"""[MS-MQQB] 1.3.4, 3.1.5.5.4, 3.1.7.1.5.1: copies that the source keeps."""

from typing import Any

import pytest

from engine.harness import RECOVERABLE, Box
from tiercel.model.codes import ConnectionStatus, DeliveryGuarantee, MessageClass, PrivacyLevel
from tiercel.model.errors import ComputerDoesNotSupportEncryptionError

from .nodes import Hand, Net, Qm

EXPRESS = DeliveryGuarantee.EXPRESS


@pytest.mark.conformance("MQQB-183")
@pytest.mark.parametrize("delivery", [EXPRESS, RECOVERABLE])
@pytest.mark.parametrize("is_wanted", [True, False])
def test_the_journal_gets_its_copy_with_the_session_ack(
    net: Net, here: Qm, hand: Hand, delivery: DeliveryGuarantee, is_wanted: bool
) -> None:
    box = here.to(hand, "q")
    wanted: dict[str, Any] = {"positive_journaling": True} if is_wanted else {}
    box.send(b"1", delivery=delivery, **wanted)
    net.settle()
    assert (hand.bodies, here.journal.bodies()) == ([b"1"], [])
    hand.ack()
    net.sleep(1)
    assert (box.state.count, here.journal.bodies()) == (0, [b"1"] * is_wanted)


class TestDeadLetters:
    @pytest.mark.conformance("MQQB-185")
    def test_the_four_ways_to_get_there(self, net: Net, here: Qm, hand: Hand) -> None:
        plain, stream = here.to(hand, "q"), here.to(hand, "tx")
        late: dict[str, Any] = {"time_to_reach_queue": 10, "negative_journaling": True}
        secret: dict[str, Any] = {"privacy_level": PrivacyLevel.BASE, "negative_journaling": True}
        net.down.add(hand.address)
        plain.send(b"late", **late)
        plain.send(b"secret", **secret)
        here.send_together((stream, b"late"), **late)
        here.send_together((stream, b"refused"), negative_journaling=True)
        net.sleep(11)
        assert here.dead_letters.bodies() == [b"late"]
        assert here.transactional_dead_letters.bodies() == [b"late"]
        net.down.clear()
        net.sleep(60)
        assert here.dead_letters.bodies() == [b"late", b"secret"]
        hand.ack()
        hand.order_ack(hand.messages[0])
        assert here.transactional_dead_letters.bodies() == [b"late"]
        hand.final_ack(hand.messages[0], MessageClass.NACK_Q_PURGED)
        assert here.transactional_dead_letters.bodies() == [b"late", b"refused"]


class TestEncryptionErrors:
    """3.1.7.1.5.1: what is to be encrypted, and cannot be, never leaves."""

    @pytest.mark.conformance("MQQB-214", "MQQB-220")
    @pytest.mark.parametrize("level", [PrivacyLevel.BASE, PrivacyLevel.ENHANCED])
    @pytest.mark.parametrize("is_kept", [True, False])
    @pytest.mark.parametrize("is_transactional", [True, False])
    @pytest.mark.parametrize("is_direct", [True, False])
    def test_it_is_dropped_or_kept_as_a_dead_letter(
        self,
        net: Net,
        here: Qm,
        hand: Hand,
        level: PrivacyLevel,
        is_kept: bool,
        is_transactional: bool,
        is_direct: bool,
    ) -> None:
        here.configure(machines={hand.guid: (hand.address,)})
        box = here.to(hand, "q") if is_direct else here.to_private(hand, 7)
        secret: dict[str, Any] = {"privacy_level": level, "negative_journaling": is_kept}
        self.send(here, box, is_transactional=is_transactional, body=b"secret", **secret)
        self.send(here, box, is_transactional=is_transactional, body=b"open")
        net.settle()
        assert hand.bodies == [b"open"]
        dead = here.transactional_dead_letters if is_transactional else here.dead_letters
        assert dead.bodies() == [b"secret"] * is_kept
        (entry,) = [
            each
            for each in here.outgoing(box).connection_history
            if each.status is ConnectionStatus.CERTIFICATE_VALIDATION_FAILURE
        ]
        assert (entry.connection_history_time, entry.error, entry.address_list) == (
            net.now,
            ComputerDoesNotSupportEncryptionError.code,
            (hand.address,),
        )

    def send(self, here: Qm, box: Box, *, is_transactional: bool, body: bytes, **properties: Any) -> None:
        if is_transactional:
            here.send_together((box, body), **properties)
        else:
            box.send(body, **properties)
