"""Signatures and encrypted bodies against Windows CryptoAPI (Wine), both ways."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from uuid import UUID

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from tiercel.message_security.body_encryption import BodyOpener, BodySealer, EncryptionPolicy
from tiercel.message_security.certificates import make_certificate
from tiercel.message_security.ciphers import HAS_RC2_40
from tiercel.message_security.hash_input import Reading, SignedFields
from tiercel.message_security.providers import ADVANCED, BASE, ENHANCED, Provider
from tiercel.message_security.refusal import MessageRefusedError
from tiercel.message_security.rsa_keys import generate, private_key_of, public_blob
from tiercel.message_security.signatures import DEFAULT_POLICY, sign, verify
from tiercel.model.codes import AuthenticationLevel, EncryptionAlgorithm, HashAlgorithm
from tiercel.model.format_name import FormatName
from tiercel.model.message import Message
from tiercel.wire.key_blobs import PrivateKeyBlob
from tiercel.wire.message import encode_message
from tiercel.wire.public_keys import MQDSPublicKey
from tiercel.wire.security_header import ENCRYPTED_BODY
from tiercel.wire.user_message import UserMessage

from .wine_crypto_oracle import CryptoApi

ROOT = Path(__file__).resolve().parents[2]
RECEIVER = UUID("00112233-4455-6677-8899-aabbccddeeff")
SUBJECT = "sender"
SHORTEST_BITS = 1024
POLICY = DEFAULT_POLICY.with_legacy()
HASHES = {
    HashAlgorithm.MD5: "md5",
    HashAlgorithm.SHA1: "sha1",
    HashAlgorithm.SHA_256: "sha256",
    HashAlgorithm.SHA_512: "sha512",
}
SIGNATURES = [  # bits of the key and hash; Wine cannot sign SHA-512 with 512 bits, and nobody should
    (bits, algorithm)
    for bits in (512, 1024, 2048, 4096)
    for algorithm in HASHES
    if (bits, algorithm) != (512, HashAlgorithm.SHA_512)
]
LEVELS = [AuthenticationLevel.SIG10, AuthenticationLevel.SIG20]
PROVIDERS = {BASE: "base", ENHANCED: "enh", ADVANCED: "aes"}
CIPHERS = [
    (provider, algorithm, bits)
    for provider, sizes in ((BASE, (512, 1024)), (ENHANCED, (1024, 2048)), (ADVANCED, (1024, 2048, 4096)))
    for algorithm in provider.algorithms
    for bits in sizes
]
BODIES = [b"", b"x", bytes(15), bytes(16), bytes(17), bytes(range(256)) * 4]


@pytest.fixture(scope="module")
def wine() -> Iterator[CryptoApi]:
    try:
        started = CryptoApi(ROOT / "build" / "wine_crypto")
    except FileNotFoundError as problem:
        pytest.skip(str(problem))
    yield started
    started.close()


# Signatures


def clear(body: bytes = b"top secret", **properties: object) -> UserMessage:
    return UserMessage(encode_message(message(body, **properties)))


def message(body: bytes, **properties: object) -> Message:
    destination = FormatName.parse(rf"PRIVATE={RECEIVER}\4")
    made = Message(body, label="an order", destination_queue=destination)
    return replace(made, **properties)  # type: ignore[arg-type]


def text_of(packet: UserMessage, level: AuthenticationLevel) -> bytes:
    return SignedFields(packet, packet.body).joined(Reading(level))


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
@pytest.mark.parametrize(("bits", "algorithm"), SIGNATURES, ids=str)
def test_tiercel_verifies_what_wine_signs(
    wine: CryptoApi, bits: int, algorithm: HashAlgorithm, level: AuthenticationLevel
) -> None:
    key = wine.key("aes", "sign", bits)
    certificate = wine.octets("cert", "cert", "aes", key, "sha1", f"CN={SUBJECT}", "01")
    made = message(b"top secret", sender_certificate=certificate, hash_algorithm=algorithm)
    text = text_of(UserMessage(encode_message(made)), level)
    signature = wine.octets("signature", "sign", "aes", key, HASHES[algorithm], text)
    packet = UserMessage(encode_message(replace(made, signature=signature)))
    found = verify(packet, packet.body, POLICY)
    assert found is not None
    assert (found.level, found.certificate.der) == (level, certificate)
    with pytest.raises(MessageRefusedError):
        verify(packet, b"top Secret", POLICY)


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
@pytest.mark.parametrize(("bits", "algorithm"), SIGNATURES, ids=str)
def test_wine_verifies_what_tiercel_signs(
    wine: CryptoApi, bits: int, algorithm: HashAlgorithm, level: AuthenticationLevel
) -> None:
    key = own_key(wine, bits)
    certificate = certificate_of(key)
    packet = clear(sender_certificate=certificate, hash_algorithm=algorithm)
    signature, text = sign(packet, level, key), text_of(packet, level)
    for data, is_valid in ((text, True), (text[:-1] + bytes([text[-1] ^ 1]), False)):
        answer = wine.ask("certverify", "aes", certificate, HASHES[algorithm], data, signature)
        assert (answer["ok"], answer["valid"]) == (True, is_valid)


def own_key(wine: CryptoApi, bits: int) -> RSAPrivateKey:
    """`cryptography` makes no key of less than 1024 bits, but uses one."""
    if bits >= SHORTEST_BITS:
        return made_here(bits)
    return private_key_of(PrivateKeyBlob.decode(wine.key("aes", "sign", bits)))


@cache
def made_here(bits: int) -> RSAPrivateKey:
    return generate(bits)


def certificate_of(key: RSAPrivateKey) -> bytes:
    return make_certificate(key, SUBJECT, datetime(2026, 1, 1, tzinfo=UTC), days=3650)


# Encryption


class Keys:
    def __init__(self, provider: Provider, key: RSAPrivateKey) -> None:
        self._provider, self._key = provider, key

    def exchange_keys(self, provider: Provider) -> list[RSAPrivateKey]:
        return [self._key] if provider == self._provider else []


def policy(algorithm: EncryptionAlgorithm) -> EncryptionPolicy:
    return EncryptionPolicy(
        legacy=True, advanced_algorithm=algorithm, enhanced_algorithm=algorithm, base_algorithm=algorithm
    )


def new_pair(wine: CryptoApi, provider: Provider, bits: int) -> tuple[bytes, RSAPrivateKey]:
    """A key pair of Wine, as a blob for Wine and as a key for Tiercel."""
    blob = wine.key(PROVIDERS[provider], "keyx", bits)
    return blob, private_key_of(PrivateKeyBlob.decode(blob))


def skip_without_rc2(provider: Provider, algorithm: EncryptionAlgorithm) -> None:
    if not HAS_RC2_40 and (provider, algorithm) == (BASE, EncryptionAlgorithm.RC2):
        pytest.skip("RC2 with 40 bits needs tiercel[rc2]")


@pytest.mark.parametrize(
    ("provider", "algorithm", "bits"), CIPHERS, ids=lambda each: getattr(each, "name", each)
)
def test_tiercel_opens_what_wine_encrypts(
    wine: CryptoApi, provider: Provider, algorithm: EncryptionAlgorithm, bits: int
) -> None:
    skip_without_rc2(provider, algorithm)
    name, (blob, key) = PROVIDERS[provider], new_pair(wine, provider, bits)
    public = wine.octets("public", "public", name, blob)
    size = 8 * provider.session_key_bytes or int(algorithm.name.removeprefix("AES"))
    simple = wine.octets("simple", "session", name, public, algorithm.name.lower(), str(size))
    opener = BodyOpener(Keys(provider, key), policy(algorithm))
    for body in BODIES:
        data = wine.octets("data", "encrypt", name, blob, simple, body)
        packet = clear(body, privacy_level=provider.level)
        flags = packet.security_flags | ENCRYPTED_BODY
        sealed = packet.with_body(data, len(body), (provider.level, algorithm), flags, simple, provider.info)
        assert opener.open(sealed, 0.0).body == body


@pytest.mark.parametrize(
    ("provider", "algorithm", "bits"), CIPHERS, ids=lambda each: getattr(each, "name", each)
)
def test_wine_opens_what_tiercel_encrypts(
    wine: CryptoApi, provider: Provider, algorithm: EncryptionAlgorithm, bits: int
) -> None:
    skip_without_rc2(provider, algorithm)
    name, (blob, key) = PROVIDERS[provider], new_pair(wine, provider, bits)
    published = MQDSPublicKey.of(provider.type, provider.name, public_blob(key.public_key()).encode())
    sealer = BodySealer(policy(algorithm), os.urandom)
    for body in filter(None, BODIES):
        sealed = sealer.seal(clear(body, privacy_level=provider.level), RECEIVER, (published,), 0.0)
        assert sealed.encryption == (provider.level, algorithm)
        simple = sealed.security_data()[1]
        assert wine.octets("data", "decrypt", name, blob, simple, sealed.body) == body


def test_how_many_answers(wine: CryptoApi, transcript: Callable[[str], None]) -> None:
    transcript(f"{wine.answers} answers of CryptoAPI (Wine)")
