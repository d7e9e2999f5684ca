"""SRMP requests out of APDUs: framed by their Content-Length, however the packets cut them.

Winsock has a mode that keeps messages and one that does not, and it is not known which one MSMQ uses. Usually
an APDU is one request. A longer one has several; a shorter one is continued by the next.
"""

import re

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
        data, at = self._partial + apdu, 0
        self._partial = b""
        found = []
        while at < len(data):
            end = self._end(data, at)
            if end is None:
                self.malformed += 1
                break
            if end > len(data):
                self._partial = data[at:]
                break
            found.append(data[at:end])
            at = end
        return found

    def lost(self) -> None:
        """Something is missing here: wait for an APDU that begins a request."""
        self._partial = b""

    @staticmethod
    def _end(data: bytes, at: int) -> int | None:
        """The end of the request that begins there; beyond `data` if that is not known yet."""
        if not _BEGIN.startswith(data[at : at + len(_BEGIN)]):
            return None
        head = data.find(_END_OF_HEAD, at, at + HEAD_MAX_BYTES)
        if head < 0:
            return None if len(data) - at >= HEAD_MAX_BYTES else len(data) + 1
        length = _LENGTH.search(data, at, head + 2)
        if length is None:  # every message has an envelope
            return None
        end = head + len(_END_OF_HEAD) + int(length[1])
        return end if end - at <= APDU_MAX_BYTES + HEAD_MAX_BYTES else None
