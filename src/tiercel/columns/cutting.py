"""Cuts what a cursor reads into lists that make good batches."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V", bytes, memoryview)

# Spark reads batches of 5 to 10 thousand rows fastest, as long as they stay below some 8 MiB.
MAX_ROWS = 8192
MAX_BYTES = 8 << 20


def cut(
    items: Iterable[tuple[K, V]], max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES
) -> Iterator[tuple[list[K], list[V]]]:
    """Keys and values, at most so many at once; a value above the limit comes alone."""
    keys: list[K] = []
    values: list[V] = []
    room = max_bytes
    for key, value in items:
        room -= len(value)
        if keys and (room < 0 or len(keys) == max_rows):
            yield keys, values
            keys, values, room = [], [], max_bytes - len(value)
        keys.append(key)
        values.append(value)
    if keys:
        yield keys, values
