"""The stored form of consumers and their claims; a process that reads a snapshot needs only this.

keyspace   key                      value
consumers  name                     the epoch of the consumer, and when it was last seen
consumers  name, 0, queue slot      its claim on one queue
claimed    claim slot, claim_seq    old lookup id, when it was claimed, and the record as it was
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tiercel.engine.records import message_key
from tiercel.model.errors import StoreDamagedError
from tiercel.store.interface import Keyspace, View

LAST_SEQ = 0xFFFF_FFFF_FFFF_FFFF

_CONSUMER = struct.Struct(">QI")
_CLAIM = struct.Struct(">I16sQQQQI")
_SLOT = struct.Struct(">I")
_HEAD = struct.Struct(">QI")  # of a claimed message: lookup id, claimed at; then a checksum of the two
HEAD_SIZE = _HEAD.size + 4

# Of claim slot and claim_seq: the messages of one claim stand together, in the order of their numbers.
claimed_key = message_key


@dataclass(slots=True, kw_only=True)
class ClaimRow:
    """A consumer's claim on one queue: the messages with the numbers floor + 1 to hi.

    A number is given once. One that is missing between the two was damaged, and set aside.
    """

    consumer: str
    queue_slot: int
    slot: int
    queue: UUID  # a queue that was made again is another one
    floor: int = 0  # everything up to here has ended, or was given back
    hi: int = 0
    count: int = 0
    size_bytes: int = 0
    last_seen: int = 0

    @property
    def key(self) -> bytes:
        return claim_prefix(self.consumer) + _SLOT.pack(self.queue_slot)

    def encode(self) -> bytes:
        numbers = (self.floor, self.hi, self.count, self.size_bytes, self.last_seen)
        return _seal(_CLAIM.pack(self.slot, self.queue.bytes, *numbers))


def claim_prefix(consumer: str) -> bytes:
    return consumer.encode() + b"\0"


def decode_claim(key: bytes, data: bytes) -> ClaimRow:
    name, _, queue_slot = key.partition(b"\0")
    consumer = name.decode(errors="replace")
    values = _unseal(f"claim of consumer {consumer}", _CLAIM, data)
    if len(queue_slot) != _SLOT.size:
        raise StoreDamagedError(f"claim of consumer {consumer}", problem="its key names no queue")
    slot, queue, floor, hi, count, size_bytes, last_seen = values
    return ClaimRow(
        consumer=consumer,
        queue_slot=_SLOT.unpack(queue_slot)[0],
        slot=slot,
        queue=UUID(bytes=queue),
        floor=floor,
        hi=hi,
        count=count,
        size_bytes=size_bytes,
        last_seen=last_seen,
    )


def is_claim_key(key: bytes) -> bool:
    """Whether the row is a claim; else it is the consumer itself."""
    return b"\0" in key


def encode_consumer(epoch: int, last_seen: int) -> bytes:
    return _seal(_CONSUMER.pack(epoch, last_seen))


def decode_consumer(key: bytes, data: bytes) -> tuple[int, int]:
    epoch, last_seen = _unseal(f"consumer {key.decode(errors='replace')}", _CONSUMER, data)
    return epoch, last_seen


def encode_claimed(lookup_id: int, now: int, record: bytes) -> bytes:
    head = _HEAD.pack(lookup_id, now)
    return b"".join((head, zlib.crc32(head).to_bytes(4, "big"), record))


def claimed_at(data: bytes) -> int:
    return int.from_bytes(data[8:12], "big")


def check_claimed(data: bytes) -> None:
    """Raises unless the head of a claimed message is sound; its record has its own checksum."""
    if zlib.crc32(data[:12]).to_bytes(4, "big") != data[12:HEAD_SIZE]:
        raise StoreDamagedError("claimed message", problem="its head is damaged")


def split_claimed(data: bytes) -> tuple[int, int, bytes]:
    """Lookup id, when it was claimed, and the record of a claimed message."""
    check_claimed(data)
    lookup_id, when = _HEAD.unpack_from(data)
    return lookup_id, when, data[HEAD_SIZE:]


# For readers of a snapshot.


def find_claim(view: View, consumer: str, queue: UUID) -> ClaimRow | None:
    """The claim of a consumer on the queue with this identifier."""
    prefix = claim_prefix(consumer)
    for key, data in view.range(Keyspace.CONSUMERS, prefix, prefix[:-1] + b"\1"):
        row = decode_claim(key, data)
        if row.queue == queue:
            return row
    return None


def claimed_rows(view: View, slot: int, lo: int, hi: int) -> Iterator[tuple[int, int, int, bytes]]:
    """claim_seq, lookup id, time of the claim and record of those of the messages lo + 1 to hi that exist."""
    for key, data in view.range(Keyspace.CLAIMED, claimed_key(slot, lo + 1), claimed_key(slot, hi + 1)):
        yield int.from_bytes(key[4:], "big"), *split_claimed(data)


def weights(view: View, slot: int, lo: int, hi: int, every: int = 1000) -> list[tuple[int, int]]:
    """(claim_seq, bytes) at regular steps and at the last message: the size of all messages up to it."""
    found: list[tuple[int, int]] = []
    seq, size, count = lo, 0, 0
    for count, (key, data) in enumerate(
        view.range(Keyspace.CLAIMED, claimed_key(slot, lo + 1), claimed_key(slot, hi + 1)), 1
    ):
        seq, size = int.from_bytes(key[4:], "big"), size + len(data)
        if count % every == 0:
            found.append((seq, size))
    return found if count % every == 0 else [*found, (seq, size)]


def _seal(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "big") + data


def _unseal(what: str, layout: struct.Struct, data: bytes) -> tuple[Any, ...]:
    """A claim that is read wrongly would give numbers twice: a changed byte is an error."""
    if len(data) != layout.size + 4 or zlib.crc32(data[4:]).to_bytes(4, "big") != data[:4]:
        raise StoreDamagedError(what, problem="its record is damaged")
    return layout.unpack_from(data, 4)
