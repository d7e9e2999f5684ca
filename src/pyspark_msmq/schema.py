"""The columns as Spark types, from the table in `tiercel.columns`.

Built directly, because parsing a DDL string needs a JVM, which workers do not have.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_msmq.options import OptionError, ReadOptions
from tiercel import columns

_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "boolean": BooleanType(),
    "tinyint": ByteType(),
    "int": IntegerType(),
    "long": LongType(),
    "timestamp": TimestampType(),
}

MESSAGES = {column.name: _TYPES[column.kind] for column in columns.COLUMNS}

# The ledger of discards has entries, not messages: time, queue, message and reason.
DISCARDS: dict[str, DataType] = {
    "time": TimestampType(),
    "queue": StringType(),
    "message_id": StringType(),
    "label": StringType(),
    "size": LongType(),
    "class": IntegerType(),
    "reason": StringType(),
}


def of_messages(names: Iterable[str] | None = None) -> StructType:
    return _struct(MESSAGES, columns.names() if names is None else names)


def of_options(read: ReadOptions) -> StructType:
    """The default columns."""
    if read.source == "discards":
        return _struct(DISCARDS, DISCARDS)
    names = [name for name in columns.names() if read.include_body or name != "body"]
    names += ["raw"] * read.include_raw
    names += ["decode_error"] * (read.bad_message_mode == "column")
    return of_messages(names)


def check(schema: StructType, read: ReadOptions) -> tuple[str, ...]:
    """The column names of a user's `.schema(...)`, after checking their types."""
    table = DISCARDS if read.source == "discards" else MESSAGES
    for column in schema.fields:
        if column.name not in table:
            raise OptionError(f"schema: unknown column {column.name}{_nearest(column.name, table)}")
        if column.dataType != (kind := table[column.name]):
            raise OptionError(
                f"schema: column {column.name} is {kind.simpleString()}, not {column.dataType.simpleString()}"
            )
        if not column.nullable:
            raise OptionError(f"schema: column {column.name} is nullable: remove NOT NULL")
    return tuple(schema.fieldNames())


def _nearest(name: str, table: Mapping[str, DataType]) -> str:
    near = get_close_matches(name, table, n=1)
    return f"; did you mean {near[0]}?" if near else f"; columns: {', '.join(table)}"


def _struct(table: Mapping[str, DataType], names: Iterable[str]) -> StructType:
    return StructType([StructField(name, table[name]) for name in names])
