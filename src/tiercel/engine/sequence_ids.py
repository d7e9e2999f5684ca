"""The ids of our outgoing sequences: [MS-MQQB] 3.1.1.3.1, [MS-MQMQ] 2.2.18.1.2.

An id is a TimeStamp, in the high half, and an ordinal. It is larger than every id before it, or receivers
would drop the messages as duplicates (MQQB-151). It is hard to guess, because an acknowledgement has to name
it: the first ordinal of a TimeStamp is random. Every start takes a new TimeStamp, so a restored store does
not repeat the ids used since its backup.
"""

from typing import Final

from tiercel.engine.core import Core
from tiercel.store.interface import Keyspace

_TIMESTAMP: Final = b"tx_timestamp"  # in Keyspace.META; the newest one in use
_FIRST_ORDINALS: Final = 2**31  # half of all ordinals, so that at least as many follow
_LAST_ORDINAL: Final = 2**32 - 1


class SequenceIds:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._timestamp = 0
        self._first = self._ordinal = 0

    def next(self) -> int:
        """A new id (MQQB-133); the store remembers its TimeStamp with the batch."""
        if not self._timestamp or self._ordinal == _LAST_ORDINAL:
            self._begin_timestamp()
        else:
            self._ordinal += 1
        return self._timestamp << 32 | self._ordinal

    def was_given(self, sequence: int) -> bool:
        """Whether the id was given out since the start: an acknowledgement of it may simply be late."""
        timestamp, ordinal = divmod(sequence, 2**32)
        return timestamp == self._timestamp and self._first <= ordinal <= self._ordinal

    def _begin_timestamp(self) -> None:
        stored = int.from_bytes(self._core.batch.get(Keyspace.META, _TIMESTAMP) or b"", "big")
        self._timestamp = max(stored + 1, self._core.seconds & 0xFFFF_FFFF)
        self._core.batch.put(Keyspace.META, _TIMESTAMP, self._timestamp.to_bytes(8, "big"))
        self._first = self._ordinal = 1 + self._core.new_guid().int % (_FIRST_ORDINALS - 1)
