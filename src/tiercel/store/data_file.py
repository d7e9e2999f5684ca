"""The data file of a store, allocated ahead of what LMDB writes into it.

LMDB writes at commit, and a commit on a full disk is fatal. Blocks are therefore allocated before, in `grow`,
where a failure only refuses one sender. LMDB accepts a file that is longer than its data and ends in zeros.
"""

import os
import sys
from pathlib import Path
from typing import Final

STEP: Final = 16 * 2**20  # bytes; large enough to be rare, small enough for any disk

_BLOCK: Final = 64 * 1024  # bytes; whole pages, whatever their size


class DataFile:
    def __init__(self, path: Path, used: int, limit: int, ahead: int) -> None:
        self.limit = limit  # bytes; the maximum size of the file
        self.allocated = used  # bytes that are safely allocated
        self.refusal: OSError | None = None  # the last refusal of the file system
        self._ahead = ahead
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._keep_what_was_allocated()
        self.keep_ahead(used)

    def close(self) -> None:
        os.close(self._descriptor)

    def keep_ahead(self, used: int) -> None:
        """Keep spare blocks beyond the used ones, so that receiving works on a full disk."""
        self.allocated = max(self.allocated, used)
        if self.allocated < used + self._ahead and self.refusal is None:
            self.grow(used + self._ahead)

    def grow(self, size: int) -> bool:
        """Allocate at least `size` bytes, up to the limit; False if the file system refuses."""
        size = min(-(-size // _BLOCK) * _BLOCK, self.limit)
        whole_steps = min(-(-size // STEP) * STEP, self.limit)
        return size <= self.allocated or self._allocate(whole_steps) or self._allocate(size)

    def grow_after_refusal(self) -> bool:
        """Try to allocate a step again, if the file system reports enough free space."""
        wanted = min(self.allocated + STEP, self.limit) - self.allocated
        return self.disk_free >= wanted and self.grow(self.allocated + wanted)

    @property
    def disk_free(self) -> int:
        """Bytes that the file system reports as free for us, beside those allocated here."""
        disk = os.fstatvfs(self._descriptor)
        return disk.f_bavail * disk.f_frsize

    def _keep_what_was_allocated(self) -> None:
        # By an earlier run. Allocating it again takes no block, so this works on a full disk too.
        size = os.fstat(self._descriptor).st_size
        if size > self.allocated and not self._allocate(size):
            self.refusal = None  # a sparse copy on a full disk: its holes stay, but growing may work

    def _allocate(self, size: int) -> bool:
        try:
            os.posix_fallocate(self._descriptor, self.allocated, size - self.allocated)
        except OSError as error:  # ENOSPC, EDQUOT, EFBIG, or anything else
            self.refusal = error
            return False
        self.allocated = size
        self.refusal = None
        return True


def disk_size(path: Path) -> int:
    """Bytes of the file system of `path`, used or free."""
    disk = os.statvfs(path)
    return disk.f_blocks * disk.f_frsize or sys.maxsize  # some network file systems do not say
