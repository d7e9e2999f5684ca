"""Limits for decoding untrusted bodies: they keep the value in proportion to the body (at most 4 MiB)."""

# Nesting of elements, arrays and objects. Readers recurse: six frames of Python's thousand for a level.
DEPTH_MAX = 64
# Elements, members and items of one body: 4 MiB hold half of it as numbers.
ITEMS_MAX = 1_000_000
# Characters of one value that is put together from a graph of objects.
CHARACTERS_MAX = 16_000_000


def items_limit(size: int) -> int:
    """For a body of `size` bytes: 20 can promise 2**31 nulls, but a list keeps at most one for each item."""
    return min(ITEMS_MAX, 10_000 + 4 * size)


def characters_limit(size: int) -> int:
    """For a body of `size` bytes: a text may be used often, and each object shows its members' names."""
    return min(CHARACTERS_MAX, 100_000 + 64 * size)
