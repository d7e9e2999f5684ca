"""Parquet files, written by the executors; adding them to a table is done elsewhere.

Each attempt of a task writes its own files, with unique names. The driver learns only of the attempt that
Spark counts, so the files of failed or speculative attempts are never in a table: they are orphans, which
compaction removes.
"""

import functools
import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from tiercel.pipeline.tables.file_systems import ParquetSink, joined, open_parquet
from tiercel.pipeline.tables.statistics import statistics_of
from tiercel.pipeline.tables.table import MIB

# Memory of a task before it writes a row group, over all its open files.
BUFFER_BYTES: Final = 64 * MIB
# Open files of a task; above this, it closes the least recently used one.
OPEN_FILES: Final = 64
# The folder name that Hive, Spark and DuckDB read as null.
NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"

Key = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class DataFile:
    path: str  # relative to the folder
    size: int
    rows: int
    partition: Mapping[str, str | None] = field(default_factory=dict)
    statistics: Mapping[str, Any] = field(default_factory=dict)  # as Delta spells them


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The names and the contents of files."""

    folder: str
    prefix: str
    suffix: str = ".parquet"
    partition_by: tuple[str, ...] = ()
    keep_partition_columns: bool = False
    # Whether folder names are the only record of the values, as in a table without a log: they must be exact.
    are_folders_read: bool = False


def write_files(rows: DataFrame, layout: Layout) -> list[DataFile]:
    """Write all rows; returns the files that hold them."""
    write = functools.partial(_write_partition, layout)
    found = rows.mapInArrow(write, "file string").toArrow().column("file").to_pylist()
    return [DataFile(**json.loads(each)) for each in found]


def _write_partition(layout: Layout, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    context = TaskContext.get()
    number = context.partitionId() if context else 0
    writer = Writer(layout, number)
    for batch in batches:
        writer.add(batch)
    files = [json.dumps(asdict(each)) for each in writer.close()]
    yield pa.RecordBatch.from_pydict({"file": pa.array(files, pa.string())})


class Writer:
    """The files of one attempt of one task, one for each value of the partition columns."""

    def __init__(self, layout: Layout, number: int) -> None:
        self._layout = layout
        self._number = number
        self._held: dict[Key, list[pa.RecordBatch]] = {}
        self._held_bytes = 0
        self._open: dict[Key, _File] = {}
        self._files: list[DataFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        for key, part in _split(batch, self._layout.partition_by):
            self._held.setdefault(key, []).append(part)
            self._held_bytes += part.nbytes
        if self._held_bytes >= BUFFER_BYTES:
            self._write_held()

    def close(self) -> list[DataFile]:
        self._write_held()
        for key in list(self._open):
            self._close(key)
        return self._files

    def _write_held(self) -> None:
        for key, parts in self._held.items():
            if key not in self._open:
                if len(self._open) >= OPEN_FILES:
                    self._close(next(iter(self._open)))
            else:
                self._open[key] = self._open.pop(key)  # move it to the end: most recently used
            table = pa.Table.from_batches(parts)
            table = table.cast(nullable(table.schema))
            if not self._layout.keep_partition_columns:
                table = table.drop_columns(list(self._layout.partition_by))
            if key not in self._open:
                self._open[key] = _File(self._layout, key, self._number, table.schema)
            self._open[key].write(table)
        self._held, self._held_bytes = {}, 0

    def _close(self, key: Key) -> None:
        self._files.append(self._open.pop(key).close())


class _File:
    def __init__(self, layout: Layout, key: Key, number: int, schema: pa.Schema) -> None:
        self._partition = dict(zip(layout.partition_by, key, strict=True))
        name = f"{layout.prefix}-{number:05d}-{uuid.uuid4().hex}{layout.suffix}"
        folder = partition_folder(self._partition, exact=layout.are_folders_read)
        self._name = f"{folder}/{name}" if folder else name
        self._sink = ParquetSink(joined(layout.folder, self._name), schema)
        self._schema = schema
        self._rows = 0

    def write(self, table: pa.Table) -> None:
        self._sink.write(table)
        self._rows += table.num_rows

    def close(self) -> DataFile:
        size = self._sink.close()
        statistics = statistics_of(self._sink.metadata, self._schema)
        return DataFile(self._name, size, self._rows, self._partition, statistics)


def schema_of(rows: DataFrame) -> pa.Schema:
    """The columns as stored in the files."""
    return nullable(to_arrow_schema(rows.schema, timezone="UTC"))


def nullable(schema: pa.Schema) -> pa.Schema:
    """The same schema with every column nullable: what Spark infers about that varies by query."""
    return pa.schema([pa.field(each.name, _nullable(each.type)) for each in schema])


def _nullable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", _nullable(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _nullable(each.type)) for each in kind.fields])
    if pa.types.is_map(kind):
        return pa.map_(_nullable(kind.key_type), _nullable(kind.item_type))
    # Iceberg says large_string where Spark says string.
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(kind, kind)


def _split(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[Key, pa.RecordBatch]]:
    """Split the rows by their values in the partition columns, keeping their order."""
    if batch.num_rows == 0:
        return
    if not columns:
        yield (), batch
        return
    keys = pa.Table.from_batches([batch]).select(list(columns)).group_by(list(columns)).aggregate([])
    for values in keys.to_pylist():
        mask = functools.reduce(pc.and_, (_equal(batch.column(name), values[name]) for name in columns))
        yield tuple(_text(values[name]) for name in columns), batch.filter(mask)


def _equal(column: pa.Array, value: Any) -> pa.Array:
    if value is None:
        return pc.is_null(column)
    return pc.fill_null(pc.equal(column, pa.scalar(value, column.type)), fill_value=False)


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    return str(value)


def partition_folder(partition: Mapping[str, str | None], *, exact: bool) -> str:
    r"""`date=2026-08-01/queue=.%5Cprivate$%5Corders`, as Hive, Spark and DuckDB read it.

    If a log holds the values, the folder name is only informative, and is not percent-encoded.
    """
    return "/".join(f"{name}={_folder_value(value, exact)}" for name, value in partition.items())


def _folder_value(value: str | None, exact: bool) -> str:
    if not value:
        return NO_VALUE
    return quote(value, safe="$ ()+,-.@_~") if exact else re.sub(r"[^A-Za-z0-9._-]", "_", value)


def file_prefix(marks: Mapping[str, int]) -> str:
    """The start of a file's name: the batch, which shows where the rows came from."""
    app, batch = next(iter(marks.items()))
    return f"{re.sub(r'[^A-Za-z0-9]', '', app)[:12]}-{batch:08d}"


def write_table(table: pa.Table, target: str) -> None:
    """One file with these rows, as a task would write it."""
    sink = ParquetSink(target, table.schema)
    sink.write(table)
    sink.close()


def join_files(sources: Sequence[str], target: str) -> int:
    """Merge many files into one without loading all of them; columns that a file lacks are null."""
    schema = pa.unify_schemas([_schema(each) for each in sources], promote_options="permissive")
    rows = 0
    sink = ParquetSink(target, schema)
    for table in _groups(sources, schema):
        sink.write(table)
        rows += table.num_rows
    sink.close()
    return rows


def _schema(source: str) -> pa.Schema:
    with open_parquet(source) as file:
        return file.schema_arrow


def _groups(sources: Sequence[str], schema: pa.Schema) -> Iterator[pa.Table]:
    held: list[pa.Table] = []
    for source in sources:
        with open_parquet(source) as file:
            for batch in file.iter_batches():
                held.append(_widened(pa.Table.from_batches([batch]), schema))
                if sum(each.nbytes for each in held) >= BUFFER_BYTES:
                    yield pa.concat_tables(held)
                    held = []
    if held:
        yield pa.concat_tables(held)


def _widened(table: pa.Table, schema: pa.Schema) -> pa.Table:
    for each in schema:
        if each.name not in table.column_names:
            table = table.append_column(each, pa.nulls(table.num_rows, each.type))
    return table.select(schema.names).cast(schema)


def joinable(sizes: Mapping[str, int], target: int) -> Iterator[list[str]]:
    """Groups of small files to merge into one; files of at least half the target size are left alone."""
    group: list[str] = []
    total = 0
    for name in sorted(sizes):
        if sizes[name] * 2 >= target:
            continue
        if group and total + sizes[name] > target:
            if len(group) > 1:
                yield group
            group, total = [], 0
        group.append(name)
        total += sizes[name]
    if len(group) > 1:
        yield group
