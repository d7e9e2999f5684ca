"""Bodies of DataContractSerializer as Python values.

Without a type: an element with children is a dict, or a list when its items are those of an array; a repeated
member is a list; a value that was written as binary has its type, and text stays text. With a type (a
dataclass, list[int], datetime, ...) everything becomes that type.

An object that is referred to (z:Id and z:Ref, of contracts with IsReference) is one object, which may contain
itself.
"""

import base64
import binascii
import re
import types
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum, Flag
from typing import Any, Final, TypeVar, Union, get_args, get_origin
from uuid import UUID
from xml.etree.ElementTree import Element

from tiercel.model.errors import DecodeError
from tiercel.nbfx import DateTime, Document, TimeSpan, UniqueId
from tiercel.nbfx.elements import SERIALIZATION, XSI, split_tag
from tiercel.wcf.data_contract import ARRAYS, SYSTEM, XS, Long, contract_of, derived_from, members_of

T = TypeVar("T")
_NIL: Final = f"{{{XSI}}}nil"
_UNFINISHED: Final = object()
_DURATION: Final = re.compile(
    r"(-?)P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,7})\d*)?S)?)?"
)
_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)?")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_NUMBER_MAX, _INTEGER_MAX = 1_000, 40  # characters
_NAMED_NUMBERS: Final = {"INF", "-INF", "NaN"}
_BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}


def is_nil(element: Element) -> bool:
    return element.get(_NIL, "").strip() in {"true", "1"}


# Without a type.


def from_members(element: Element, document: Document) -> dict[str, Any]:
    """The children of an element by their local names."""
    try:
        return _members(element, document, {})
    except RecursionError:
        raise _too_deep(element) from None


def _members(element: Element, document: Document, found: dict[str, Any]) -> dict[str, Any]:
    repeated: set[str] = set()
    for child in element:
        name, value = split_tag(child.tag)[1], plain(child, document)
        if name not in found:
            found[name] = value
        elif name in repeated:
            found[name].append(value)
        else:
            repeated.add(name)
            found[name] = [found[name], value]
    return found


def plain(element: Element, document: Document, *, is_target: bool = False) -> Any:
    """The value of an element as far as it can be told."""
    if document.references and not is_target:
        return _shared(element, document, Any)
    if is_nil(element):
        return None
    if len(element):
        if all(split_tag(child.tag)[0] in {ARRAYS, SYSTEM} for child in element):
            items: list[Any] = _keep(document, element, Any, [])
            items += [plain(child, document) for child in element]
            return items
        return _members(element, document, _keep(document, element, Any, {}))
    value = document.values.get(element)
    if value is not None:
        return _python(value)
    kind = _NAMED_KINDS.get(document.types.get(element, ""))
    return element.text or "" if kind is None else _scalar(element, document, kind)


def _python(value: Any) -> Any:
    """A value of a record as users know it."""
    match value:
        case DateTime():
            return value.datetime()
        case TimeSpan():
            return value.timedelta()
        case UniqueId():
            return value.uuid
        case float():
            return float(value)  # a Single too
    return value


# With a type.


def from_element(element: Element, document: Document, kind: type[T]) -> T:
    """The value of an element as a type; DecodeError names the element that does not fit."""
    try:
        return _convert(element, document, kind)  # type: ignore[no-any-return]
    except RecursionError:
        raise _too_deep(element) from None


def _shared(element: Element, document: Document, kind: Any) -> Any:
    """The value of an element in a document with references: an object is made once for each type."""
    target = document.references.get(element, element)
    if target is None:
        raise _error(element, "refers to an object that the envelope does not have")
    if get_origin(kind) in {Union, types.UnionType}:
        return _convert(target, document, kind, is_target=True)
    found = document.built.get((target, kind))
    if found is _UNFINISHED:
        raise _error(element, f"contains itself, which {_name(kind)} cannot")
    if found is None:
        document.built[target, kind] = _UNFINISHED
        try:
            found = _convert(target, document, kind, is_target=True)
        finally:
            del document.built[target, kind]
        document.built[target, kind] = found
    return found


def _keep(document: Document, element: Element, kind: Any, value: T) -> T:
    """An object that is about to be filled, for references to it from inside."""
    if document.references:
        document.built[element, kind] = value
    return value


def _convert(element: Element, document: Document, kind: Any, *, is_target: bool = False) -> Any:
    if document.references and not is_target:
        return _shared(element, document, kind)
    if kind is Any or kind is object:
        return plain(element, document, is_target=is_target)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in {Union, types.UnionType}:
        return _one_of(element, document, arguments)
    if is_nil(element):
        if kind is types.NoneType:
            return None
        raise _error(element, f"is nil, but must be {_name(kind)}")
    if origin in {list, tuple, set, frozenset}:
        item = arguments[0] if arguments else Any
        values = (_convert(child, document, item) for child in element)
        if origin is not list:
            return origin(values)
        items: list[Any] = _keep(document, element, kind, [])
        items += values
        return items
    if origin is dict or kind is dict:
        return _members(element, document, _keep(document, element, kind, {}))
    if isinstance(kind, type) and is_dataclass(kind):
        return _dataclass(element, document, kind)
    return _scalar(element, document, kind)


def _one_of(element: Element, document: Document, kinds: tuple[Any, ...]) -> Any:
    if is_nil(element) and types.NoneType in kinds:
        return None
    *first, last = [kind for kind in kinds if kind is not types.NoneType]
    for kind in first:
        try:
            return _convert(element, document, kind)
        except DecodeError:
            continue
    return _convert(element, document, last)


def _dataclass(element: Element, document: Document, declared: Any) -> Any:
    kind = _actual(element, document, declared)
    instance = _keep(document, element, declared, kind.__new__(kind)) if document.references else None
    members = members_of(kind)
    names = {each.name: each for each in members}
    values = {}
    for child in element:
        each = names.get(split_tag(child.tag)[1])
        if each is not None:  # others are of a later version of the contract
            values[each.field.name] = _convert(child, document, Any if each.kind is None else each.kind)
    for each in members:
        if each.is_required and each.field.name not in values:
            raise _error(element, f"has no {each.name}, which {contract_of(kind).name} must have")
    if instance is None:
        return kind(**values)
    instance.__init__(**values)
    return instance


def _actual(element: Element, document: Document, declared: Any) -> Any:
    """The class that i:type names: the declared one, or one derived from it.

    A class need not have the namespace of its contract in .NET: the name alone is enough if no other fits.
    """
    named = document.types.get(element)
    if named is None:
        return declared
    kinds = [declared, *derived_from(declared)]
    for full in True, False:
        for kind in reversed(kinds):  # of two of one name, the newer
            contract = contract_of(kind)
            if named == f"{{{contract.namespace}}}{contract.name}" or (
                not full and split_tag(named)[1] == contract.name
            ):
                return kind
    problem = f"is of the type {named[:120]!a}, which is neither {declared.__name__} nor derived from it"
    raise _error(element, problem)


def _scalar(element: Element, document: Document, kind: Any) -> Any:
    value = _python(document.values.get(element))
    if isinstance(value, kind) and type(value) is kind:
        return value
    text = element.text or ""
    try:
        if isinstance(kind, type) and issubclass(kind, Enum):
            return _enum(kind, text.strip())
        if kind is float and isinstance(value, int | float):
            return float(value)
        return _READERS[kind](text)
    except KeyError:
        raise _error(element, f"cannot become {_name(kind)}") from None
    except (ValueError, InvalidOperation, OverflowError):
        raise _error(element, f"{text[:60]!a} is not a valid {_name(kind)}") from None


def _enum(kind: type[Enum], text: str) -> Enum:
    if issubclass(kind, Flag):
        names: Iterator[Any] = (kind[name] for name in text.split() if name != "0")
        result = kind(0)
        for each in names:
            result |= each
        return result
    try:
        return kind[text]
    except KeyError:
        raise ValueError(text) from None


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))


def _too_deep(element: Element) -> DecodeError:
    return _error(element, "is nested too deeply for the remaining stack")


def _error(element: Element, problem: str) -> DecodeError:
    return DecodeError("data contract", split_tag(element.tag)[1], 0, problem)


# Texts of XML Schema.


def _boolean(text: str) -> bool:
    try:
        return _BOOLEANS[text.strip()]
    except KeyError:
        raise ValueError(text) from None


def _number(text: str) -> str:
    """Python also takes 1_000, the digits of other scripts, and other names of infinity and NaN."""
    if len(text) > _NUMBER_MAX or _NUMBER.fullmatch(text := text.strip()) is None:
        raise ValueError(text)
    return text


def _integer(text: str) -> int:
    if len(text) > _INTEGER_MAX:
        raise ValueError(text)
    return int(_number(text))


def _double(text: str) -> float:
    text = text.strip()
    return float(text.replace("INF", "inf") if text in _NAMED_NUMBERS else _number(text))


def _datetime(text: str) -> datetime:
    found = _MOMENT.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    fraction = ((found[2] or "") + "000000")[:6]
    zone = (found[3] or "").replace("Z", "+00:00")
    moment = datetime.fromisoformat(f"{found[1]}.{fraction}{zone}")
    return moment.astimezone(UTC) if zone else moment


def _timedelta(text: str) -> timedelta:
    found = _DURATION.fullmatch(text.strip())
    if found is None or text.strip("-") in {"P", "PT"}:
        raise ValueError(text)
    sign, years, months, days, hours, minutes, seconds, fraction = found.groups(default="")
    whole = timedelta(
        days=int(years or 0) * 365 + int(months or 0) * 30 + int(days or 0),
        hours=int(hours or 0),
        minutes=int(minutes or 0),
        seconds=int(seconds or 0),
        microseconds=int((fraction + "000000")[:6]),
    )
    return -whole if sign else whole


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except binascii.Error as problem:
        raise ValueError(str(problem)) from None


_READERS: Final[dict[Any, Callable[[str], Any]]] = {
    str: str,
    bool: _boolean,
    int: _integer,
    Long: lambda text: Long(_integer(text)),
    float: _double,
    Decimal: lambda text: Decimal(_number(text)),
    datetime: _datetime,
    date: lambda text: date.fromisoformat(text.strip().removesuffix("T00:00:00")),
    time: lambda text: time.fromisoformat(text.strip()),
    timedelta: _timedelta,
    UUID: lambda text: UUID(text.strip().removeprefix("urn:uuid:")),
    bytes: _bytes,
}

# The types of XML Schema that i:type names where any is allowed.
_NAMED_KINDS: Final = {
    f"{{{namespace}}}{name}": kind
    for namespace, name, kind in (
        *((XS, name, int) for name in ("byte", "short", "int", "long")),
        *((XS, f"unsigned{name}", int) for name in ("Byte", "Short", "Int", "Long")),
        *((XS, name, float) for name in ("float", "double")),
        (XS, "boolean", bool),
        (XS, "decimal", Decimal),
        (XS, "dateTime", datetime),
        (XS, "base64Binary", bytes),
        (SERIALIZATION, "duration", timedelta),
        (SERIALIZATION, "guid", UUID),
    )
}
