"""Splits a byte stream into PDUs by their frag_length: [C706] 12.6.3.1."""

from collections.abc import Iterator

from tiercel.model.errors import DecodeError
from tiercel.rpc.pdu import FRAGMENT_MAX, HEADER_SIZE, fragment_size


class Framer:
    """Pass bytes to `receive`, then take every PDU from `pdus`; a DecodeError ends the stream.

    Between calls it keeps less than one PDU. `max_fragment` is the negotiated size.
    """

    __slots__ = ("_at", "_data", "_gathered", "_wanted", "max_fragment")

    def __init__(self, max_fragment: int = FRAGMENT_MAX) -> None:
        self.max_fragment = max_fragment
        self._data = b""  # not split yet from `_at` on
        self._at = 0
        self._gathered = bytearray()  # an incomplete PDU, which needs `_wanted` bytes
        self._wanted = HEADER_SIZE

    def receive(self, data: bytes) -> None:
        if self._at < len(self._data):
            self._gather(HEADER_SIZE)
        if self._gathered:
            self._gathered += data
            if len(self._gathered) < self._wanted:
                return
            data = bytes(self._gathered)
            self._gathered.clear()
        self._data, self._at = data, 0

    @property
    def is_between_pdus(self) -> bool:
        """Whether the buffer is empty; otherwise the end of the stream cuts a PDU."""
        return not self._gathered and self._at == len(self._data)

    @property
    def head(self) -> bytes:
        """The header of the PDU being received, as far as it is there: to answer an invalid one."""
        return bytes(self._gathered[:HEADER_SIZE]) or self._data[self._at : self._at + HEADER_SIZE]

    def pdus(self) -> Iterator[bytes]:
        while (left := len(self._data) - self._at) > 0:
            at, wanted = self._at, HEADER_SIZE
            if left >= HEADER_SIZE:
                wanted = fragment_size(self._data, at)
                if wanted > self.max_fragment:
                    problem = f"is {wanted}, the negotiated limit is {self.max_fragment}"
                    raise DecodeError("Pdu", "frag_length", 8, problem)
            if left < wanted:
                self._gather(wanted)
                return
            self._at = at + wanted
            yield self._data[at : self._at]

    def _gather(self, wanted: int) -> None:
        self._gathered += self._data[self._at :]
        self._data, self._at, self._wanted = b"", 0, wanted
