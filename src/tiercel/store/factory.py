"""Opening a store by its URL, whatever its kind.

    lmdb:DIR     on disk, in a directory; a plain path means the same
    memory:      in memory, empty, and gone when it is closed

A new kind of store gets its prefix here; nothing outside this package has to change. A `Path` is always a
directory, even if its name looks like a URL.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tiercel.model.errors import InvalidParameterError, StoreFailedError
from tiercel.store import lmdb_copy
from tiercel.store.interface import DEFAULT_MAX_BYTES, Reader, Store, View
from tiercel.store.lmdb_reader import LmdbReader
from tiercel.store.lmdb_store import LmdbStore
from tiercel.store.memory_store import MemoryStore

Url = str | os.PathLike[str]

_LMDB: Final = "lmdb"
_MEMORY: Final = "memory"
_PREFIX: Final = re.compile(r"([a-z][a-z0-9+]+):(.*)", re.DOTALL)


def open_store(url: Url, *, max_bytes: int = DEFAULT_MAX_BYTES, create: bool = True) -> Store:
    """Open a store for writing, and create it first if there is none and `create` allows it.

    Raises `StoreInUseError`, `StoreVersionError`, `StoreDamagedError`, or `StoreFailedError` with the cause.
    """
    kind, _ = _parse(url)
    if kind == _MEMORY:
        return MemoryStore(max_bytes=max_bytes)
    return LmdbStore.open(directory_of(url), max_bytes=max_bytes, create=create)


def open_reader(url: Url, *, alone: bool = False) -> Reader:
    """Read committed states of a store that another process may be writing.

    With `alone`, no other process may have the store open; then reading leaves no trace in its directory.
    """
    return LmdbReader(directory_of(url), alone=alone)


@contextmanager
def open_snapshot(url: Url, *, alone: bool = False) -> Iterator[View]:
    """The last committed state, read once; see `open_reader`."""
    with open_reader(url, alone=alone) as reader, reader.snapshot() as view:
        yield view


def verify_store(url: Url) -> list[str]:
    """Describe the damage below the records (pages, free lists) of a store that no process has open."""
    return LmdbStore.verify(directory_of(url))


def copy_store(url: Url, target: Path) -> int:
    """Copy the last committed state to an empty or missing directory; returns the size in bytes.

    Must not run in the process that writes the store. The copy is complete and verified, or absent.
    """
    return lmdb_copy.copy(directory_of(url), target)


def directory_of(url: Url) -> Path:
    """The directory of a store on disk. Raises `StoreFailedError` for a store in memory."""
    kind, place = _parse(url)
    if kind == _MEMORY:
        raise StoreFailedError(
            "store memory:",
            problem="a store in memory has no directory, and only the process that opened it can read it",
            fix="use a store on disk",
        )
    return Path(place)


def _parse(url: Url) -> tuple[str, str]:
    text = os.fspath(url)
    match = _PREFIX.fullmatch(text) if isinstance(url, str) else None
    if match is None:
        return _LMDB, text
    kind, place = match.groups()
    if kind not in {_LMDB, _MEMORY} or bool(place) != (kind == _LMDB):
        fix = f"use lmdb:DIR or memory:, or ./{text} for a directory of that name"
        raise InvalidParameterError("store URL", problem="not a valid store URL", present=text, fix=fix)
    return kind, place
