"""Many byte strings joined into one, for reading the same field at many offsets at once."""

from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Buffer = bytes | memoryview
Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Zeros after the last value: missing headers are read here.
_ROOM = 128
_MAX_BYTES = (1 << 31) - 1 - _ROOM  # Arrow's binary columns count in 32 bits


class Joined:
    """The joined values, with the start and end of each."""

    def __init__(self, values: Sequence[Buffer]) -> None:
        sizes = np.fromiter(map(len, values), np.int64, len(values))
        self.ends: Places = np.cumsum(sizes)
        self.starts: Places = self.ends - sizes
        self.zeros = int(self.ends[-1]) if len(values) else 0
        if self.zeros > _MAX_BYTES:
            raise ValueError(f"{self.zeros} bytes are too many for one batch; split them first")
        self.data = b"".join((*values, bytes(_ROOM)))
        self._buffer = pa.py_buffer(self.data)

    def value(self, at: int) -> bytes:
        return self.data[self.starts[at] : self.ends[at]]

    def checksums(self, starts: Places, ends: Places) -> npt.NDArray[np.uint32]:
        """The CRC-32 of each range."""
        view = memoryview(self.data)
        found = (crc32(view[at:end]) for at, end in zip(starts.tolist(), ends.tolist(), strict=True))
        return np.fromiter(found, np.uint32, len(starts))

    def structures(self, layout: np.dtype[Any], places: Places) -> npt.NDArray[Any]:
        """The fixed fields of a structure at each offset; zeros beyond the data."""
        whole = f"V{layout.itemsize}"
        # One overlapping element per byte, each as long as the structure; nothing is copied.
        every = np.ndarray((len(self.data) - layout.itemsize + 1,), whole, self.data, strides=(1,))
        return every[np.minimum(places, self.zeros)].view(layout)

    def numbers(self, kind: str, places: Places) -> npt.NDArray[Any]:
        return self.structures(np.dtype(kind), places)

    def slices(self, starts: Places, sizes: Places, *, empty_is_null: bool = False) -> pa.BinaryArray:
        """The bytes at each range, in ascending order, copied to a new array."""
        count = len(starts)
        if not count or (empty_is_null and not sizes.any()):
            return pa.nulls(count, pa.binary())
        bounds = np.empty(2 * count, np.int32)
        bounds[0::2] = starts
        bounds[1::2] = starts + sizes
        # Every second element of this array is a slice; the others are gaps.
        buffers = [None, pa.py_buffer(bounds), self._buffer]
        everything = pa.Array.from_buffers(pa.binary(), 2 * count - 1, buffers)
        chosen = pa.array(np.arange(0, 2 * count, 2), mask=sizes == 0 if empty_is_null else None)
        return everything.take(chosen)


def fixed_binary(column: npt.NDArray[Any]) -> pa.Array:
    """Byte strings of a fixed size, from a field of a structure."""
    data = np.ascontiguousarray(column)
    return pa.Array.from_buffers(pa.binary(data.itemsize), len(data), [None, pa.py_buffer(data)])


def mapped(values: pa.Array, function: Callable[[bytes], Any], kind: pa.DataType) -> pa.Array:
    """Apply a function once per distinct value; null stays null."""
    encoded = values.dictionary_encode()
    return pa.array(map(function, encoded.dictionary.to_pylist()), kind).take(encoded.indices)


def texts(units: pa.BinaryArray, function: Callable[[bytes], str]) -> pa.StringArray:
    """UTF-16 texts as UTF-8: ASCII ones all at once, others by the function."""
    count = len(units)
    if not count:
        return pa.nulls(0, pa.string())
    _, offsets, data = units.buffers()
    bounds = np.frombuffer(offsets, np.int32, count + 1)
    text = np.frombuffer(data, "<u2", bounds[-1] // 2)
    narrow = [None, pa.py_buffer(bounds // 2), pa.py_buffer(text.astype(np.uint8))]
    plain = pa.Array.from_buffers(pa.string(), count, narrow)
    odd = np.zeros(count, np.bool_)
    odd[np.searchsorted(bounds, 2 * np.flatnonzero(text >= 0x80), "right") - 1] = True
    if not odd.any():
        return plain
    others = [function(units[row].as_py()) for row in np.flatnonzero(odd).tolist()]
    return pc.replace_with_mask(plain, odd, pa.array(others, pa.string()))
