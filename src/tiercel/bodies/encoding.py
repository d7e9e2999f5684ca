"""Encodes values for Windows programs: `queue.send(Message(**encode("hello", "xml")._asdict()))`."""

import base64
import json
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple
from uuid import UUID
from xml.sax.saxutils import escape  # for writing only

from tiercel.bodies.times import ole_date
from tiercel.bodies.variants import VECTOR
from tiercel.model.codes import BodyType
from tiercel.model.errors import InvalidParameterError

Form = Literal["xml", "activex", "binary", "json", "utf-8", "bstr", "lpwstr", "lpstr"]


class Encoded(NamedTuple):
    """The fields `body` and `body_type` of a `Message`."""

    body: bytes
    body_type: int


def encode(value: Any, form: Form, *, name: str | None = None) -> Encoded:
    """The body and body type of a value; `xml`, `activex` and `binary` are the formats of .NET's formatters.

    `name` is the root element of a dict as `xml`: the name of the class on the other side. A value that the
    form cannot carry is an InvalidParameterError.
    """
    if form not in _FORMS:
        known = ", ".join(_FORMS)
        raise InvalidParameterError(f"form {form!a}", problem="unknown form", fix=f"use one of {known}")
    try:
        body, body_type = _FORMS[form](value, name)
    except (ValueError, TypeError, struct.error, OverflowError) as problem:
        is_range = isinstance(problem, struct.error)  # Python's own text differs between versions
        raise InvalidParameterError(
            f"{type(value).__name__} as {form}",
            problem="number out of range" if is_range else str(problem),
            fix="pass another value or choose another form",
        ) from None
    return Encoded(body, int(body_type))  # a plain int: Spark accepts no other


def _need(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"takes {kind.__name__}, not {type(value).__name__}")
    return value


# Text and JSON


def _utf_16(body_type: int) -> Callable[[Any, str | None], Encoded]:
    return lambda value, _: Encoded(_need(value, str).encode("utf-16-le", "surrogatepass"), body_type)


def _lpstr(value: Any, _: str | None) -> Encoded:
    # The reader uses its own code page, so only ASCII is certain to survive.
    return Encoded(_need(value, str).encode("ascii"), BodyType.LPSTR)


def _utf_8(value: Any, _: str | None) -> Encoded:
    return Encoded(_need(value, str).encode(), BodyType.EMPTY)


def _json(value: Any, _: str | None) -> Encoded:
    return Encoded(json.dumps(value, ensure_ascii=False, allow_nan=False).encode(), BodyType.EMPTY)


# ActiveXMessageFormatter


def _activex(value: Any, _: str | None) -> Encoded:
    match value:
        case None:
            return Encoded(b"", BodyType.NULL)
        case bool():
            return Encoded(b"\xff\xff" if value else b"\0\0", BodyType.BOOL)
        case int():
            return _activex_int(value)
        case float():
            return Encoded(struct.pack("<d", value), BodyType.R8)
        case str():
            return Encoded(value.encode("utf-16-le", "surrogatepass"), BodyType.BSTR)
        case bytes():
            return Encoded(value, VECTOR | BodyType.UI1)
        case Decimal():
            return Encoded(struct.pack("<q", _exact(value * 10_000)), BodyType.CY)
        case datetime():
            return Encoded(struct.pack("<d", ole_date(_need_naive(value))), BodyType.DATE)
        case UUID():
            return Encoded(value.bytes_le, BodyType.CLSID)
    raise TypeError(f"{type(value).__name__} has no VARTYPE")


def _activex_int(value: int) -> Encoded:
    for body_type, code in (BodyType.I4, "<i"), (BodyType.I8, "<q"), (BodyType.UI8, "<Q"):
        try:
            return Encoded(struct.pack(code, value), body_type)
        except struct.error:
            continue
    raise ValueError(f"{value} needs more than 64 bits")


def _exact(number: Decimal) -> int:
    if number != int(number):
        raise ValueError("a currency has four decimals")
    return int(number)


def _need_naive(value: datetime) -> datetime:
    if value.tzinfo is not None:
        raise ValueError("VT_DATE has no time zone: pass a datetime without one, in the reader's zone")
    return value


# XmlMessageFormatter

_XML_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_NAMESPACES = (
    ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema"'
)


def _xml(value: Any, name: str | None) -> Encoded:
    if value is None:
        element = f'<anyType{_NAMESPACES} xsi:nil="true" />'
    elif isinstance(value, Mapping):
        if name is None:
            raise ValueError("a dict needs name=, the root element: the class that the reader expects")
        element = _element(name, value, _NAMESPACES)
    elif isinstance(value, list | tuple):
        element = _array(value)
    else:
        type_name, text = _scalar(value)
        element = f"<{name or type_name}>{text}</{name or type_name}>"
    return Encoded(f'<?xml version="1.0"?>\r\n{element}'.encode(), BodyType.EMPTY)


def _scalar(value: Any) -> tuple[str, str]:
    """The type name and the text, as XmlSerializer writes them."""
    match value:
        case bool():
            return "boolean", str(value).lower()
        case int():
            return ("int" if -(1 << 31) <= value < 1 << 31 else "long"), str(value)
        case float():
            return "double", {"inf": "INF", "-inf": "-INF", "nan": "NaN"}.get(repr(value), repr(value))
        case Decimal():
            return "decimal", f"{value:f}"
        case str():
            if found := _XML_ILLEGAL.search(value):
                raise ValueError(f"XML cannot carry the character U+{ord(found[0]):04X}")
            return "string", escape(value).replace("\r", "&#xD;")
        case bytes():
            return "base64Binary", base64.b64encode(value).decode()
        case datetime():
            return "dateTime", value.isoformat()
        case UUID():
            return "guid", str(value)
    raise TypeError(f"{type(value).__name__} has no type in XML Schema")


def _array(values: Iterable[Any]) -> str:
    items = [_scalar(value) for value in values]
    types = {type_name for type_name, _ in items}
    if types == {"int", "long"}:
        types = {"long"}
    if len(types) != 1:
        raise ValueError("an array has items of one type, at least one")
    (type_name,) = types
    root = f"ArrayOf{type_name[0].upper()}{type_name[1:]}"
    inner = "".join(f"<{type_name}>{text}</{type_name}>" for _, text in items)
    return f"<{root}{_NAMESPACES}>{inner}</{root}>"


def _element(name: str, value: Any, attributes: str = "") -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!a} is not a valid element name")
    match value:
        case None:
            return f'<{name}{attributes} xsi:nil="true" />'
        case Mapping():
            inner = "".join(_member(key, item) for key, item in value.items())
        case _:
            inner = _scalar(value)[1]
    return f"<{name}{attributes}>{inner}</{name}>"


def _member(name: str, value: Any) -> str:
    values = value if isinstance(value, list | tuple) else [value]
    return "".join(_element(name, item) for item in values)


# BinaryMessageFormatter: one object, so the stream is a header, one record and MessageEnd

_HEADER = struct.pack("<Biiii", 0, 1, -1, 1, 0)
_END = b"\x0b"
_FIRST = struct.pack("<i", 1)


def _binary(value: Any, _: str | None) -> Encoded:
    return Encoded(_HEADER + _record(value) + _END, BodyType.BINARY_OBJECT)


def _record(value: Any) -> bytes:
    match value:
        case bool():
            return _boxed("System.Boolean", 1, struct.pack("<?", value))
        case int() if -(1 << 31) <= value < 1 << 31:
            return _boxed("System.Int32", 8, struct.pack("<i", value))
        case int():
            return _boxed("System.Int64", 9, struct.pack("<q", value))
        case float():
            return _boxed("System.Double", 6, struct.pack("<d", value))
        case str():
            return b"\x06" + _FIRST + _prefixed(value)
        case bytes():
            return b"\x0f" + _FIRST + struct.pack("<iB", len(value), 2) + value
        case list() | tuple():
            return _strings(value)
    raise TypeError(
        f"{type(value).__name__} is not written as binary: bool, int, float, str, bytes, list of str are"
    )


def _boxed(name: str, primitive: int, data: bytes) -> bytes:
    """A SystemClassWithMembersAndTypes with the one member m_value."""
    types = struct.pack("<BB", 0, primitive)
    return b"\x04" + _FIRST + _prefixed(name) + struct.pack("<i", 1) + _prefixed("m_value") + types + data


def _strings(values: Iterable[Any]) -> bytes:
    """An ArraySingleString; the strings are objects 2, 3, ..."""
    texts = [_prefixed(_need(value, str)) for value in values]
    items = [b"\x06" + struct.pack("<i", number) + text for number, text in enumerate(texts, 2)]
    return b"\x11" + _FIRST + struct.pack("<i", len(items)) + b"".join(items)


def _prefixed(text: str) -> bytes:
    """A LengthPrefixedString."""
    data = text.encode()
    size, prefix = len(data), bytearray()
    while size >= 0x80:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes(prefix) + bytes([size]) + data


_FORMS: dict[str, Callable[[Any, str | None], Encoded]] = {
    "xml": _xml,
    "activex": _activex,
    "binary": _binary,
    "json": _json,
    "utf-8": _utf_8,
    "bstr": _utf_16(BodyType.BSTR),
    "lpwstr": _utf_16(BodyType.LPWSTR),
    "lpstr": _lpstr,
}
