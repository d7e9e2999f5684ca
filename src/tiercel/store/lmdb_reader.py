"""Reading an LMDB store that another process writes.

A snapshot keeps its pages from being reused, so each piece has a snapshot of its own that ends with the
piece: a slow reader holds nothing between pieces.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

import lmdb

from tiercel.model.errors import MqError, StoreDamagedError, StoreFailedError, StoreInUseError
from tiercel.store import lmdb_files
from tiercel.store.interface import Buffers, Keyspace, View
from tiercel.store.lmdb_view import Databases, SnapshotView


class LmdbReader:
    """At most one per process and store: an LMDB restriction."""

    def __init__(self, directory: Path, *, alone: bool) -> None:
        """Open for reading; with `alone`, no other process may have the store open."""
        self.name = f"store {directory}"
        self._databases: Databases = {}
        lmdb_files.prepare(directory, create=False)
        try:
            self._environment = lmdb_files.open_to_read(directory, lock=not alone)
        except (OSError, lmdb.Error) as error:
            raise self._cannot_read(error) from error
        try:
            lmdb_files.check_readable(directory, self._environment)
        except BaseException:
            self._environment.close()
            raise

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
        try:
            databases = {space: found for space in Keyspace if (found := self._database(space)) is not None}
            self._follow_the_writer()
            transaction = self._environment.begin()
        except lmdb.Error as error:
            raise self._cannot_read(error) from error
        with transaction:
            yield SnapshotView(self.name, transaction, databases)

    @contextmanager
    def piece(
        self, space: Keyspace, at_least: bytes, below: bytes, max_rows: int, max_bytes: int
    ) -> Iterator[Buffers]:
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
        """Grow the map to the size of the writer's; no transaction of this process is open."""
        try:
            self._environment.begin().abort()
        except lmdb.MapResizedError:
            self._environment.set_mapsize(0)

    def _database(self, space: Keyspace) -> "lmdb._Database | None":
        known = self._databases.get(space)
        if known is None:
            try:
                known = self._environment.open_db(lmdb_files.database_name(space), create=False)
            except lmdb.NotFoundError:  # an older version wrote the store
                return None
            self._databases[space] = known
        return known

    def _cannot_read(self, error: Exception) -> MqError:
        if "already open" in str(error):
            fix = "use the snapshot() of the store that is open"
            return StoreInUseError(self.name, present=f"process {os.getpid()}", fix=fix)
        kind = StoreDamagedError if isinstance(error, lmdb.InvalidError) else StoreFailedError
        return kind(self.name, problem=f"it cannot be read ({error})")
