"""Keys and records of the store: messages, deadlines, counts.

A record of a message is a head, a name and the packet. The versions differ only in the name:

    1   the dead-letter queue that the sender named, mostly none
    2   the same after two bytes: the class that says why the message is a dead letter
    3   the same, with the verdict on the signature after the two bytes: its length in one byte, then itself
"""

import struct
import zlib
from collections.abc import Iterable
from typing import NamedTuple

from tiercel.model.errors import StoreDamagedError
from tiercel.model.limits import INFINITE
from tiercel.wire.user_message import SUMMARY_AT, packet_summary

LAST_LOOKUP_ID = 0xFFFF_FFFF_FFFF_FFFF

_HEAD = struct.Struct("<IBBHIIII")  # checksum, version, is a copy, size of the dead-letter name, 4 numbers
_HEAD_SIZE = _HEAD.size
_GLANCE = struct.Struct("<IBBHI")  # the same as far as the time of arrival
_AFTER_CHECKSUM = struct.Struct("<BBHIIII")
VERSION = 1
_WITH_REASON = 2
_WITH_VERDICT = 3
_PLAIN = bytes((VERSION, False, 0, 0))  # after the checksum: the packet follows the head
_REASON = struct.Struct("<H")
_MESSAGE_KEY = struct.Struct(">IQ")
_EXPIRY_KEY = struct.Struct(">QIQ")
_SLOT = struct.Struct(">I")
_STATS = struct.Struct("<QQ")


class Record(NamedTuple):
    """A message in a queue: its unchanged packet, and the few values that change."""

    packet: bytes
    arrival_time: int
    abort_count: int = 0
    move_count: int = 0
    last_move_time: int = 0
    dead_letter_queue: str = ""
    is_copy: bool = False  # in a journal or dead-letter queue: the message itself has ended elsewhere
    reason: int = 0  # the class that says why it is a dead letter; 0 if it is not one
    verdict: bytes = b""  # what was proved about its sender; empty if nothing was

    def encode(self) -> bytes:
        packet, arrival, aborts, moves, moved, queue, is_copy, reason, verdict = self
        version, name = VERSION, queue.encode()
        if verdict:
            version, name = (
                _WITH_VERDICT,
                b"".join((_REASON.pack(reason), bytes((len(verdict),)), verdict, name)),
            )
        elif reason:
            version, name = _WITH_REASON, _REASON.pack(reason) + name
        head = _AFTER_CHECKSUM.pack(version, is_copy, len(name), arrival, aborts, moves, moved) + name
        checksum = zlib.crc32(packet, zlib.crc32(head))
        return b"".join((checksum.to_bytes(4, "little"), head, packet))


def encode_arrivals(packets: Iterable[bytes], arrival_time: int) -> list[bytes]:
    """`Record.encode` for new messages with default values."""
    head = _AFTER_CHECKSUM.pack(VERSION, False, 0, arrival_time, 0, 0, 0)
    checksum, crc32, join = zlib.crc32(head), zlib.crc32, b"".join
    return [join((crc32(packet, checksum).to_bytes(4, "little"), head, packet)) for packet in packets]


def decode_record(data: bytes) -> Record:
    """The record; raises StoreDamagedError for a damaged one."""
    if len(data) < _HEAD_SIZE:
        raise _too_short(len(data))
    checksum, version, is_copy, name_size, arrival, aborts, moves, moved = _HEAD.unpack_from(data)
    start = _HEAD_SIZE + name_size
    packet = data[start:]
    if zlib.crc32(packet, zlib.crc32(data[4:start])) != checksum:
        raise StoreDamagedError("message record", problem="its checksum is wrong")
    if version == VERSION:
        name = data[_HEAD_SIZE:start].decode() if name_size else ""
        return Record(packet, arrival, aborts, moves, moved, name, bool(is_copy))
    _check_version(version)
    if name_size < _least_name_size(data, version):
        raise StoreDamagedError("message record", problem="it has no room for its reason", present=name_size)
    (reason,) = _REASON.unpack_from(data, _HEAD_SIZE)
    at, verdict = _HEAD_SIZE + _REASON.size, b""
    if version == _WITH_VERDICT:
        verdict = data[at + 1 : at + 1 + data[at]]
        at += 1 + len(verdict)
    name = data[at:start].decode()
    return Record(packet, arrival, aborts, moves, moved, name, bool(is_copy), reason, verdict)


def packet_of(data: bytes) -> bytes:
    """The packet of a record; raises StoreDamagedError for a damaged one."""
    if len(data) < _HEAD_SIZE:
        raise _too_short(len(data))
    checksum, version, _, name_size, _ = _GLANCE.unpack_from(data)
    if zlib.crc32(data[4:]) != checksum:
        raise StoreDamagedError("message record", problem="its checksum is wrong")
    if version != VERSION:
        _check_version(version)
    return data[_HEAD_SIZE + name_size :]


def packets_of(records: Iterable[bytes]) -> list[bytes]:
    """`packet_of` of each; raises StoreDamagedError if one is damaged. Those that came together are quick."""
    packets, checksum, crc32 = [], 0, zlib.crc32
    known: bytes | None = None  # the last head
    for data in records:
        head = data[4:_HEAD_SIZE]
        if head != known:
            if len(data) < _HEAD_SIZE or head[:4] != _PLAIN:
                packets.append(packet_of(data))
                continue
            known, checksum = head, crc32(head)
        packet = data[_HEAD_SIZE:]
        if crc32(packet, checksum) != int.from_bytes(data[:4], "little"):
            raise StoreDamagedError("message record", problem="its checksum is wrong")
        packets.append(packet)
    return packets


def packet_arrival_reason(data: bytes) -> tuple[bytes, int, int]:
    """What a search needs of a record; raises StoreDamagedError for a damaged one."""
    packet = packet_of(data)
    _, version, _, _, arrival = _GLANCE.unpack_from(data)
    return packet, arrival, 0 if version == VERSION else _REASON.unpack_from(data, _HEAD_SIZE)[0]


def glance(data: bytes, at: int = 0) -> tuple[int, int, int | None, int]:
    """Packet size, flags, expiry time (or None) and arrival of the message whose record begins at `at`.

    That is enough to move or to end it. Raises StoreDamagedError for a damaged record.
    """
    if len(data) < at + _HEAD_SIZE:
        raise _too_short(len(data) - at)
    checksum, version, is_copy, name_size, arrival = _GLANCE.unpack_from(data, at)
    if zlib.crc32(data[at + 4 :]) != checksum:
        raise StoreDamagedError("message record", problem="its checksum is wrong")
    if version != VERSION:
        _check_version(version)
    start = at + _HEAD_SIZE + name_size
    limit, sent, flags = packet_summary(data, start + SUMMARY_AT)
    # A dead letter never expires.
    return len(data) - start, flags, None if limit == INFINITE or is_copy else sent + limit, arrival


def packet_at(data: bytes, at: int = 0) -> int | None:
    """Where the packet begins in a record that begins at `at`; None for one that is too short."""
    if len(data) < at + _HEAD_SIZE:
        return None
    name_size: int = _GLANCE.unpack_from(data, at)[3]
    return at + _HEAD_SIZE + name_size


def stored_packet_size(data: bytes) -> int:
    """The size of the packet in a record, as far as a damaged one shows it."""
    rest = max(len(data) - _HEAD.size, 0)
    name_size: int = _HEAD.unpack_from(data)[3] if rest else 0
    return rest - name_size if name_size <= rest else rest


def _least_name_size(data: bytes, version: int) -> int:
    if version == _WITH_REASON:
        return _REASON.size
    at = _HEAD_SIZE + _REASON.size
    return _REASON.size + 1 + (data[at] if at < len(data) else 0)


def _check_version(version: int) -> None:
    if version not in {VERSION, _WITH_REASON, _WITH_VERDICT}:
        raise StoreDamagedError("message record", problem="its version is unknown", present=version)


def _too_short(size: int) -> StoreDamagedError:
    return StoreDamagedError("message record", present=f"{size} bytes", limit=f"at least {_HEAD_SIZE}")


# Of slot and lookup id. Sorts by queue, then priority, then arrival: the next message is one range read.
message_key = _MESSAGE_KEY.pack


def split_message_key(key: bytes) -> tuple[int, int]:
    slot, lookup_id = _MESSAGE_KEY.unpack(key)
    return slot, lookup_id


def lookup_id_of(key: bytes) -> int:
    return int.from_bytes(key[4:], "big")


def expiry_key(deadline: int, slot: int, lookup_id: int) -> bytes:
    return _EXPIRY_KEY.pack(deadline, slot, lookup_id)


def split_expiry_key(key: bytes) -> tuple[int, int, int]:
    deadline, slot, lookup_id = _EXPIRY_KEY.unpack(key)
    return deadline, slot, lookup_id


def slot_key(slot: int) -> bytes:
    return _SLOT.pack(slot)


def encode_stats(count: int, size: int) -> bytes:
    return _STATS.pack(count, size)


def decode_stats(data: bytes) -> tuple[int, int]:
    if len(data) != _STATS.size:
        raise StoreDamagedError("counts of a queue", present=f"{len(data)} bytes", limit=_STATS.size)
    count, size = _STATS.unpack(data)
    return count, size
