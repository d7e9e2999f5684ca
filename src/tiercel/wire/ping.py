"""The UDP packet that asks a queue manager whether it would accept a session: [MS-MQQB] 2.2.7."""

from dataclasses import dataclass
from typing import Self
from uuid import UUID

from tiercel.model.identifiers import NULL_GUID
from tiercel.wire.structure import Layout, Reader, Structure, flag_words

SIGNATURE = 0x5548
REQUESTED_BY_CLIENT = 0x0001
REFUSED = 0x0002


@dataclass(frozen=True, slots=True)
class Ping(Structure):
    """[MS-MQQB] 2.2.7"""

    flags: int = 0
    signature: int = SIGNATURE
    cookie: int = 0
    qm_guid: UUID = NULL_GUID

    LAYOUT = Layout("H H I GUID")
    FLAGS = flag_words(flags="RC RF")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        at = reader.at
        ping = cls(*reader.fixed(cls))
        if ping.signature != SIGNATURE:
            raise reader.error("signature", f"is 0x{ping.signature:04x}, not 0x{SIGNATURE:04x}", at + 2)
        return ping

    @property
    def is_refused(self) -> bool:
        return bool(self.flags & REFUSED)
