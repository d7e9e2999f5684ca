"""The discard ledger as a table: which messages ended without being received, when, where and why."""

import json
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from tiercel.engine.browsing import Head
from tiercel.model.errors import InvalidParameterError
from tiercel.store.interface import Keyspace, View

_FIRST, _LAST = bytes(8), b"\xff" * 9

SCHEMA: Final = pa.schema(
    [
        ("time", pa.timestamp("us", tz="UTC")),
        ("queue", pa.string()),
        ("message_id", pa.string()),
        ("label", pa.string()),
        ("size", pa.int64()),
        ("class", pa.int32()),
        ("reason", pa.string()),
    ]
)
_FIELDS: Final = {"class": "message_class"}  # columns named differently in the ledger
_MICROSECONDS: Final = 1_000_000


def key(line: int) -> bytes:
    return line.to_bytes(8, "big")


def head(view: View) -> Head:
    """Every line is in (lo, hi]; both are 0 when there is none."""
    first = view.first(Keyspace.DISCARDS, _FIRST, _LAST)
    last = view.last(Keyspace.DISCARDS, _FIRST, _LAST)
    if first is None or last is None:
        return Head(0, 0)
    return Head(int.from_bytes(first[0], "big") - 1, int.from_bytes(last[0], "big"))


def check_names(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in SCHEMA.names:
            fix = f"there are {', '.join(SCHEMA.names)}"
            raise InvalidParameterError(f"column {name[:80]}", problem="the ledger has none", fix=fix)
    return tuple(names)


def schema(names: Sequence[str]) -> pa.Schema:
    return pa.schema([SCHEMA.field(name) for name in names])


def batch_of(
    names: Sequence[str], _keys: Sequence[memoryview], values: Sequence[memoryview]
) -> pa.RecordBatch:
    lines = [_line(bytes(value)) for value in values]
    arrays = [
        pa.array([line.get(_FIELDS.get(name, name)) for line in lines], SCHEMA.field(name).type)
        for name in names
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema(names))


def _line(data: bytes) -> dict[str, Any]:
    try:
        line: dict[str, Any] = json.loads(data)
        line["time"] *= _MICROSECONDS
    except (ValueError, TypeError, KeyError) as problem:
        return {"reason": f"the line of the ledger is damaged ({problem})"}
    return line
