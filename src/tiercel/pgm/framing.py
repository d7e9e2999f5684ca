"""SRMP requests out of APDUs: framed by their Content-Length, however the packets cut them.

Winsock has a mode that keeps messages and one that does not, and it is not known which one MSMQ uses. Usually
an APDU is one request. A longer one has several; a shorter one is continued by the next.
"""

import re
from collections import deque

from tiercel.pgm.packet import APDU_MAX_BYTES

HEAD_MAX_BYTES = 16_384
_END_OF_HEAD = b"\r\n\r\n"
_BEGIN = b"POST "
_LENGTH = re.compile(rb"\r\nContent-Length[ \t]*:[ \t]*(\d{1,10})[ \t]*\r\n", re.IGNORECASE)


class Framing:
    def __init__(self) -> None:
        self.malformed = 0  # APDUs that began no request, or one that is too long
        self._partial = b""

    def feed(self, apdu: bytes) -> list[bytes]:
        """The requests that the APDU completes."""
        data = self._partial + apdu
        self._partial = b""
        found: deque[bytes] = deque()
        while data:
            size = self._size(data)
            if size is None:
                self.malformed += 1
                break
            if size > len(data):
                self._partial = data
                break
            found.append(data[:size])
            data = data[size:]
        return list(found)

    def lost(self) -> None:
        """Something is missing here: wait for an APDU that begins a request."""
        self._partial = b""

    @staticmethod
    def _size(data: bytes) -> int | None:
        """The size of the request that begins here; larger than `data` if that is not known yet."""
        if not (data.startswith(_BEGIN) or _BEGIN.startswith(data)):
            return None
        end = data.find(_END_OF_HEAD, 0, HEAD_MAX_BYTES)
        if end < 0:
            return None if len(data) >= HEAD_MAX_BYTES else len(data) + 1
        length = _LENGTH.search(data, 0, end + 2)
        size = end + len(_END_OF_HEAD) + (int(length[1]) if length is not None else 0)
        return size if size <= APDU_MAX_BYTES + HEAD_MAX_BYTES else None
