"""What a batch changes about the columns of a table: new ones are added, and types become wider."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type

from tiercel.pipeline.tables.table import TableError, TableOptions, other_type

_RANKS: Final = ((pa.int8(), pa.int16(), pa.int32(), pa.int64()), (pa.float32(), pa.float64()))


@dataclass(frozen=True, slots=True)
class Changes:
    new: tuple[str, ...] = ()
    wider: Mapping[str, pa.DataType] = field(default_factory=dict)

    def __str__(self) -> str:
        """`new columns colour, size; wider id (bigint)`"""
        wider = [f"{name} ({_name(kind)})" for name, kind in self.wider.items()]
        parts = [
            f"{words} {', '.join(names)}"
            for words, names in (("new columns", self.new), ("wider", wider))
            if names
        ]
        return "; ".join(parts)


def changes(options: TableOptions, known: Mapping[str, pa.DataType], schema: pa.Schema) -> Changes:
    """What a batch with this schema changes; a `TableError` if the table cannot take it."""
    if not known:
        return Changes()
    wider = {}
    for each in schema:
        old, new = known.get(each.name), each.type
        if old is None or old == new:
            continue
        if not _is_wider(new, old):
            raise _refusal(options, each.name, old, new)
        if each.name in options.partition_by:
            raise TableError(
                f"{options}: column {each.name} is {_name(old)} and partitions the table, so it cannot become"
                f" {_name(new)}; cast it, or write to a new table"
            )
        if options.format == "delta":
            raise TableError(
                f"{options}: column {each.name} is {_name(old)} and cannot become {_name(new)}: delta has no"
                f" wider types without rewriting the table; keep {_name(old)}, or write to a new table"
            )
        wider[each.name] = new
    return Changes(tuple(each for each in schema.names if each not in known), wider)


def _refusal(options: TableOptions, name: str, old: pa.DataType, new: pa.DataType) -> TableError:
    if _is_wider(old, new):
        return TableError(
            f"{options}: column {name} is {_name(old)} in the table, and {_name(new)} is narrower;"
            f" keep {_name(old)}, or write to a new table"
        )
    if pa.types.is_nested(old) and pa.types.is_nested(new):
        return TableError(
            f"{options}: the members of column {name} have changed, and only columns can be added or become"
            f" wider; select them as columns ({name}.*), or write to a new table"
        )
    return other_type(options, name, _name(old), _name(new))


def _is_wider(new: pa.DataType, old: pa.DataType) -> bool:
    if pa.types.is_decimal(new) and pa.types.is_decimal(old):
        return bool(new.scale == old.scale and new.precision > old.precision)
    return any(new in ranks and old in ranks and ranks.index(new) > ranks.index(old) for ranks in _RANKS)


def _name(kind: pa.DataType) -> str:
    try:
        return from_arrow_type(kind).simpleString()
    except Exception:  # noqa: BLE001  # a type that Spark does not have
        return str(kind)
