"""Plain values for classes of .NET's own library, by the fields that BinaryFormatter writes.

Each function returns None for other classes and unexpected fields: such an object is shown as it is.
"""

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import UUID

from tiercel.bodies.decoded import Value
from tiercel.bodies.nrbf_types import ClassObject
from tiercel.bodies.times import span_text, ticks_text

Members = dict[str, Any]
Items = list[Any] | bytes | str  # of an array
Resolve = Callable[[Any], Any]
ItemsOf = Callable[[Any], Items | None]  # of the array that a member refers to


def _guid(members: Members) -> Value:
    integers = (members[name] & mask for name, mask in (("_a", 0xFFFF_FFFF), ("_b", 0xFFFF), ("_c", 0xFFFF)))
    return str(
        UUID(bytes=struct.pack(">IHH", *integers) + bytes(members["_" + letter] for letter in "defghijk"))
    )


def _decimal(members: Members) -> Value:
    high, middle, low = (members[name] & 0xFFFF_FFFF for name in ("hi", "mid", "lo"))
    number = high << 64 | middle << 32 | low
    scale = members["flags"] >> 16 & 0xFF
    return str(Decimal((members["flags"] >> 31 & 1, tuple(map(int, str(number))), -scale)))


def _date_time(members: Members) -> Value:
    data = members["dateData"]
    return ticks_text(data & (1 << 62) - 1, "Z" if data >> 62 == 1 else "")


def _time_span(members: Members) -> Value:
    return span_text(members["_ticks"])


def _boxed(members: Members) -> Value:
    value = members["m_value"]
    if not isinstance(value, bool | int | float | str):
        raise TypeError
    return value


_BOXED = (
    "Boolean",
    "Byte",
    "SByte",
    "Char",
    "Int16",
    "UInt16",
    "Int32",
    "UInt32",
    "Int64",
    "UInt64",
    "Single",
    "Double",
)
_SCALARS: dict[str, Callable[[Members], Value]] = {
    "System.Guid": _guid,
    "System.Decimal": _decimal,
    "System.DateTime": _date_time,
    "System.TimeSpan": _time_span,
    **{f"System.{name}": _boxed for name in _BOXED},
}


def scalar_of(name: str, members: Members) -> Value:
    """The value of a structure that stands for a single value."""
    read = _SCALARS.get(name)
    try:
        return None if read is None else read(members)
    except (KeyError, TypeError, ValueError):  # fields are missing, of other types, or out of range
        return None


_SIZED = {"System.Collections.Generic.List`1", "System.Collections.ArrayList"}
_SETS = {"System.Collections.Generic.HashSet`1"}
_PAIRED = {"System.Collections.Generic.Dictionary`2"}
_HASHED = {"System.Collections.Hashtable"}


def items_of(name: str, members: Members, items_in: ItemsOf) -> Items | None:
    """The items of a list or a set."""
    generic = _generic(name)
    if generic in _SETS:  # "Elements" is omitted when empty
        return items_in(members["Elements"]) if "Elements" in members else []
    items = items_in(members.get("_items")) if generic in _SIZED else None
    size = members.get("_size")
    if items is None or not isinstance(size, int) or not 0 <= size <= len(items):
        return None
    return items[:size]


def pairs_of(
    name: str, members: Members, items_in: ItemsOf, resolve: Resolve
) -> list[tuple[Any, Any]] | None:
    """The keys and values of a dictionary."""
    generic = _generic(name)
    if generic in _HASHED:
        keys, values = (items_in(members.get(part)) for part in ("Keys", "Values"))
        if keys is None or values is None or len(keys) != len(values):
            return None
        return list(zip(keys, values, strict=True))
    if generic not in _PAIRED:
        return None
    if "KeyValuePairs" not in members:  # omitted when empty
        return []
    pairs = items_in(members["KeyValuePairs"])
    return None if pairs is None else _key_value_pairs([resolve(pair) for pair in pairs])


def _key_value_pairs(pairs: list[Any]) -> list[tuple[Any, Any]] | None:
    found = []
    for pair in pairs:
        members = pair.members if isinstance(pair, ClassObject) else {}
        if not {"key", "value"} <= set(members):
            return None
        found.append((members["key"], members["value"]))
    return found


def _generic(name: str) -> str:
    """The name without its type arguments, which follow in brackets."""
    return name.partition("[[")[0]
