"""A store in memory, with injected faults: for the simulator, for tests, and for `memory:`.

It behaves like `LmdbStore`; the same tests run on both. A batch writes in place and remembers the old values,
so that an abort or a crash restores the last commit.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from itertools import islice

from sortedcontainers import SortedDict

from tiercel.model.errors import StoreFailedError, StoreFullError
from tiercel.store import interface
from tiercel.store.interface import MAX_KEY_SIZE, Keyspace, View

Space = SortedDict[bytes, bytes]

_RESERVE = 64 * 1024  # bytes; receiving needs none here, but behaves as on disk


class Write(StrEnum):
    """The events of the fault hook, which is called before they happen."""

    PUT = "put"
    DELETE = "delete"
    COMMIT = "commit"


class Crash(Exception):  # noqa: N818 -- a power cut, not one of our errors
    """Raised by a fault hook: the machine stops. `store.crash()` gives the store after the restart.

    At a commit, `kept` means that the data reached the disk before the crash.
    """

    def __init__(self, *, kept: bool = False) -> None:
        super().__init__(kept)
        self.kept = kept


class CommitFails(Exception):  # noqa: N818 -- the same
    """Raised by a fault hook at a commit: the disk reports an error after writing everything or nothing."""

    def __init__(self, *, kept: bool = False) -> None:
        super().__init__(kept)
        self.kept = kept


Faults = Callable[[Write, int], None]


class MemoryStore:
    """`faults` is called before every put, delete and commit with a number that counts them from 1."""

    name = "store in memory"

    def __init__(
        self,
        contents: Mapping[Keyspace, Mapping[bytes, bytes]] | None = None,
        *,
        max_bytes: int | None = None,
        faults: Faults | None = None,
    ) -> None:
        self.spaces: dict[Keyspace, Space] = {
            space: SortedDict((contents or {}).get(space, {})) for space in Keyspace
        }
        self.max_bytes = max_bytes
        self.faults = faults
        self.writes = 0
        self.size = sum(_cost(key, value) for space in self.spaces.values() for key, value in space.items())
        self._failure: str | None = None
        self._batch: MemoryBatch | None = None
        self.refusal, self.refusals = "", 0

    def space(self) -> interface.Space:
        return interface.Space(self.size, self.max_bytes, None)

    def begin(self) -> "MemoryBatch":
        self.raise_if_failed()
        if self._batch is not None:
            raise RuntimeError(f"{self.name}: a batch is open; commit or abort it first")
        self._batch = MemoryBatch(self)
        return self._batch

    @contextmanager
    def snapshot(self) -> Iterator[View]:
        self.raise_if_failed()
        yield MemoryView(self._committed())

    def forget_dead_readers(self) -> None:
        """No other process can read it."""

    def close(self) -> None:
        if self._batch is not None:
            self._batch.abort()
        self._failure = self._failure or "it was closed"

    def crash(self) -> "MemoryStore":
        """The store after a restart: the last commit, without faults. This object is unusable then."""
        contents = self._committed()
        self._batch = None
        self._failure = "the machine has stopped"
        return MemoryStore(contents, max_bytes=self.max_bytes)

    def _committed(self) -> dict[Keyspace, Space]:
        copy = {space: SortedDict(records) for space, records in self.spaces.items()}
        if self._batch is not None:
            self._batch.undo(copy)
        return copy

    # For the batch

    def meet_fault(self, write: Write) -> None:
        self.writes += 1
        if self.faults is not None:
            self.faults(write, self.writes)

    def ended(self) -> None:
        self._batch = None

    def fail(self, problem: str) -> StoreFailedError:
        self._failure = problem
        return StoreFailedError(self.name, problem=problem)

    def raise_if_failed(self) -> None:
        if self._failure is not None:
            raise StoreFailedError(self.name, problem=self._failure)


class MemoryView:
    def __init__(self, spaces: dict[Keyspace, Space]) -> None:
        self._spaces = spaces

    def get(self, space: Keyspace, key: bytes) -> bytes | None:
        _refuse_empty(key)
        return self._spaces[space].get(key)

    def first(self, space: Keyspace, at_least: bytes, below: bytes) -> tuple[bytes, bytes] | None:
        records = self._spaces[space]
        position = records.bisect_left(at_least)
        if position == len(records):
            return None
        key, value = records.peekitem(position)
        return (key, value) if key < below else None

    def last(self, space: Keyspace, at_least: bytes, below: bytes) -> tuple[bytes, bytes] | None:
        records = self._spaces[space]
        position = records.bisect_left(below)
        if position == 0:
            return None
        key, value = records.peekitem(position - 1)
        return (key, value) if key >= at_least else None

    def range(self, space: Keyspace, at_least: bytes, below: bytes) -> Iterator[tuple[bytes, bytes]]:
        while (found := self.first(space, at_least, below)) is not None:
            yield found
            at_least = found[0] + b"\0"

    def first_many(
        self, space: Keyspace, at_least: bytes, below: bytes, limit: int, size: int
    ) -> list[tuple[bytes, bytes]]:
        found: list[tuple[bytes, bytes]] = []
        for row in self.range(space, at_least, below):
            found.append(row)
            size -= len(row[1])
            if size <= 0 or len(found) == limit:
                break
        return found

    def keys(self, space: Keyspace, at_least: bytes, below: bytes) -> Iterator[bytes]:
        return (key for key, _ in self.range(space, at_least, below))

    def count(self, space: Keyspace) -> int:
        return len(self._spaces[space])


class MemoryBatch(MemoryView):
    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store.spaces)
        self._store = store
        self._before: dict[tuple[Keyspace, bytes], bytes | None] = {}
        self._size_before = store.size
        self._ended = False

    def get(self, space: Keyspace, key: bytes) -> bytes | None:
        self._raise_if_ended()
        return super().get(space, key)

    def first(self, space: Keyspace, at_least: bytes, below: bytes) -> tuple[bytes, bytes] | None:
        self._raise_if_ended()
        return super().first(space, at_least, below)

    def last(self, space: Keyspace, at_least: bytes, below: bytes) -> tuple[bytes, bytes] | None:
        self._raise_if_ended()
        return super().last(space, at_least, below)

    def count(self, space: Keyspace) -> int:
        self._raise_if_ended()
        return super().count(space)

    def put(self, space: Keyspace, key: bytes, value: bytes) -> None:
        self._raise_if_ended()
        if not 0 < len(key) <= MAX_KEY_SIZE:
            raise ValueError("a key of the store has 1 to 511 bytes")
        self._store.meet_fault(Write.PUT)
        self._remember(space, key)
        self._spaces[space][bytes(key)] = bytes(value)
        self._store.size += _cost(key, value)

    def put_many(self, space: Keyspace, records: Sequence[tuple[bytes, bytes]]) -> None:
        for key, value in records:
            self.put(space, key, value)

    def delete(self, space: Keyspace, key: bytes) -> bool:
        self._raise_if_ended()
        _refuse_empty(key)
        self._store.meet_fault(Write.DELETE)
        if key not in self._spaces[space]:
            return False
        self._remember(space, key)
        del self._spaces[space][key]
        return True

    def delete_many(self, space: Keyspace, keys: Iterable[bytes]) -> None:
        for key in keys:
            self.delete(space, key)

    def take(self, space: Keyspace, at_least: bytes, below: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        taken = list(islice(self.range(space, at_least, below), limit))
        for key, _ in taken:
            self.delete(space, key)
        return taken

    def reserve(self, size: int, writes: int = 1) -> None:
        self._reserve(size + (writes - 1) * _cost(b"", b""), _RESERVE)

    def has_room(self, size: int) -> bool:
        self._raise_if_ended()
        limit = self._store.max_bytes
        return limit is None or self._store.size + size + _RESERVE <= limit

    def reserve_to_move(self, count: int, size: int) -> None:
        self._reserve(size + count * _cost(b"", b""), _RESERVE // 2)

    def _reserve(self, size: int, kept: int) -> None:
        self._raise_if_ended()
        store = self._store
        if store.max_bytes is not None and store.size + size + kept > store.max_bytes:
            store.refusal, store.refusals = "the store has reached its limit", store.refusals + 1
            raise StoreFullError(store.name, present=store.size, limit=store.max_bytes)

    def commit(self) -> None:
        self._raise_if_ended()
        try:
            self._store.meet_fault(Write.COMMIT)
        except Crash as crash:
            if crash.kept:
                self._before.clear()
            raise
        except CommitFails as failure:
            self._end(keep=failure.kept)
            raise self._store.fail("a commit failed (a fault on demand)") from failure
        self._end(keep=True)

    def abort(self) -> None:
        if not self._ended:
            self._end(keep=False)

    def undo(self, spaces: dict[Keyspace, Space]) -> None:
        """Restore `spaces` to the start of the batch."""
        for (space, key), value in self._before.items():
            if value is None:
                spaces[space].pop(key, None)
            else:
                spaces[space][key] = value

    def _remember(self, space: Keyspace, key: bytes) -> None:
        """Note the value of a key before its first change."""
        value = self._spaces[space].get(key)
        self._before.setdefault((space, key), value)
        if value is not None:
            self._store.size -= _cost(key, value)

    def _end(self, *, keep: bool) -> None:
        if not keep:
            self.undo(self._spaces)
            self._store.size = self._size_before
        self._ended = True
        self._store.ended()

    def _raise_if_ended(self) -> None:
        if self._ended:
            self._store.raise_if_failed()
            raise RuntimeError(f"{self._store.name}: this batch has ended")


def _cost(key: bytes, value: bytes) -> int:
    return len(key) + len(value) + 16  # about the size of a record in LMDB


def _refuse_empty(key: bytes) -> None:
    if not key:
        raise ValueError("a key of the store has 1 to 511 bytes")
