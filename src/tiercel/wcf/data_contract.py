"""Python values as bodies of DataContractSerializer.

    dict, dataclass     an element for each member, in the order of their names (ordinal, as .NET sorts them)
    list, tuple         an element for each item, named after its type: <int>, <string>, a contract's name
    None                i:nil="true"
    Enum                its name; a Flag: the names with spaces between them
    str, bool, int, float, Decimal, datetime, date, time, timedelta, UUID, bytes

A dataclass may say more with `data_contract` and `member`: names, namespaces, DataMember's Order, whether a
member at its default is left out. A dict is a class in the namespace that the call names.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from itertools import count
from typing import Any, Final, TypeVar, overload
from uuid import UUID
from xml.etree.ElementTree import Element

from tiercel.model.errors import IllegalPropertyVariantTypeError
from tiercel.nbfx import END, DateTime, DictionaryString, Event, TimeSpan, Value, declaration, from_elements
from tiercel.nbfx.elements import XSI
from tiercel.nbfx.events import Attribute

CONTRACTS: Final = "http://schemas.datacontract.org/2004/07/"
ARRAYS: Final = "http://schemas.microsoft.com/2003/10/Serialization/Arrays"
_XSI: Final = DictionaryString(XSI)
_NIL: Final = DictionaryString("nil")
_INT32: Final = 2**31
_DEPTH_MAX: Final = 100
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Contract:
    """The name and namespace of a data contract."""

    name: str
    namespace: str


@dataclass(frozen=True, slots=True)
class Items:
    """A list whose items have a name of their own: `Items("OrderLine", lines)` for List<OrderLine>."""

    name: str
    items: Sequence[Any]
    namespace: str | None = None  # by default that of the object around it


@overload
def data_contract(cls: type[T], /) -> type[T]: ...
@overload
def data_contract(*, name: str = "", namespace: str = CONTRACTS) -> Callable[[type[T]], type[T]]: ...


def data_contract(cls: Any = None, /, *, name: str = "", namespace: str = CONTRACTS) -> Any:
    """Give a dataclass the name and namespace that its class has in .NET: [DataContract]."""

    def decorate(decorated: type[T]) -> type[T]:
        decorated.__data_contract__ = Contract(name or decorated.__name__, namespace)  # type: ignore[attr-defined]
        return decorated

    return decorate if cls is None else decorate(cls)


def member(*, name: str = "", order: int = -1, emit_default: bool = True, **options: Any) -> Any:
    """A field with the settings of [DataMember]; the other options are those of dataclasses.field."""
    options["metadata"] = {**options.get("metadata", {}), "data_member": (name, order, emit_default)}
    return field(**options)


def contract_of(kind: type) -> Contract:
    found = getattr(kind, "__data_contract__", None)
    return found if isinstance(found, Contract) else Contract(kind.__name__, CONTRACTS)


def member_name(each: "Field[Any]") -> str:
    return str(each.metadata.get("data_member", ("", -1, True))[0] or each.name)


def members_of(kind: Any) -> "list[Field[Any]]":
    """The fields of a dataclass in the order of DataContractSerializer: base classes first, then by Order,
    then by name.
    """
    depth: dict[str, int] = {}
    for level, cls in enumerate(reversed(kind.__mro__)):
        for name in getattr(cls, "__annotations__", {}):
            depth.setdefault(name, level)

    def place(each: "Field[Any]") -> tuple[int, int, str]:
        _, order, _ = each.metadata.get("data_member", ("", -1, True))
        return depth.get(each.name, 0), order, member_name(each)

    return sorted(fields(kind), key=place)


# Values to events.


def write_wrapper(name: str, namespace: str, body: Mapping[str, Any] | Element | None) -> Iterator[Event]:
    """The wrapper element of an operation, with its parameters in the order given; an element is written as
    it is.
    """
    if isinstance(body, Element):
        yield from from_elements(body, intern=True)
        return
    space = DictionaryString(namespace)
    yield ("start", "", DictionaryString(name), space, (declaration("", space),))
    writer = _ValueWriter(namespace)
    for parameter, value in (body or {}).items():
        yield from writer.parameter(parameter, value, namespace)
    yield END


class _ValueWriter:
    """Writes values below a wrapper. Prefixes are b, c, ... by depth, as .NET writes them."""

    def __init__(self, default: str) -> None:
        self._default = default  # the namespace of members of a dict
        self._scopes: list[dict[str, str]] = [
            {}
        ]  # namespace to prefix; the wrapper's is the default namespace

    def parameter(self, name: str, value: Any, namespace: str) -> Iterator[Event]:
        yield from self._element(name, namespace, value, "")

    def _element(self, name: str, namespace: str, value: Any, prefix: str) -> Iterator[Event]:
        if len(self._scopes) > _DEPTH_MAX:
            problem = f"values are nested deeper than {_DEPTH_MAX} levels"
            raise IllegalPropertyVariantTypeError(
                "body", problem=problem, fix="check for a value that contains itself"
            )
        inner = self._inner_namespace(value)
        attributes: list[Attribute] = []
        scope = dict(self._scopes[-1])
        if inner is not None and inner != self._default and inner not in scope:
            attributes.append(self._declare(scope, inner))
        if value is None and XSI not in scope:
            scope[XSI] = "i"
            attributes.append(declaration("i", _XSI))
        if value is None:
            attributes.append(("i", _NIL, _XSI, "true"))
        self._scopes.append(scope)
        yield ("start", prefix, DictionaryString(name), namespace, tuple(attributes))
        yield from self._content(value)
        yield END
        self._scopes.pop()

    @staticmethod
    def _declare(scope: dict[str, str], namespace: str) -> Attribute:
        taken = set(scope.values())
        prefix = next(letter for letter in map(_letter, count()) if letter not in taken)
        scope[namespace] = prefix
        return declaration(prefix, DictionaryString(namespace))

    def _inner_namespace(self, value: Any) -> str | None:
        """The namespace of what is inside of an element."""
        if isinstance(value, Mapping):
            return self._default
        if isinstance(value, Items):
            return self._default if value.namespace is None else value.namespace
        if is_dataclass(value):
            return contract_of(type(value)).namespace
        if _is_list(value):
            return _item_name(value)[1]
        return None

    def _content(self, value: Any) -> Iterator[Event]:
        if value is None:
            return
        children = self._children(value)
        if children is None:
            text = scalar(value)
            if text != "":
                yield ("text", text)
            return
        namespace = self._inner_namespace(value)
        assert namespace is not None
        prefix = self._scopes[-1].get(namespace, "")
        for name, child in children:
            yield from self._element(name, namespace, child, prefix)

    def _children(self, value: Any) -> Iterable[tuple[str, Any]] | None:
        if isinstance(value, Mapping):
            return sorted(_named(value))
        if isinstance(value, Items):
            return [(value.name, item) for item in value.items]
        if is_dataclass(value) and not isinstance(value, type):
            return list(_dataclass_members(value))
        if _is_list(value):
            name, _ = _item_name(value)
            return [(name, item) for item in value]
        return None


def _letter(index: int) -> str:
    return chr(ord("b") + index) if index < 7 else f"d{index}"  # i is for xsi


def _named(value: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    for name, each in value.items():
        if not isinstance(name, str):
            kind = type(name).__name__
            raise IllegalPropertyVariantTypeError(
                "body", problem=f"a member's name is of the type {kind}", limit="str"
            )
        yield name, each


def _dataclass_members(value: Any) -> Iterator[tuple[str, Any]]:
    for each in members_of(type(value)):
        content = getattr(value, each.name)
        _, _, emit_default = each.metadata.get("data_member", ("", -1, True))
        if emit_default or content != _default(each):
            yield member_name(each), content


def _default(each: "Field[Any]") -> Any:
    if each.default is not MISSING:
        return each.default
    return each.default_factory() if each.default_factory is not MISSING else None


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple | set | frozenset) and not isinstance(value, DateTime | TimeSpan)


def _item_name(items: Iterable[Any]) -> tuple[str, str]:
    """The name and namespace of the items of a list, by the type of those that are not None."""
    kinds = {type(item) for item in items if item is not None}
    if len(kinds) == 1 and is_dataclass(kind := next(iter(kinds))):
        contract = contract_of(kind)
        return contract.name, contract.namespace
    names = {_type_name(item) for item in items if item is not None}
    if names == {"int", "long"}:
        names = {"long"}
    if len(names) != 1:
        return ("string" if not names else "anyType"), ARRAYS
    return names.pop(), ARRAYS


def _type_name(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool | Enum):
        return "int" if -_INT32 <= value < _INT32 else "long"
    if _is_list(value):
        return "ArrayOf" + _item_name(value)[0]
    return next((name for kind, name in _TYPE_NAMES if isinstance(value, kind)), "anyType")


_TYPE_NAMES: Final[tuple[tuple[type, str], ...]] = (
    (Enum, "string"),
    (str, "string"),
    (bool, "boolean"),
    (float, "double"),
    (Decimal, "decimal"),
    (datetime, "dateTime"),
    (timedelta, "duration"),
    (UUID, "guid"),
    (bytes, "base64Binary"),
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
