"""Reads the primitive values of a BinaryFormatter stream. [MS-NRBF] 2.1.1"""

import re
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any, TypeVar

from tiercel.bodies.limits import items_limit
from tiercel.bodies.nrbf_types import PrimitiveType
from tiercel.bodies.numbers import nearest_short
from tiercel.bodies.times import span_text, ticks_text
from tiercel.model.errors import DecodeError

_INT32 = struct.Struct("<i")
_DECIMAL = re.compile(r"[+-]?([0-9]{1,64}(\.[0-9]{0,64})?|\.[0-9]{1,64})([eE][+-]?[0-9]{1,3})?")
_UTC = 1  # DateTimeKind
_TICKS = (1 << 62) - 1  # the upper two bits are the kind

_FIXED = {
    PrimitiveType.Boolean: "?",
    PrimitiveType.SByte: "b",
    PrimitiveType.Byte: "B",
    PrimitiveType.Int16: "h",
    PrimitiveType.UInt16: "H",
    PrimitiveType.Int32: "i",
    PrimitiveType.UInt32: "I",
    PrimitiveType.Int64: "q",
    PrimitiveType.UInt64: "Q",
    PrimitiveType.Single: "f",
    PrimitiveType.Double: "d",
    PrimitiveType.TimeSpan: "q",
    PrimitiveType.DateTime: "Q",
}


def _date_time(value: int) -> str:
    return ticks_text(value & _TICKS, "Z" if value >> 62 == _UTC else "")


_MEANT: dict[PrimitiveType, Callable[[Any], Any]] = {
    PrimitiveType.Single: nearest_short,
    PrimitiveType.TimeSpan: span_text,
    PrimitiveType.DateTime: _date_time,
}

_Enum = TypeVar("_Enum", bound=IntEnum)


class Reader:
    """Reads sequentially from `at`; data that is invalid or would take too much memory is a DecodeError."""

    def __init__(self, data: bytes) -> None:
        self.at = 0
        self.record = "stream"  # for errors
        self._data = data
        self._values = 0
        self._limit = items_limit(len(data))

    def error(self, field: str, problem: str) -> DecodeError:
        return DecodeError(self.record, field, self.at, problem)

    def take(self, size: int, field: str) -> bytes:
        at = self.at
        if size > len(self._data) - at:
            raise self.error(field, f"needs {size} bytes, {len(self._data) - at} are left")
        self.at = at + size
        return self._data[at : self.at]

    def byte(self, field: str) -> int:
        at = self.at
        if at >= len(self._data):
            raise self.error(field, "needs 1 byte, none is left")
        self.at = at + 1
        return self._data[at]

    def int32(self, field: str) -> int:
        return int(_INT32.unpack(self.take(4, field))[0])

    def count(self, field: str) -> int:
        """A number of values to read; charged before they are read, so that a false count costs no memory."""
        count = self.int32(field)
        self.spend(count, field)
        return count

    def spend(self, count: int, field: str) -> None:
        if count < 0:
            raise self.error(field, f"{count} is less than nothing")
        self._values += count
        if self._values > self._limit:
            raise self.error(field, f"more than {self._limit} values in {len(self._data)} bytes")

    def enum(self, kind: type[_Enum], field: str) -> _Enum:
        value = self.byte(field)
        try:
            return kind(value)
        except ValueError:
            self.at -= 1
            raise self.error(field, f"there is no {kind.__name__} {value}") from None

    def string(self, field: str) -> str:
        """A LengthPrefixedString: its size in bytes, seven bits per byte, then UTF-8."""
        size = 0
        for shift in range(0, 35, 7):
            byte = self.byte(field)
            size |= (byte & 0x7F) << shift
            if byte < 0x80:
                return self._text(self.take(size, field), field)
        raise self.error(field, "its length takes more than five bytes")

    def _text(self, data: bytes, field: str) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise self.error(field, "is not UTF-8") from None

    def primitive(self, kind: PrimitiveType, field: str) -> Any:
        """One value of a primitive type, which has no record."""
        if kind in _FIXED:
            return self._fixed(kind, 1, field)[0]
        if kind is PrimitiveType.Char:
            return self._character(field)
        if kind is PrimitiveType.Decimal:
            return self._decimal(field)
        raise self.error(field, f"{kind.name} cannot be the type of a bare value")

    def primitives(self, kind: PrimitiveType, count: int, field: str) -> list[Any] | bytes | str:
        if kind is PrimitiveType.Byte:
            return self.take(count, field)
        if kind is PrimitiveType.Char:
            return self._characters(count, field)
        self.spend(count, field)
        if kind in _FIXED:
            return self._fixed(kind, count, field)
        return [self.primitive(kind, field) for _ in range(count)]

    def _fixed(self, kind: PrimitiveType, count: int, field: str) -> list[Any]:
        code = _FIXED[kind]
        values = struct.unpack(f"<{count}{code}", self.take(count * struct.calcsize("<" + code), field))
        meant = _MEANT.get(kind)
        try:
            return list(values if meant is None else map(meant, values))
        except ValueError as problem:
            raise self.error(field, str(problem)) from None

    def _character(self, field: str) -> str:
        lead = self.byte(field)
        more = (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)
        return self._text(bytes([lead]) + self.take(more, field), field)

    def _characters(self, count: int, field: str) -> str:
        """Read `count` UTF-16 units, written as UTF-8: a character outside the BMP counts as two."""
        if count > len(self._data) - self.at:  # a unit takes at least one byte
            raise self.error(field, f"needs {count} bytes, {len(self._data) - self.at} are left")
        characters = []
        while count > 0:
            characters.append(self._character(field))
            count -= 1 + (characters[-1] > "\uffff")
        return "".join(characters)

    def _decimal(self, field: str) -> str:
        text = self.string(field)
        if not _DECIMAL.fullmatch(text):
            raise self.error(field, f"{text[:40]!a} is not a valid decimal")
        return text
