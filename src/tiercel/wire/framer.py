"""Splits a byte stream into packets by their PacketSize: [MS-MQMQ] 2.2.19.1."""

import struct
from collections.abc import Iterator

from tiercel.model.errors import DecodeError
from tiercel.model.limits import MAX_PACKET_SIZE
from tiercel.wire.alike import Alike, take_alike
from tiercel.wire.base_header import INTERNAL, SESSION_HEADER, SIGNATURE, VERSION, BaseHeader
from tiercel.wire.session_header import SessionHeader
from tiercel.wire.structure import Reader
from tiercel.wire.user_message import UserMessage

_HEAD = struct.Struct("<BBHII")
_BASE_SIZE = BaseHeader.LAYOUT.size
_SESSION_SIZE = SessionHeader.LAYOUT.size


class Framer:
    """Pass bytes to `receive`, then take every packet from `packets`; a DecodeError ends the stream.

    Between calls it keeps less than one packet.
    """

    __slots__ = ("_at", "_buffer", "_data", "_fresh", "_wanted")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._fresh = b""  # what came while the buffer was empty: mostly whole packets, which need no copy
        self._data = b""  # the same while `packets` runs, and how far it has come
        self._at = 0
        self._wanted = _BASE_SIZE

    def receive(self, data: bytes) -> None:
        if not self.buffered:
            self._fresh = data
            return
        self._buffer += self._fresh
        self._fresh = b""
        self._buffer += data

    @property
    def wanted(self) -> int:
        """The size of the packet being received, as far as it is known."""
        return self._wanted

    @property
    def buffered(self) -> int:
        """The bytes that have arrived of that packet."""
        return len(self._buffer) + len(self._fresh)

    @property
    def is_between_packets(self) -> bool:
        """Whether the buffer is empty; otherwise the end of the stream cuts a packet."""
        return not self.buffered

    def packets(self) -> Iterator[bytes]:
        if self.buffered < self._wanted:
            return
        self._data, self._at = self._fresh or bytes(self._buffer), 0
        try:
            while True:
                data, at = self._data, self._at
                self._wanted = _size_of_packet(data, at)
                if len(data) - at < self._wanted:
                    return
                self._at = at + self._wanted
                self._wanted = _BASE_SIZE
                yield data[at : self._at]
        finally:
            if self._fresh:
                self._buffer += self._data[self._at :]
                self._fresh = b""
            else:
                del self._buffer[: self._at]
            self._data = b""

    def take_alike(self, first: UserMessage) -> Alike:
        """The message that `packets` has just yielded, and those of its shape that come next."""
        alike = take_alike(first, self._data, self._at)
        if len(alike) > 1:
            self._at += alike.size - len(first.data)
        return alike


def _size_of_packet(data: bytes, at: int) -> int:
    """The bytes needed from `at` on: the whole packet, or as many as it takes to know its size."""
    if len(data) - at < _BASE_SIZE:
        return _BASE_SIZE
    version, _, flags, signature, size = _HEAD.unpack_from(data, at)
    if version != VERSION or signature != SIGNATURE or not _BASE_SIZE <= size <= MAX_PACKET_SIZE:
        BaseHeader.read(Reader(data[at : at + _BASE_SIZE]))
    if not flags & SESSION_HEADER or flags & INTERNAL or len(data) - at < size:
        return int(size)
    # PacketSize excludes the SessionHeader in a message, and includes it in a SessionAck (MQQB T50).
    return int(size) if _counts_session_header(data[at : at + size]) else int(size) + _SESSION_SIZE


def _counts_session_header(packet: bytes) -> bool:
    """Whether the peer included the SessionHeader: then the headers end 16 bytes before the packet."""
    try:
        return not UserMessage(packet).trailer
    except DecodeError:
        return False
