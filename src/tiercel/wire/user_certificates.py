"""The certificates registered for a user: [MS-MQMQ] 2.2.21 and 2.2.22."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self
from uuid import UUID

from tiercel.model.identifiers import NULL_GUID
from tiercel.wire.structure import Layout, Part, Reader, Structure

MAX_CERTIFICATES = 1024


@dataclass(frozen=True, slots=True)
class MQUserSignCert(Structure):
    """MQUSERSIGNCERT, [MS-MQMQ] 2.2.22: an X.509 certificate in DER, with its MD5 hash."""

    digest: bytes = bytes(16)
    identifier: UUID = NULL_GUID
    certificate_length: int = 0
    certificate: bytes = b""

    LAYOUT = Layout("16s GUID I")

    @classmethod
    def of(cls, identifier: UUID, certificate: bytes) -> Self:
        return cls(certificate_digest(certificate), identifier, len(certificate), certificate)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        at = reader.at
        fixed = reader.fixed(cls)
        certificate = reader.take(fixed[2], "certificate")
        if fixed[0] != certificate_digest(certificate):
            raise reader.error("digest", "is not the MD5 hash of the certificate", at)
        return cls.make(fixed, certificate)

    def variable(self) -> Iterator[Part]:
        yield Part("certificate", self.certificate, self.certificate)


@dataclass(frozen=True, slots=True)
class MQUserSignCerts(Structure):
    """MQUSERSIGNCERTS, [MS-MQMQ] 2.2.21. The certificates follow each other without padding."""

    count: int = 0
    certificates: tuple[MQUserSignCert, ...] = ()

    LAYOUT = Layout("I")

    @classmethod
    def of(cls, certificates: tuple[MQUserSignCert, ...]) -> Self:
        return cls(len(certificates), certificates)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        at = reader.at
        (count,) = reader.fixed(cls)
        if count > MAX_CERTIFICATES:
            raise reader.error("count", f"is {count}, at most {MAX_CERTIFICATES} are allowed", at)
        return cls(count, tuple(MQUserSignCert.read(reader) for _ in range(count)))

    def variable(self) -> Iterator[Part]:
        for i, certificate in enumerate(self.certificates):
            parts = certificate.parts()
            yield from (part._replace(name=f"certificates[{i}].{part.name}") for part in parts)


def certificate_digest(certificate: bytes) -> bytes:
    """The digest that names a certificate in the directory ([MS-MQDMPR] 3.1.1.15). It proves nothing."""
    return hashlib.md5(certificate, usedforsecurity=False).digest()
