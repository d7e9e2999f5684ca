"""The store on disk: one LMDB environment, one named database per keyspace, synced at every commit.

**Room.** A write transaction that reaches the end of LMDB's map is lost, and a commit on a full disk is
fatal. `reserve` detects both in advance. The store keeps one number, `room`: bytes that are certain to fit.
Every write subtracts a generous estimate; every commit recomputes it from the unused end of the file. When it
no longer covers a send and the reserve, there are three steps, each more expensive than the one before:

1. the file is allocated further ahead (`DataFile.grow`), up to the limit;
2. a trial in a nested transaction fills pages until the room is proven, and is aborted: this finds the pages
   inside the file that receiving has freed, which LMDB does not report otherwise;
3. `StoreFullError`.

When the disk refuses more blocks, LMDB's map ends at the allocated size from the next batch on: then a full
disk is a full map, and the trial is exact again.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Never, Self

import lmdb

from tiercel.model.errors import StoreFailedError, StoreFullError
from tiercel.store import lmdb_files, lmdb_pages
from tiercel.store.data_file import DataFile, disk_size
from tiercel.store.directory_lock import DirectoryLock
from tiercel.store.interface import DEFAULT_MAX_BYTES, MIN_MAX_BYTES, Keyspace, Space, View
from tiercel.store.lmdb_view import Databases, LmdbView

# Estimated room per batch and write. A write copies its leaf page; a batch copies the paths from the roots
# and lists the freed pages. The reserve covers what random keys copy above the leaves.
_WRITE_COST: Final = 4096
_BATCH_COST: Final = 64 * 1024
_TURN_KEY: Final = b"turn"  # in Keyspace.META; the value has no meaning


class LmdbStore:
    """The writer, opened with `LmdbStore.open`; other processes read with `LmdbReader`."""

    def __init__(self, directory: Path, lock: DirectoryLock, max_bytes: int) -> None:
        self.name = f"store {directory}"
        self._lock = lock
        self._failure: str | None = None
        self._batch: LmdbBatch | None = None
        self._snapshots = 0
        self._closed = False
        path = directory / lmdb_files.DATA_NAME
        self.reserve_bytes = _reserve_bytes(min(max_bytes, disk_size(path)))
        # Even with a limit below the used size there must be room to receive and to add a keyspace.
        widest = max(max_bytes, path.stat().st_size) + 2 * self.reserve_bytes
        self._environment = lmdb_files.open_to_write(directory, widest)
        try:
            self._databases = _open_databases(self._environment)
            self.page_size = self._environment.stat()["psize"]
            limit = max(max_bytes, self._used() + 2 * self.reserve_bytes)
            self._file = DataFile(path, self._used(), limit, self.reserve_bytes)
        except BaseException:
            self._environment.close()
            raise
        self._environment.reader_check()
        self._mapped = widest  # the size last set
        self.refusal, self.refusals = "", 0
        self._room = self._file.allocated - self._used()
        self._refused = False  # a send was refused in the last batch
        self._was_full = False  # no send was accepted since one was refused
        self._last_spent = 0  # estimated size of the last commit
        self._turned_at = 0  # transaction number of the last commit by `_turn_the_page`

    @classmethod
    def open(cls, directory: Path, *, max_bytes: int = DEFAULT_MAX_BYTES, create: bool = True) -> Self:
        """Open the store in a directory; see `open_store`.

        Raises `StoreInUseError`, `StoreVersionError`, `StoreDamagedError`, or `StoreFailedError`.
        """
        if max_bytes < MIN_MAX_BYTES:
            raise ValueError(f"max_bytes: {max_bytes} is below {MIN_MAX_BYTES}")
        directory = Path(directory)
        try:
            lmdb_files.prepare(directory, create=create)
            lmdb_files.check_private(directory)
            lock = DirectoryLock(directory)
            try:
                return cls._open_locked(directory, lock, max_bytes)
            except BaseException:
                lock.release()
                raise
        except (OSError, lmdb.Error) as error:
            raise StoreFailedError(
                f"store {directory}",
                problem=f"it cannot be opened ({error})",
                fix="fix the cause, then try again",
            ) from error

    @classmethod
    def _open_locked(cls, directory: Path, lock: DirectoryLock, max_bytes: int) -> Self:
        if not (directory / lmdb_files.DATA_NAME).exists():
            lmdb_files.make(directory)
        lmdb_files.check(directory)
        lock.sign()
        return cls(directory, lock, max_bytes)

    @staticmethod
    def verify(directory: Path) -> list[str]:
        """Describe the damaged pages of a store that no process has open."""
        directory = Path(directory)
        lmdb_files.prepare(directory, create=False)
        lock = DirectoryLock(directory)
        try:
            return lmdb_pages.problems(directory / lmdb_files.DATA_NAME)
        finally:
            lock.release()

    def begin(self) -> "LmdbBatch":
        self.raise_if_failed()
        if self._batch is not None:
            raise RuntimeError(f"{self.name}: a batch is open; commit or abort it first")
        try:
            self._follow_the_disk()
            self._turn_the_page()
            self._refused = False
            transaction = self._environment.begin(write=True)
        except lmdb.Error as error:
            self.fail(f"no batch can be started ({error})", error)
        self._batch = LmdbBatch(self, transaction, self._databases)
        return self._batch

    @contextmanager
    def snapshot(self) -> Iterator[View]:
        self.raise_if_failed()
        self._snapshots += 1
        try:
            with self._environment.begin() as transaction:
                yield LmdbView(self.name, transaction, self._databases)
        finally:
            self._snapshots -= 1

    def close(self) -> None:
        if self._batch is not None:
            self._batch.abort()
        if not self._closed:
            self._closed = True
            self._failure = self._failure or "it was closed"
            self._environment.close()
            self._file.close()
            self._lock.release()

    # For the batch

    @property
    def room(self) -> int:
        return self._room

    def ended(self) -> None:
        self._batch = None

    def committed(self, spent: int) -> None:
        self._last_spent = spent
        used, before = self._used(), self._file.allocated
        self._file.keep_ahead(used)
        if self._file.allocated > before:
            self.forget_dead_readers()
        self._room = max(self._room - spent, self._file.allocated - used)

    def fail(self, problem: str, error: Exception) -> Never:
        """Refuse every further call: only a restart shows what reached the disk."""
        self._failure = problem
        raise StoreFailedError(self.name, problem=problem) from error

    def raise_if_failed(self) -> None:
        if self._failure is not None:
            raise StoreFailedError(self.name, problem=self._failure)

    def extend(self, missing: int) -> bool:
        """Allocate `missing` more bytes at the end of the file; False if the limit or the disk forbids it."""
        if self._file.refusal is not None:
            return False  # retried in the next batch: a refusal can take the disk a while
        self.forget_dead_readers()
        before = self._file.allocated
        self._file.grow(before + missing)
        gained = self._file.allocated - before
        self._room += gained
        return gained >= missing

    def can_prove(self) -> bool:
        """Whether LMDB's map ends with the file, so that a trial proves only room that the disk has."""
        return self._environment.info()["map_size"] <= self._file.allocated

    def forget_dead_readers(self) -> None:
        """A killed reader keeps its pages from being reused, and the file would grow needlessly."""
        self._environment.reader_check()

    def begin_trial(self, batch: "lmdb.Transaction[bytes]") -> "lmdb.Transaction[bytes]":
        return self._environment.begin(write=True, parent=batch)

    def proven(self, room: int) -> None:
        self._was_full = False
        self._room = max(self._room, room)

    def full(self) -> StoreFullError:
        self._refused = self._was_full = True
        present = _mebibytes(self._used())
        limit = _mebibytes(self._file.allocated)
        refusal = self._file.refusal
        if refusal is None:
            problem, fix = "the store has reached its limit", "receive or purge messages, or raise the limit"
        else:
            problem = f"the disk has no more space ({os.strerror(refusal.errno or 0)})"
            fix = "free disk space, or receive or purge messages"
        self.refusal, self.refusals = f"{problem}; {fix}", self.refusals + 1
        return StoreFullError(self.name, problem=problem, present=present, limit=limit, fix=fix)

    def space(self) -> Space:
        return Space(self._used(), self._file.limit, self._file.disk_free)

    def _used(self) -> int:
        return lmdb_files.used_bytes(self._environment, self.page_size)

    def _follow_the_disk(self) -> None:
        """End LMDB's map at the limit, or at the allocated size while the disk is full."""
        if self._refused and self._file.refusal is not None:
            self._file.grow_after_refusal()
        self._map_to(self._file.limit if self._file.refusal is None else self._file.allocated)

    def _turn_the_page(self) -> None:
        """Commit an almost empty transaction, if a send may need the pages that the last commit freed.

        LMDB reuses them in the second transaction after that. If every send is refused there is no such
        transaction, and the store would stay full after it was emptied.
        """
        if not (self._refused or (self._was_full and self._last_spent > self.reserve_bytes // 4)):
            return
        if self._turned_at == self._environment.info()["last_txnid"]:
            return
        with self._environment.begin(write=True) as transaction:
            transaction.put(_TURN_KEY, b"", db=self._databases[Keyspace.META])
        self._turned_at = self._environment.info()["last_txnid"]

    def _map_to(self, size: int) -> None:
        # A snapshot of this process would lose its map, so trials wait for its end.
        if size != self._mapped and not self._snapshots:
            self._environment.set_mapsize(size)
            self._mapped = size


def _reserve_bytes(capacity: int) -> int:
    """What senders leave for receiving, in a store or on a disk of `capacity` bytes."""
    return min(max(capacity // 16, 128 * 1024), 32 * 2**20)


class LmdbBatch(LmdbView):
    __slots__ = ("_ended", "_full", "_store")

    def __init__(
        self, store: LmdbStore, transaction: "lmdb.Transaction[bytes]", databases: Databases
    ) -> None:
        super().__init__(store.name, transaction, databases)
        self._store = store
        self._spent = _BATCH_COST
        self._ended = False
        self._full = False

    def put(self, space: Keyspace, key: bytes, value: bytes) -> None:
        self._spent += len(value) + _WRITE_COST
        try:
            self._cursors[space].put(key, value)
        except lmdb.Error as error:
            self._explain(error)

    def put_many(self, space: Keyspace, records: Sequence[tuple[bytes, bytes]]) -> None:
        self._spent += sum([len(value) for _, value in records]) + len(records) * _WRITE_COST
        try:
            self._cursors[space].putmulti(records)
        except lmdb.Error as error:
            self._explain(error)

    def delete(self, space: Keyspace, key: bytes) -> bool:
        self._spent += _WRITE_COST
        try:
            cursor = self._cursors[space]
            return cursor.set_key(key) and cursor.delete()
        except lmdb.Error as error:
            self._explain(error)

    def delete_many(self, space: Keyspace, keys: Iterable[bytes]) -> None:
        try:
            cursor = self._cursors[space]
            current, find, delete = cursor.key, cursor.set_key, cursor.delete
            for key in keys:
                self._spent += _WRITE_COST
                if current() == key or find(key):  # a delete leads to the neighbour, which is mostly the next
                    delete()
        except lmdb.Error as error:
            self._explain(error)

    def take(self, space: Keyspace, at_least: bytes, below: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        taken: list[tuple[bytes, bytes]] = []
        try:
            cursor = self._cursors[space]
            key = cursor.key() if cursor.set_range(at_least) else b""
            while key and key < below and len(taken) < limit:
                taken.append((key, cursor.value()))
                cursor.delete()
                key = cursor.key()  # of the next record; empty at the end
        except lmdb.Error as error:
            self._explain(error)
        self._spent += len(taken) * _WRITE_COST
        return taken

    def reserve(self, size: int, writes: int = 1) -> None:
        size += (writes - 1) * _WRITE_COST
        need = self._spent + size + self._store.reserve_bytes
        if need > self._store.room:
            self._find_room(size, self._store.reserve_bytes)

    def has_room(self, size: int) -> bool:
        return self._spent + size + self._store.reserve_bytes <= self._store.room

    def reserve_to_move(self, count: int, size: int) -> None:
        kept, size = self._store.reserve_bytes // 2, size + 2 * count * _WRITE_COST
        if self._spent + size + kept > self._store.room:
            self._find_room(size, kept)

    def commit(self) -> None:
        if self._ended:
            self._refuse()
        spent = self._spent
        if spent == _BATCH_COST:  # read only
            self.abort()
            return
        missing = spent - self._store.room
        if missing > 0:  # not reserved; if the disk refuses, free pages inside the file may suffice
            self._store.extend(missing)
        self._end()
        try:
            self._transaction.commit()
        except lmdb.Error as error:
            self._store.fail(f"a commit failed ({error})", error)
        self._store.committed(spent)

    def abort(self) -> None:
        if not self._ended:
            self._end()
            self._transaction.abort()

    def _end(self) -> None:
        self._ended = True
        self._spent = 2**63  # more than any room, so that `reserve` needs no check of its own
        self._store.ended()

    def _find_room(self, size: int, kept: int) -> None:
        """Find room for `size` bytes plus the `kept` reserve, or raise."""
        store = self._store
        if self._ended:
            self._refuse()
        if store.extend(self._spent + size + kept - store.room):
            return
        if not store.can_prove():
            raise store.full()
        store.forget_dead_readers()
        room = self._measure_room(size, store.reserve_bytes + store.reserve_bytes // 4)
        if room < kept:
            raise store.full()
        store.proven(self._spent + size + room)

    def _measure_room(self, size: int, enough: int) -> int:
        """How many bytes of single pages fit in addition to a record of `size` bytes; at most `enough`.

        More than required, so that the next sends need no trial.
        """
        page_size = self._store.page_size
        page = bytes(page_size - 16)  # with its header exactly one page
        trial = self._store.begin_trial(self._transaction)
        pages = 0
        try:
            put = trial.cursor(self._databases[Keyspace.META]).put
            put(b"\xfftrial", bytes(size))
            for pages in range(enough // page_size):
                put(b"\xfftrial%8d" % pages, page)
        except lmdb.Error:  # the map or the transaction is full
            pass
        finally:
            trial.abort()  # the batch itself is unchanged
        return pages * page_size

    def _refuse(self) -> Never:
        self._store.raise_if_failed()
        raise RuntimeError(f"{self._name}: this batch has ended")

    def _explain(self, error: lmdb.Error) -> Never:
        if self._ended:
            self._refuse()
        self._full = self._full or isinstance(error, lmdb.MapFullError | lmdb.TxnFullError)
        if self._full:  # LMDB accepts only an abort now
            raise self._store.full() from error
        super()._explain(error)


def _open_databases(environment: lmdb.Environment) -> Databases:
    with environment.begin(write=True) as transaction:
        databases = {
            space: environment.open_db(lmdb_files.database_name(space), txn=transaction) for space in Keyspace
        }
        lmdb_files.raise_format(transaction, databases[Keyspace.META])
        return databases


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
