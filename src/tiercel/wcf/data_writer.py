"""Python values as bodies of DataContractSerializer.

    dict, dataclass     an element for each member, in the order of their names (ordinal, as .NET sorts them)
    list, tuple, set    an element for each item, named after its type: <int>, <string>, a contract's name
    None                i:nil="true"
    Enum                its name; a Flag: the names with spaces between them
    str, bool, int, float, Decimal, datetime, date, time, timedelta, UUID, bytes

A dict is a class in the namespace that the call names. A value whose class is derived from the declared one,
and a value where any is allowed, say their type: i:type.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from functools import lru_cache
from itertools import count
from typing import Any, Final, NamedTuple, get_args
from uuid import UUID
from xml.etree.ElementTree import Element

from tiercel.model.errors import IllegalPropertyVariantTypeError
from tiercel.nbfx import END, DateTime, DictionaryString, Event, TimeSpan, Value, declaration, from_elements
from tiercel.nbfx.elements import XSI
from tiercel.nbfx.events import Attribute
from tiercel.nbfx.names import is_name
from tiercel.wcf.data_contract import (
    ANY_TYPE,
    Contract,
    Items,
    Long,
    is_value_type,
    item_kind,
    item_name,
    members_of,
    name_of,
    without_none,
)

_XSI: Final = DictionaryString(XSI)
_NIL: Final = DictionaryString("nil")
_TYPE: Final = DictionaryString("type")
_ANYTHING: Final = (Any, object)
_INT32: Final = 2**31
_DEPTH_MAX: Final = 100


def write_wrapper(name: str, namespace: str, body: Mapping[str, Any] | Element | None) -> Iterator[Event]:
    """The wrapper element of an operation, with its parameters in the order given; an element is written as
    it is.
    """
    if isinstance(body, Element):
        yield from from_elements(body, intern=True)
        return
    space = DictionaryString(namespace)
    yield ("start", "", _element_name(name), space, (declaration("", space),))
    writer = _ValueWriter(namespace)
    for parameter, value in (body or {}).items():
        yield from writer.element(_Child(parameter, namespace, value))
    yield END


@lru_cache(1024)  # the names of a contract are few
def _element_name(name: str) -> DictionaryString:
    """Receivers could not read the message with any other name."""
    if not is_name(name):
        fix = "use a name of XML, or pass wrapper= if it comes from the action"
        raise IllegalPropertyVariantTypeError(
            "element", problem="not a valid XML name", present=name, fix=fix
        )
    return DictionaryString(name)


class _Child(NamedTuple):
    """A value and the element that it is written as."""

    name: str
    namespace: str
    value: Any
    kind: Any = None  # as it was declared, if that is known


class _ValueWriter:
    """Writes values below a wrapper. Prefixes are b, c, ... by depth, as .NET writes them."""

    def __init__(self, default: str) -> None:
        self._default = default  # the namespace of members of a dict
        self._scopes: list[dict[str, str]] = [
            {default: ""}
        ]  # namespace to prefix; the wrapper's is the default namespace

    def element(self, child: _Child) -> Iterator[Event]:
        if len(self._scopes) > _DEPTH_MAX:
            problem = f"values are nested deeper than {_DEPTH_MAX} levels"
            raise IllegalPropertyVariantTypeError(
                "body", problem=problem, fix="check for a value that contains itself"
            )
        prefix, scope = self._scopes[-1][child.namespace], dict(self._scopes[-1])
        contents = self._contents(child)
        attributes: list[Attribute] = []
        for namespace in dict.fromkeys([each.namespace for each in contents or ()] or _spaces(child)):
            _declare(scope, namespace, attributes)
        _instance_attributes(child, scope, attributes)
        self._scopes.append(scope)
        yield ("start", prefix, _element_name(child.name), child.namespace, tuple(attributes))
        if contents is not None:
            for each in contents:
                yield from self.element(each)
        elif child.value is not None and (text := scalar(child.value)) != "":
            yield ("text", text)
        yield END
        self._scopes.pop()

    def _contents(self, child: _Child) -> list[_Child] | None:
        """The elements inside of an element; None if it has text or nothing."""
        value = child.value
        if isinstance(value, Mapping):
            return [_Child(name, self._default, each) for name, each in sorted(_named(value))]
        if isinstance(value, Items):
            namespace = self._default if value.namespace is None else value.namespace
            return [_Child(value.name, namespace, each) for each in value.items]
        if is_dataclass(value) and not isinstance(value, type):
            return list(_members(value))
        if _is_list(value):
            item = _items_kind(value, child.kind)
            name = item_name(item)
            return [_Child(name.name, name.namespace, each, item) for each in value]
        return None


def _spaces(child: _Child) -> list[str]:
    """The namespace of the items that an empty list could have."""
    value, kind = child.value, child.kind
    return [item_name(_items_kind(value, kind)).namespace] if _is_list(value) else []


def _declare(scope: dict[str, str], namespace: str, attributes: list[Attribute]) -> None:
    if namespace not in scope:
        taken = set(scope.values())
        scope[namespace] = next(letter for letter in map(_letter, count()) if letter not in taken)
        attributes.append(declaration(scope[namespace], DictionaryString(namespace)))


def _letter(index: int) -> str:
    return chr(ord("b") + index) if index < 7 else f"d{index}"  # i is for xsi


def _instance_attributes(child: _Child, scope: dict[str, str], attributes: list[Attribute]) -> None:
    """i:nil and i:type."""
    shown = _shown_type(child.value, child.kind)
    if child.value is not None and shown is None:
        return
    if XSI not in scope:
        scope[XSI] = "i"
        attributes.append(declaration("i", _XSI))
    if shown is None:
        attributes.append(("i", _NIL, _XSI, "true"))
    else:
        _declare(scope, shown.namespace, attributes)
        prefix = scope[shown.namespace]
        attributes.append(("i", _TYPE, _XSI, f"{prefix}:{shown.name}" if prefix else shown.name))


def _shown_type(value: Any, declared: Any) -> Contract | None:
    """The type that i:type must name: that of a derived class, or of a value where any is allowed."""
    if value is None or declared is None:
        return None
    declared, _ = without_none(declared)
    if is_dataclass(value) and is_dataclass(declared):
        return None if type(value) is declared else name_of(type(value))
    if declared not in _ANYTHING:
        return None
    found = name_of(_kind_of(value))
    return None if found == ANY_TYPE else found  # a dict has no name


def _named(value: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    for name, each in value.items():
        if not isinstance(name, str):
            kind = type(name).__name__
            raise IllegalPropertyVariantTypeError(
                "body", problem=f"a member's name is of the type {kind}", limit="str"
            )
        yield name, each


def _members(value: Any) -> Iterator[_Child]:
    kind: Any = type(value)
    for each in members_of(kind):
        content = getattr(value, each.field.name)
        if each.emit_default or content != each.default:
            yield _Child(each.name, each.namespace, content, each.kind)


# The types of values.


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple | set | frozenset) and not isinstance(value, DateTime | TimeSpan)


def _items_kind(items: Iterable[Any], declared: Any) -> Any:
    """The type of a list's items, as it was declared or else by the values."""
    list_kind, _ = without_none(declared)
    item = item_kind(list_kind) if get_args(list_kind) else None
    if item in _ANYTHING:
        return object
    if item is not None and without_none(item)[0] is not int and name_of(item) != ANY_TYPE:
        return item
    found = _common_kind({_kind_of(each) for each in items if each is not None})
    has_none = any(each is None for each in items) or (item is not None and without_none(item)[1])
    return found | None if has_none and is_value_type(found) else found


def _common_kind(kinds: set[Any]) -> Any:
    if kinds == {int, Long}:
        return Long
    if len(kinds) > 1:
        kinds = kinds - {list}  # an empty one
    if len(kinds) == 1:
        return kinds.pop()
    if not kinds:
        return str
    contracts = [kind for kind in kinds if isinstance(kind, type) and is_dataclass(kind)]
    if len(contracts) == len(kinds):
        return next((kind for kind in contracts if all(issubclass(each, kind) for each in contracts)), object)
    return object


def _kind_of(value: Any) -> Any:
    if is_dataclass(value) or isinstance(value, Enum):
        return type(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int if not isinstance(value, Long) and -_INT32 <= value < _INT32 else Long
    if _is_list(value):
        return list[_items_kind(value, None)] if value else list  # type: ignore[misc]  # a type at run time
    return next((kind for held, kind in _KINDS if isinstance(value, held)), object)


_KINDS: Final = (
    *((kind, kind) for kind in (str, bool, float, Decimal, datetime, date, time, timedelta, UUID, bytes)),
    (bytearray, bytes),
    (DateTime, datetime),
    (TimeSpan, timedelta),
)


def scalar(value: Any) -> Value:
    """A single value as a text record holds it."""
    if isinstance(value, Enum):
        return _enum_text(value)
    for kind, convert in _SCALARS:
        if isinstance(value, kind):
            return convert(value)
    known = (
        "dict, dataclass, list, None, str, bool, int, float, Decimal, datetime, timedelta, UUID, bytes, Enum"
    )
    raise IllegalPropertyVariantTypeError("body", present=type(value).__name__, limit=known)


def _enum_text(value: Enum) -> str:
    if isinstance(value, Flag):
        return " ".join(str(each.name) for each in value) or "0"
    return value.name


def _same(value: Any) -> Any:
    return value


_SCALARS: Final[tuple[tuple[type, Callable[[Any], Value]], ...]] = (
    (str, str),
    (bool, _same),
    (int, int),
    (float, _same),
    (Decimal, _same),
    (datetime, DateTime.of),
    (date, date.isoformat),
    (time, time.isoformat),
    (timedelta, lambda value: str(TimeSpan.of(value))),
    (UUID, str),
    (DateTime, _same),
    (TimeSpan, str),
    (bytes, _same),
    (bytearray, bytes),
)
