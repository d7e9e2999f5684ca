"""Bulk changes: what is to be done and how far it has come, what was done, and which messages it took.

key                     value
operation number, 0     JSON: kind, queue, who, when, state, counts, the request, and where it goes on
operation number, n     the lookup ids of the messages of one commit, 8 bytes each

Messages that are deleted go to the subqueue `;trash` of their queue and keep their lookup id, which nobody
else gets, so undoing puts them back into their old place. Of a message that is moved to another queue, a
`Moved` says where it was, where it is now, and what it was if it was a copy.
"""

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from tiercel.engine.core import Core
from tiercel.store.interface import Keyspace, View

MAX_OPERATIONS: Final = 1000
_KEY: Final = struct.Struct(">QI")
_ID_SIZE: Final = 8
_MOVED: Final = struct.Struct(">QQIIIH?x")


class OperationState(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    FAILED = "failed"  # the note says why; it can be resumed
    FINISHED = "finished"  # and cannot be undone
    CANCELLED = "cancelled"
    DONE = "done"  # and can be undone
    UNDONE = "undone"
    OVER = "over"  # the trash was emptied: it cannot be undone any more


class Moved(NamedTuple):
    """A message that was moved, and what it takes to undo that."""

    place: int  # the lookup id that it had
    lookup_id: int  # the one that it has now
    slot: int  # of the queue that it is in now
    sent_time: int  # what follows is changed when a copy becomes a message again
    abort_count: int
    reason: int
    is_copy: bool


@dataclass(slots=True)
class OperationRow:
    number: int
    kind: str
    queue: str  # path name
    who: str
    time: int
    state: OperationState = OperationState.DONE
    count: int = 0
    size_bytes: int = 0
    restored: int = 0
    parts: int = 0
    note: str = ""
    request: dict[str, Any] = field(default_factory=dict)  # of one that runs in the background
    next: int = -1  # the lookup id behind which it goes on
    looked: int = 0  # messages that it has passed
    total: int = 0  # messages there were at its start

    @property
    def is_unfinished(self) -> bool:
        return self.state in _UNFINISHED


_UNFINISHED: Final = frozenset({OperationState.RUNNING, OperationState.PAUSED, OperationState.FAILED})
_KEPT: Final = _UNFINISHED | {OperationState.DONE}  # their messages or their work are still to come


class Operations:
    def __init__(self, core: Core) -> None:
        self._core = core
        self.changes = 0  # since the start, for those who watch

    def begin(self, kind: str, queue: str, who: str, note: str = "") -> OperationRow:
        newest = self._core.batch.last(Keyspace.OPERATIONS, b"\0", b"\xff" * 12)
        number = 1 if newest is None else _KEY.unpack(newest[0])[0] + 1
        row = OperationRow(number, kind, queue, who, self._core.seconds, note=note)
        self.save(row)
        return row

    def save(self, row: OperationRow) -> None:
        self.changes += 1
        self._core.batch.put(Keyspace.OPERATIONS, _KEY.pack(row.number, 0), json.dumps(asdict(row)).encode())

    def add(self, row: OperationRow, lookup_ids: Sequence[int], size_bytes: int) -> None:
        """Remembers the messages that the operation takes in this commit."""
        row.count += len(lookup_ids)
        row.size_bytes += size_bytes
        self._remember(row, b"".join(each.to_bytes(_ID_SIZE, "big") for each in lookup_ids))

    def add_moved(self, row: OperationRow, moved: Sequence[Moved]) -> None:
        """The same for messages that are in another queue now."""
        self._remember(row, b"".join(_MOVED.pack(*each) for each in moved))

    def _remember(self, row: OperationRow, packed: bytes) -> None:
        row.parts += 1
        self._core.batch.put(Keyspace.OPERATIONS, _KEY.pack(row.number, row.parts), packed)
        self.save(row)

    def get(self, number: int) -> OperationRow | None:
        data = self._core.batch.get(Keyspace.OPERATIONS, _KEY.pack(number, 0)) if number < 1 << 64 else None
        return None if data is None else _decode(data)

    def part(self, row: OperationRow, part: int) -> list[int]:
        """The lookup ids of one commit; parts count from 1."""
        data = self._part(row, part)
        return [int.from_bytes(data[at : at + _ID_SIZE], "big") for at in range(0, len(data), _ID_SIZE)]

    def moved_part(self, row: OperationRow, part: int) -> list[Moved]:
        """What `add_moved` has kept."""
        return [Moved(*values) for values in _MOVED.iter_unpack(self._part(row, part))]

    def _part(self, row: OperationRow, part: int) -> bytes:
        return self._core.batch.get(Keyspace.OPERATIONS, _KEY.pack(row.number, part)) or b""

    def all(self) -> list[OperationRow]:
        """Newest first."""
        return list(rows(self._core.batch))[::-1]

    @property
    def has_open(self) -> bool:
        """Whether there is work to go on with, or messages in the trash that somebody has to end."""
        open_ = {OperationState.DONE, OperationState.RUNNING}
        return any(row.state in open_ for row in rows(self._core.batch))

    def close(self, row: OperationRow, state: OperationState) -> None:
        """Ends the operation; its list of messages is not needed any more."""
        for part in range(1, row.parts + 1):
            self._core.batch.delete(Keyspace.OPERATIONS, _KEY.pack(row.number, part))
        row.state, row.parts = state, 0
        self.save(row)

    def forget_oldest(self) -> None:
        """Those that are closed, above the number that is kept."""
        found = list(rows(self._core.batch))
        for row in found[: max(0, len(found) - MAX_OPERATIONS)]:
            if row.state not in _KEPT:
                self._core.batch.delete(Keyspace.OPERATIONS, _KEY.pack(row.number, 0))


def rows(view: View) -> Iterator[OperationRow]:
    """Oldest first."""
    for key, data in view.range(Keyspace.OPERATIONS, b"\0", b"\xff" * 12):
        if len(key) == _KEY.size and _KEY.unpack(key)[1] == 0:
            yield _decode(data)


def _decode(data: bytes) -> OperationRow:
    values = json.loads(data)
    return OperationRow(**{**values, "state": OperationState(values["state"])})
