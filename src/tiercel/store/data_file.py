"""The data file of a store, allocated ahead of what LMDB writes into it.

LMDB writes at commit, and a commit that meets a full disk is fatal. So the blocks are taken from the file
system before, in `grow`, where a refusal is an answer to one sender. LMDB minds neither a file that is longer
than what it uses, nor zeros there.
"""

import os
from pathlib import Path
from typing import Final

STEP: Final = 16 * 2**20  # bytes; large enough to be rare, small enough to take from any disk

_BLOCK: Final = 64 * 1024  # bytes; whole pages, whatever their size


class DataFile:
    def __init__(self, path: Path, used: int, limit: int, ahead: int) -> None:
        self.limit = limit  # bytes; the file never grows beyond
        self.allocated = used  # bytes that are ours whatever happens on the disk
        self.refusal: OSError | None = None  # why the file system gave no more
        self._ahead = ahead
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._keep_what_was_allocated()
        self.keep_ahead(used)

    def close(self) -> None:
        os.close(self._descriptor)

    def keep_ahead(self, used: int) -> None:
        """Have blocks in hand beyond what is used, so that receiving needs none when the disk has none."""
        self.allocated = max(self.allocated, used)
        if self.allocated < used + self._ahead and self.refusal is None:
            self.grow(used + self._ahead)

    def grow(self, size: int) -> bool:
        """Allocate at least `size` bytes, or what the limit allows; False when the file system refuses."""
        size = min(-(-size // _BLOCK) * _BLOCK, self.limit)
        whole_steps = min(-(-size // STEP) * STEP, self.limit)
        return size <= self.allocated or self._allocate(whole_steps) or self._allocate(size)

    def grow_after_refusal(self) -> bool:
        """Whether the file system gives a step now; asks it only when there seems to be space."""
        wanted = min(self.allocated + STEP, self.limit) - self.allocated
        disk = os.fstatvfs(self._descriptor)
        return disk.f_bavail * disk.f_frsize >= wanted and self.grow(self.allocated + wanted)

    def _keep_what_was_allocated(self) -> None:
        # By an earlier run; asking for it again costs no block, so this works on a full disk too.
        size = os.fstat(self._descriptor).st_size
        if size > self.allocated and not self._allocate(size):
            self.refusal = None  # a sparse copy on a full disk: its holes are not ours, but growing may work

    def _allocate(self, size: int) -> bool:
        try:
            os.posix_fallocate(self._descriptor, self.allocated, size - self.allocated)
        except OSError as error:  # ENOSPC, EDQUOT, EFBIG: no more is to be had; anything else: no better
            self.refusal = error
            return False
        self.allocated = size
        self.refusal = None
        return True
