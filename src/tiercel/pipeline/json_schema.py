"""JSON Schema as a type of Spark.

Only what can be a column or be checked is taken; every other keyword is refused, because a rule that is
silently not applied is worse than none. A member that is not required may be absent or null.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import types as t

from tiercel.pipeline.typed import CHECKS, Shape
from tiercel.server.config import ConfigError

# What says nothing about values.
_WORDS: Final = frozenset(
    {"$schema", "$id", "$defs", "$comment", "definitions", "title", "description", "default", "examples"}
    | {"deprecated", "readOnly", "writeOnly"}
)
_STRUCTURE: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "format", "contentEncoding", "$ref"}
)
_TEXTS: Final[Mapping[str, t.DataType]] = {"date": t.DateType(), "date-time": t.TimestampType()}
_NUMBERS: Final[Mapping[str, t.DataType]] = {"int32": t.IntegerType(), "float": t.FloatType()}


def shape_of_json_schema(text: str) -> Shape:
    """The shape of a document; a `ConfigError` names what cannot be used."""
    try:
        document = json.loads(text)
    except ValueError as problem:
        raise ConfigError(f"[decode] schema: not valid JSON ({problem})") from problem
    return _Reader(document).shape(document, "#", is_required=True)


class _Reader:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._open: list[str] = []  # references that are being followed

    def shape(self, schema: Any, place: str, *, is_required: bool) -> Shape:
        if not isinstance(schema, dict):
            raise _wrong(place, "must be an object")
        if "$ref" in schema:
            return self._referred(schema, place, is_required=is_required)
        for name in schema:
            if name not in _WORDS | _STRUCTURE | CHECKS.keys():
                raise _wrong(place, f"{name} is not supported")
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else list(kinds)
        wanted = [each for each in kinds if each != "null"]
        if len(wanted) != 1:
            raise _wrong(place, 'needs one "type", beside null: a column has one type')
        made = self._of(wanted[0], schema, place)
        checks = tuple((name, schema[name]) for name in CHECKS if name in schema)
        _check_checks(checks, made.kind, place)
        return replace(made, is_required=is_required and "null" not in kinds, checks=checks)

    def _referred(self, schema: Mapping[str, Any], place: str, *, is_required: bool) -> Shape:
        name = schema["$ref"]
        if not isinstance(name, str) or not name.startswith("#/"):
            raise _wrong(
                place, f"$ref {name!r}: only references into the same document, such as #/$defs/line"
            )
        if name in self._open:
            raise _wrong(place, f"$ref {name}: refers to itself, and a column has a fixed depth")
        found: Any = self._document
        for part in name[2:].split("/"):
            found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        self._open.append(name)
        try:
            return self.shape(found, name, is_required=is_required)
        finally:
            self._open.pop()

    def _of(self, kind: str, schema: Mapping[str, Any], place: str) -> Shape:
        form = schema.get("format", "")
        match kind:
            case "object":
                return self._object(schema, place)
            case "array":
                inner = self.shape(schema.get("items"), f"{place}/items", is_required=True)
                return Shape(t.ArrayType(inner.kind), inner=inner)
            case "string":
                is_binary = schema.get("contentEncoding") == "base64"
                return Shape(t.BinaryType() if is_binary else _TEXTS.get(form, t.StringType()))
            case "integer":
                return Shape(_NUMBERS.get(form, t.LongType()))
            case "number":
                decimal = re.fullmatch(r"decimal\((\d{1,2}), ?(\d{1,2})\)", form)  # JSON Schema has none
                if decimal and int(decimal[2]) <= int(decimal[1]) <= 38:
                    return Shape(t.DecimalType(int(decimal[1]), int(decimal[2])))
                return Shape(_NUMBERS.get(form, t.DoubleType()))
            case "boolean":
                return Shape(t.BooleanType())
        raise _wrong(place, f"type {kind!r} is not one of object, array, string, integer, number, boolean")

    def _object(self, schema: Mapping[str, Any], place: str) -> Shape:
        required, more = schema.get("required", []), schema.get("additionalProperties", True)
        properties = schema.get("properties", {})
        if not properties and isinstance(more, dict):
            inner = self.shape(more, f"{place}/additionalProperties", is_required=True)
            return Shape(t.MapType(t.StringType(), inner.kind), inner=inner)
        if not isinstance(properties, dict) or not properties or not isinstance(more, bool):
            raise _wrong(place, "an object needs properties, or additionalProperties with a schema")
        parts = {
            name: self.shape(each, f"{place}/properties/{name}", is_required=name in required)
            for name, each in properties.items()
        }
        kind = t.StructType([t.StructField(name, each.kind) for name, each in parts.items()])
        return Shape(kind, parts=parts, is_closed=more is False)


# The types whose values a keyword is about; for others, JSON Schema would ignore it.
_NUMERIC: Final = (t.LongType, t.IntegerType, t.DoubleType, t.FloatType, t.DecimalType)
_ABOUT: Final[Mapping[str, tuple[type[t.DataType], ...]]] = {
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMERIC),
    **dict.fromkeys(("minLength", "maxLength", "pattern"), (t.StringType,)),
    **dict.fromkeys(("minItems", "maxItems"), (t.ArrayType,)),
    **dict.fromkeys(("enum", "const"), (t.StringType, t.BooleanType, *_NUMERIC)),
}


def _check_checks(checks: tuple[tuple[str, Any], ...], kind: t.DataType, place: str) -> None:
    for name, limit in checks:
        if not isinstance(kind, _ABOUT[name]):
            raise _wrong(place, f"{name} is not for {kind.simpleString()}")
        if name == "pattern":
            try:
                re.compile(limit)
            except (re.error, TypeError) as problem:
                raise _wrong(place, f"pattern {limit!r}: {problem}") from problem
        elif name == "enum" and not isinstance(limit, list):
            raise _wrong(place, "enum must be a list")
        elif name.startswith(("min", "max", "exclusive")) and not isinstance(limit, int | float):
            raise _wrong(place, f"{name} must be a number")


def _wrong(place: str, problem: str) -> ConfigError:
    return ConfigError(f"[decode] schema: {place}: {problem}")
