"""A decoded body, as a value and as text."""

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tiercel.bodies.numbers import float_name

# JSON values, and bytes. Dates, GUIDs and decimals are exact text.
Value = None | bool | int | float | str | bytes | Sequence["Value"] | Mapping[str, "Value"]


class Kind(StrEnum):
    """The kind of a body."""

    EMPTY = "empty"  # no bytes, or VT_NULL
    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"
    DATE = "date"
    GUID = "guid"
    ARRAY = "array"  # elements of the type that the body type names
    XML = "xml"
    JSON = "json"
    WCF = "wcf"  # envelopes of NetMsmqBinding
    DOTNET = "dotnet"  # .NET's BinaryFormatter
    OBJECT = "object"  # a COM object's saved state
    BYTES = "bytes"  # according to the body type
    BINARY = "binary"  # unknown format


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded body. With an `error` there is no value; `text` may still be set."""

    kind: Kind
    value: Value = None
    text: str | None = None  # readable text; None for bytes
    error: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)  # of WCF: action, to, message_id

    @property
    def json(self) -> str | None:
        """The value as JSON text, bytes in base64; None if the body is only bytes."""
        if self.error is not None or isinstance(self.value, bytes) or self.kind is Kind.EMPTY:
            return None
        if self.kind is Kind.JSON:
            return self.text  # as written: a number keeps its digits
        return to_json(self.value)


def to_json(value: Value) -> str:
    try:
        return _dumps(value)
    except ValueError:  # JSON has no infinities; .NET writes their names
        return _dumps(_named(value))


def _dumps(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_base64)


def _base64(value: Any) -> str:
    return base64.b64encode(value).decode()


def _named(value: Value) -> Value:
    match value:
        case float() if not math.isfinite(value):
            return float_name(value)
        case list():
            return [_named(item) for item in value]
        case dict():
            return {name: _named(item) for name, item in value.items()}
    return value


def plain_text(value: str | float) -> str:
    """A single value as text."""
    return value if isinstance(value, str) else to_json(value).strip('"')


def valid_text(text: str) -> str:
    """The text without unpaired surrogates, which UTF-8 cannot carry: each becomes U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
