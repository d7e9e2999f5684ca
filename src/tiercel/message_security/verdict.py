"""What was proved about a message when it came. Stored beside its packet, which stays as it is."""

import struct
from typing import NamedTuple

from tiercel.model.codes import AuthenticationLevel

_HEAD = struct.Struct("<BB")


class Verdict(NamedTuple):
    """Of a signature that was verified; `NOTHING` if there is none that counts."""

    level: int = AuthenticationLevel.NONE  # SecurityHeader.AS
    reading: int = 0  # position in `hash_input.READINGS`, or in `xml_signature.FORMS`
    sender: bytes = b""  # the SID that the trust store has for the certificate

    @property
    def is_authenticated(self) -> bool:
        return self.level != AuthenticationLevel.NONE

    def encode(self) -> bytes:
        """At most 70 bytes; empty for `NOTHING`."""
        return _HEAD.pack(self.level, self.reading) + self.sender if self.level else b""


NOTHING = Verdict()


def decode_verdict(data: bytes) -> Verdict:
    """Total: a verdict that is too short to be one counts as none."""
    if len(data) < _HEAD.size:
        return NOTHING
    level, reading = _HEAD.unpack_from(data)
    return Verdict(level, reading, data[_HEAD.size :])
