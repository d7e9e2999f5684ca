"""What all checks are made of."""

from collections.abc import Callable, Iterable
from typing import NamedTuple


class Target(NamedTuple):
    check: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]


def same(data: bytes, expected: bytes) -> None:
    if data != expected:
        raise AssertionError(f"encoded again: {data.hex()}, was {expected.hex()}")


def read_properties(value: object) -> None:
    for name in dir(type(value)):
        if isinstance(getattr(type(value), name), property):
            getattr(value, name)
