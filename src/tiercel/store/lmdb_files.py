"""The files of an LMDB store: created atomically, and checked before they are opened for writing."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import lmdb

from tiercel.model.errors import MqError, StoreDamagedError, StoreFailedError, StoreVersionError
from tiercel.store.directory_lock import LOCK_NAME
from tiercel.store.interface import SOCKET_NAME, Keyspace

# Since 2, a dead letter's record says why it is one, and a stream's what was put on the wire and for whom.
FORMAT_VERSION: Final = 2
_OLDEST_FORMAT: Final = 1  # raised to the present one when the store is opened to write
FORMAT_KEY: Final = b"format version"  # in Keyspace.META; decimal digits
DATA_NAME: Final = "data.mdb"

_NEW_NAME: Final = "data.mdb.new"
_READERS_NAME: Final = "lock.mdb"
_OURS: Final = frozenset(
    {
        LOCK_NAME,
        DATA_NAME,
        _READERS_NAME,
        _NEW_NAME,
        f"{_NEW_NAME}-lock",
        SOCKET_NAME,
        "lost+found",
    }  # the last: a mount point
)
# LMDB 0.9, the stable format. The binding includes 1.0 too, and lets an environment variable choose.
_ENGINE: Final = 0
_MAX_DATABASES: Final = 64  # room for later keyspaces
_MAX_READERS: Final = 254  # of other processes; a slot costs 64 bytes


def database_name(space: Keyspace) -> bytes:
    return space.value.encode("ascii")


def open_to_write(directory: Path, map_size: int) -> lmdb.Environment:
    return lmdb.open(
        str(directory),
        map_size=map_size,
        mode=0o700,  # LMDB drops the execute bits for its files
        create=False,
        max_dbs=_MAX_DATABASES,
        max_readers=_MAX_READERS,
        lib_version=_ENGINE,
    )


def open_to_read(directory: Path, *, lock: bool = True) -> lmdb.Environment:
    """Open for reading. Without `lock` no file is touched, and no process may write meanwhile."""
    return lmdb.open(
        str(directory),
        map_size=0,  # the size of the writer's
        readonly=True,
        create=False,
        lock=lock,
        max_dbs=_MAX_DATABASES,
        max_readers=_MAX_READERS,
        lib_version=_ENGINE,
    )


def open_alone(path: Path, map_size: int) -> lmdb.Environment:
    """Open or create a data file under any name that no other process uses."""
    return lmdb.open(
        str(path),
        subdir=False,
        map_size=map_size,
        mode=0o600,
        lock=False,
        max_dbs=_MAX_DATABASES,
        lib_version=_ENGINE,
    )


def used_bytes(environment: lmdb.Environment, page_size: int) -> int:
    """The end of the last page ever written; free pages below it are included."""
    return (environment.info()["last_pgno"] + 1) * page_size


def prepare(directory: Path, *, create: bool) -> None:
    """Check that the directory holds a store, or create it for one; an error leaves nothing behind."""
    if directory.exists() and not directory.is_dir():
        raise StoreFailedError(
            f"store {directory}",
            problem="there is no store here: a store is a directory, and this is a file",
            fix="name a directory",
        )
    if (directory / DATA_NAME).exists():
        return
    if not create:
        raise StoreFailedError(
            f"store {directory}", problem="there is no store here", fix="check the name, or create the store"
        )
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    foreign = sorted({entry.name for entry in directory.iterdir()} - _OURS)
    if foreign:
        raise StoreFailedError(
            f"store {directory}",
            problem=f"the directory holds other things ({', '.join(foreign[:3])}) and no store",
            fix="name an empty directory, or one that does not exist",
        )


def check_private(directory: Path) -> None:
    """Raise if other users can change the store: then they are the queue manager."""
    for path in (directory, directory / DATA_NAME):
        if not path.exists():
            continue
        status = path.stat()
        mode = stat.S_IMODE(status.st_mode)
        if mode & 0o022:
            problem, fix = "other users can write it", f"run chmod go-w {path}, or use another directory"
        elif os.geteuid() and status.st_uid not in {0, os.geteuid()}:
            problem, fix = "it belongs to another user", "run as that user, or use another directory"
        else:
            continue
        raise StoreFailedError(f"store {path}", problem=problem, present=f"mode {mode:04o}", fix=fix)


@contextmanager
def made_whole(directory: Path) -> Iterator[Path]:
    """A path for a new data file, renamed when the block succeeds: a crash leaves no partial file."""
    new = directory / _NEW_NAME
    _remove_new(new)
    try:
        yield new
        new.rename(directory / DATA_NAME)
    finally:
        _remove_new(new)
    _sync_directory(directory)


def make(directory: Path) -> None:
    """Create an empty store."""
    with made_whole(directory) as new, open_alone(new, map_size=2**20) as environment:
        meta = environment.open_db(database_name(Keyspace.META))
        with environment.begin(write=True) as transaction:
            transaction.put(FORMAT_KEY, b"%d" % FORMAT_VERSION, db=meta)
        environment.sync(force=True)


def check(directory: Path) -> None:
    """Raise unless the file is a complete store of a known format; changes nothing.

    The caller holds the lock of the directory.
    """
    path = directory / DATA_NAME
    with path.open("r+b"):  # fails with a clear error if access is denied
        pass
    if path.stat().st_size == 0:
        raise _damaged(directory, "the data file is empty")
    try:
        environment = open_to_read(directory, lock=False)
    except lmdb.Error as error:
        raise _damaged(
            directory, f"the data file is not an LMDB file, or its header is damaged ({error})"
        ) from error
    try:
        check_readable(directory, environment)
    finally:
        environment.close()


def check_readable(directory: Path, environment: lmdb.Environment) -> None:
    _check_length(directory, environment)
    _check_format(directory, environment)


def _check_length(directory: Path, environment: lmdb.Environment) -> None:
    # LMDB would read beyond the end of the file, and the kernel would kill the process for it.
    used = used_bytes(environment, environment.stat()["psize"])
    size = (directory / DATA_NAME).stat().st_size
    if size < used:
        raise _damaged(directory, "the data file was cut off", present=f"{size} bytes", limit=f"{used} bytes")


def _check_format(directory: Path, environment: lmdb.Environment) -> None:
    try:
        meta = environment.open_db(database_name(Keyspace.META), create=False)
        with environment.begin(db=meta) as transaction:
            written = transaction.get(FORMAT_KEY)
    except lmdb.Error as error:
        raise _damaged(directory, f"the data file is not a Tiercel store ({error})") from error
    if written is None or not written.isdigit():
        raise _damaged(directory, "the data file is not a Tiercel store: it has no format version")
    if not _OLDEST_FORMAT <= int(written) <= FORMAT_VERSION:
        raise StoreVersionError(f"store {directory}", present=int(written), limit=FORMAT_VERSION)


def raise_format(transaction: lmdb.Transaction, meta: Any) -> None:
    """Mark an older store as one of the present format, so that older programs refuse it from now on."""
    present = b"%d" % FORMAT_VERSION
    if transaction.get(FORMAT_KEY, db=meta) != present:
        transaction.put(FORMAT_KEY, present, db=meta)


def _damaged(
    directory: Path, problem: str, *, present: str | None = None, limit: str | None = None
) -> MqError:
    return StoreDamagedError(f"store {directory}", problem=problem, present=present, limit=limit)


def _remove_new(new: Path) -> None:
    new.unlink(missing_ok=True)
    new.with_name(f"{new.name}-lock").unlink(missing_ok=True)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
