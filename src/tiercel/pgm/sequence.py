"""Sequence numbers modulo 2^32. RFC 3208 3.6.1.

Machines count with unbounded integers, which compare and sort as usual; numbers are wrapped when they are
written into a packet and unwrapped, next to a number that is known, when they are read from one.
"""

_MASK = 0xFFFF_FFFF
_HALF = 0x8000_0000


def wrap(number: int) -> int:
    return number & _MASK


def unwrap(wrapped: int, near: int) -> int:
    """The number closest to `near` that is `wrapped` on the wire."""
    return near + ((wrapped - near + _HALF) & _MASK) - _HALF


def distance(later: int, earlier: int) -> int:
    """How many numbers `later` is ahead of `earlier`, both as on the wire."""
    return (later - earlier) & _MASK
