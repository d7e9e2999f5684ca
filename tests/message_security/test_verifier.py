from dataclasses import replace
from unittest.mock import Mock

import pytest

from tiercel.message_security.hash_input import READINGS, Reading
from tiercel.message_security.refusal import MessageRefusedError
from tiercel.message_security.trust import Trust
from tiercel.message_security.verdict import NOTHING, Verdict, decode_verdict
from tiercel.message_security.verifier import VerificationPolicy, Verifier
from tiercel.model.codes import AuthenticationLevel, SenderIdType
from tiercel.model.format_name import DirectFormatName, PublicFormatName
from tiercel.model.message import Message
from tiercel.model.sid import SecurityIdentifier
from tiercel.wire.message import encode_message
from tiercel.wire.user_message import UserMessage

from .signing import forged, signed, trust
from .test_hash_input import SOURCE

ALICE = SecurityIdentifier.parse("S-1-5-21-1-2-3-1001")
BOB = SecurityIdentifier.parse("S-1-5-21-1-2-3-1002")
NOW = 1000.0
MESSAGE = Message(b"body", destination_queue=DirectFormatName.from_wire("OS:a\\q"))
AS_ALICE = replace(MESSAGE, sender_id=ALICE.encode(), sender_id_type=SenderIdType.SID)
AS_NOBODY = replace(MESSAGE, sender_id_type=SenderIdType.NONE)


class Directory:
    """A trust store that can be edited."""

    def __init__(self, known: Trust) -> None:
        self.known = known

    def __call__(self) -> Trust:
        return self.known


def verdict(
    packet: UserMessage, known: Trust | None = None, policy: VerificationPolicy | None = None
) -> Verdict:
    return Verifier(Directory(known or Trust()), policy).verify(packet, NOW)


def refusal(packet: UserMessage, known: Trust | None = None, policy: VerificationPolicy | None = None) -> str:
    with pytest.raises(MessageRefusedError) as caught:
        verdict(packet, known, policy)
    return caught.value.why


class TestKnownCertificates:
    @pytest.mark.parametrize("message", [AS_ALICE, AS_NOBODY])
    def test_the_sender_is_that_of_the_trust_store(self, message: Message) -> None:
        found = verdict(signed(message, "alice"), trust(alice=ALICE))
        assert found == Verdict(AuthenticationLevel.SIG20, 0, ALICE.encode(), name="alice")
        assert found.is_authenticated

    @pytest.mark.conformance("MQQB-203")
    def test_a_packet_that_names_another_sender_is_refused(self) -> None:
        assert "another sender" in refusal(signed(AS_ALICE, "bob"), trust(alice=ALICE, bob=BOB))

    def test_the_reading_is_recorded(self) -> None:
        found = verdict(
            signed(replace(AS_ALICE, label="x"), "alice", AuthenticationLevel.SIG10), trust(alice=ALICE)
        )
        assert READINGS[found.reading] == Reading(AuthenticationLevel.SIG10)

    def test_a_signature_for_a_list_of_queues(self) -> None:
        message = replace(AS_ALICE, destination_queues=(PublicFormatName(SOURCE),))
        found = verdict(signed(message, "alice", AuthenticationLevel.SIG30), trust(alice=ALICE))
        assert found.level == AuthenticationLevel.SIG30

    def test_a_changed_message_is_refused(self) -> None:
        assert "another message" in refusal(forged(signed(AS_ALICE, "alice")), trust(alice=ALICE))


class TestUnknownCertificates:
    @pytest.mark.conformance("MQQB-203")
    def test_a_sender_with_one_is_refused_once_the_trust_store_has_entries(self) -> None:
        packet = signed(AS_ALICE, "alice")
        assert verdict(packet) is NOTHING
        assert "not in the trust store" in refusal(packet, trust(bob=BOB))

    @pytest.mark.conformance("MQQB-203")
    @pytest.mark.parametrize("known", [Trust(), trust(bob=BOB)], ids=["empty", "not empty"])
    @pytest.mark.parametrize("refuses", [True, False])
    def test_the_configuration_may_say_so(self, known: Trust, *, refuses: bool) -> None:
        policy = VerificationPolicy(refuse_unknown_certificates=refuses)
        if refuses:
            assert "not in the trust store" in refusal(signed(AS_ALICE, "alice"), known, policy)
        else:
            assert verdict(signed(AS_ALICE, "alice"), known, policy) is NOTHING

    @pytest.mark.parametrize("known", [Trust(), trust(bob=BOB)], ids=["empty", "not empty"])
    def test_without_a_sender_it_counts_only_if_external_ones_do(self, known: Trust) -> None:
        """Anybody can make a certificate."""
        packet = signed(AS_NOBODY, "alice")
        assert verdict(packet, known) is NOTHING
        policy = VerificationPolicy(external_certificates=True)
        assert verdict(packet, known, policy) == Verdict(AuthenticationLevel.SIG20, 0, b"")

    def test_a_bad_signature_is_refused_in_any_case(self) -> None:
        for message in (AS_ALICE, AS_NOBODY):
            assert "another message" in refusal(forged(signed(message)))


class TestUnsigned:
    @pytest.mark.parametrize("message", [MESSAGE, AS_ALICE, AS_NOBODY])
    def test_nothing_is_proved(self, message: Message) -> None:
        assert verdict(UserMessage(encode_message(message)), trust(alice=ALICE)) is NOTHING

    def test_verification_can_be_turned_off(self) -> None:
        policy = VerificationPolicy(verify_signatures=False)
        assert verdict(forged(signed(AS_ALICE, "alice")), trust(alice=ALICE), policy) is NOTHING
        assert not Verifier(Directory(trust(alice=ALICE)), policy).knows_senders
        assert Verifier(Directory(trust(alice=ALICE))).knows_senders
        assert not Verifier().knows_senders


class TestUserCertCache:
    """[MS-MQQB] 3.1.1.3.4"""

    @pytest.mark.conformance("MQQB-203")
    def test_a_certificate_is_looked_up_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        known = trust(alice=ALICE)
        find = Mock(wraps=known.find)
        monkeypatch.setattr(known, "find", find)
        verifier = Verifier(Directory(known))
        assert len(verifier.cache) == 0
        for _ in range(3):
            assert verifier.verify(signed(AS_ALICE, "alice"), NOW).sender == ALICE.encode()
        assert find.call_count == 1
        verifier.verify(signed(AS_ALICE, "alice"), NOW + 1260)
        assert find.call_count == 2

    def test_an_edited_trust_store_counts_at_once(self) -> None:
        directory = Directory(trust(alice=ALICE, bob=BOB))
        verifier = Verifier(directory)
        packet = signed(AS_ALICE, "alice")
        assert verifier.verify(packet, NOW).is_authenticated
        directory.known = directory.known.without("alice")
        with pytest.raises(MessageRefusedError, match="not in the trust store"):
            verifier.verify(packet, NOW)


class TestVerdict:
    @pytest.mark.parametrize(
        "verdict",
        [
            NOTHING,
            Verdict(3, 8, ALICE.encode()),
            Verdict(3, 8, ALICE.encode(), was_encrypted=True, name="shop"),
            Verdict(1),
            Verdict(5, 2),
        ],
    )
    def test_it_comes_back_from_the_store(self, verdict: Verdict) -> None:
        assert decode_verdict(verdict.encode()) == verdict

    def test_nothing_takes_no_room(self) -> None:
        assert NOTHING.encode() == b""
        assert decode_verdict(b"\3") is NOTHING
