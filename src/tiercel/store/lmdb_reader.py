"""Reading a store that another process writes, piece by piece.

A snapshot keeps its pages from being used again, so each piece has its own, which ends with the piece: a
reader that takes its time in between holds nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

import lmdb

from tiercel.store import lmdb_files
from tiercel.store.interface import Keyspace, View
from tiercel.store.lmdb_view import Databases, SnapshotView

Buffers = tuple[list[memoryview], list[memoryview]]


class LmdbReader:
    """One per process and store; LMDB allows no more."""

    def __init__(self, directory: Path) -> None:
        self.name = f"store {directory}"
        self._directory = directory
        self._environment = lmdb_files.open_to_read(directory)
        self._databases: Databases = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._environment.close()

    @contextmanager
    def snapshot(self) -> Iterator[View]:
        """The last committed state."""
        databases = {space: found for space in Keyspace if (found := self._database(space)) is not None}
        self._follow_the_writer()
        with self._environment.begin() as transaction:
            yield SnapshotView(self.name, transaction, databases)

    @contextmanager
    def piece(
        self, space: Keyspace, at_least: bytes, below: bytes, max_rows: int, max_bytes: int
    ) -> Iterator[Buffers]:
        """Keys and values from `at_least` on, at least one if there is any below `below`.

        They lie in the file itself, and are gone when the block ends.
        """
        keys: list[memoryview] = []
        values: list[memoryview] = []
        database = self._database(space)
        if database is None:
            yield keys, values
            return
        self._follow_the_writer()
        with self._environment.begin(buffers=True) as transaction, transaction.cursor(database) as cursor:
            rows = islice(cursor, max_rows) if cursor.set_range(at_least) else ()
            for key, value in rows:
                if max_bytes <= 0 or bytes(key) >= below:
                    break
                max_bytes -= len(value)
                keys.append(key)
                values.append(value)
            try:
                yield keys, values
            finally:
                keys.clear()
                values.clear()

    def _follow_the_writer(self) -> None:
        """Has the map as large as the writer's, which may have grown; nobody reads in between."""
        try:
            self._environment.begin().abort()
        except lmdb.MapResizedError:
            self._environment.set_mapsize(0)

    def _database(self, space: Keyspace) -> "lmdb._Database | None":
        known = self._databases.get(space)
        if known is None:
            try:
                known = self._environment.open_db(lmdb_files.database_name(space), create=False)
            except lmdb.NotFoundError:  # a store that no writer of this version has opened
                return None
            self._databases[space] = known
        return known
