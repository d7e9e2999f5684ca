"""Cuts a byte stream into PDUs by frag_length, however the bytes arrive: [C706] 12.6.3.1."""

from collections.abc import Iterator

from tiercel.model.errors import DecodeError
from tiercel.rpc.pdu import FRAGMENT_MAX, HEADER_SIZE, read_header


class Framer:
    """Give it bytes with `receive`, then take every PDU of `pdus`; a DecodeError ends the stream.

    It keeps at most one PDU's worth of bytes beyond what was received last. `max_fragment` is the size that
    was negotiated.
    """

    __slots__ = ("_buffer", "_wanted", "max_fragment")

    def __init__(self, max_fragment: int = FRAGMENT_MAX) -> None:
        self.max_fragment = max_fragment
        self._buffer = bytearray()
        self._wanted = HEADER_SIZE

    def receive(self, data: bytes) -> None:
        self._buffer += data

    @property
    def is_between_pdus(self) -> bool:
        """Whether nothing is left over: a stream that ends elsewhere was cut."""
        return not self._buffer

    @property
    def head(self) -> bytes:
        """What is there of the PDU that is being received, up to its header: for the answer to a bad one."""
        return bytes(self._buffer[:HEADER_SIZE])

    def pdus(self) -> Iterator[bytes]:
        while len(self._buffer) >= self._wanted:
            if self._wanted == HEADER_SIZE:
                self._wanted = self._size()
                if len(self._buffer) < self._wanted:
                    return
            pdu = bytes(self._buffer[: self._wanted])
            del self._buffer[: self._wanted]
            self._wanted = HEADER_SIZE
            yield pdu

    def _size(self) -> int:
        size = read_header(bytes(self._buffer[:HEADER_SIZE])).frag_length
        if size > self.max_fragment:
            raise DecodeError("Pdu", "frag_length", 8, f"is {size}, negotiated were {self.max_fragment}")
        return size
