"""The trust store: which certificates are known, and whom each one stands for.

It takes the place of the directory's user objects ([MS-MQDMPR] 3.1.1.15). The text has one certificate per
line, `name SID base64`, with the DER of the certificate at the end. Lines that are empty or begin with # stay
as they are.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

from tiercel.message_security.certificates import Certificate, load_certificate
from tiercel.model.errors import DecodeError, InvalidCertificateError, MqError, TiercelError
from tiercel.model.sid import SecurityIdentifier

_NAME: Final = re.compile(r"[A-Za-z0-9._@-]{1,64}")


class TrustError(TiercelError):
    """An entry that is not valid: the text is one line for the administrator."""


@dataclass(frozen=True, slots=True)
class TrustedCertificate:
    name: str
    sid: SecurityIdentifier
    certificate: Certificate

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise TrustError(f"{self.name[:70]!a} is not a valid name: use 1 to 64 of A-Z a-z 0-9 . _ @ -")

    def line(self) -> str:
        return f"{self.name} {self.sid} {base64.b64encode(self.certificate.der).decode()}"


class Trust:
    """The entries of a text, with its other lines. Changes make a copy."""

    def __init__(self, lines: "tuple[str | TrustedCertificate, ...]" = ()) -> None:
        self._lines = lines
        self._by_der = {each.certificate.der: each for each in self}

    def __iter__(self) -> Iterator[TrustedCertificate]:
        return (line for line in self._lines if isinstance(line, TrustedCertificate))

    def __len__(self) -> int:
        return len(self._by_der)

    @classmethod
    def parse(cls, text: str) -> Self:
        lines: list[str | TrustedCertificate] = []
        for number, line in enumerate(text.splitlines(), 1):
            try:
                lines.append(line if not line.strip() or line.startswith("#") else _entry(line))
            except TrustError as problem:
                raise TrustError(f"line {number}: {problem}") from problem
        found = cls(tuple(lines))
        names = [each.name for each in found]
        doubled = next((name for name in names if names.count(name) > 1), None)
        if doubled is not None:
            raise TrustError(f"{doubled}: there are two entries of that name")
        if len(found) != len(names):
            raise TrustError("a certificate is there twice: it can stand for one account only")
        return found

    def text(self) -> str:
        lines = (line.line() if isinstance(line, TrustedCertificate) else line for line in self._lines)
        return "".join(f"{line}\n" for line in lines)

    def get(self, name: str) -> TrustedCertificate | None:
        return next((each for each in self if each.name == name), None)

    def find(self, der: bytes) -> TrustedCertificate | None:
        """The entry of a certificate, compared byte by byte."""
        return self._by_der.get(der)

    def added(self, entry: TrustedCertificate) -> "Trust":
        if self.get(entry.name) is not None:
            raise TrustError(f"{entry.name}: entry exists; remove it first, or choose another name")
        known = self.find(entry.certificate.der)
        if known is not None:
            raise TrustError(f"the certificate is known already, as {known.name}")
        return Trust((*self._lines, entry))

    def without(self, name: str) -> "Trust":
        entry = self.get(name)
        if entry is None:
            raise TrustError(f"{name}: no such entry")
        return Trust(tuple(line for line in self._lines if line != entry))


def parse_sid(text: str) -> SecurityIdentifier:
    try:
        return SecurityIdentifier.parse(text)
    except (DecodeError, MqError, ValueError) as problem:
        raise TrustError(f"{text[:60]!a} is not a valid SID, as S-1-5-21-1-2-3-1001") from problem


def _entry(line: str) -> TrustedCertificate:
    words = line.split()
    if len(words) != 3:
        raise TrustError("expected a name, a SID and a certificate, separated by blanks")
    try:
        certificate = load_certificate(base64.b64decode(words[2], validate=True))
    except (binascii.Error, InvalidCertificateError) as problem:
        raise TrustError(f"{words[0]}: the certificate cannot be read ({problem})") from problem
    return TrustedCertificate(words[0], parse_sid(words[1]), certificate)
