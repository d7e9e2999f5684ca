"""Python types as contracts of DataContractSerializer: their names, namespaces and members.

A dataclass may say more with `data_contract` and `member`: names, namespaces, DataMember's Order, whether a
member at its default is left out.
"""

import types
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints, overload
from uuid import UUID

from tiercel.nbfx.elements import SERIALIZATION

XS: Final = "http://www.w3.org/2001/XMLSchema"
CONTRACTS: Final = "http://schemas.datacontract.org/2004/07/"
SYSTEM: Final = CONTRACTS + "System"  # of lists of Nullable<T>
ARRAYS: Final = "http://schemas.microsoft.com/2003/10/Serialization/Arrays"
_LISTS: Final = (list, tuple, set, frozenset)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Contract:
    """The name and namespace of a type."""

    name: str
    namespace: str


@dataclass(frozen=True, slots=True)
class Items:
    """A list whose items have a name of their own: `Items("OrderLine", lines)` for List<OrderLine>."""

    name: str
    items: Sequence[Any]
    namespace: str | None = None  # by default that of the object around it


class Long(int):
    """A 64-bit integer, for `list[Long]`: the items of a List<long> have another name than those of a
    List<int>. Elsewhere an int does as well.
    """


@overload
def data_contract(cls: type[T], /) -> type[T]: ...
@overload
def data_contract(*, name: str = "", namespace: str = CONTRACTS) -> Callable[[type[T]], type[T]]: ...


def data_contract(cls: Any = None, /, *, name: str = "", namespace: str = CONTRACTS) -> Any:
    """Give a dataclass or an Enum the name and namespace that it has in .NET: [DataContract]."""

    def decorate(decorated: type[T]) -> type[T]:
        decorated.__data_contract__ = Contract(name or decorated.__name__, namespace)  # type: ignore[attr-defined]
        return decorated

    return decorate if cls is None else decorate(cls)


def member(*, name: str = "", order: int = -1, emit_default: bool = True, **options: Any) -> Any:
    """A field with the settings of [DataMember]; the other options are those of dataclasses.field."""
    options["metadata"] = {**options.get("metadata", {}), "data_member": (name, order, emit_default)}
    return field(**options)


def contract_of(kind: type) -> Contract:
    """Without `data_contract`: the name of the class, in the namespace of its base class."""
    own = vars(kind).get("__data_contract__")
    if isinstance(own, Contract):
        return own
    inherited = getattr(kind, "__data_contract__", None)
    return Contract(kind.__name__, inherited.namespace if isinstance(inherited, Contract) else CONTRACTS)


@dataclass(frozen=True, slots=True)
class Member:
    """A field of a dataclass as [DataMember] has it."""

    field: "Field[Any]"
    name: str
    owner: type  # the class that defines it, whose namespace it has
    kind: Any  # its annotation; None if that cannot be resolved
    order: int
    emit_default: bool

    @property
    def namespace(self) -> str:
        return contract_of(self.owner).namespace

    @property
    def is_required(self) -> bool:
        return self.field.default is MISSING and self.field.default_factory is MISSING

    @property
    def default(self) -> Any:
        if self.field.default is not MISSING:
            return self.field.default
        return None if self.field.default_factory is MISSING else self.field.default_factory()


@lru_cache(maxsize=1024)
def members_of(kind: Any) -> tuple[Member, ...]:
    """The members of a dataclass in the order of DataContractSerializer: base classes first, then by Order,
    then by name (ordinal).
    """
    owners: dict[str, tuple[int, type]] = {}
    for level, cls in enumerate(reversed(kind.__mro__)):
        for name in getattr(cls, "__annotations__", {}):
            owners.setdefault(name, (level, cls))
    try:
        hints = get_type_hints(kind)
    except NameError:  # a forward reference to a class inside of a function
        hints = {}
    found = []
    for each in fields(kind):
        name, order, emit_default = each.metadata.get("data_member", ("", -1, True))
        level, owner = owners.get(each.name, (0, kind))
        kind_ = getattr(hints.get(each.name), "__supertype__", hints.get(each.name))  # of a NewType
        made = Member(each, name or each.name, owner, kind_, order, emit_default)
        found.append((level, made))
    found.sort(key=lambda one: (one[0], one[1].order, one[1].name))
    return tuple(made for _, made in found)


def base_of(kind: type) -> type | None:
    """The contract that a contract extends."""
    return next((each for each in kind.__mro__[1:] if is_dataclass(each)), None)


def derived_from(kind: type) -> list[type]:
    """The dataclasses that extend a contract, those of .NET's [KnownType]."""
    found: list[type] = []
    subclasses: list[type] = kind.__subclasses__()
    for each in subclasses:
        found += [each, *derived_from(each)]
    return [each for each in found if is_dataclass(each)]


# The names of types. A kind is a class or an annotation such as list[int] or int | None.

_SCALARS: Final[dict[Any, Contract]] = {
    str: Contract("string", XS),
    bool: Contract("boolean", XS),
    int: Contract("int", XS),
    Long: Contract("long", XS),
    float: Contract("double", XS),
    Decimal: Contract("decimal", XS),
    datetime: Contract("dateTime", XS),
    date: Contract("dateTime", XS),  # .NET has no other type for it
    time: Contract("time", XS),
    bytes: Contract("base64Binary", XS),
    timedelta: Contract("duration", SERIALIZATION),
    UUID: Contract("guid", SERIALIZATION),
}
ANY_TYPE: Final = Contract("anyType", XS)


def without_none(kind: Any) -> tuple[Any, bool]:
    """X and True for X | None, else the kind and False; of a union of several it can be any type."""
    if get_origin(kind) not in {Union, types.UnionType}:
        return kind, False
    others = [each for each in get_args(kind) if each is not types.NoneType]
    return (others[0] if len(others) == 1 else object), len(others) < len(get_args(kind))


def item_kind(kind: Any) -> Any:
    """X of list[X]; None if the kind is not a list."""
    origin = get_origin(kind) or kind
    if origin not in _LISTS:
        return None
    return (get_args(kind) or (object,))[0]


def is_value_type(kind: Any) -> bool:
    """Whether .NET's type cannot be null by itself."""
    return (kind in _SCALARS and kind not in {str, bytes}) or (
        isinstance(kind, type) and issubclass(kind, Enum)
    )


def name_of(kind: Any) -> Contract:
    """The name of a type, as i:type and schemas have it."""
    kind, may_be_none = without_none(kind)
    item = item_kind(kind)
    if kind in _SCALARS:
        found = _SCALARS[kind]
    elif item is not None:
        return Contract(f"ArrayOf{name_of(item).name}", item_name(item).namespace)
    elif isinstance(kind, type) and (is_dataclass(kind) or issubclass(kind, Enum)):
        found = contract_of(kind)
    else:
        found = ANY_TYPE
    if may_be_none and is_value_type(kind):
        return Contract(f"NullableOf{found.name}", SYSTEM)
    return found


def item_name(kind: Any) -> Contract:
    """The name of the elements that the items of a list are written as."""
    plain, may_be_none = without_none(kind)
    found = name_of(plain)
    if may_be_none and is_value_type(plain):
        return Contract(found.name, SYSTEM)
    return Contract(found.name, ARRAYS) if found.namespace in {XS, SERIALIZATION} else found
