"""Stub data in the NDR 2.0 transfer syntax: [C706] 14, and the strict checks of [MS-RPCE] 3.1.1.5.3.

A reader and a writer with one call per item, in wire order; each item is aligned to its own size.
For pointers inside structures and arrays, first read whether they are set; their targets follow the whole
structure or array, in the order of the pointers:

    found = [(size := reader.u32("size"), reader.pointer("buffer", size)) for _ in range(count)]
    contents = [reader.conformant_bytes("buffer", size) if is_there else b"" for size, is_there in found]

Invalid data is an `NdrError`; its `status` is that of the fault.
"""

import struct
from collections.abc import Container
from functools import lru_cache
from typing import ClassVar, Final, Self
from uuid import UUID

from tiercel.model.errors import DecodeError
from tiercel.model.identifiers import NULL_GUID
from tiercel.rpc.status import RPC_X_BAD_STUB_DATA
from tiercel.wire.structure import decode_guid, decode_text, encode_guid, encode_text_nul

MAX_COUNT: Final = 0x7FFF_FFFF  # [MS-RPCE] 3.1.1.5.3.2.2.1
U32_MAX: Final = 0xFFFF_FFFF

_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")
_U64 = struct.Struct("<Q")
_HANDLES_CACHED = 1024

# Windows numbers its referents from here in steps of 4; [C706] requires only distinct non-zero numbers.
FIRST_REFERENT: Final = 0x0002_0000


class NdrError(DecodeError):
    """Invalid stub data; one status for all errors, [MS-RPCE] 3.1.3.5.2."""

    status: ClassVar[int] = RPC_X_BAD_STUB_DATA


class ContextHandle(bytes):
    """ndr_context_handle, [C706] appendix N: opaque to the client, so it is kept as bytes."""

    __slots__ = ()

    def __new__(cls, attributes: int = 0, uuid: UUID = NULL_GUID) -> Self:
        return super().__new__(cls, _U32.pack(attributes) + encode_guid(uuid))

    def __repr__(self) -> str:
        return f"ContextHandle({self.attributes}, {self.uuid!r})"

    @property
    def attributes(self) -> int:
        return int.from_bytes(self[:4], "little")

    @property
    def uuid(self) -> UUID:
        return decode_guid(self[4:])

    @property
    def is_null(self) -> bool:
        return self == NULL_HANDLE


HANDLE_SIZE: Final = 20
NULL_HANDLE: Final = ContextHandle()


@lru_cache(_HANDLES_CACHED)  # few handles, many calls
def decode_handle(data: bytes) -> ContextHandle:
    return bytes.__new__(ContextHandle, data)


class NdrReader:
    """Reads the stub data of one call."""

    __slots__ = ("_name", "at", "data", "end")

    def __init__(self, data: bytes, name: str = "stub") -> None:
        self.data = data
        self.at = 0
        self.end = len(data)
        self._name = name

    def error(self, field: str, problem: str) -> NdrError:
        return NdrError(self._name, field, self.at, problem)

    def align(self, size: int) -> None:
        """Skip to a multiple of `size`, ignoring the bytes between: [MS-RPCE] 3.1.1.5.3.2.2.6."""
        self.at += -self.at % size

    def take(self, size: int, field: str) -> bytes:
        at = self.at
        if at + size > self.end:
            raise self.error(field, f"needs {size} bytes, {max(self.end - at, 0)} are left")
        self.at = at + size
        return self.data[at : self.at]

    def u8(self, field: str) -> int:
        return self.take(1, field)[0]

    def u16(self, field: str) -> int:
        return int(self._number(_U16, 2, field))

    def u32(self, field: str, low: int = 0, high: int = U32_MAX) -> int:
        """A 32-bit number; `low` and `high` are the limits of [range]."""
        value = int(self._number(_U32, 4, field))
        if not low <= value <= high:
            raise self.error(field, f"is {value}, allowed are {low} to {high}")
        return value

    def i32(self, field: str) -> int:
        return int(self._number(_I32, 4, field))

    def u64(self, field: str) -> int:
        return int(self._number(_U64, 8, field))

    def enum16(self, field: str, values: Container[int]) -> int:
        """An IDL enum: sixteen bits in NDR 2.0."""
        value = self.u16(field)
        if value not in values:
            raise self.error(field, f"has no value {value}")
        return value

    def guid(self, field: str) -> UUID:
        self.align(4)
        return decode_guid(self.take(16, field))

    def context_handle(self, field: str) -> ContextHandle:
        self.align(4)
        return decode_handle(self.take(HANDLE_SIZE, field))

    def union_tag(self, value: int, field: str, expected: int) -> int:
        """Check the tag of a union, which repeats the discriminant outside."""
        if value != expected:
            raise self.error(field, f"is {value}, but the discriminant says {expected}")
        return value

    # Pointers

    def pointer(self, field: str, count: int | None = None) -> bool:
        """Whether a unique or full pointer is set; its target follows later.

        `count` is the number of elements of the target, if another field says it: a NULL pointer with a count
        over zero is an error, [MS-RPCE] 3.1.1.5.3.3.1.2.
        """
        is_there = bool(self.u32(field))
        if count and not is_there:
            raise self.error(field, f"is NULL, but should have {count} elements")
        return is_there

    def reference(self, field: str) -> None:
        """An embedded [ref] pointer, which must not be NULL. Top-level ones are not on the wire."""
        if not self.u32(field):
            raise self.error(field, "is NULL, which a reference pointer must not be")

    # Arrays and strings

    def conformance(
        self,
        field: str,
        count: int | None = None,
        *,
        low: int = 0,
        high: int = MAX_COUNT,
        element_size: int = 1,
    ) -> int:
        """The maximum count before an array; `count` is the expected one, if another field says it.

        `element_size` is the smallest size of an element: more elements than bytes are refused before any
        memory is allocated.
        """
        value = self.u32(field, low, high)
        if count is not None and value != count:
            raise self.error(field, f"has {value} elements, but {count} are announced")
        if value * element_size > self.end - self.at:
            raise self.error(field, f"has {value} elements, and {self.end - self.at} bytes are left for them")
        return value

    def variance(self, field: str, max_count: int, count: int | None = None, *, element_size: int = 1) -> int:
        """The offset (zero where the IDL has no first_is) and the actual count of a varying array."""
        offset = self.u32(field)
        if offset:
            raise self.error(field, f"starts at element {offset}, not at 0")
        actual = self.u32(field)
        if actual > max_count:
            raise self.error(field, f"has {actual} elements of {max_count}")
        if count is not None and actual != count:
            raise self.error(field, f"has {actual} elements, but {count} are announced")
        if actual * element_size > self.end - self.at:
            raise self.error(
                field, f"has {actual} elements, and {self.end - self.at} bytes are left for them"
            )
        return actual

    def conformant_bytes(self, field: str, count: int | None = None, *, high: int = MAX_COUNT) -> bytes:
        """A conformant array of bytes: [size_is(count)]."""
        return self.take(self.conformance(field, count, high=high), field)

    def string(self, field: str, *, max_units: int = MAX_COUNT) -> str:
        """A conformant and varying UTF-16 string without its NUL; `max_units` counts the NUL."""
        max_count = self.u32(field, high=MAX_COUNT)
        actual = self.variance(field, max_count, element_size=2)
        if not 1 <= actual <= max_units:
            raise self.error(field, f"has {actual} characters with its NUL, allowed are 1 to {max_units}")
        text = decode_text(self.take(2 * actual, field))
        # The text has code points, not units, so the NUL is searched for.
        if text.find("\0") != len(text) - 1:
            raise self.error(field, "its NUL is not at the end")
        return text[:-1]

    @property
    def rest(self) -> bytes:
        """The bytes after the last item: padding, or a verification trailer ([MS-RPCE] 2.2.2.13)."""
        return self.data[self.at :]

    def _number(self, layout: struct.Struct, size: int, field: str) -> int:
        at = (self.at + size - 1) & -size
        if at + size > self.end:
            self.at = at
            raise self.error(field, f"needs {size} bytes, {max(self.end - at, 0)} are left")
        self.at = at + size
        return int(layout.unpack_from(self.data, at)[0])


class NdrWriter:
    """Writes the stub data of one call; every method returns the writer, for chaining."""

    __slots__ = ("_data", "_referent")

    def __init__(self) -> None:
        self._data = bytearray()
        self._referent = FIRST_REFERENT

    @property
    def data(self) -> bytes:
        return bytes(self._data)

    def align(self, size: int) -> "NdrWriter":
        if rest := -len(self._data) % size:
            self._data += bytes(rest)
        return self

    def raw(self, data: bytes) -> "NdrWriter":
        """Bytes without alignment: the elements of an array of bytes."""
        self._data += data
        return self

    def u8(self, value: int) -> "NdrWriter":
        self._data.append(value)
        return self

    def u16(self, value: int) -> "NdrWriter":
        return self._number(_U16, 2, value)

    def u32(self, value: int) -> "NdrWriter":
        return self._number(_U32, 4, value)

    def i32(self, value: int) -> "NdrWriter":
        return self._number(_I32, 4, value)

    def u64(self, value: int) -> "NdrWriter":
        return self._number(_U64, 8, value)

    def enum16(self, value: int) -> "NdrWriter":
        return self.u16(value)

    def guid(self, value: UUID) -> "NdrWriter":
        return self.align(4).raw(encode_guid(value))

    def context_handle(self, handle: ContextHandle) -> "NdrWriter":
        return self.align(4).raw(handle)

    def pointer(self, *, is_there: bool = True) -> "NdrWriter":
        """A unique, full or embedded reference pointer; its target is written after the structure."""
        if not is_there:
            return self.u32(0)
        self.u32(self._referent)
        self._referent += 4
        return self

    def conformance(self, count: int) -> "NdrWriter":
        return self.u32(count)

    def variance(self, count: int) -> "NdrWriter":
        return self.u32(0).u32(count)

    def conformant_bytes(self, data: bytes) -> "NdrWriter":
        return self.u32(len(data)).raw(data)

    def string(self, text: str) -> "NdrWriter":
        data = encode_text_nul(text)
        units = len(data) // 2
        return self.conformance(units).variance(units).raw(data)

    def _number(self, layout: struct.Struct, size: int, value: int) -> "NdrWriter":
        data = self._data
        if rest := -len(data) % size:
            data += bytes(rest)
        data += layout.pack(value)
        return self
