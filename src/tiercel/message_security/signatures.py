"""Signatures of whole packets: [MS-MQQB] 3.1.5.8.3 (verify) and 3.1.7.1.4 (sign).

A packet is never believed for what it claims: `verify` returns what was proved, or raises. That a certificate
belongs to somebody is not decided here (see `trust`).
"""

import hmac
from dataclasses import dataclass, replace
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from tiercel.message_security.certificates import Certificate, load_certificate
from tiercel.message_security.hash_input import READINGS, Reading, SignedFields
from tiercel.message_security.refusal import bad_signature
from tiercel.message_security.rsa_keys import sign_hash, signed_hash
from tiercel.model.codes import AuthenticationLevel, HashAlgorithm
from tiercel.model.errors import InvalidCertificateError
from tiercel.wire.multi_queue_format_header import MultiQueueFormatHeader
from tiercel.wire.user_header import SECURITY_HEADER
from tiercel.wire.user_message import PROPERTIES, UserMessage

_HASH_AT = PROPERTIES.size - 12  # of the ALG_ID in the MessagePropertiesHeader
_STRONG = frozenset({HashAlgorithm.SHA_512, HashAlgorithm.SHA_256, HashAlgorithm.SHA1})
_OF_LISTS = tuple(reading for reading in READINGS if reading.level == AuthenticationLevel.SIG30)


@dataclass(frozen=True, slots=True)
class SignaturePolicy:
    """Which signatures count."""

    hash_algorithms: frozenset[int] = _STRONG
    least_key_bits: int = 1024

    def with_legacy(self) -> "SignaturePolicy":
        """With MD5 and the 512-bit keys of the Base provider, both of which can be broken."""
        return replace(self, hash_algorithms=self.hash_algorithms | {HashAlgorithm.MD5}, least_key_bits=512)


DEFAULT_POLICY = SignaturePolicy()


class Signature(NamedTuple):
    """A verified signature."""

    reading: Reading
    certificate: Certificate

    @property
    def level(self) -> AuthenticationLevel:
        return self.reading.level


def verify(packet: UserMessage, body: bytes, policy: SignaturePolicy = DEFAULT_POLICY) -> Signature | None:
    """The signature of a packet with that clear body; None without one, MessageRefusedError if it is bad.

    [MS-MQQB] 3.1.5.8.3. The body is decrypted before, because the sender signs and then encrypts (MQQB T13).
    """
    signature, der, readings = _signature_of(packet)
    if not signature:
        return None
    algorithm = hash_algorithm(packet)
    if algorithm not in policy.hash_algorithms:
        raise bad_signature(f"hash algorithm 0x{algorithm:04x} is not accepted")
    try:
        certificate = load_certificate(der)
    except InvalidCertificateError as problem:
        raise bad_signature(f"its certificate cannot be used: {problem.problem or problem}") from None
    if certificate.key.key_size < policy.least_key_bits:
        raise bad_signature(
            f"its key has {certificate.key.key_size} bits, {policy.least_key_bits} are required"
        )
    claimed = signed_hash(certificate.key, signature, algorithm)
    if claimed is None:
        raise bad_signature("the key of its certificate did not make it")
    for reading, digest in SignedFields(packet, body).digests(readings, algorithm):
        if hmac.compare_digest(claimed, digest):
            return Signature(reading, certificate)
    raise bad_signature("it is of another message")


def has_signature(packet: UserMessage) -> bool:
    return bool(_signature_of(packet)[0])


def _signature_of(packet: UserMessage) -> tuple[bytes, bytes, tuple[Reading, ...]]:
    """Signature, certificate and the readings to try. The SecurityHeader's signature comes first."""
    if not packet.flags & SECURITY_HEADER:
        return b"", b"", ()
    _, _, signature, certificate, _ = packet.security_data()
    if signature:
        return signature, certificate, READINGS
    header = packet.other(MultiQueueFormatHeader)
    return (header.signature.signature if header else b""), certificate, _OF_LISTS


def hash_algorithm(packet: UserMessage) -> int:
    at = packet.properties_at + _HASH_AT
    return int.from_bytes(packet.data[at : at + 4], "little")


def sign(packet: UserMessage, level: AuthenticationLevel, key: RSAPrivateKey) -> bytes:
    """The signature of a packet whose body is still clear: [MS-MQQB] 3.1.7.1.4.

    It covers neither the message id nor the times, so it can be made before the queue manager assigns them.
    """
    algorithm = hash_algorithm(packet)
    digest = SignedFields(packet, packet.body).digest(Reading(level), algorithm)
    return sign_hash(key, digest, algorithm)
