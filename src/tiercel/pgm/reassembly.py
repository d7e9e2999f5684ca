"""APDUs out of packets that come in order. RFC 3208 9.2."""

from tiercel.pgm.packet import Data


class Reassembly:
    """After a gap, or a join in mid-stream, it waits for the next packet that begins an APDU."""

    def __init__(self) -> None:
        self.dropped = 0  # APDUs of which something was missing or wrong, since the start
        self._parts: list[bytes] = []
        self._size = self._first = self._length = 0

    def add(self, packet: Data) -> bytes | None:
        """The APDU that the packet completes."""
        fragment = packet.options.fragment
        if fragment is None:
            self.lost()
            return packet.payload
        if fragment.offset == 0 and fragment.first == packet.number and packet.payload:
            self.lost()
            self._first, self._length = fragment.first, fragment.length
        elif not self._parts:
            return None  # the rest of an APDU whose beginning we do not have
        elif not packet.payload or fragment != (self._first, self._size, self._length):
            self.lost()
            return None
        self._parts.append(packet.payload)
        self._size += len(packet.payload)
        if self._size < self._length:
            return None
        apdu = b"".join(self._parts)
        self._parts, self._size = [], 0
        return apdu

    def lost(self) -> None:
        """What follows does not continue what there is."""
        if self._parts:
            self.dropped += 1
            self._parts, self._size = [], 0
