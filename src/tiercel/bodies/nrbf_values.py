"""Converts the objects of a BinaryFormatter stream to one plain value.

An object becomes a dict with its class under `$type`; lists, dictionaries, GUIDs and the like become plain
values. An object that is used more than once is written at its first use, with an `$id`; every other use is
`{"$ref": id}`, so that cycles end and the value is no larger than the stream.
"""

import math
from collections import Counter
from typing import Any

from tiercel.bodies.decoded import Value
from tiercel.bodies.dotnet_classes import Items, items_of, pairs_of, scalar_of
from tiercel.bodies.limits import DEPTH_MAX, characters_limit
from tiercel.bodies.nrbf_types import (
    AnyObject,
    ArrayObject,
    ClassObject,
    MessageFlags,
    Method,
    RecordType,
    Reference,
    Stream,
    StringObject,
)
from tiercel.model.errors import DecodeError

_CHARACTERS_PER_ITEM = 16  # that an item costs as much memory as
_BACKING_FIELD = ">k__BackingField"


def value_of(stream: Stream) -> Value:
    """The value of the stream's root, or of the method that it calls; DecodeError if there is none."""
    graph = _Graph(stream)
    if stream.method is not None:
        return graph.method(stream.method)
    return graph.value(Reference(stream.root_id))


class _Graph:
    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._written: set[int] = set()
        self._listed: set[int] = set()  # arrays whose items stand in a list or dictionary
        self._depth = 0
        self._characters = 0
        self._limit = characters_limit(stream.size)

    def method(self, method: Method) -> Value:
        value: dict[str, Value] = {}
        if method.record is RecordType.MethodCall:
            value |= {"$call": self.value(method.name), "$type": self.value(method.type_name)}
        else:
            value["$return"] = self.value(method.return_value)
        if method.context is not None:
            value["context"] = self.value(method.context)
        if method.args is not None:
            value["args"] = [self.value(item) for item in method.args]
        array = self._stream.method_array
        if array is not None:
            name = "args" if method.flags & MessageFlags.ArgsIsArray else "array"
            value[name] = self.value(Reference(array.id))
        return value

    def value(self, item: Any) -> Value:
        """The value of a member, an item or the root."""
        if isinstance(item, Reference):
            return self._object(self._resolve(item))
        if isinstance(item, str | bytes):
            self._spend(len(item))
        return item  # type: ignore[no-any-return]  # a primitive: the parser makes no other

    def _spend(self, characters: int) -> None:
        self._characters += characters
        if self._characters > self._limit:
            raise _error(f"more than {self._limit} characters when every use is written out")

    def _resolve(self, item: Any) -> Any:
        if not isinstance(item, Reference):
            return item
        if item.id not in self._stream.objects:
            raise _error(f"there is no object {item.id}")
        return self._stream.objects[item.id]

    def _items(self, item: Any) -> Items | None:
        """What an array holds that is a member of a list or dictionary; many may hold the same array."""
        array = self._resolve(item)
        if not isinstance(array, ArrayObject):
            return None
        if array.id in self._listed:
            self._spend(_CHARACTERS_PER_ITEM * len(array.items))
        self._listed.add(array.id)
        return array.items

    def _object(self, found: AnyObject) -> Value:
        if isinstance(found, StringObject):
            return self.value(found.text)
        if found.id in self._written:
            return {"$ref": found.id}
        self._written.add(found.id)
        value = self._deeper(found)
        if not isinstance(value, list | dict):
            self._written.discard(found.id)  # plain values are repeated at every use
        elif self._stream.uses[found.id] > 1:
            return {"$id": found.id, **(value if isinstance(value, dict) else {"$values": value})}
        return value

    def _deeper(self, found: ArrayObject | ClassObject) -> Value:
        levels = len(found.lengths) if isinstance(found, ArrayObject) else 1
        self._depth += levels
        if self._depth > DEPTH_MAX:
            raise _error(f"nested deeper than {DEPTH_MAX} levels")
        value = self._array(found) if isinstance(found, ArrayObject) else self._class(found)
        self._depth -= levels
        return value

    def _array(self, array: ArrayObject) -> Value:
        if isinstance(array.items, str | bytes) and len(array.lengths) == 1:
            return self.value(array.items)
        return _rows([self.value(item) for item in array.items], array.lengths)

    def _class(self, found: ClassObject) -> Value:
        """The plain value of a known .NET class, or else its members."""
        name, members = found.layout.name, found.members
        scalar = scalar_of(name, members)
        if scalar is not None:
            return self.value(scalar)
        items = items_of(name, members, self._items)
        if items is not None:
            return [self.value(item) for item in items]
        pairs = pairs_of(name, members, self._items, self._resolve)
        if pairs is not None:
            return _mapping([(self.value(key), self.value(item)) for key, item in pairs])
        if set(members) == {"value__"}:  # an enumeration
            return self.value(members["value__"])
        self._spend(sum(map(len, members)))  # repeated in every object of the class
        shown = {key: self.value(item) for key, item in _by_property(members).items()}
        return {"$type": self.value(name), **shown}


def _rows(items: list[Value], lengths: tuple[int, ...]) -> list[Value]:
    """A rectangular array as nested lists."""
    if len(lengths) == 1:
        return items
    size = math.prod(lengths[1:])
    return [_rows(items[row * size : (row + 1) * size], lengths[1:]) for row in range(lengths[0])]


def _mapping(pairs: list[tuple[Value, Value]]) -> Value:
    """A dictionary as a dict if its keys can be names, else as a list of pairs."""
    names = {str(key) for key, _ in pairs if isinstance(key, str | int)}
    if len(names) == len(pairs):
        return {str(key): value for key, value in pairs}
    return [{"key": key, "value": value} for key, value in pairs]


def _by_property(members: dict[str, Any]) -> dict[str, Any]:
    """The members, with backing fields of automatic properties under the names of the properties."""
    names = {name: _property_of(name) for name in members}
    uses = Counter(names.values())
    return {names[name] if uses[names[name]] == 1 else name: item for name, item in members.items()}


def _property_of(name: str) -> str:
    """The property in `<Name>k__BackingField`, behind the base class in `Base+<Name>k__BackingField`."""
    if not name.endswith(_BACKING_FIELD):
        return name
    inside = name.removesuffix(_BACKING_FIELD)
    _, base_ends, found = inside.rpartition("+<")
    if not base_ends:
        found = inside[1:] if inside.startswith("<") else ""
    return found or name


def _error(problem: str) -> DecodeError:
    return DecodeError("stream", "objects", 0, problem)
