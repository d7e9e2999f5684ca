"""BaseHeader, the first 16 bytes of every packet on a session: [MS-MQMQ] 2.2.19.1."""

from dataclasses import dataclass
from typing import Self

from tiercel.model.limits import INFINITE, MAX_PACKET_SIZE
from tiercel.wire.structure import Layout, Reader, Structure, flag_words

VERSION = 0x10
SIGNATURE = 0x524F494C  # the bytes "LIOR" on the wire (MQQB T51)

PRIORITY = 0x0007
INTERNAL = 0x0008
SESSION_HEADER = 0x0010
DEBUG_HEADER = 0x0020
TRACING = 0x0100


@dataclass(frozen=True, slots=True)
class BaseHeader(Structure):
    """[MS-MQMQ] 2.2.19.1"""

    version_number: int = VERSION
    reserved: int = 0
    flags: int = 0
    signature: int = SIGNATURE
    packet_size: int = 0
    time_to_reach_queue: int = INFINITE

    LAYOUT = Layout("B B H I I I")
    FLAGS = flag_words(flags="PR:3 IN SH DH -:2 TR")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        at = reader.at
        header = cls(*reader.fixed(cls))
        if header.version_number != VERSION:
            raise reader.error("version_number", f"is 0x{header.version_number:02x}, not 0x10", at)
        if header.signature != SIGNATURE:
            raise reader.error("signature", f"is 0x{header.signature:08x}, not 'LIOR'", at + 4)
        if not cls.LAYOUT.size <= header.packet_size <= MAX_PACKET_SIZE:
            limits = f"{cls.LAYOUT.size} to {MAX_PACKET_SIZE}"
            raise reader.error("packet_size", f"is {header.packet_size}, allowed are {limits}", at + 8)
        return header

    @property
    def is_internal(self) -> bool:
        return bool(self.flags & INTERNAL)

    @property
    def has_session_header(self) -> bool:
        return bool(self.flags & SESSION_HEADER)
