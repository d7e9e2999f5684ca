"""The mark by which two Tiercels recognise each other: 32 bytes in the padding of EstablishConnection.

Nobody else reads the padding, and nobody else can have the mark by accident: it is a hash of the GUID of the
queue manager that sends it. Padding from Windows may be old memory (MQQB T64), even that of a packet of ours;
the mark in it has our GUID, not that of the sender.
"""

from hashlib import sha256
from typing import Final
from uuid import UUID

_NAME: Final = b"Tiercel: a larger window, 1"
MARK_SIZE: Final = 32


def with_mark(padding: bytes, sender: UUID, time_stamp: int) -> bytes:
    """The padding of an EstablishConnection packet of ours."""
    return _mark(sender, time_stamp) + padding[MARK_SIZE:]


def has_mark(padding: bytes, sender: UUID, time_stamp: int) -> bool:
    """Whether the padding is that of a Tiercel: `sender` and `time_stamp` are those of its packet."""
    return padding[:MARK_SIZE] == _mark(sender, time_stamp)


def _mark(sender: UUID, time_stamp: int) -> bytes:
    return sha256(_NAME + sender.bytes + time_stamp.to_bytes(4, "little")).digest()
