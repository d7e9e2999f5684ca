"""Which stored messages are not published yet: a start removes those that no commit has published.

UNPUBLISHED  slot, first sequence     the last sequence
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple, Self

from tiercel.engine.browsing import key_ranges
from tiercel.engine.records import decode_stats, encode_stats, message_key, slot_key, stored_packet_size
from tiercel.model.errors import StoreDamagedError
from tiercel.store.interface import Batch, Keyspace, View

_KEY = struct.Struct(">IQ")
_LAST = struct.Struct(">Q")
_END = b"\xff" * (_KEY.size + 1)
_AT_ONCE = 1000


class UnpublishedRow(NamedTuple):
    slot: int
    first: int
    last: int

    @classmethod
    def decode(cls, key: bytes, data: bytes) -> Self:
        """The row; raises StoreDamagedError for a damaged one, without which messages would appear twice."""
        try:
            row = cls(*_KEY.unpack(key), *_LAST.unpack(data))
        except struct.error as damage:
            raise _damaged(key, str(damage)) from damage
        if not 0 < row.first <= row.last:
            raise _damaged(key, "it ends before it begins")
        return row

    @property
    def key(self) -> bytes:
        return message_key(self.slot, self.first)

    def put(self, batch: Batch) -> None:
        batch.put(Keyspace.UNPUBLISHED, self.key, _LAST.pack(self.last))

    def delete(self, batch: Batch) -> None:
        batch.delete(Keyspace.UNPUBLISHED, self.key)

    def remove_messages(self, batch: Batch) -> tuple[int, int]:
        """How many there were, and the size of their packets."""
        count = size = 0
        for at_least, below in key_ranges(self.slot, self.first - 1, self.last):
            while rows := batch.take(Keyspace.MESSAGES, at_least, below, _AT_ONCE):
                count += len(rows)
                size += sum(stored_packet_size(data) for _, data in rows)
        return count, size


def rows(view: View) -> Iterator[tuple[bytes, bytes]]:
    return view.range(Keyspace.UNPUBLISHED, b"", _END)


def remove_unpublished(batch: Batch) -> None:
    """What an earlier run has left, from the store and from the counts of its queue."""
    for key, data in list(rows(batch)):
        row = UnpublishedRow.decode(key, data)
        count, size = row.remove_messages(batch)
        stats = batch.get(Keyspace.STATS, slot_key(row.slot))
        if stats is not None:
            stored_count, stored_bytes = decode_stats(stats)
            left = encode_stats(stored_count - count, stored_bytes - size)
            batch.put(Keyspace.STATS, slot_key(row.slot), left)
        row.delete(batch)


def check_unpublished(view: View) -> Iterator[str]:
    """The problems of the rows."""
    for key, data in rows(view):
        try:
            UnpublishedRow.decode(key, data)
        except StoreDamagedError as damage:
            yield str(damage)


def _damaged(key: bytes, problem: str) -> StoreDamagedError:
    return StoreDamagedError(f"row {key.hex()} of unpublished messages", problem=problem)
