"""One process at a time: the lock on the directory of a store.

A POSIX record lock, because it always ends with the process, is not inherited by children, and the kernel
knows its holder. Its one trap: closing any descriptor of the file releases the lock, so a process must not
open the file twice. `_held` prevents that.
"""

import fcntl
import os
import struct
from pathlib import Path
from typing import Final

from tiercel.model.errors import StoreInUseError

LOCK_NAME: Final = "tiercel.lock"
_FLOCK: Final = struct.Struct("@hhqqi4x")  # struct flock of 64-bit Linux: type, whence, start, length, pid
_held: dict[tuple[int, int], int] = {}  # device and inode of the lock files of this process, and its pid


class DirectoryLock:
    def __init__(self, directory: Path) -> None:
        """Take the lock. Raises `StoreInUseError`, or `OSError` if the file cannot be opened."""
        path = directory / LOCK_NAME
        if path.exists() and _held.get(_identity(path)) == os.getpid():
            raise _in_use(directory, os.getpid())
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:  # POSIX allows EAGAIN and EACCES
            holder = _holder(self._descriptor)
            os.close(self._descriptor)
            raise _in_use(directory, holder) from error
        self._identity = _identity(path)
        _held[self._identity] = os.getpid()

    def sign(self) -> None:
        """Write our process id into the file, for administrators."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)

    def release(self) -> None:
        if _held.pop(self._identity, None) is not None:
            os.close(self._descriptor)


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _holder(descriptor: int) -> int:
    """The process that holds the lock; from the file if the kernel does not know (NFS)."""
    question = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, question))
    if kind != fcntl.F_UNLCK and pid > 0:
        return int(pid)
    written = os.pread(descriptor, 20, 0).strip()
    return int(written) if written.isdigit() else 0


def _in_use(directory: Path, pid: int) -> StoreInUseError:
    fix = (
        f'for a daemon, use tiercel.connect("unix:{directory}"); otherwise stop it, or use another directory'
    )
    present = f"process {pid}" if pid else "an unknown process"
    return StoreInUseError(f"store {directory}", present=present, fix=fix)
