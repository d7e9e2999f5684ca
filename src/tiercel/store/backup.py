"""A copy of a store while its queue manager goes on: one snapshot, copied by LMDB without the free pages.

For another process than the one that writes, which is not held up: LMDB's compacting copy takes no lock of
the writer. Pages that the snapshot shows are not used again before the copy is done, so the store may grow
meanwhile by what is sent.
"""

import os
import time
from pathlib import Path
from typing import Final

import lmdb

from tiercel.model.errors import StoreFailedError
from tiercel.store import lmdb_files
from tiercel.store.interface import COPIED_KEY, Keyspace

_ROOM_FOR_THE_MARK: Final = 2**20  # bytes


def copy(directory: Path, target: Path) -> None:
    """Have the last committed state as a store of its own in `target`, whole or not at all.

    `target` is empty or does not exist. The copy is marked as one, for the queue manager that opens it.
    """
    lmdb_files.prepare(directory, create=False)
    if (target / lmdb_files.DATA_NAME).exists():
        raise _cannot(
            target, "there is a store already", "name an empty directory, or one that does not exist"
        )
    try:
        lmdb_files.prepare(target, create=True)
        with lmdb_files.made_whole(target) as new:
            _copy_snapshot(directory, new)
            _mark(new)
    except (OSError, lmdb.Error) as error:
        raise _cannot(
            target, f"{directory} cannot be copied there ({error})", "mend that, then try again"
        ) from error


def _copy_snapshot(directory: Path, new: Path) -> None:
    with lmdb_files.open_to_read(directory) as environment:
        lmdb_files.check_readable(directory, environment)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            environment.copyfd(descriptor, compact=True)
        finally:
            os.close(descriptor)


def _mark(new: Path) -> None:
    with lmdb_files.open_alone(new, map_size=new.stat().st_size + _ROOM_FOR_THE_MARK) as environment:
        meta = environment.open_db(lmdb_files.database_name(Keyspace.META), create=False)
        with environment.begin(write=True) as transaction:
            transaction.put(COPIED_KEY, b"%d" % time.time(), db=meta)
        environment.sync(force=True)


def _cannot(target: Path, problem: str, fix: str) -> StoreFailedError:
    return StoreFailedError(f"backup {target}", problem=problem, fix=fix)
