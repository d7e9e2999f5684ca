"""Lines that are numbered in order, as those of the audit and of the discard ledger: the newest first."""

from collections.abc import Iterator
from typing import Final

from tiercel.store.interface import Keyspace, View

FIRST: Final = bytes(8)
LAST: Final = b"\xff" * 8


def newest(view: View, space: Keyspace, before: int | None, limit: int) -> Iterator[tuple[int, bytes]]:
    """The lines below a number, at most `limit`, each with its number."""
    below = LAST + b"\0" if before is None else before.to_bytes(8, "big")
    for _ in range(limit):
        found = view.last(space, FIRST, below)
        if found is None:
            return
        below, data = found
        yield int.from_bytes(below, "big"), data
