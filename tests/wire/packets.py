"""Packets put together by hand from [MS-MQMQ] 2.2.19 and 2.2.20: none of this uses the encoder under test."""

import struct
from pathlib import Path
from uuid import UUID

from tiercel.wire.structure import Structure

VECTORS = Path(__file__).resolve().parent.parent / "vectors" / "mqqb"

# Three GUIDs and how they look on the wire ([MS-DTYP] 2.3.4.2).
GUID_A, WIRE_A = UUID("00112233-4455-6677-8899-aabbccddeeff"), "33221100 5544 7766 8899aabbccddeeff"
GUID_B, WIRE_B = UUID("b0b1b2b3-b4b5-b6b7-b8b9-babbbcbdbebf"), "b3b2b1b0 b5b4 b7b6 b8b9babbbcbdbebf"
GUID_C, WIRE_C = UUID("c0c1c2c3-c4c5-c6c7-c8c9-cacbcccdcecf"), "c3c2c1c0 c5c4 c7c6 c8c9cacbcccdcecf"

# UserHeader.Flags, [MS-MQMQ] 2.2.19.2, by the number of the bit
JN, JP = 1 << 8, 1 << 9
SH, TH, MP, CQ, MQ, AH, HH = (1 << bit for bit in (19, 20, 21, 22, 23, 25, 28))


def dq(kind: int) -> int:
    return kind << 10


def aq(kind: int) -> int:
    return kind << 13


def rq(kind: int) -> int:
    return kind << 16


def frame(number: int) -> bytes:
    """Frame `number` of [MS-MQQB] 4.1."""
    (path,) = VECTORS.glob(f"frame{number}_*.bin")
    return path.read_bytes()


def from_hex(text: str) -> bytes:
    return bytes.fromhex(text)


def utf16(text: str) -> bytes:
    return text.encode("utf-16-le")


def aligned(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def direct(name: str) -> bytes:
    """A DirectQueueFormatName, [MS-MQMQ] 2.2.18.1.5.2."""
    data = utf16(name + "\0")
    return aligned(struct.pack("<H", len(data)) + data)


def user(
    flags: int = 0,
    names: bytes = b"",
    *,
    source: str = WIRE_A,
    address: bytes = bytes(16),
    time_to_be_received: int = 0xFFFFFFFF,
    sent_time: int = 0,
    number: int = 0,
) -> bytes:
    """A UserHeader; `names` are the three queue names and the connector type as bytes."""
    numbers = struct.pack("<IIII", time_to_be_received, sent_time, number, flags | MP)
    return from_hex(source) + address + numbers + names


def properties(
    *,
    flags: int = 0,
    label: str = "",
    message_class: int = 0,
    extension: bytes = b"",
    body: bytes = b"",
    allocated: bytes | None = None,
) -> bytes:
    """A MessagePropertiesHeader; `allocated` is the body with what else is reserved for it."""
    room = body if allocated is None else allocated
    text = utf16(label + "\0") if label else b""
    return aligned(
        struct.pack("<BBH", flags, len(text) // 2, message_class)
        + bytes(20)
        + struct.pack("<IIII", 0, 0, len(body), len(room))
        + struct.pack("<IIII", 0, 0x8004, 0x6801, len(extension))
        + text
        + extension
        + room
    )


def base(size: int, *, flags: int = 3, time_to_reach_queue: int = 0xFFFFFFFF) -> bytes:
    return struct.pack("<BBH4sII", 0x10, 0, flags, b"LIOR", size, time_to_reach_queue)


def packet(
    *headers: bytes,
    flags: int = 3,
    session: bytes = b"",
    counts_session: bool = False,
    time_to_reach_queue: int = 0xFFFFFFFF,
) -> bytes:
    """A whole UserMessage; PacketSize counts a SessionHeader only for a peer that `counts_session`."""
    data = b"".join(headers)
    size = 16 + len(data) + (len(session) if counts_session else 0)
    return base(size, flags=flags, time_to_reach_queue=time_to_reach_queue) + data + session


def transaction(
    *, flags: int = 0, ordinal: int = 0, timestamp: int = 0, number: int = 0, previous: int = 0
) -> bytes:
    """A TransactionHeader, [MS-MQMQ] 2.2.20.5: Ordinal before TimeStamp."""
    return struct.pack("<IIIII", flags, ordinal, timestamp, number, previous)


SESSION = from_hex("0500 0300 07000000 0400 0200 4000 0000")
"""A SessionHeader: 5 received, recoverable 3 to 5 stored, 4 sent of which 2 recoverable, window 64."""

PLAIN = packet(user(dq(7), direct(r"OS:host\private$\orders")), properties(label="hello", body=b"body!"))
TRANSACTIONAL = packet(
    user(dq(7) | TH | 1 << 5, direct(r"OS:h\q")), transaction(number=1), properties(), flags=0
)


def assert_both_ways(structure: Structure, wire: str) -> None:
    """The bytes decode to the structure and the structure encodes to the bytes."""
    data = bytes.fromhex(wire)
    assert type(structure).decode(data) == structure
    assert structure.encode().hex(" ", -4) == data.hex(" ", -4)
    assert b"".join(part.data for part in structure.parts()) == data


def replaced(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]
