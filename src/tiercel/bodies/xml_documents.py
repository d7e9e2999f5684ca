"""XML to a value, in the shapes that .NET's XmlSerializer, and so XmlMessageFormatter, write.

`<string>`, `<int>`, ... as the root, in an `ArrayOf...` or with xsi:type are values of that type; an element
with children is a dict, a repeated child a list, an attribute `@name`. Members of a class are strings: the
document does not have their types. DTDs are refused, so there is nothing to expand and nothing to fetch.
"""

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

from tiercel.bodies.decoded import Value, valid_text
from tiercel.bodies.limits import DEPTH_MAX, ITEMS_MAX
from tiercel.model.errors import DecodeError

_XSI = "http://www.w3.org/2001/XMLSchema-instance"
_NIL, _TYPE = f"{_XSI} nil", f"{_XSI} type"
_ARRAY = "ArrayOf"
_NAMESPACE_MAX = 1000


def read_xml(text: str) -> Value:
    """The value of the document's root; DecodeError if it is malformed, too deep or too large."""
    # The text is already decoded, so the encoding in its declaration no longer applies.
    parser = expat.ParserCreate("utf-8", namespace_separator=" ")
    builder = _Builder(parser)
    try:
        parser.Parse(valid_text(text).lstrip().encode(), True)
    except expat.ExpatError as problem:
        raise DecodeError("XML", "document", parser.ErrorByteIndex, str(problem)) from None
    return builder.root


@dataclass(slots=True)
class _Element:
    name: str
    attributes: dict[str, str]
    is_typed: bool  # the element name is the type name
    children: list[tuple[str, Value]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def type_name(self) -> str | None:
        if _TYPE in self.attributes:
            return self.attributes[_TYPE].rpartition(":")[2]
        return self.name if self.is_typed else None

    @property
    def is_array(self) -> bool:
        return (self.type_name or self.name).startswith(_ARRAY)

    def value(self) -> Value:
        if self.attributes.get(_NIL) in {"true", "1"}:
            return None
        if self.is_array and not self.has_text:
            return [value for _, value in self.children]
        if not self.children and not self.own_attributes:
            return _scalar(self.type_name, "".join(self.texts))
        return self._members()

    @property
    def has_text(self) -> bool:
        return any(text.strip() for text in self.texts)

    @property
    def own_attributes(self) -> dict[str, str]:
        return {name: value for name, value in self.attributes.items() if name not in {_NIL, _TYPE}}

    def _members(self) -> Value:
        members: dict[str, Value] = {}
        if _TYPE in self.attributes:
            members["$type"] = self.type_name
        for name, text in self.own_attributes.items():
            members["@" + _local(name)] = text
        repeated: dict[str, list[Value]] = {}
        for name, value in self.children:
            if name in repeated:
                repeated[name].append(value)
            elif name in members:
                repeated[name] = [members[name], value]
                members[name] = repeated[name]
            else:
                members[name] = value
        if self.has_text:
            members["#text"] = "".join(self.texts)
        return members


class _Builder:
    """Collects the parser's events, innermost element last."""

    def __init__(self, parser: expat.XMLParserType) -> None:
        self.root: Value = None
        self._open: list[_Element] = []
        self._items = 0
        self._parser = parser
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        parser.StartNamespaceDeclHandler = self._check_namespace
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text

    def _refuse_doctype(self, *_: object) -> NoReturn:
        raise self._error("DOCTYPE", "document types are not read: they can name files and grow without end")

    def _check_namespace(self, _: str | None, uri: str | None) -> None:
        # The parser repeats the full namespace name with each element in it.
        if len(uri or "") > _NAMESPACE_MAX:
            raise self._error("xmlns", f"the name of a namespace has more than {_NAMESPACE_MAX} characters")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._items += 1 + len(attributes)
        if self._items > ITEMS_MAX:
            raise self._error("element", f"has more than {ITEMS_MAX} elements and attributes")
        if len(self._open) == DEPTH_MAX:
            raise self._error("element", f"is nested deeper than {DEPTH_MAX} levels")
        is_typed = not self._open or self._open[-1].is_array
        self._open.append(_Element(_local(name), attributes, is_typed))

    def _end(self, _: str) -> None:
        element = self._open.pop()
        try:
            value = element.value()
        except ValueError as problem:
            raise self._error(element.name, str(problem)) from None
        if self._open:
            self._open[-1].children.append((element.name, value))
        else:
            self.root = value

    def _text(self, text: str) -> None:
        if self._open:
            self._open[-1].texts.append(text)

    def _error(self, field_name: str, problem: str) -> DecodeError:
        return DecodeError("XML", field_name, self._parser.CurrentByteIndex, problem)


def _local(name: str) -> str:
    return name.rpartition(" ")[2]


# The types of XML Schema that XmlSerializer uses; all others, including dates, stay strings


def _scalar(type_name: str | None, text: str) -> Value:
    read = _TYPES.get(type_name or "")
    return text if read is None else read(text.strip())


_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)")
_DOUBLE = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?|NaN|-?INF")
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def _integer(text: str) -> int:
    _check(_INTEGER, text, "integer")
    return int(text)


def _decimal(text: str) -> str:
    _check(_DECIMAL, text, "decimal")
    return text


def _double(text: str) -> float:
    _check(_DOUBLE, text, "number")
    return float(text)


def _check(pattern: re.Pattern[str], text: str, noun: str) -> None:
    if not pattern.fullmatch(text):
        raise ValueError(f"{text[:40]!a} is not a valid {noun}")


def _boolean(text: str) -> bool:
    if text not in _BOOLEANS:
        raise ValueError(f"{text[:40]!a} is not a valid boolean")
    return _BOOLEANS[text]


def _char(text: str) -> str:
    code = _integer(text)
    if not 0 <= code <= 0xFFFF:
        raise ValueError(f"{code} is not a valid character")
    return valid_text(chr(code))


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except binascii.Error as problem:
        raise ValueError(f"is no base64: {problem}") from None


def _hexadecimal(text: str) -> bytes:
    return bytes.fromhex(text)


_TYPES: dict[str, Callable[[str], Value]] = {
    "boolean": _boolean,
    "decimal": _decimal,
    "double": _double,
    "float": _double,
    "char": _char,
    "base64Binary": _base64,
    "hexBinary": _hexadecimal,
    **dict.fromkeys(("byte", "unsignedByte", "short", "unsignedShort", "int", "unsignedInt"), _integer),
    **dict.fromkeys(("long", "unsignedLong", "integer", "nonNegativeInteger"), _integer),
}
