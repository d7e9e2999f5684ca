"""Floating-point numbers in their intended precision."""

import math
import struct


def float_name(value: float) -> str:
    """A number as .NET writes it, including the infinities and NaN."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def nearest_short(single: float) -> float:
    """The number that the sender of a single meant: 0.1 arrives as 0.10000000149011612."""
    if not math.isfinite(single):
        return single
    for digits in range(6, 9):
        short = float(f"{single:.{digits}g}")
        if abs(short) < _SINGLE_MAX and struct.pack("<f", short) == struct.pack("<f", single):
            return short
    return float(f"{single:.9g}")


_SINGLE_MAX = 3.4028234e38  # above it, packing four bytes overflows
