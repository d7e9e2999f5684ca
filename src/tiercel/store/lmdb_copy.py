"""Copying a store while its queue manager runs: one snapshot, copied by LMDB without the free pages.

Runs in another process than the writer, and does not block it: LMDB's compacting copy takes no writer lock.
Pages of the snapshot are not reused before the copy is complete, so the store may grow by the messages that
arrive meanwhile.
"""

import os
import time
from pathlib import Path
from typing import Final

import lmdb

from tiercel.model.errors import StoreFailedError
from tiercel.store import lmdb_files, lmdb_pages
from tiercel.store.interface import COPIED_KEY, Keyspace

_MARK_BYTES: Final = 2**20  # bytes


def copy(directory: Path, target: Path) -> int:
    """Copy the last committed state to `target`, completely or not at all; returns the size in bytes.

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
            if found := lmdb_pages.problems(new):
                problem = f"the pages of the copy are damaged: {found[0]}"
                raise _cannot(target, problem, f"run tiercel check {directory}")
            return new.stat().st_size
    except (OSError, lmdb.Error) as error:
        raise _cannot(
            target, f"{directory} cannot be copied there ({error})", "fix the cause, then try again"
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
    with lmdb_files.open_alone(new, map_size=new.stat().st_size + _MARK_BYTES) as environment:
        meta = environment.open_db(lmdb_files.database_name(Keyspace.META))
        with environment.begin(write=True) as transaction:
            transaction.put(COPIED_KEY, b"%d" % time.time(), db=meta)
        environment.sync(force=True)


def _cannot(target: Path, problem: str, fix: str) -> StoreFailedError:
    return StoreFailedError(f"backup {target}", problem=problem, fix=fix)
