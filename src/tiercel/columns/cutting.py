"""Groups the records of a cursor into batches of a good size."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V", bytes, memoryview)

# Spark is fastest with batches of 5,000 to 10,000 rows and less than about 8 MiB.
MAX_ROWS = 8192
MAX_BYTES = 8 << 20


def cut(
    items: Iterable[tuple[K, V]], max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES
) -> Iterator[tuple[list[K], list[V]]]:
    """Keys and values in bounded groups; a value above the limit is a group of its own."""
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
