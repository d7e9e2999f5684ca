"""Limits for decoding untrusted bodies: they keep the value in proportion to the body (at most 4 MiB)."""

# Nesting of elements, arrays and objects. Readers recurse: six of Python's thousand frames per level.
DEPTH_MAX = 64
# Elements, members and items of one body: 4 MiB of 8-byte numbers are half as many.
ITEMS_MAX = 1_000_000
# Characters of one value that is assembled from a graph of objects.
CHARACTERS_MAX = 16_000_000


def items_limit(size: int) -> int:
    """For a body of `size` bytes: 20 bytes can claim 2**31 nulls, so the limit depends on the size."""
    return min(ITEMS_MAX, 10_000 + 4 * size)


def characters_limit(size: int) -> int:
    """For a body of `size` bytes: texts may be repeated, and each object lists the names of its members."""
    return min(CHARACTERS_MAX, 100_000 + 64 * size)
