"""Bodies as typed values: a schema gives each part of a body its type, and says what does not fit.

Text becomes a number, a date or a truth value where the schema wants one, because XML has only text. Nothing
is rounded, cut or guessed: a value that cannot be kept exactly does not fit.
"""

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Context, Decimal, InvalidOperation
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.errors import ParseException
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type

from tiercel.bodies.decoded import valid_text
from tiercel.pipeline.tables.data_files import nullable
from tiercel.server.config import ConfigError

if TYPE_CHECKING:
    from pyspark.sql._typing import UserDefinedFunctionLike

_XML: Final = frozenset({"xml", "wcf"})  # kinds in which a list of one looks like a single value
_SHOWN: Final = 60
_EXPONENT_MAX: Final = 400  # beyond the range of a double
_EXACT: Final = Context(prec=5000)  # more digits than Python reads as a number


class MisfitError(ValueError):
    """A value that is not of its type; the text begins with its place in the body."""

    def at(self, place: str) -> "MisfitError":
        text = str(self)
        return MisfitError(f"{place}{text}" if text.startswith(("[", ".")) else f"{place}: {text}")


@dataclass(frozen=True, slots=True)
class Shape:
    """A type of Spark, and what else its values must fulfil."""

    kind: t.DataType
    is_required: bool = False
    parts: Mapping[str, "Shape"] = field(default_factory=dict)  # of a struct
    inner: "Shape | None" = None  # of an array's elements, or a map's values
    checks: tuple[tuple[str, Any], ...] = ()  # keywords of JSON Schema
    is_closed: bool = False  # whether a struct refuses members that it does not name


def shape_of(text: str) -> Shape:
    """The shape of a schema: JSON Schema, or columns as in CREATE TABLE."""
    if text.lstrip().startswith("{"):
        from tiercel.pipeline.json_schema import shape_of_json_schema  # noqa: PLC0415  # it needs this module

        return shape_of_json_schema(text)
    return _shape_of_ddl(text)


@cache
def _shape_of_ddl(text: str) -> Shape:
    try:
        return _shape(t.StructType.fromDDL(text))
    except ParseException as problem:
        words = " ".join(str(problem).strip().split("\n\n")[0].split())
        raise ConfigError(f"[decode] schema = {text!r:.60}: {words}") from problem


def _shape(kind: t.DataType, *, is_required: bool = False) -> Shape:
    match kind:
        case t.StructType():
            parts = {each.name: _shape(each.dataType, is_required=not each.nullable) for each in kind}
            return Shape(kind, is_required, parts=parts)
        case t.ArrayType():
            return Shape(kind, is_required, inner=_shape(kind.elementType, is_required=not kind.containsNull))
        case t.MapType() if isinstance(kind.keyType, t.StringType):
            return Shape(
                kind, is_required, inner=_shape(kind.valueType, is_required=not kind.valueContainsNull)
            )
    if type(kind) not in _READERS:
        raise ConfigError(f"[decode] schema: {kind.simpleString()} is not a type that bodies have")
    return Shape(kind, is_required)


# Values


def fit(value: Any, shape: Shape, kind: str = "json") -> Any:
    """The value with the types of the shape; `MisfitError` if it does not fit. `kind` is that of the body."""
    if value is None:
        if shape.is_required:
            raise MisfitError("is missing, and required")
        return None
    if shape.parts or isinstance(shape.kind, t.StructType):
        return _struct(value, shape, kind)
    if isinstance(shape.kind, t.ArrayType):
        found = _array(value, shape, kind)
    elif isinstance(shape.kind, t.MapType):
        found = _map(value, shape, kind)
    else:
        found = _READERS[type(shape.kind)](value, shape.kind)
    for keyword, limit in shape.checks:
        if not CHECKS[keyword](found, limit):
            raise MisfitError(f"{_shown(value)} does not fulfil {keyword} {_shown(limit)}")
    return found


def _struct(value: Any, shape: Shape, kind: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MisfitError(f"{_shown(value)} is not an object")
    if "$ref" in value:
        raise MisfitError("is a reference to an object elsewhere in the body")
    names = _Names(value)
    found = {}
    for name, part in shape.parts.items():
        try:
            found[name] = fit(names.get(name), part, kind)
        except MisfitError as problem:
            raise problem.at(f".{name}") from None
    if shape.is_closed and (unknown := names.unused()):
        raise MisfitError(f"has the unknown member {unknown}")
    return found


class _Names:
    """The members of an object: by their names, by those of XML attributes, or in another case."""

    def __init__(self, value: Mapping[str, Any]) -> None:
        self._value = value
        self._used: set[str] = set()
        self._lower: dict[str, str] | None = None

    def get(self, name: str) -> Any:
        if name not in self._value:
            if self._lower is None:
                self._lower = {each.lower().removeprefix("@"): each for each in reversed(list(self._value))}
            name = self._lower.get(name.lower(), name)
        self._used.add(name)
        return self._value.get(name)

    def unused(self) -> str:
        return next((each for each in self._value if each not in self._used and each[:1] != "$"), "")


def _array(value: Any, shape: Shape, kind: str) -> list[Any]:
    if isinstance(value, dict) and "$values" in value:  # a list of .NET to which others refer
        value = value["$values"]
    if kind in _XML:
        value = _xml_list(value, shape)
    if not isinstance(value, list):
        raise MisfitError(f"{_shown(value)} is not a list")
    assert shape.inner is not None
    found = []
    for place, each in enumerate(value):
        try:
            found.append(fit(each, shape.inner, kind))
        except MisfitError as problem:
            raise problem.at(f"[{place}]") from None
    return found


def _xml_list(value: Any, shape: Shape) -> Any:
    """XmlSerializer's `<Lines><Line/><Line/></Lines>`, a repeated element, or a single one."""
    if value == "":
        return []
    assert shape.inner is not None
    if isinstance(value, dict) and len(value) == 1:
        ((name, only),) = value.items()
        if name.lower() not in {each.lower() for each in shape.inner.parts}:
            value = only
    return value if isinstance(value, list) else [value]


def _map(value: Any, shape: Shape, kind: str) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise MisfitError(f"{_shown(value)} is not an object")
    assert shape.inner is not None
    found = []
    for name, each in value.items():
        if name.startswith("$"):
            continue
        try:
            found.append((valid_text(name), fit(each, shape.inner, kind)))
        except MisfitError as problem:
            raise problem.at(f".{name}") from None
    return found


def _text(value: Any, _: t.DataType) -> str:
    if not isinstance(value, str):
        raise MisfitError(f"{_shown(value)} is not a text")
    return valid_text(value)


def _boolean(value: Any, _: t.DataType) -> bool:
    found = value if isinstance(value, bool) else _BOOLEANS.get(value) if isinstance(value, str) else None
    if found is None:
        raise MisfitError(f"{_shown(value)} is not true or false")
    return found


_BOOLEANS: Final = {"true": True, "false": False, "1": True, "0": False}


def _number(value: Any) -> int | Decimal:
    """A number, exactly; of a float, the shortest text that gives it."""
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return value
    if isinstance(value, float | str):
        try:
            return Decimal(repr(value) if isinstance(value, float) else value.strip())
        except InvalidOperation:
            pass
    raise MisfitError(f"{_shown(value)} is not a number")


def _integer(value: Any, kind: t.DataType) -> int:
    number, bits = _number(value), _BITS[type(kind)]
    if isinstance(number, Decimal):
        if not number.is_finite() or number.adjusted() > 20 or number != number.to_integral_value():
            raise MisfitError(f"{_shown(value)} is not a whole number of {bits} bits")
        number = int(number)
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise MisfitError(f"{_shown(value)} is not a whole number of {bits} bits")
    return number


_BITS: Final[Mapping[type[t.DataType], int]] = {
    t.ByteType: 8,
    t.ShortType: 16,
    t.IntegerType: 32,
    t.LongType: 64,
}
_INFINITIES: Final = {"INF": math.inf, "-INF": -math.inf, "NaN": math.nan, "Infinity": math.inf}


def _double(value: Any, kind: t.DataType) -> float:
    if isinstance(value, str) and value.strip() in _INFINITIES:  # as XML spells them
        return _INFINITIES[value.strip()]
    number = _number(value)
    try:
        found = float(number)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found) or (isinstance(kind, t.FloatType) and abs(found) > _FLOAT_MAX):
        raise MisfitError(f"{_shown(value)} is beyond the range of {kind.simpleString()}")
    return found


_FLOAT_MAX: Final = 3.4028235677973366e38


def _decimal(value: Any, kind: t.DataType) -> Decimal:
    assert isinstance(kind, t.DecimalType)
    number = Decimal(_number(value))
    if number.is_zero():
        return Decimal(0)
    if number.is_finite() and abs(number.adjusted()) < _EXPONENT_MAX:
        number = number.normalize(_EXACT)
        _, digits, exponent = number.as_tuple()
        assert isinstance(exponent, int)
        if -exponent <= kind.scale and len(digits) + exponent <= kind.precision - kind.scale:
            return number
    raise MisfitError(f"{_shown(value)} does not fit into {kind.simpleString()}")


def _moment(value: Any, kind: t.DataType) -> datetime:
    text = _text(value, kind).strip()
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise MisfitError(f"{_shown(value)} is not a time such as 2026-11-18T08:00:00Z") from None
    if isinstance(kind, t.TimestampNTZType):
        if found.tzinfo is not None:
            raise MisfitError(f"{_shown(value)} has a time zone")
        return found
    try:
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except OverflowError:
        raise MisfitError(f"{_shown(value)} is not a time of years 1 to 9999 in UTC") from None


def _date(value: Any, kind: t.DataType) -> date:
    text = _text(value, kind).strip()
    try:
        return date.fromisoformat(re.sub(r"T00:00:00(\.0+)?$", "", text))  # .NET has only times
    except ValueError:
        raise MisfitError(f"{_shown(value)} is not a date such as 2026-11-18") from None


def _binary(value: Any, kind: t.DataType) -> bytes:
    try:
        return base64.b64decode(_text(value, kind), validate=True)
    except (binascii.Error, ValueError):
        raise MisfitError(f"{_shown(value)} is not base64") from None


_READERS: Final[Mapping[type[t.DataType], Callable[[Any, t.DataType], Any]]] = {
    t.StringType: _text,
    t.BooleanType: _boolean,
    t.ByteType: _integer,
    t.ShortType: _integer,
    t.IntegerType: _integer,
    t.LongType: _integer,
    t.FloatType: _double,
    t.DoubleType: _double,
    t.DecimalType: _decimal,
    t.TimestampType: _moment,
    t.TimestampNTZType: _moment,
    t.DateType: _date,
    t.BinaryType: _binary,
}

# The keywords of JSON Schema that are checked beside the types.
CHECKS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "minimum": lambda value, limit: value >= limit,
    "maximum": lambda value, limit: value <= limit,
    "exclusiveMinimum": lambda value, limit: value > limit,
    "exclusiveMaximum": lambda value, limit: value < limit,
    "minLength": lambda value, limit: len(value) >= limit,
    "maxLength": lambda value, limit: len(value) <= limit,
    "minItems": lambda value, limit: len(value) >= limit,
    "maxItems": lambda value, limit: len(value) <= limit,
    "pattern": lambda value, limit: re.search(limit, value) is not None,
    "enum": lambda value, limit: value in limit,
    "const": lambda value, limit: value == limit,
}


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return f"{text[:_SHOWN]!r}{'...' * (len(text) > _SHOWN)}"


# In Spark


def typed(shape: Shape, kind: Column, text: Column, json_text: Column, error: Column) -> Column:
    """struct<value, error>: the typed value of a decoded body, or why it does not fit."""
    return _function(shape)(kind, text, json_text, error)


def _function(shape: Shape) -> "UserDefinedFunctionLike":
    result = t.StructType([t.StructField("value", shape.kind), t.StructField("error", t.StringType())])
    (kind,) = nullable(pa.schema([pa.field("value", to_arrow_type(shape.kind, timezone="UTC"))])).types

    def typed_body(kinds: pa.Array, texts: pa.Array, values: pa.Array, errors: pa.Array) -> pa.Array:
        rows = zip(kinds.to_pylist(), texts.to_pylist(), values.to_pylist(), errors.to_pylist(), strict=True)
        found = [_body(shape, *row) for row in rows]
        columns = [
            pa.array([value for value, _ in found], kind),
            pa.array([text for _, text in found], "string"),
        ]
        return pa.StructArray.from_arrays(columns, ["value", "error"])

    made: UserDefinedFunctionLike = arrow_udf(typed_body, result)  # type: ignore[call-overload]  # as in bodies.py
    return made


def _body(
    shape: Shape, kind: str | None, text: str | None, value: str | None, error: str | None
) -> tuple[Any, str | None]:
    """A value and no error, or no value and perhaps an error: what cannot be decoded has its own."""
    if kind is None or error is not None:
        return None, None
    try:
        return fit(_value(kind, text, value), shape, kind), None
    except MisfitError as problem:
        return None, f"does not fit the schema: {str(problem).removeprefix('.')}"


def _value(kind: str, text: str | None, value: str | None) -> Any:
    if value is None:
        raise MisfitError(f"the body is {kind}")
    # A number with decimals as it was written; through a float it would lose digits.
    return json.loads(text if kind == "json" and text is not None else value, parse_float=Decimal)


VALUE: Final = "value"


def with_value(rows: Any, schema: str) -> Any:
    """Rows with decoded bodies, and the typed value in a column of its own."""
    shape = shape_of(schema)
    if not isinstance(shape.kind, t.StructType) or not shape.parts:
        raise ConfigError("[decode] schema: must have columns")
    found = typed(shape, *[f.col(each) for each in ("body_kind", "body_text", "body_json", "body_error")])
    rows = rows.withColumn("_typed", found)
    error = f.coalesce(f.col("body_error"), f.col("_typed.error"))
    return rows.withColumns({"body_error": error, VALUE: f.col("_typed.value")}).drop("_typed")
