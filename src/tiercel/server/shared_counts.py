"""Counts that processes share: each has one to write, and their parent reads all of them."""

import mmap
import os
from collections.abc import MutableSequence
from typing import Self

_SIZE = 8  # bytes of a count


class SharedCounts:
    def __init__(self, descriptor: int, count: int) -> None:
        self.descriptor = descriptor  # for the other processes
        self._values = memoryview(mmap.mmap(descriptor, count * _SIZE)).cast("Q")

    @classmethod
    def new(cls, count: int) -> Self:
        """Zeros, which belong to no file."""
        descriptor = os.memfd_create("counts")
        os.ftruncate(descriptor, count * _SIZE)
        return cls(descriptor, count)

    def one(self, number: int) -> MutableSequence[int]:
        """A sequence with one count, to be written by one process."""
        return self._values[number : number + 1]  # type: ignore[return-value]  # as far as it is used

    @property
    def total(self) -> int:
        return sum(self._values)

    def close(self) -> None:
        """Other processes keep theirs; the counts can still be read."""
        os.close(self.descriptor)
