r"""Message bodies as columns: `from_msmq_body(body, body_type)` and its SQL functions.

    rows = spark.read.format("msmq").option("queue", r".\private$\orders").load()
    rows.select("label", from_msmq_body("body", "body_type").alias("b")).where("b.error is null")

Runs on Arrow batches in Spark's Python workers. A body that cannot be decoded has an `error`.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import DataType, StringType, StructField, StructType

from tiercel.bodies import Decoded, Kind, decode
from tiercel.bodies.decoding import Expected

if TYPE_CHECKING:
    from pyspark.sql._typing import UserDefinedFunctionLike

# See tiercel.bodies.Decoded.
FIELDS = ("kind", "text", "json", "error", "action", "to", "message_id")
TYPE = StructType([StructField(name, StringType()) for name in FIELDS])
# An Arrow string column is limited to 2 GiB, and a character takes up to four bytes.
_CHARACTERS_OF_A_BATCH_MAX = 500_000_000

Row = tuple[str | None, ...]


def from_msmq_body(body: Column | str, body_type: Column | str, expect: Expected | None = None) -> Column:
    """struct<kind, text, json, error, action, to, message_id>: the decoded body, or why it cannot be decoded.

    The last three are set for WCF messages. `expect` ("text", "xml", "json", "dotnet" or "wcf") makes every
    other body an error. A null body gives null.
    """
    return _decoder(expect)(_column(body), _column(body_type))


def text_of_body(body: Column | str, body_type: Column | str) -> Column:
    """The body as text; null for bytes and for undecodable bodies."""
    return from_msmq_body(body, body_type)["text"]


def json_of_body(body: Column | str, body_type: Column | str) -> Column:
    """The value as JSON, for `from_json`; null for bytes and for undecodable bodies."""
    return from_msmq_body(body, body_type)["json"]


def register(spark: SparkSession) -> None:
    """Register from_msmq_body, text_of_body and json_of_body for SQL, each with two arguments."""
    spark.udf.register("from_msmq_body", _decoder(None))
    spark.udf.register("text_of_body", _function(_texts, StringType()))
    spark.udf.register("json_of_body", _function(_json_texts, StringType()))


def _column(column: Column | str) -> Column:
    return col(column) if isinstance(column, str) else column


@cache
def _decoder(expect: Expected | None) -> "UserDefinedFunctionLike":
    def from_msmq_body(body: pa.Array, body_type: pa.Array) -> pa.Array:
        return _structs(_rows(body, body_type, expect))

    return _function(from_msmq_body, TYPE)


def _function(of_arrays: Callable[..., pa.Array], result: DataType) -> "UserDefinedFunctionLike":
    # Spark takes the kind of function from its type hints, and warns about the argument in its stub.
    made: UserDefinedFunctionLike = arrow_udf(of_arrays, result)  # type: ignore[call-overload]
    return made


def _texts(body: pa.Array, body_type: pa.Array) -> pa.Array:
    return _strings(row[1] if row else None for row in _rows(body, body_type))


def _json_texts(body: pa.Array, body_type: pa.Array) -> pa.Array:
    return _strings(row[2] if row else None for row in _rows(body, body_type))


def _rows(body: pa.Array, body_type: pa.Array, expect: Expected | None = None) -> Iterator[Row | None]:
    """One row per body; a body that would exceed Arrow's column size becomes an error."""
    characters = 0
    bodies = body.cast(pa.binary()).to_pylist()
    for data, number in zip(bodies, body_type.to_pylist(), strict=True):
        row = None if data is None else _row(decode(data, (number or 0) & 0xFFFF_FFFF, expect=expect))
        characters += sum(map(len, filter(None, row or ())))
        yield row if characters < _CHARACTERS_OF_A_BATCH_MAX else _TOO_MUCH


def _row(decoded: Decoded) -> Row:
    headers = (decoded.headers.get(name) for name in ("action", "to", "message_id"))
    return str(decoded.kind), decoded.text, decoded.json, decoded.error, *headers


_TOO_MUCH: Row = (
    Kind.BINARY.value,
    None,
    None,
    "body: the bodies of this batch exceed the size of a column",
    *[None] * 3,
)


def _structs(rows: Iterable[Row | None]) -> pa.Array:
    found = list(rows)
    columns = [_strings(row[at] if row else None for row in found) for at in range(len(FIELDS))]
    return pa.StructArray.from_arrays(
        columns, FIELDS, mask=pa.array([row is None for row in found], pa.bool_())
    )


def _strings(texts: Iterable[str | None]) -> pa.Array:
    return pa.array(list(texts), pa.string())
