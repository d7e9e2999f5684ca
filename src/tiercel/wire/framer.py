"""Cuts a byte stream into packets by PacketSize, however the bytes arrive: [MS-MQMQ] 2.2.19.1."""

import struct
from collections.abc import Iterator

from tiercel.model.errors import DecodeError
from tiercel.model.limits import MAX_PACKET_SIZE
from tiercel.wire.base_header import INTERNAL, SESSION_HEADER, SIGNATURE, VERSION, BaseHeader
from tiercel.wire.session_header import SessionHeader
from tiercel.wire.structure import Reader
from tiercel.wire.user_message import UserMessage

_HEAD = struct.Struct("<BBHII")
_BASE_SIZE = BaseHeader.LAYOUT.size
_SESSION_SIZE = SessionHeader.LAYOUT.size


class Framer:
    """Give it bytes with `receive`, then take every packet of `packets`; a DecodeError ends the stream.

    It keeps at most one packet's worth of bytes beyond what was received last.
    """

    __slots__ = ("_buffer", "_wanted")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._wanted = _BASE_SIZE

    def receive(self, data: bytes) -> None:
        self._buffer += data

    @property
    def wanted(self) -> int:
        """How many bytes the packet has that is being received, as far as that is known."""
        return self._wanted

    @property
    def is_between_packets(self) -> bool:
        """Whether nothing is left over: a stream that ends elsewhere was cut."""
        return not self._buffer

    def packets(self) -> Iterator[bytes]:
        if len(self._buffer) < self._wanted:
            return
        data = bytes(self._buffer)
        at = 0
        try:
            while True:
                self._wanted = _size_of_packet(data, at)
                if len(data) - at < self._wanted:
                    return
                packet = data[at : at + self._wanted]
                at += self._wanted
                self._wanted = _BASE_SIZE
                yield packet
        finally:
            del self._buffer[:at]


def _size_of_packet(data: bytes, at: int) -> int:
    """How many bytes from `at` on are needed: those of the packet, or those that tell its size."""
    if len(data) - at < _BASE_SIZE:
        return _BASE_SIZE
    version, _, flags, signature, size = _HEAD.unpack_from(data, at)
    if version != VERSION or signature != SIGNATURE or not _BASE_SIZE <= size <= MAX_PACKET_SIZE:
        BaseHeader.read(Reader(data[at : at + _BASE_SIZE]))
    if not flags & SESSION_HEADER or flags & INTERNAL or len(data) - at < size:
        return int(size)
    # In a message PacketSize leaves the SessionHeader out, in a SessionAck it counts it (MQQB T50).
    return int(size) if _counts_session_header(data[at : at + size]) else int(size) + _SESSION_SIZE


def _counts_session_header(packet: bytes) -> bool:
    """Whether the peer counted the SessionHeader in: then its headers end 16 bytes before the packet."""
    try:
        return not UserMessage(packet).trailer
    except DecodeError:
        return False
