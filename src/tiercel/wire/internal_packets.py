"""The packets that set up and acknowledge a session: [MS-MQQB] 2.2.1, 2.2.2, 2.2.3 and 2.2.6."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Generic, Self, TypeVar, cast
from uuid import UUID

from tiercel.model.identifiers import NULL_GUID
from tiercel.model.limits import DEFAULT_WINDOW_SIZE
from tiercel.wire.base_header import INTERNAL, SESSION_HEADER, BaseHeader
from tiercel.wire.session_header import SessionHeader
from tiercel.wire.structure import Layout, Reader, Structure, flag_words

SESSION_ACK = 1
ESTABLISH_CONNECTION = 2
CONNECTION_PARAMETERS = 3
PACKET_TYPE = 0x000F
CONNECTION_REFUSED = 0x0010

# The bytes that Windows sends, by which scanners recognise a queue manager.
RESPONSE_RESERVED = 0x5A
RESPONSE_PADDING = b"\x5a" * 512
REQUEST_PADDING = bytes(512)

H = TypeVar("H", bound=Structure)


@dataclass(frozen=True, slots=True)
class InternalHeader(Structure):
    """[MS-MQQB] 2.2.1"""

    reserved: int = 0
    flags: int = 0

    LAYOUT = Layout("H H")
    FLAGS = flag_words(flags="PT:4 CS")

    @property
    def packet_type(self) -> int:
        return self.flags & PACKET_TYPE

    @property
    def is_refused(self) -> bool:
        return bool(self.flags & CONNECTION_REFUSED)


@dataclass(frozen=True, slots=True)
class EstablishConnectionHeader(Structure):
    """[MS-MQQB] 2.2.3.1"""

    client_guid: UUID = NULL_GUID
    server_guid: UUID = NULL_GUID
    time_stamp: int = 0
    operating_system: int = 0x0110  # RE is always 0x10; SE: no ping was sent
    reserved: int = 0
    padding: bytes = REQUEST_PADDING

    LAYOUT = Layout("GUID GUID I H H 512s")
    FLAGS = flag_words(operating_system="RE:8 SE OS QS")


@dataclass(frozen=True, slots=True)
class ConnectionParametersHeader(Structure):
    """[MS-MQQB] 2.2.2.1"""

    recoverable_ack_timeout: int = 0
    ack_timeout: int = 0
    reserved: int = 0
    window_size: int = DEFAULT_WINDOW_SIZE

    LAYOUT = Layout("I I H H")


@dataclass(frozen=True, slots=True)
class InternalPacket(Generic[H]):
    """Base header, internal header, and the header of its type."""

    TYPE: ClassVar[int]
    HEADER: ClassVar[type[Structure]]
    BASE_FLAGS: ClassVar[int] = INTERNAL | 3  # internal packets travel at priority 3 (MQQB-012)

    base: BaseHeader
    internal: InternalHeader
    header: H

    @classmethod
    def of(cls, header: H, *, refused: bool = False, reserved: int = 0) -> Self:
        if refused and cls.TYPE == SESSION_ACK:
            raise ValueError("a SessionAck cannot refuse a connection (MQQB-016)")
        size = BaseHeader.LAYOUT.size + InternalHeader.LAYOUT.size + header.LAYOUT.size
        base = BaseHeader(reserved=reserved, flags=cls.BASE_FLAGS, packet_size=size)
        return cls(base, InternalHeader(flags=cls.TYPE | (CONNECTION_REFUSED if refused else 0)), header)

    @classmethod
    def read(cls, base: BaseHeader, internal: InternalHeader, reader: Reader) -> Self:
        header = cast("H", cls.HEADER.read(reader))
        if reader.at != reader.end:
            reader.structure = cls.__name__
            raise reader.error("packet_size", f"is {base.packet_size}, the headers have {reader.at} bytes", 8)
        return cls(base, internal, header)

    def headers(self) -> Iterator[Structure]:
        """The structures of the packet in wire order."""
        yield from (self.base, self.internal, self.header)

    def encode(self) -> bytes:
        return b"".join(header.encode() for header in self.headers())


class EstablishConnection(InternalPacket[EstablishConnectionHeader]):
    """[MS-MQQB] 2.2.3"""

    TYPE = ESTABLISH_CONNECTION
    HEADER = EstablishConnectionHeader


class ConnectionParameters(InternalPacket[ConnectionParametersHeader]):
    """[MS-MQQB] 2.2.2"""

    TYPE = CONNECTION_PARAMETERS
    HEADER = ConnectionParametersHeader


class SessionAck(InternalPacket[SessionHeader]):
    """[MS-MQQB] 2.2.6: here, and only here, PacketSize counts the SessionHeader (MQQB T50)."""

    TYPE = SESSION_ACK
    HEADER = SessionHeader
    BASE_FLAGS = InternalPacket.BASE_FLAGS | SESSION_HEADER
