"""Who changed what: one line for each change, written in the commit of the change.

Each line holds the SHA-256 of the line before it, and the newest digest is kept beside the lines. A line that
somebody changes, removes or adds with other means breaks the chain, which `tiercel check` follows. The oldest
lines make room for new ones; the chain then begins at the first line that is left.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from tiercel.engine.core import Core
from tiercel.engine.numbered_lines import FIRST, LAST, newest
from tiercel.model.errors import StoreFullError
from tiercel.store.interface import Keyspace, View

MAX_LINES: Final = 50_000  # about 15 MiB
_LINES_WHEN_FULL: Final = 32  # which there may be in any case
_HEAD: Final = b"audit"  # in META: the number and the digest of the newest line
_NOTHING: Final = hashlib.sha256(b"").digest()


class AuditLine(NamedTuple):
    number: int
    values: dict[str, Any]


class Audit:
    def __init__(self, core: Core) -> None:
        self._core = core

    def add(self, values: Mapping[str, object]) -> None:
        """Writes a line with the batch that makes the change."""
        batch = self._core.batch
        number, digest = _head(batch)
        line = {"time": self._core.seconds, **values, "previous": digest.hex()}
        data = json.dumps(line, default=str).encode()
        self._make_room(len(data))
        number += 1
        batch.put(Keyspace.AUDIT, number.to_bytes(8, "big"), data)
        batch.put(Keyspace.META, _HEAD, number.to_bytes(8, "big") + hashlib.sha256(data).digest())

    @property
    def last(self) -> int:
        """The number of the newest line."""
        return _head(self._core.batch)[0]

    def _make_room(self, size: int) -> None:
        """In a full store a line replaces old ones: emptying the store must stay possible."""
        batch = self._core.batch
        try:
            batch.reserve(size)
            size = 0
        except StoreFullError:
            pass
        while (size > 0 and batch.count(Keyspace.AUDIT) > _LINES_WHEN_FULL) or (
            batch.count(Keyspace.AUDIT) >= MAX_LINES
        ):
            oldest = batch.first(Keyspace.AUDIT, FIRST, LAST)
            assert oldest is not None
            batch.delete(Keyspace.AUDIT, oldest[0])
            size -= len(oldest[1])

    def newest(self, before: int | None, limit: int) -> Iterator[AuditLine]:
        """Lines below a number, the newest first."""
        for number, data in newest(self._core.batch, Keyspace.AUDIT, before, limit):
            yield AuditLine(number, _decoded(data))


def broken_links(view: View) -> Iterator[str]:
    """What is wrong with the chain, in sentences; nothing if it is whole."""
    expected: tuple[int, str] | None = None
    digest = _NOTHING
    number = 0
    for key, data in view.range(Keyspace.AUDIT, FIRST, LAST + b"\0"):
        number = int.from_bytes(key, "big")
        line = _decoded(data)
        if expected is not None and number != expected[0]:
            yield f"lines {expected[0]} to {number - 1} are missing"
        elif expected is not None and line.get("previous") != expected[1]:
            yield f"line {number} does not follow line {number - 1}: one of them was changed"
        digest = hashlib.sha256(data).digest()
        expected = number + 1, digest.hex()
    if _head(view) != (number, digest):
        yield f"the newest line is not the one that was written last (line {_head(view)[0]})"


def _head(view: View) -> tuple[int, bytes]:
    data = view.get(Keyspace.META, _HEAD)
    if data is None or len(data) != 8 + len(_NOTHING):
        return 0, _NOTHING
    return int.from_bytes(data[:8], "big"), data[8:]


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        line = json.loads(data)
    except ValueError:
        line = None
    return line if isinstance(line, dict) else {"what": "this line is damaged"}
