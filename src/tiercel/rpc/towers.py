"""Protocol towers, the addresses of the endpoint mapper: [C706] appendices I and L.

A tower of MSMQ has five floors: the interface, the transfer syntax, connection-oriented RPC, the TCP port and
the IPv4 address. The last two are big-endian.
"""

import struct
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final, Self

from tiercel.model.errors import DecodeError
from tiercel.rpc.syntax import NDR, SyntaxId
from tiercel.wire.structure import Reader, decode_guid, encode_guid

FLOORS_MAX: Final = 6  # [MS-RPCE] 3.1.3.5.3

# Protocol identifiers, [C706] appendix I
_UUID: Final = b"\x0d"
CONNECTION_ORIENTED: Final = b"\x0b"
TCP: Final = b"\x07"
IP: Final = b"\x09"

_U16 = struct.Struct("<H")


@dataclass(frozen=True, slots=True)
class Floor:
    """A protocol and its address: the left and the right side."""

    protocol: bytes
    address: bytes

    @classmethod
    def of_syntax(cls, syntax: SyntaxId) -> Self:
        return cls(_UUID + encode_guid(syntax.uuid) + _U16.pack(syntax.major), _U16.pack(syntax.minor))

    @property
    def syntax(self) -> SyntaxId | None:
        """The interface or transfer syntax of this floor, if it has one."""
        if self.protocol[:1] != _UUID or (len(self.protocol), len(self.address)) != (19, 2):
            return None
        major, minor = _U16.unpack(self.protocol[17:])[0], _U16.unpack(self.address)[0]
        return SyntaxId(decode_guid(self.protocol[1:17]), minor << 16 | major)


@dataclass(frozen=True, slots=True)
class Tower:
    floors: tuple[Floor, ...]

    @classmethod
    def of_tcp(cls, interface: SyntaxId, port: int = 0, address: str = "0.0.0.0") -> Self:  # noqa: S104 - no socket
        """The tower of `interface` over TCP; without a port it is a query."""
        return cls(
            (
                Floor.of_syntax(interface),
                Floor.of_syntax(NDR),
                Floor(CONNECTION_ORIENTED, bytes(2)),
                Floor(TCP, port.to_bytes(2, "big")),
                Floor(IP, IPv4Address(address).packed),
            )
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        reader = Reader(data)
        reader.structure = "Tower"
        count = _U16.unpack(reader.take(2, "floor_count"))[0]
        if count > FLOORS_MAX:
            raise DecodeError("Tower", "floor_count", 0, f"is {count}, at most {FLOORS_MAX} are allowed")
        floors = tuple(Floor(_side(reader, "protocol"), _side(reader, "address")) for _ in range(count))
        if reader.at != reader.end:
            raise reader.error("end", f"{reader.end - reader.at} bytes follow the last floor")
        return cls(floors)

    def encode(self) -> bytes:
        sides = [side for floor in self.floors for side in (floor.protocol, floor.address)]
        return _U16.pack(len(self.floors)) + b"".join(_U16.pack(len(side)) + side for side in sides)

    @property
    def interface(self) -> SyntaxId | None:
        return self.floors[0].syntax if self.floors else None

    @property
    def transfer_syntax(self) -> SyntaxId | None:
        return self.floors[1].syntax if len(self.floors) > 1 else None

    @property
    def is_tcp(self) -> bool:
        """Whether it is a tower of ncacn_ip_tcp."""
        protocols = [floor.protocol for floor in self.floors[2:]]
        return protocols == [CONNECTION_ORIENTED, TCP, IP] and self.port is not None

    @property
    def port(self) -> int | None:
        sides = [floor.address for floor in self.floors[2:] if floor.protocol == TCP]
        return int.from_bytes(sides[0], "big") if sides and len(sides[0]) == 2 else None


def _side(reader: Reader, field: str) -> bytes:
    return reader.take(_U16.unpack(reader.take(2, field))[0], field)
