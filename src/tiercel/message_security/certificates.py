"""Certificates of senders: X.509 in DER, made here ("internal") or by a certification authority.

A certificate carries the key that verifies a signature. Its own names prove nothing, because anybody can make
one with any name; the trust store says whom it stands for.
"""

import hashlib
import warnings
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tiercel.message_security.rsa_keys import check_public_key
from tiercel.model.errors import InvalidCertificateError
from tiercel.model.limits import SENDER_CERT_MAX_BYTES

_KEPT = 64  # at most 64 KiB each
_NAME_MAX = 64  # characters: ub-common-name of X.509
_CLOCK_SKEW = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Certificate:
    """The parts of a certificate that are used here."""

    der: bytes
    key: RSAPublicKey
    subject: str
    not_before: datetime
    not_after: datetime

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the DER, as OpenSSL prints it."""
        return fingerprint(self.der)


def fingerprint(data: bytes) -> str:
    return hashlib.sha256(data).digest().hex(":").upper()


@lru_cache(_KEPT)  # senders sign many messages with one certificate
def load_certificate(der: bytes) -> Certificate:
    """The certificate; InvalidCertificateError for anything that is not one with an RSA key."""
    if not 0 < len(der) <= SENDER_CERT_MAX_BYTES:
        raise InvalidCertificateError(
            "certificate", limit=f"1 to {SENDER_CERT_MAX_BYTES} bytes", present=len(der)
        )
    try:
        with warnings.catch_warnings(action="ignore"):  # about flaws that X.509 tolerates
            found = x509.load_der_x509_certificate(der)
            return Certificate(
                der,
                check_public_key(found.public_key()),
                found.subject.rfc4514_string(),
                found.not_valid_before_utc,
                found.not_valid_after_utc,
            )
    # A stranger's bytes must not raise anything else: an unknown error would end the engine.
    except Exception as problem:  # noqa: BLE001
        raise InvalidCertificateError("certificate", problem=f"{problem}") from None


def make_certificate(key: RSAPrivateKey, name: str, now: datetime, days: int) -> bytes:
    """A self-signed certificate in DER: [MS-MQDMPR] 3.1.1.19, the internal certificate of a user."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:_NAME_MAX])])
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
        .sign(key, SHA256())
        .public_bytes(Encoding.DER)
    )


def pem_to_der(text: bytes) -> bytes:
    """The first certificate of a PEM file; DER is returned as it is."""
    if b"-----BEGIN" not in text:
        return load_certificate(text).der
    try:
        return x509.load_pem_x509_certificate(text).public_bytes(Encoding.DER)
    except ValueError as problem:
        raise InvalidCertificateError("certificate", problem=f"{problem}") from None
