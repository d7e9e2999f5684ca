import itertools
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from uuid import UUID

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from hypothesis import given
from hypothesis import strategies as st

from tiercel.message_security.body_encryption import BodyOpener, BodySealer, EncryptionPolicy, choose
from tiercel.message_security.ciphers import HAS_RC2_40
from tiercel.message_security.providers import ADVANCED, BASE, ENHANCED, PROVIDERS, Provider
from tiercel.message_security.refusal import MessageRefusedError
from tiercel.message_security.rsa_keys import generate, public_blob, unwrap_key
from tiercel.message_security.signatures import verify
from tiercel.model.codes import EncryptionAlgorithm, HashAlgorithm, MessageClass, PrivacyLevel
from tiercel.model.errors import DecodeError, SecurityError
from tiercel.model.format_name import PrivateFormatName
from tiercel.model.message import Message
from tiercel.wire.key_blobs import SimpleBlob
from tiercel.wire.message import decode_message, encode_message
from tiercel.wire.public_keys import MQDSPublicKey
from tiercel.wire.user_message import UserMessage

from . import vectors
from .signing import signed

RECEIVER = UUID("00112233-4455-6677-8899-aabbccddeeff")
LEGACY = EncryptionPolicy(legacy=True)
NOW = 1000.0
KEYS = {
    BASE: vectors.private_key("capi/key_base_keyx_512"),
    ENHANCED: vectors.private_key("capi/key_enh_keyx_1024"),
    ADVANCED: vectors.private_key("capi/key_aes_keyx_1024"),
}
LONG_KEY = vectors.private_key("capi/key_aes_keyx_2048")
ENCRYPTED = ["security/04_enc_aes256", "security/05_enc_rc4_128", "security/06_sig20_enc_aes256"]


class Keys:
    """The keys of a queue manager; counts how often they are asked for."""

    def __init__(self, keys: dict[Provider, list[RSAPrivateKey]] | None = None) -> None:
        self.keys = keys or {provider: [key] for provider, key in KEYS.items()}
        self.asked = 0

    def exchange_keys(self, provider: Provider) -> Sequence[RSAPrivateKey]:
        self.asked += 1
        return self.keys.get(provider, [])


def published(*providers: Provider) -> tuple[MQDSPublicKey, ...]:
    """The public keys of those providers."""
    return tuple(
        MQDSPublicKey.of(one.type, one.name, public_blob(KEYS[one].public_key()).encode())
        for one in providers
    )


class Sealer(BodySealer):
    """Draws session keys that can be told apart."""

    def __init__(self, policy: EncryptionPolicy = LEGACY) -> None:
        numbers = itertools.count(1)
        super().__init__(policy, lambda size: bytes([next(numbers)]) * size)


def clear_packet(
    level: PrivacyLevel = PrivacyLevel.ADVANCED, body: bytes = b"top secret", label: str = "label"
) -> UserMessage:
    destination = PrivateFormatName(RECEIVER, 4)
    message = Message(body, label=label, destination_queue=destination, privacy_level=level)
    return UserMessage(encode_message(message))


def seal(packet: UserMessage, *providers: Provider, policy: EncryptionPolicy = LEGACY) -> UserMessage:
    return Sealer(policy).seal(packet, RECEIVER, published(*(providers or PROVIDERS)), NOW)


def opener(policy: EncryptionPolicy = LEGACY, keys: Keys | None = None) -> BodyOpener:
    return BodyOpener(keys or Keys(), policy)


def refusal(packet: UserMessage, policy: EncryptionPolicy = LEGACY, keys: Keys | None = None) -> MessageClass:
    with pytest.raises(MessageRefusedError) as caught:
        opener(policy, keys).open(packet, NOW)
    return caught.value.reason


def open_and_verify(one: BodyOpener, packet: UserMessage) -> bytes:
    opened = one.open(packet, NOW)
    assert verify(opened, opened.body) is not None
    return opened.body


@pytest.mark.conformance("DMPR-278")
def test_a_sha_512_signature_and_an_aes_256_body_come_back() -> None:
    key = generate(1024)
    keys = Keys({ADVANCED: [key]})
    published_key = MQDSPublicKey.of(24, ADVANCED.name, public_blob(key.public_key()).encode())
    message = Message(
        b"top secret",
        destination_queue=PrivateFormatName(RECEIVER, 4),
        privacy_level=PrivacyLevel.ADVANCED,
        hash_algorithm=HashAlgorithm.SHA_512,
    )
    packet = BodySealer(EncryptionPolicy(), os.urandom).seal(signed(message), RECEIVER, (published_key,), NOW)
    assert packet.encryption == (PrivacyLevel.ADVANCED, EncryptionAlgorithm.AES256)
    assert open_and_verify(opener(keys=keys), packet) == b"top secret"


class TestOpen:
    """[MS-MQQB] 3.1.5.8.3"""

    @pytest.mark.parametrize("name", ENCRYPTED)
    def test_packets_encrypted_by_cryptoapi(self, name: str) -> None:
        packet = vectors.packet(name)
        found = opener().open(packet, NOW)
        assert found.body == vectors.octets(name, "body")
        assert found.body_size == len(found.body)
        assert not found.security_flags & 0x20
        before, after = decode_message(packet), decode_message(found)
        assert after.symmetric_key == b""
        same = replace(before, body=after.body, symmetric_key=b"")
        assert same == after

    @pytest.mark.conformance("MQQB-199")
    def test_a_signature_is_verified_over_the_clear_body(self) -> None:
        found = opener().open(vectors.packet("security/06_sig20_enc_aes256"), NOW)
        assert verify(found, found.body) is not None

    def test_a_changed_cipher_block_is_found_by_the_signature(self) -> None:
        packet = vectors.packet("security/08_BAD_cipher_changed")
        try:
            found = opener().open(packet, NOW)
        except MessageRefusedError:
            return
        with pytest.raises(MessageRefusedError):
            verify(found, found.body)

    @pytest.mark.conformance("MQQB-205")
    @pytest.mark.parametrize("level", [0, 2, 4, 6, 0xFFFFFFFF])
    def test_another_privacy_level_is_refused(self, level: int) -> None:
        packet = vectors.packet("security/04_enc_aes256")
        at = packet.properties_at + 40
        data = packet.data[:at] + level.to_bytes(4, "little") + packet.data[at + 4 :]
        assert refusal(UserMessage(data)) is MessageClass.NACK_BAD_ENCRYPTION

    def test_old_ciphers_are_refused_unless_allowed(self) -> None:
        packet = vectors.packet("security/05_enc_rc4_128")
        assert refusal(packet, EncryptionPolicy()) is MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER
        assert opener(EncryptionPolicy()).open(vectors.packet("security/04_enc_aes256"), NOW).body

    def test_a_key_for_somebody_else_is_refused(self) -> None:
        """The vectors have packets whose blob is noise under another key; so has every packet made here."""
        strangers = Keys({ADVANCED: [KEYS[ENHANCED]]})
        for i in range(20):
            packet = seal(clear_packet(body=bytes([i]) * 10), ADVANCED)
            assert refusal(packet, keys=strangers) is MessageClass.NACK_BAD_ENCRYPTION

    @given(st.data())
    def test_a_changed_last_block_is_refused_or_keeps_its_length(self, data: st.DataObject) -> None:
        packet = vectors.packet("security/04_enc_aes256")
        mutant = bytearray(packet.data)
        start = packet.data.index(packet.body)
        mutant[start + data.draw(st.integers(0, 15))] ^= 1 << data.draw(st.integers(0, 7))
        assert refusal(UserMessage(bytes(mutant))) is MessageClass.NACK_BAD_ENCRYPTION

    def test_a_message_size_that_contradicts_the_body_is_refused(self) -> None:
        """MQQB T59: it may be the length of the clear body, or of the encrypted one."""
        packet = vectors.packet("security/04_enc_aes256")
        for size, is_good in ((10, True), (16, True), (9, False), (11, False)):
            at = packet.properties_at + 32
            changed = UserMessage(packet.data[:at] + size.to_bytes(4, "little") + packet.data[at + 4 :])
            if is_good:
                assert opener().open(changed, NOW).body == b"top secret"
            else:
                assert refusal(changed) is MessageClass.NACK_BAD_ENCRYPTION

    def test_aes_under_a_lower_level_is_opened_with_the_key_for_aes(self) -> None:
        packet = vectors.packet("security/04_enc_aes256")
        at = packet.properties_at + 40
        changed = UserMessage(packet.data[:at] + b"\1\0\0\0" + packet.data[at + 4 :])
        assert opener().open(changed, NOW).body == b"top secret"

    def test_rc4_under_the_level_of_aes_is_refused(self) -> None:
        packet = vectors.packet("security/05_enc_rc4_128")
        at = packet.properties_at + 40
        changed = UserMessage(packet.data[:at] + b"\5\0\0\0" + packet.data[at + 4 :])
        assert refusal(changed) is MessageClass.NACK_BAD_ENCRYPTION

    def test_a_blob_of_another_algorithm_is_refused(self) -> None:
        packet = vectors.packet("security/04_enc_aes256")
        at = packet.properties_at + 48
        changed = UserMessage(packet.data[:at] + b"\x0e\x66\0\0" + packet.data[at + 4 :])
        with pytest.raises(MessageRefusedError, match="of another algorithm") as caught:
            opener().open(changed, NOW)
        assert caught.value.reason is MessageClass.NACK_BAD_ENCRYPTION

    def test_the_old_key_opens_what_was_under_way(self) -> None:
        rotated = Keys({ADVANCED: [LONG_KEY, KEYS[ADVANCED]]})
        assert opener(keys=rotated).open(vectors.packet("security/04_enc_aes256"), NOW).body == b"top secret"

    def test_the_old_key_of_the_same_length_does_as_well(self) -> None:
        rotated = Keys({ADVANCED: [KEYS[ENHANCED], KEYS[ADVANCED]]})
        for i in range(20):
            packet = seal(clear_packet(body=bytes([i]) * 10), ADVANCED)
            assert opener(keys=rotated).open(packet, NOW).body == bytes([i]) * 10

    @pytest.mark.conformance("MQQB-208")
    def test_a_session_key_is_unwrapped_once(self) -> None:
        keys = Keys()
        one = opener(keys=keys)
        packet = vectors.packet("security/04_enc_aes256")
        assert one.needs_private_key(packet, NOW)
        one.open(packet, NOW)
        asked = keys.asked
        assert not one.needs_private_key(packet, NOW)
        one.open(packet, NOW)
        assert keys.asked == asked
        assert one.needs_private_key(packet, NOW + 600)
        one.cache.expire(NOW + 660)
        assert len(one.cache) == 0

    def test_what_is_refused_anyway_needs_no_private_key(self) -> None:
        strict = opener(EncryptionPolicy())
        assert not strict.needs_private_key(vectors.packet("security/05_enc_rc4_128"), NOW)
        assert not strict.needs_private_key(clear_packet(PrivacyLevel.NONE), NOW)

    def test_one_bit_flipped_in_a_signed_and_encrypted_packet_is_refused(self) -> None:
        """In the key, or anywhere in the encrypted body."""
        packet = vectors.packet("security/06_sig20_enc_aes256")
        blob = packet.security_data()[1]
        key_at, body_at = packet.data.index(blob), packet.data.rindex(packet.body)
        one = opener()
        for at in (*range(key_at, key_at + len(blob)), *range(body_at, body_at + len(packet.body))):
            mutant = bytearray(packet.data)
            mutant[at] ^= 1 << at % 8
            with pytest.raises(MessageRefusedError):
                open_and_verify(one, UserMessage(bytes(mutant)))

    @given(st.data())
    def test_any_change_is_refused_or_gives_a_body(self, data: st.DataObject) -> None:
        packet = vectors.packet(data.draw(st.sampled_from(ENCRYPTED)))
        mutant = bytearray(packet.data)
        for _ in range(data.draw(st.integers(1, 3))):
            mutant[data.draw(st.integers(0, len(mutant) - 1))] = data.draw(st.integers(0, 255))
        try:
            changed = UserMessage(bytes(mutant))
        except DecodeError:
            return
        if changed.security_flags & 0x20:
            with suppress(MessageRefusedError):  # and nothing else: it would end the engine
                opener().open(changed, NOW)


class TestSeal:
    """[MS-MQQB] 3.1.7.1.5"""

    @pytest.mark.conformance("MQQB-219")
    @pytest.mark.parametrize("provider", PROVIDERS, ids=lambda one: one.level.name)
    def test_the_fields_of_an_encrypted_packet(self, provider: Provider) -> None:
        packet = seal(clear_packet(provider.level), provider)
        properties, security = packet.properties, packet.security
        assert security is not None
        assert packet.security_flags & 0x20
        assert properties.message_size == 10
        assert properties.allocation_body_size == len(packet.body) == len(properties.message_body)
        assert packet.body != b"top secret"
        assert properties.encryption_algorithm == provider.algorithms[0]
        assert properties.privacy_level == provider.level
        assert security.provider == (provider.type, provider.name)
        assert len(security.encryption_key) == 12 + KEYS[provider].key_size // 8
        assert packet.packet_size == len(packet.data)
        assert packet.label == "label"
        assert opener().open(packet, NOW).body == b"top secret"

    @pytest.mark.conformance("MQQB-217")
    @pytest.mark.parametrize(
        ("provider", "algorithm", "size"), [(ADVANCED, 0x6610, 32), (ENHANCED, 0x6801, 16), (BASE, 0x6801, 5)]
    )
    def test_the_default_algorithms(self, provider: Provider, algorithm: int, size: int) -> None:
        packet = seal(clear_packet(provider.level), provider)
        blob = SimpleBlob.decode(decode_message(packet).symmetric_key)
        assert blob.session_key_algorithm == algorithm
        assert len(unwrap_key(KEYS[provider], blob.encrypted_key)) == size

    @pytest.mark.conformance("MQQB-217")
    @pytest.mark.parametrize(("algorithm", "size"), [(0x660E, 16), (0x660F, 24), (0x6610, 32)])
    def test_the_key_of_aes_has_the_bits_of_its_algorithm(self, algorithm: int, size: int) -> None:
        policy = EncryptionPolicy(advanced_algorithm=EncryptionAlgorithm(algorithm))
        packet = seal(clear_packet(), ADVANCED, policy=policy)
        blob = SimpleBlob.decode(decode_message(packet).symmetric_key)
        assert len(unwrap_key(KEYS[ADVANCED], blob.encrypted_key)) == size
        assert opener().open(packet, NOW).body == b"top secret"

    @pytest.mark.conformance("MQQB-216")
    @pytest.mark.parametrize(
        ("published_for", "level", "expected"),
        [
            ((ADVANCED, ENHANCED, BASE), PrivacyLevel.BASE, (ADVANCED, 0x6610, 32)),
            ((ADVANCED, ENHANCED, BASE), PrivacyLevel.ENHANCED, (ADVANCED, 0x6610, 32)),
            ((ADVANCED, ENHANCED, BASE), PrivacyLevel.ADVANCED, (ADVANCED, 0x6610, 32)),
            ((ENHANCED, BASE), PrivacyLevel.BASE, (ENHANCED, 0x6801, 16)),
            ((ENHANCED, BASE), PrivacyLevel.ENHANCED, (ENHANCED, 0x6801, 16)),
            ((ENHANCED, BASE), PrivacyLevel.ADVANCED, None),
            ((BASE,), PrivacyLevel.BASE, (BASE, 0x6801, 5)),
            ((BASE,), PrivacyLevel.ENHANCED, None),
            ((BASE,), PrivacyLevel.ADVANCED, None),
            ((), PrivacyLevel.BASE, None),
        ],
    )
    def test_the_choice_of_the_provider(
        self,
        published_for: tuple[Provider, ...],
        level: PrivacyLevel,
        expected: tuple[Provider, int, int] | None,
    ) -> None:
        keys = published(*published_for)
        if expected is None:
            with pytest.raises(SecurityError):
                choose(keys, level, LEGACY)
        else:
            assert choose(keys, level, LEGACY)[:3] == expected

    def test_the_level_becomes_that_of_the_provider(self) -> None:
        """The receiver chooses its key by the level, so that it would take the wrong one."""
        assert seal(clear_packet(PrivacyLevel.BASE)).properties.privacy_level == PrivacyLevel.ADVANCED

    def test_old_ciphers_are_not_used_unless_allowed(self) -> None:
        for level in (PrivacyLevel.BASE, PrivacyLevel.ENHANCED):
            with pytest.raises(SecurityError, match="not allowed"):
                choose(published(ENHANCED, BASE), level, EncryptionPolicy())
        assert choose(published(ADVANCED), PrivacyLevel.BASE, EncryptionPolicy()).provider is ADVANCED

    @pytest.mark.conformance("MQQB-218")
    def test_a_session_key_is_used_again_for_the_same_receiver(self) -> None:
        sealer, keys = Sealer(), published(ADVANCED)

        def blob(receiver: UUID, now: float) -> bytes:
            return decode_message(sealer.seal(clear_packet(), receiver, keys, now)).symmetric_key

        first = blob(RECEIVER, NOW)
        assert blob(RECEIVER, NOW + 599) == first
        assert blob(UUID(int=1), NOW) != first
        assert blob(RECEIVER, NOW + 600) != first

    @pytest.mark.conformance("MQQB-210")
    def test_another_public_key_of_the_receiver_gets_another_session_key(self) -> None:
        """It was rotated: the old one may be gone before the session key ends."""
        sealer, blobs = Sealer(), []
        for key in (KEYS[ADVANCED], LONG_KEY):
            keys = (MQDSPublicKey.of(24, ADVANCED.name, public_blob(key.public_key()).encode()),)
            blobs.append(decode_message(sealer.seal(clear_packet(), RECEIVER, keys, NOW)).symmetric_key)
        assert [len(blob) for blob in blobs] == [12 + 128, 12 + 256]

    @pytest.mark.skipif(not HAS_RC2_40, reason="RC2 with 40 bits needs tiercel[rc2]")
    @pytest.mark.parametrize("sends_weak", [False, True])
    @pytest.mark.parametrize("rejects_weak", [False, True])
    def test_weak_keys_of_the_enhanced_provider(self, *, sends_weak: bool, rejects_weak: bool) -> None:
        policy = EncryptionPolicy(
            legacy=True,
            enhanced_algorithm=EncryptionAlgorithm.RC2,
            send_enhanced_rc2_using_40_bit_keys=sends_weak,
        )
        packet = seal(clear_packet(PrivacyLevel.ENHANCED), ENHANCED, policy=policy)
        blob = SimpleBlob.decode(decode_message(packet).symmetric_key)
        assert (unwrap_key(KEYS[ENHANCED], blob.encrypted_key)[5:] == bytes(11)) == sends_weak
        receiver = EncryptionPolicy(legacy=True, reject_enhanced_rc2_using_40_bit_keys=rejects_weak)
        if sends_weak and rejects_weak:
            assert refusal(packet, receiver) is MessageClass.NACK_BAD_ENCRYPTION
        else:
            assert opener(receiver).open(packet, NOW).body == b"top secret"

    @given(body=st.binary(max_size=200), label=st.text("ab", max_size=5))
    def test_any_body_comes_back_with_its_packet(self, body: bytes, label: str) -> None:
        packet = clear_packet(body=body, label=label)
        found = opener().open(seal(packet), NOW)
        assert found.body == body
        assert found.label == label
        assert found.destination_bytes == packet.destination_bytes

    def test_a_damaged_public_key_is_an_error(self) -> None:
        key = replace(published(ADVANCED)[0], key=b"noise")
        with pytest.raises(SecurityError):
            choose((key,), PrivacyLevel.ADVANCED, LEGACY)
