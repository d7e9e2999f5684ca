"""Certificates for TLS between queue managers: self-signed, and naming the GUID of the queue manager."""

from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tiercel.message_security.certificates import fingerprint

_CLOCK_SKEW: Final = timedelta(days=1)
_NAME_MAX: Final = 64  # characters of a common name


class TlsCertificate(NamedTuple):
    certificate: str  # PEM
    key: str  # PEM
    fingerprint: str


def make_tls_certificate(guid: UUID, name: str, now: datetime, days: int) -> TlsCertificate:
    """Not for an authority: whoever trusts it trusts this queue manager, and nobody that it vouches for."""
    key = generate_private_key(SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:_NAME_MAX])])
    public = key.public_key()
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.UniformResourceIdentifier(guid.urn)]), critical=False
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        .sign(key, SHA256())
    )
    return TlsCertificate(
        made.public_bytes(Encoding.PEM).decode(),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
        fingerprint(made.public_bytes(Encoding.DER)),
    )
