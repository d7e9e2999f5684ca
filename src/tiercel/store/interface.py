"""What the engine may ask of a store, whichever it is.

One thread uses a store, and one batch is open at a time. A batch is the transaction: everything in it becomes
durable together when `commit` returns, or never happened.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Final, Protocol

MAX_KEY_SIZE: Final = 511  # bytes; LMDB's limit, and no key of ours comes near it

COPIED_KEY: Final = b"copied"  # in Keyspace.META of a backup: when it was made, in seconds as decimal digits


class Keyspace(StrEnum):
    """One ordered map from bytes to bytes per kind of thing.

    The value is the name on disk and never changes. A new member needs no new format version: a store that
    lacks it gets it when it is opened.
    """

    META = "meta"
    QUEUES = "queues"
    STATS = "stats"
    MESSAGES = "messages"
    EXPIRIES = "expiries"
    TRANSACTIONS = "transactions"
    SEQUENCES = "sequences"
    INCOMING = "incoming"
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


class View(Protocol):
    """A consistent view of the whole store, ordered by key as bytes compare."""

    def get(self, space: Keyspace, key: bytes) -> bytes | None: ...

    def first(self, space: Keyspace, at_least: bytes, below: bytes) -> tuple[bytes, bytes] | None:
        """The record with the smallest key in [at_least, below)."""

    def last(self, space: Keyspace, at_least: bytes, below: bytes) -> tuple[bytes, bytes] | None:
        """The record with the largest key in [at_least, below)."""

    def range(self, space: Keyspace, at_least: bytes, below: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The records in [at_least, below) in order.

        A batch may be written to meanwhile: what changes ahead of the iterator is seen, what changes
        behind it is not.
        """

    def count(self, space: Keyspace) -> int:
        """How many records the keyspace holds."""


class Batch(View, Protocol):
    """The write transaction; it sees its own writes. Every batch ends in `commit` or `abort`."""

    def put(self, space: Keyspace, key: bytes, value: bytes) -> None:
        """Write a record, in place of the one that has the key; a key has 1 to 511 bytes."""

    def put_many(self, space: Keyspace, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Write records by key and value, as `put` does one."""

    def delete(self, space: Keyspace, key: bytes) -> bool:
        """Remove a record; False when there was none."""

    def delete_many(self, space: Keyspace, keys: Iterable[bytes]) -> None:
        """Remove records by their keys, as `delete` does one."""

    def take(self, space: Keyspace, at_least: bytes, below: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Remove the first records in [at_least, below), not more than `limit`, and give them."""

    def reserve(self, size: int, writes: int = 1) -> None:
        """Raise `StoreFullError` unless `size` more bytes fit, beside what receiving and deleting need.

        The bytes are for so many `writes`. Whoever adds to the store calls this before the puts, so that a
        full store refuses what comes in and never what goes out. The batch stays usable when it raises.
        """

    def reserve_to_move(self, count: int, size: int) -> None:
        """Raise `StoreFullError` unless `count` records of `size` bytes in all can be put under other keys.

        As many are deleted with them, so the store does not grow: half of what receiving needs may be used
        meanwhile. So a full store can still be emptied by whoever moves messages before they are received.
        """

    def commit(self) -> None:
        """Make the batch durable. A failure is `StoreFailedError`, and the store refuses all that follows."""

    def abort(self) -> None:
        """Forget the batch; does nothing when it has ended."""


class Store(Protocol):
    """A set of keyspaces that outlives the process."""

    def begin(self) -> Batch: ...

    def snapshot(self) -> AbstractContextManager[View]:
        """The last committed state; what is committed meanwhile does not change it."""

    def close(self) -> None:
        """Abort the open batch, if there is one, and let go of everything."""
