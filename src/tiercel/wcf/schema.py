"""The XML Schema of an operation's parameters, as .NET's tools read it."""

import types
from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final, Union, get_args, get_origin, get_type_hints
from uuid import UUID
from xml.etree.ElementTree import Element, QName, SubElement

from tiercel.model.errors import InvalidParameterError
from tiercel.nbfx.elements import SERIALIZATION
from tiercel.wcf.data_contract import ARRAYS, CONTRACTS, contract_of, member_name, members_of

XS: Final = "http://www.w3.org/2001/XMLSchema"
_SCALARS: Final[dict[Any, tuple[str, str, bool]]] = {  # namespace, name, whether it can be nil
    str: (XS, "string", True),
    bool: (XS, "boolean", False),
    int: (XS, "long", False),
    float: (XS, "double", False),
    Decimal: (XS, "decimal", False),
    datetime: (XS, "dateTime", False),
    date: (XS, "date", False),
    time: (XS, "time", False),
    bytes: (XS, "base64Binary", True),
    timedelta: (SERIALIZATION, "duration", False),
    UUID: (SERIALIZATION, "guid", False),
    Any: (XS, "anyType", True),
    object: (XS, "anyType", True),
}
_GUID: Final = r"[\da-fA-F]{8}-[\da-fA-F]{4}-[\da-fA-F]{4}-[\da-fA-F]{4}-[\da-fA-F]{12}"


class Schemas:
    """The schemas of one document, by target namespace."""

    def __init__(self) -> None:
        self.by_namespace: dict[str, Element] = {}
        self._defined: set[tuple[str, str]] = set()

    def of(self, namespace: str) -> Element:
        if namespace not in self.by_namespace:
            settings = {"targetNamespace": namespace, "elementFormDefault": "qualified"}
            self.by_namespace[namespace] = Element(f"{{{XS}}}schema", settings)
        return self.by_namespace[namespace]

    def wrapper(self, name: str, namespace: str, parameters: Mapping[str, Any] | None) -> None:
        """The element of an operation; without known parameters it may contain anything."""
        if not self._is_new(namespace, name):
            return
        element = SubElement(self.of(namespace), f"{{{XS}}}element", name=name)
        sequence = SubElement(SubElement(element, f"{{{XS}}}complexType"), f"{{{XS}}}sequence")
        if parameters is None:
            SubElement(sequence, f"{{{XS}}}any", minOccurs="0", maxOccurs="unbounded", processContents="lax")
            return
        for parameter, kind in parameters.items():
            self._member(sequence, namespace, parameter, kind)

    def _is_new(self, namespace: str, name: str) -> bool:
        if (namespace, name) in self._defined:
            return False
        self._defined.add((namespace, name))
        return True

    def _member(self, sequence: Element, home: str, name: str, kind: Any) -> None:
        (namespace, type_name), nillable = self._type(kind)
        element = SubElement(sequence, f"{{{XS}}}element", name=name, minOccurs="0")
        element.set("type", QName(namespace, type_name))  # type: ignore[arg-type]  # written with a prefix
        if nillable:
            element.set("nillable", "true")
        self._import(home, namespace)

    def _import(self, home: str, namespace: str) -> None:
        schema = self.of(home)
        if namespace in {home, XS} or any(each.get("namespace") == namespace for each in schema):
            return
        schema.insert(0, Element(f"{{{XS}}}import", namespace=namespace))

    def _type(self, kind: Any) -> tuple[tuple[str, str], bool]:
        """The name of a type, which is defined if need be, and whether a value may be nil."""
        origin, arguments = get_origin(kind), get_args(kind)
        if origin in {Union, types.UnionType}:
            others = [each for each in arguments if each is not types.NoneType]
            found, nillable = self._type(others[0]) if len(others) == 1 else self._type(Any)
            return found, nillable or len(others) < len(arguments)
        if kind in _SCALARS:
            namespace, name, nillable = _SCALARS[kind]
            if namespace == SERIALIZATION:
                self._serialization(name)
            return (namespace, name), nillable
        if origin in {list, tuple, set, frozenset}:
            return self._array(arguments[0] if arguments else Any), True
        if isinstance(kind, type) and issubclass(kind, Enum):
            return self._enumeration(kind), False
        if isinstance(kind, type) and is_dataclass(kind):
            return self._contract(kind), True
        raise InvalidParameterError(
            "parameters", present=kind, limit="a type of a data contract", fix="use another"
        )

    def _serialization(self, name: str) -> None:
        if self._is_new(SERIALIZATION, name):
            base, pattern = ("string", _GUID) if name == "guid" else ("duration", "")
            simple = SubElement(self.of(SERIALIZATION), f"{{{XS}}}simpleType", name=name)
            restriction = SubElement(simple, f"{{{XS}}}restriction")
            restriction.set("base", QName(XS, base))  # type: ignore[arg-type]
            if pattern:
                SubElement(restriction, f"{{{XS}}}pattern", value=pattern)

    def _array(self, item: Any) -> tuple[str, str]:
        (item_namespace, item_name), nillable = self._type(item)
        namespace = item_namespace if item_namespace not in {XS, SERIALIZATION} else ARRAYS
        name = f"ArrayOf{item_name}"
        if self._is_new(namespace, name):
            sequence = self._sequence(namespace, name)
            element = SubElement(
                sequence, f"{{{XS}}}element", name=item_name, minOccurs="0", maxOccurs="unbounded"
            )
            element.set("type", QName(item_namespace, item_name))  # type: ignore[arg-type]
            if nillable:
                element.set("nillable", "true")
            self._import(namespace, item_namespace)
        return namespace, name

    def _sequence(self, namespace: str, name: str) -> Element:
        complex_type = SubElement(self.of(namespace), f"{{{XS}}}complexType", name=name)
        return SubElement(complex_type, f"{{{XS}}}sequence")

    def _enumeration(self, kind: type[Enum]) -> tuple[str, str]:
        if self._is_new(CONTRACTS, kind.__name__):
            simple = SubElement(self.of(CONTRACTS), f"{{{XS}}}simpleType", name=kind.__name__)
            restriction = SubElement(simple, f"{{{XS}}}restriction")
            restriction.set("base", QName(XS, "string"))  # type: ignore[arg-type]
            for each in kind:
                SubElement(restriction, f"{{{XS}}}enumeration", value=each.name)
        return CONTRACTS, kind.__name__

    def _contract(self, kind: Any) -> tuple[str, str]:
        contract = contract_of(kind)
        if self._is_new(contract.namespace, contract.name):
            sequence = self._sequence(contract.namespace, contract.name)
            hints = get_type_hints(kind)
            for each in members_of(kind):
                self._member(sequence, contract.namespace, member_name(each), hints[each.name])
        return contract.namespace, contract.name
