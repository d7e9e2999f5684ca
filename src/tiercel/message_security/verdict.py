"""The facts that were proved about a message on arrival. Stored beside its packet, which stays as it is."""

import struct
from typing import NamedTuple

from tiercel.model.codes import AuthenticationLevel

_HEAD = struct.Struct("<BB")
_ENCRYPTED = 0x80  # beside the reading


class Verdict(NamedTuple):
    """Of the signature, if it was verified, and of the encryption; `NOTHING` if neither was there."""

    level: int = AuthenticationLevel.NONE  # SecurityHeader.AS
    reading: int = 0  # position in `hash_input.READINGS`, or in `xml_signature.FORMS`
    sender: bytes = b""  # the SID that the trust store has for the certificate
    was_encrypted: bool = False  # on its way here: the stored body is clear
    name: str = ""  # of the entry in the trust store, as it was then

    @property
    def is_authenticated(self) -> bool:
        return self.level != AuthenticationLevel.NONE

    def encode(self) -> bytes:
        """At most 134 bytes; empty for `NOTHING`."""
        if not self.level and not self.was_encrypted:
            return b""
        reading = self.reading | _ENCRYPTED if self.was_encrypted else self.reading
        return _HEAD.pack(self.level, reading) + self.sender + self.name.encode()


NOTHING = Verdict()


def decode_verdict(data: bytes) -> Verdict:
    """Total: a verdict that is too short to be one counts as none."""
    if len(data) < _HEAD.size:
        return NOTHING
    level, reading = _HEAD.unpack_from(data)
    sender, name = _split(data[_HEAD.size :])
    return Verdict(level, reading & ~_ENCRYPTED, sender, bool(reading & _ENCRYPTED), name)


def _split(data: bytes) -> tuple[bytes, str]:
    """A SID, whose second byte tells its size ([MS-DTYP] 2.4.2.2), and the name after it."""
    size = 8 + 4 * data[1] if len(data) > 1 else len(data)
    return data[:size], data[size:].decode(errors="replace")
