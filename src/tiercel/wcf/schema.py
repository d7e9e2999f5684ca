"""The XML Schema of an operation's parameters, as .NET's tools read it."""

from collections.abc import Mapping
from enum import Enum, Flag
from typing import Any, Final
from xml.etree.ElementTree import Element, QName, SubElement

from tiercel.model.errors import InvalidParameterError
from tiercel.nbfx.elements import SERIALIZATION
from tiercel.wcf.data_contract import (
    ANY_TYPE,
    XS,
    Contract,
    Long,
    base_of,
    derived_from,
    is_value_type,
    item_kind,
    item_name,
    members_of,
    name_of,
    without_none,
)

_GUID: Final = r"[\da-fA-F]{8}-[\da-fA-F]{4}-[\da-fA-F]{4}-[\da-fA-F]{4}-[\da-fA-F]{12}"


class Schemas:
    """The schemas of one document, by target namespace."""

    def __init__(self) -> None:
        self.by_namespace: dict[str, Element] = {}
        self._defined: set[Contract] = set()
        self._wrappers: set[Contract] = set()  # elements may have the names of types

    def of(self, namespace: str) -> Element:
        if namespace not in self.by_namespace:
            settings = {"targetNamespace": namespace, "elementFormDefault": "qualified"}
            self.by_namespace[namespace] = Element(f"{{{XS}}}schema", settings)
        return self.by_namespace[namespace]

    def wrapper(self, name: str, namespace: str, parameters: Mapping[str, Any] | None) -> None:
        """The element of an operation; without known parameters it may contain anything."""
        wrapper = Contract(name, namespace)
        if wrapper in self._wrappers:
            return
        self._wrappers.add(wrapper)
        element = SubElement(self.of(namespace), f"{{{XS}}}element", name=name)
        sequence = SubElement(SubElement(element, f"{{{XS}}}complexType"), f"{{{XS}}}sequence")
        if parameters is None:
            SubElement(sequence, f"{{{XS}}}any", minOccurs="0", maxOccurs="unbounded", processContents="lax")
            return
        for parameter, kind in parameters.items():
            self._member(sequence, namespace, parameter, kind)

    def _is_new(self, name: Contract) -> bool:
        if name in self._defined:
            return False
        self._defined.add(name)
        return True

    def _member(self, sequence: Element, home: str, name: str, kind: Any) -> None:
        element = SubElement(sequence, f"{{{XS}}}element", name=name, minOccurs="0")
        plain, may_be_none = without_none(kind)
        if plain is int:  # as large as Python's may become; in a list the name of the items says which it is
            kind = Long | None if may_be_none else Long
        self._set_type(element, home, kind)

    def _set_type(self, element: Element, home: str, kind: Any) -> None:
        plain, may_be_none = without_none(kind)
        defined = self._define(plain)
        _set_name(element, "type", defined)
        if may_be_none or not is_value_type(plain):
            element.set("nillable", "true")
        self._import(home, defined.namespace)

    def _import(self, home: str, namespace: str) -> None:
        schema = self.of(home)
        if namespace in {home, XS} or any(each.get("namespace") == namespace for each in schema):
            return
        schema.insert(0, Element(f"{{{XS}}}import", namespace=namespace))

    def _define(self, kind: Any) -> Contract:
        """The name of a type, which is defined if need be."""
        name = name_of(kind)
        if name == ANY_TYPE and kind not in {Any, object}:
            limit, fix = "a type of a data contract", "use another"
            raise InvalidParameterError("parameters", present=kind, limit=limit, fix=fix)
        if (item := item_kind(kind)) is not None:
            return self._array(item)
        if name.namespace != XS and self._is_new(name):
            if name.namespace == SERIALIZATION:
                self._serialization(name)
            elif issubclass(kind, Enum):
                self._enumeration(name, kind)
            else:
                self._contract(name, kind)
        return name

    def _serialization(self, name: Contract) -> None:
        is_guid = name.name == "guid"
        restriction = self._restriction(name, "string" if is_guid else "duration")
        if is_guid:
            SubElement(restriction, f"{{{XS}}}pattern", value=_GUID)

    def _restriction(self, name: Contract, base: str, *, is_list: bool = False) -> Element:
        simple = SubElement(self.of(name.namespace), f"{{{XS}}}simpleType", name=name.name)
        if is_list:
            simple = SubElement(SubElement(simple, f"{{{XS}}}list"), f"{{{XS}}}simpleType")
        restriction = SubElement(simple, f"{{{XS}}}restriction")
        _set_name(restriction, "base", Contract(base, XS))
        return restriction

    def _array(self, item: Any) -> Contract:
        name, each = name_of(list[item]), item_name(item)
        if self._is_new(name):
            sequence = self._sequence(name)
            element = SubElement(
                sequence, f"{{{XS}}}element", name=each.name, minOccurs="0", maxOccurs="unbounded"
            )
            self._set_type(element, name.namespace, item)
        return name

    def _sequence(self, name: Contract, base: Contract | None = None) -> Element:
        content = SubElement(self.of(name.namespace), f"{{{XS}}}complexType", name=name.name)
        if base is not None:
            content = SubElement(SubElement(content, f"{{{XS}}}complexContent"), f"{{{XS}}}extension")
            _set_name(content, "base", base)
        return SubElement(content, f"{{{XS}}}sequence")

    def _enumeration(self, name: Contract, kind: type[Enum]) -> None:
        restriction = self._restriction(name, "string", is_list=issubclass(kind, Flag))
        for each in kind:
            SubElement(restriction, f"{{{XS}}}enumeration", value=each.name)

    def _contract(self, name: Contract, kind: Any) -> None:
        """A contract, the one that it extends, and those that extend it: a value may be any of these."""
        base = base_of(kind)
        extended = None if base is None else self._define(base)
        if extended is not None:
            self._import(name.namespace, extended.namespace)
        sequence = self._sequence(name, extended)
        for each in members_of(kind):
            if base is None or each.owner not in base.__mro__:
                self._member(sequence, name.namespace, each.name, Any if each.kind is None else each.kind)
        for derived in derived_from(kind):
            self._define(derived)


def _set_name(element: Element, attribute: str, name: Contract) -> None:
    element.set(attribute, QName(name.namespace, name.name))  # type: ignore[arg-type]  # written with a prefix
