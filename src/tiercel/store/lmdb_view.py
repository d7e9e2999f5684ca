"""Reading from an LMDB transaction, through one cursor per keyspace.

A receive is one `first` and one `delete`, so this is the hot path of the store. A reused cursor finds the
next key on its current page and needs no keyword arguments: measured, 20 % faster than the transaction's
methods.
"""

from collections.abc import Iterator
from itertools import takewhile
from typing import Never

import lmdb

from tiercel.model.errors import StoreDamagedError, StoreFailedError
from tiercel.store.interface import Keyspace

Databases = dict[Keyspace, "lmdb._Database"]  # noqa: SLF001 -- the binding has no other name for it


class _Cursors(dict[Keyspace, "lmdb.Cursor[bytes]"]):
    """One per keyspace, created on first use: a batch needs few of them."""

    __slots__ = ("_databases", "_transaction")

    def __init__(self, transaction: "lmdb.Transaction[bytes]", databases: Databases) -> None:
        super().__init__()
        self._transaction = transaction
        self._databases = databases

    def __missing__(self, space: Keyspace) -> "lmdb.Cursor[bytes]":
        cursor = self[space] = self._transaction.cursor(self._databases[space])
        return cursor


class LmdbView:
    __slots__ = ("_cursors", "_databases", "_name", "_spent", "_transaction")

    def __init__(self, name: str, transaction: "lmdb.Transaction[bytes]", databases: Databases) -> None:
        self._name = name
        self._transaction = transaction
        self._databases = databases
        self._cursors = _Cursors(transaction, databases)
        self._spent = 0  # increases with every write; 0 in a view

    def get(self, space: Keyspace, key: bytes) -> bytes | None:
        try:
            return self._cursors[space].get(key)
        except lmdb.Error as error:
            self._explain(error)

    def first(self, space: Keyspace, at_least: bytes, below: bytes) -> tuple[bytes, bytes] | None:
        try:
            cursor = self._cursors[space]
            if not cursor.set_range(at_least):
                return None
            key = cursor.key()
            # Copy the value only after the test: it may have four megabytes.
            return (key, cursor.value()) if key < below else None
        except lmdb.Error as error:
            self._explain(error)

    def last(self, space: Keyspace, at_least: bytes, below: bytes) -> tuple[bytes, bytes] | None:
        try:
            cursor = self._cursors[space]
            if not (cursor.prev() if cursor.set_range(below) else cursor.last()):
                return None
            key = cursor.key()
            return (key, cursor.value()) if key >= at_least else None
        except lmdb.Error as error:
            self._explain(error)

    def range(self, space: Keyspace, at_least: bytes, below: bytes) -> Iterator[tuple[bytes, bytes]]:
        try:
            with self._transaction.cursor(self._databases[space]) as cursor:
                while cursor.set_range(at_least):
                    spent = self._spent
                    for key, value in cursor:
                        if key >= below:
                            return
                        yield key, value
                        if self._spent != spent:  # a write may have moved the cursor
                            break
                    else:
                        return
                    at_least = key + b"\0"
        except lmdb.Error as error:
            self._explain(error)

    def first_many(
        self, space: Keyspace, at_least: bytes, below: bytes, limit: int, size: int
    ) -> list[tuple[bytes, bytes]]:
        found: list[tuple[bytes, bytes]] = []
        try:
            cursor = self._cursors[space]
            if not cursor.set_range(at_least):
                return found
            for row in cursor:
                if row[0] >= below:
                    break
                found.append(row)
                size -= len(row[1])
                if size <= 0 or len(found) == limit:
                    break
        except lmdb.Error as error:
            self._explain(error)
        return found

    def keys(self, space: Keyspace, at_least: bytes, below: bytes) -> Iterator[bytes]:
        try:
            with self._transaction.cursor(self._databases[space]) as cursor:
                if cursor.set_range(at_least):
                    yield from takewhile(below.__gt__, cursor.iternext(keys=True, values=False))
        except lmdb.Error as error:
            self._explain(error)

    def count(self, space: Keyspace) -> int:
        try:
            return self._transaction.stat(self._databases[space])["entries"]
        except lmdb.Error as error:
            self._explain(error)

    def _explain(self, error: lmdb.Error) -> Never:
        if isinstance(error, lmdb.BadValsizeError):
            raise ValueError("a key of the store has 1 to 511 bytes") from error  # noqa: TRY004 -- a value
        if isinstance(error, lmdb.CorruptedError | lmdb.PageNotFoundError):
            raise StoreDamagedError(self._name, problem=f"a page cannot be read ({error})") from error
        raise StoreFailedError(self._name, problem=f"reading failed ({error})") from error


class SnapshotView(LmdbView):
    """A view for other processes: a keyspace that an older store lacks is empty."""

    __slots__ = ()

    def get(self, space: Keyspace, key: bytes) -> bytes | None:
        return super().get(space, key) if space in self._databases else None

    def first(self, space: Keyspace, at_least: bytes, below: bytes) -> tuple[bytes, bytes] | None:
        return super().first(space, at_least, below) if space in self._databases else None

    def last(self, space: Keyspace, at_least: bytes, below: bytes) -> tuple[bytes, bytes] | None:
        return super().last(space, at_least, below) if space in self._databases else None

    def range(self, space: Keyspace, at_least: bytes, below: bytes) -> Iterator[tuple[bytes, bytes]]:
        return super().range(space, at_least, below) if space in self._databases else iter(())

    def first_many(
        self, space: Keyspace, at_least: bytes, below: bytes, limit: int, size: int
    ) -> list[tuple[bytes, bytes]]:
        return super().first_many(space, at_least, below, limit, size) if space in self._databases else []

    def keys(self, space: Keyspace, at_least: bytes, below: bytes) -> Iterator[bytes]:
        return super().keys(space, at_least, below) if space in self._databases else iter(())

    def count(self, space: Keyspace) -> int:
        return super().count(space) if space in self._databases else 0
