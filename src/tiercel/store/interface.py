"""The interface of a store, whatever its kind.

One thread uses a store, and one batch is open at a time. A batch is the transaction: everything in it becomes
durable together when `commit` returns, or never happened. Other processes read committed states through a
`Reader`.

A batch is also a redo record: its puts and deletes, by keyspace and key, are all that changes a store, and
`take` is a delete of the keys it returns. A store that ships every batch to a replica can wrap another one.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self

MAX_KEY_SIZE: Final = 511  # bytes; LMDB's limit, far above the keys in use

DEFAULT_MAX_BYTES: Final = 64 * 2**30
MIN_MAX_BYTES: Final = 2**20
MAX_MAX_BYTES: Final = 2**46  # 64 TiB: as much as a process can map

SOCKET_NAME: Final = "tiercel.sock"  # the Unix socket of the daemon, in the directory of its store

COPIED_KEY: Final = b"copied"  # in Keyspace.META of a backup: when it was made, in seconds as decimal digits


Buffers = tuple[list[memoryview], list[memoryview]]  # keys and values


class Keyspace(StrEnum):
    """One ordered map from bytes to bytes per kind of thing.

    The value is the name on disk and never changes. A new member needs no new format version: opening a store
    adds the keyspaces it lacks.
    """

    META = "meta"
    QUEUES = "queues"
    STATS = "stats"
    MESSAGES = "messages"
    EXPIRIES = "expiries"
    TRANSACTIONS = "transactions"
    SEQUENCES = "sequences"
    INCOMING = "incoming"
    ORPHANS = "orphans"
    AWAITING = "awaiting"
    HISTORY = "history"
    PEERS = "peers"
    DISCARDS = "discards"
    CONSUMERS = "consumers"
    CLAIMED = "claimed"
    DAMAGED = "damaged"
    STAGES = "stages"
    STAGED = "staged"
    PUBLISHED = "published"
    UNPUBLISHED = "unpublished"
    AUDIT = "audit"
    OPERATIONS = "operations"
    LIFE = "life"
    LIFE_NAMES = "life_names"


class View(Protocol):
    """A consistent view of the whole store, ordered by key as bytes compare."""

    def get(self, space: Keyspace, key: bytes) -> bytes | None: ...

    def first(self, space: Keyspace, at_least: bytes, below: bytes) -> tuple[bytes, bytes] | None:
        """The record with the smallest key in [at_least, below)."""

    def last(self, space: Keyspace, at_least: bytes, below: bytes) -> tuple[bytes, bytes] | None:
        """The record with the largest key in [at_least, below)."""

    def range(self, space: Keyspace, at_least: bytes, below: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The records in [at_least, below) in order.

        The batch may be written to during the iteration, which sees changes ahead of its position only.
        """

    def first_many(
        self, space: Keyspace, at_least: bytes, below: bytes, limit: int, size: int
    ) -> list[tuple[bytes, bytes]]:
        """The first records in [at_least, below): at most `limit`, and none after `size` bytes of values."""

    def keys(self, space: Keyspace, at_least: bytes, below: bytes) -> Iterator[bytes]:
        """The keys in [at_least, below) in order, without reading values; write nothing meanwhile."""

    def count(self, space: Keyspace) -> int:
        """The number of records in the keyspace."""


class Batch(View, Protocol):
    """The write transaction; it sees its own writes. Every batch ends in `commit` or `abort`."""

    def put(self, space: Keyspace, key: bytes, value: bytes) -> None:
        """Write a record, replacing one with the same key; a key has 1 to 511 bytes."""

    def put_many(self, space: Keyspace, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Write records by key and value, as `put` does one."""

    def delete(self, space: Keyspace, key: bytes) -> bool:
        """Delete a record; False if there was none."""

    def delete_many(self, space: Keyspace, keys: Iterable[bytes]) -> None:
        """Delete records by key, as `delete` does one."""

    def take(self, space: Keyspace, at_least: bytes, below: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Delete and return the first records in [at_least, below), at most `limit`."""

    def reserve(self, size: int, writes: int = 1) -> None:
        """Raise `StoreFullError` unless `size` more bytes fit, in addition to the reserve for receiving.

        The bytes are spread over `writes` puts. Callers that add to the store reserve before they put, so
        that a full store refuses incoming messages and never outgoing ones. The batch stays usable.
        """

    def has_room(self, size: int) -> bool:
        """Whether `reserve` would succeed without looking for more room, which takes time in a full store."""

    def reserve_to_move(self, count: int, size: int) -> None:
        """Raise `StoreFullError` unless `count` records of `size` bytes in total can get other keys.

        The old records are deleted in the same batch, so the store does not grow; half of the reserve for
        receiving may be used temporarily. A full store can thus be emptied even if receiving moves messages.
        """

    def commit(self) -> None:
        """Make the batch durable. After a `StoreFailedError` the store refuses every further call."""

    def abort(self) -> None:
        """Discard the batch; does nothing if it has ended."""


class Space(NamedTuple):
    """The space of a store, in bytes."""

    used: int  # with pages that receiving has freed, which are reused
    limit: int | None
    disk_free: int | None  # None for a store in memory


class Store(Protocol):
    """A set of keyspaces that outlives the process."""

    refusal: str  # why the last write was refused
    refusals: int  # writes refused for lack of space, since the start

    def begin(self) -> Batch: ...

    def space(self) -> Space: ...

    def snapshot(self) -> AbstractContextManager[View]:
        """The last committed state; later commits do not change it."""

    def forget_dead_readers(self) -> None:
        """Reuse the space that snapshots of killed processes hold."""

    def close(self) -> None:
        """Abort the open batch, if any, and release everything."""


class Reader(Protocol):
    """Committed states of a store that another process writes; at most one per process and store."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def snapshot(self) -> AbstractContextManager[View]:
        """The last committed state. It keeps space from being reused: do not hold it for hours."""

    def piece(
        self, space: Keyspace, at_least: bytes, below: bytes, max_rows: int, max_bytes: int
    ) -> AbstractContextManager[Buffers]:
        """Keys and values from `at_least`, at least one if there is any below `below`.

        Read from a snapshot that ends with the block. The buffers are invalid after the block.
        """

    def close(self) -> None: ...
