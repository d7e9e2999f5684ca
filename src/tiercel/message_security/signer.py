"""The key and certificate that sign messages: those of this queue manager, or of a program."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509 import load_der_x509_certificate

from tiercel.message_security import rsa_keys, xml_signature
from tiercel.message_security.certificates import Certificate, load_certificate, make_certificate, pem_to_der
from tiercel.message_security.signatures import sign
from tiercel.model.codes import AuthenticationLevel, HashAlgorithm
from tiercel.model.errors import CannotSignDataExError, InvalidCertificateError
from tiercel.model.message import Message
from tiercel.wire.user_message import UserMessage

_BITS = 2048
_DAYS = 3650


@dataclass(frozen=True, slots=True)
class Signer:
    key: RSAPrivateKey = field(repr=False)
    certificate: Certificate

    @classmethod
    def new(cls, name: str, now: datetime) -> Self:
        """A new key with an internal certificate ([MS-MQDMPR] 3.1.1.19); takes some tenths of a second."""
        key = rsa_keys.generate(_BITS)
        return cls(key, load_certificate(make_certificate(key, name, now, _DAYS)))

    @classmethod
    def parse(cls, pem: str) -> Self:
        """From PEM: a private key, and a certificate with its public key."""
        try:
            key = load_pem_private_key(pem.encode(), None)
            certificate = load_certificate(pem_to_der(pem.encode()))
        except (ValueError, TypeError, UnsupportedAlgorithm) as problem:
            raise CannotSignDataExError("signing key", problem=f"it cannot be read ({problem})") from None
        except InvalidCertificateError as problem:
            raise CannotSignDataExError("certificate", problem=f"{problem.problem}") from None
        if not isinstance(key, RSAPrivateKey):
            raise CannotSignDataExError("signing key", problem="it is not an RSA key")
        if key.public_key().public_numbers() != certificate.key.public_numbers():
            raise CannotSignDataExError("certificate", problem="it belongs to another key")
        return cls(key, certificate)

    def pem(self) -> str:
        key = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return key.decode() + self.certificate_pem()

    def certificate_pem(self) -> str:
        return load_der_x509_certificate(self.certificate.der).public_bytes(Encoding.PEM).decode()

    def sign(self, message: Message, packet: UserMessage, level: AuthenticationLevel) -> None:
        """Sign a message: [MS-MQQB] 3.1.7.1.4, or for HTTP [MC-MQSRM] 3.1.7.2.4.

        Takes about a millisecond; may run in another thread.
        """
        if level == AuthenticationLevel.XML_SIG:
            message.signature = xml_signature.sign(packet, self.key)
            return
        signature = sign(packet, level, self.key)
        if level == AuthenticationLevel.SIG30:
            message.multiple_destination_signature = signature
        else:
            message.signature = signature


def sign_all(signer: Signer, prepared: Iterable[tuple[Message, UserMessage, AuthenticationLevel]]) -> None:
    for message, packet, level in prepared:
        signer.sign(message, packet, level)


@dataclass(frozen=True, slots=True)
class Signing:
    """How to sign a message; `send(sign=True)` stands for the defaults."""

    signer: Signer | None = None  # None: that of the queue manager
    hash_algorithm: int = HashAlgorithm.SHA_512
    # Whether the message carries the SID of its sender; Windows then needs the certificate in its directory.
    names_sender: bool = False


DEFAULT_SIGNING = Signing()
