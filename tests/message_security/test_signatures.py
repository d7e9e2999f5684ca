from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.message_security.hash_input import READINGS, Reading, SignedFields
from tiercel.message_security.refusal import MessageRefusedError
from tiercel.message_security.rsa_keys import sign_hash
from tiercel.message_security.signatures import (
    DEFAULT_POLICY,
    SignaturePolicy,
    has_signature,
    hash_algorithm,
    sign,
    verify,
)
from tiercel.model.codes import AuthenticationLevel, HashAlgorithm, MessageClass
from tiercel.model.errors import DecodeError
from tiercel.model.message import Message
from tiercel.wire.message import decode_message, encode_message
from tiercel.wire.user_message import UserMessage

from . import vectors
from .test_hash_input import everything

SIG10, SIG20, SIG30 = AuthenticationLevel.SIG10, AuthenticationLevel.SIG20, AuthenticationLevel.SIG30
GOOD = ["security/01_sig20_sha512", "security/02_sig20_sha1_names", "security/03_sig10_sha1"]
KEY = "capi/signature_enh_1024"
CERTIFICATE = bytes.fromhex(vectors.load(KEY)["certificates"]["sha1"]["der"])


def signed(message: Message, level: AuthenticationLevel = SIG20) -> UserMessage:
    message = replace(message, sender_certificate=CERTIFICATE)
    packet = UserMessage(encode_message(message))
    signature = sign(packet, level, vectors.private_key(KEY))
    if level == SIG30:
        return UserMessage(encode_message(replace(message, multiple_destination_signature=signature)))
    return UserMessage(encode_message(replace(message, signature=signature)))


def one_destination() -> Message:
    return replace(everything(), destination_queues=(), hash_algorithm=HashAlgorithm.SHA_512)


def refusal(packet: UserMessage, body: bytes | None = None, policy: SignaturePolicy = DEFAULT_POLICY) -> str:
    with pytest.raises(MessageRefusedError) as caught:
        verify(packet, packet.body if body is None else body, policy)
    assert caught.value.reason is MessageClass.NACK_BAD_SIGNATURE
    return caught.value.why


class TestVerify:
    """[MS-MQQB] 3.1.5.8.3"""

    @pytest.mark.conformance("MQQB-199")
    @pytest.mark.parametrize("name", [*GOOD, "security/09_sig20_big_endian"])
    def test_signed_packets(self, name: str) -> None:
        packet = vectors.packet(name)
        found = verify(packet, packet.body)
        assert found is not None
        assert found.level == vectors.load(name)["expect"]["AS"]
        assert found.certificate.der == vectors.octets(name, "certificate")
        assert found.reading.is_expected

    @pytest.mark.conformance("MQQB-199")
    def test_the_signature_of_an_encrypted_message_is_of_its_clear_body(self) -> None:
        """MQQB T13"""
        name = "security/06_sig20_enc_aes256"
        packet = vectors.packet(name)
        assert verify(packet, vectors.octets(name, "body")) is not None
        assert refusal(packet) == "it is of another message"

    @pytest.mark.conformance("MQQB-199", "MQQB-201")
    def test_a_changed_body(self) -> None:
        assert refusal(vectors.packet("security/07_BAD_body_changed")) == "it is of another message"

    def test_unsigned_messages_have_none(self) -> None:
        for packet in (
            UserMessage(encode_message(everything())),
            UserMessage(encode_message(replace(everything(), sender_certificate=CERTIFICATE))),
        ):
            assert not has_signature(packet)
            assert verify(packet, packet.body) is None

    @pytest.mark.conformance("MQQB-200", "DMPR-089")
    def test_the_signature_of_a_list_of_queues(self) -> None:
        packet = signed(everything(), SIG30)
        assert decode_message(packet).signature == b""
        assert decode_message(packet).multiple_destination_signature
        found = verify(packet, packet.body)
        assert found is not None
        assert found.level == SIG30

    def test_the_signature_of_a_list_must_be_of_version_3(self) -> None:
        message = replace(everything(), sender_certificate=CERTIFICATE)
        signature = sign(UserMessage(encode_message(message)), SIG20, vectors.private_key(KEY))
        message.multiple_destination_signature = signature
        assert refusal(UserMessage(encode_message(message))) == "it is of another message"

    @pytest.mark.parametrize("reading", READINGS, ids=str)
    def test_every_reading_is_accepted_and_recorded(self, reading: Reading) -> None:
        message = replace(everything(), label="odd", sender_certificate=CERTIFICATE)
        packet = UserMessage(encode_message(message))
        algorithm = hash_algorithm(packet)
        digest = SignedFields(packet, packet.body).digest(reading, algorithm)
        message.signature = sign_hash(vectors.private_key(KEY), digest, algorithm)
        packet = UserMessage(encode_message(message))
        found = verify(packet, packet.body)
        assert found is not None
        first = next(
            one
            for one in READINGS
            if SignedFields(packet, packet.body).joined(one)
            == SignedFields(packet, packet.body).joined(reading)
        )
        assert found.reading == first

    def test_a_signature_without_a_certificate(self) -> None:
        message = replace(decode_message(signed(one_destination())), sender_certificate=b"")
        assert "certificate" in refusal(UserMessage(encode_message(message)))

    def test_a_signature_of_another_key(self) -> None:
        other = bytes.fromhex(vectors.load("capi/signature_aes_2048")["certificates"]["sha1"]["der"])
        message = replace(decode_message(signed(one_destination())), sender_certificate=other)
        assert "did not make it" in refusal(UserMessage(encode_message(message)))

    @pytest.mark.conformance("MQQB-202")
    @pytest.mark.parametrize("algorithm", [0, 0x1234, HashAlgorithm.MD2, HashAlgorithm.MD4])
    def test_unknown_hashes_are_bad_signatures(self, algorithm: int) -> None:
        message = replace(decode_message(signed(one_destination())), hash_algorithm=algorithm)
        assert "is not accepted" in refusal(UserMessage(encode_message(message)))

    @pytest.mark.conformance("MQQB-202")
    @pytest.mark.parametrize("algorithm", [HashAlgorithm.SHA_512, HashAlgorithm.SHA_256, HashAlgorithm.SHA1])
    def test_the_hashes_that_are_accepted(self, algorithm: int) -> None:
        packet = signed(replace(one_destination(), hash_algorithm=algorithm))
        assert verify(packet, packet.body) is not None

    @pytest.mark.conformance("MQQB-202")
    def test_md5_counts_only_with_legacy(self) -> None:
        packet = signed(replace(one_destination(), hash_algorithm=HashAlgorithm.MD5))
        assert "is not accepted" in refusal(packet)
        assert verify(packet, packet.body, DEFAULT_POLICY.with_legacy()) is not None

    def test_short_keys_count_only_with_legacy(self) -> None:
        name = "capi/signature_base_512"
        message = replace(one_destination(), hash_algorithm=HashAlgorithm.SHA1)
        message.sender_certificate = bytes.fromhex(vectors.load(name)["certificates"]["sha1"]["der"])
        packet = UserMessage(encode_message(message))
        message.signature = sign(packet, SIG20, vectors.private_key(name))
        packet = UserMessage(encode_message(message))
        assert "512 bits" in refusal(packet)
        assert verify(packet, packet.body, DEFAULT_POLICY.with_legacy()) is not None

    def test_what_the_packet_claims_counts_for_nothing(self) -> None:
        """SecurityHeader.AU and AS are the receiver's to set (DMPR T-15)."""
        packet = UserMessage(encode_message(replace(one_destination(), sender_certificate=CERTIFICATE)))
        data = bytearray(packet.data)
        at = data.index(CERTIFICATE) - 16
        data[at : at + 2] = (int.from_bytes(data[at : at + 2], "little") | 0x310).to_bytes(2, "little")
        claiming = UserMessage(bytes(data))
        assert claiming.security is not None
        assert claiming.security.signature_type == SIG20
        assert verify(claiming, claiming.body) is None


class TestMutants:
    """One flipped bit anywhere in what is signed, in the signature or in the key is noticed."""

    @pytest.mark.conformance("MQQB-201")
    @pytest.mark.parametrize("name", GOOD)
    def test_vectors_with_one_bit_flipped(self, name: str) -> None:
        known = vectors.load(name)
        packet, pieces = vectors.packet(name), [bytes.fromhex(one["hex"]) for one in known["hash_input"]]
        protected = [piece for piece in pieces if len(piece) >= 4 and any(piece)]
        protected += [vectors.octets(name, "signature")]
        for piece in protected:
            start = packet.data.index(piece)
            for at in range(start, start + len(piece)):
                for bit in range(8):
                    self.check(packet.data, at, bit)

    @staticmethod
    def check(data: bytes, at: int, bit: int) -> None:
        mutant = bytearray(data)
        mutant[at] ^= 1 << bit
        try:
            packet = UserMessage(bytes(mutant))
        except DecodeError:
            return
        with pytest.raises(MessageRefusedError):
            verify(packet, packet.body)

    @given(st.data())
    def test_any_bit_of_any_packet(self, data: st.DataObject) -> None:
        """Fields that no signature covers may change; the level of a message does not rise by it."""
        packet = vectors.packet(data.draw(st.sampled_from(GOOD)))
        mutant = bytearray(packet.data)
        mutant[data.draw(st.integers(0, len(mutant) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        before = verify(packet, packet.body)
        try:
            changed = UserMessage(bytes(mutant))
            after = verify(changed, changed.body)
        except (DecodeError, MessageRefusedError):
            return
        assert before is not None
        if after is not None:
            assert after.level == before.level
            assert changed.body == packet.body
            assert changed.label == packet.label


class TestSign:
    """[MS-MQQB] 3.1.7.1.4"""

    @pytest.mark.conformance("MQQB-213")
    @pytest.mark.parametrize("level", [SIG10, SIG20])
    def test_our_verifier_accepts_what_we_sign(self, level: AuthenticationLevel) -> None:
        packet = signed(one_destination(), level)
        found = verify(packet, packet.body)
        assert found is not None
        assert found.level == level

    @pytest.mark.conformance("MQQB-213")
    @pytest.mark.parametrize("name", GOOD)
    def test_it_makes_the_signature_of_the_vector(self, name: str) -> None:
        known = vectors.load(name)
        key = {256: "capi/signature_aes_2048", 128: "capi/signature_enh_1024"}[len(known["signature"]) // 2]
        level = AuthenticationLevel(known["expect"]["AS"])
        assert sign(vectors.packet(name), level, vectors.private_key(key)).hex() == known["signature"]

    def test_it_covers_neither_the_id_nor_the_times(self) -> None:
        packet = signed(one_destination())
        later = UserMessage(packet.with_sent_time(99))
        assert verify(later, later.body) is not None
