"""Least and greatest values of a file's columns, so that queries skip files: as Delta's log has them.

They come from the file's own footer. Iceberg's library reads the footers itself.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

# The first so many columns, as other writers of Delta do: a log is read whole by every reader.
COLUMNS: Final = 32
# A longer text is not worth its place in the log.
_TEXT: Final = 64
# A decimal is a number of JSON, which other programs read as a double.
_DIGITS: Final = 15


def statistics_of(metadata: pq.FileMetaData, schema: pa.Schema) -> dict[str, Any]:
    """`nullCount`, `minValues` and `maxValues` of the columns that have them."""
    wanted = {each.name for each in list(schema)[:COLUMNS] if not pa.types.is_nested(each.type)}
    found: dict[str, Any] = {"nullCount": {}, "minValues": {}, "maxValues": {}}
    for name, parts in _columns(metadata):
        if name not in wanted or any(each is None or not each.has_null_count for each in parts):
            continue
        found["nullCount"][name] = sum(each.null_count for each in parts)
        bounds = [each for each in parts if each.num_values]
        if not bounds or not all(each.has_min_max for each in bounds):
            continue
        low = _value(min(each.min for each in bounds))
        high = _value(max(each.max for each in bounds))
        if low is not None and high is not None:
            found["minValues"][name], found["maxValues"][name] = low, high
    return found


def _columns(metadata: pq.FileMetaData) -> Iterator[tuple[str, list[Any]]]:
    """The statistics of each column, one for each row group; None where the file has none."""
    for place in range(metadata.num_columns):
        parts = [
            metadata.row_group(group).column(place).statistics for group in range(metadata.num_row_groups)
        ]
        yield metadata.schema.column(place).path, parts


def _value(value: Any) -> Any:
    """A value as JSON; None for those that are not compared or too long."""
    match value:
        case bool() | bytes() | float():  # a footer leaves out NaN, which queries do not
            return None
        case Decimal():
            return float(value) if len(value.as_tuple().digits) <= _DIGITS else None
        case datetime():
            moment = value if value.tzinfo is None else value.astimezone(UTC)
            return moment.strftime("%Y-%m-%dT%H:%M:%S.%f") + "Z" * (value.tzinfo is not None)
        case date():
            return value.isoformat()
        case str():
            return value if len(value) <= _TEXT else None
    return value
