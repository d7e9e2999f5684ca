"""A table in PostgreSQL. Executors COPY into staging tables; the driver moves those rows, with the marks, in
one transaction. No rows pass through the driver, and no jar is needed; Spark's JDBC writer could append a
batch twice.
"""

import functools
import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

import psycopg
import pyarrow as pa
from psycopg import sql
from psycopg.types.json import Jsonb
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from tiercel.pipeline.tables.changes import Changes, changes
from tiercel.pipeline.tables.table import (
    Compacted,
    NoTableError,
    TableError,
    TableOptions,
    Written,
    are_there,
    is_applied,
)

_MARKS: Final = sql.SQL(
    "create table if not exists tiercel_applied (table_name text, app text, batch bigint not null,"
    " rows bigint, applied_at timestamptz default now(), primary key (table_name, app))"
)
_TYPES: Final = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "smallint"),
    (pa.types.is_int16, "smallint"),
    (pa.types.is_int32, "integer"),
    (pa.types.is_int64, "bigint"),
    (pa.types.is_float32, "real"),
    (pa.types.is_float64, "double precision"),
    (pa.types.is_decimal, "numeric"),
    (pa.types.is_string, "text"),
    (pa.types.is_binary, "bytea"),
    (pa.types.is_date, "date"),
    (pa.types.is_nested, "jsonb"),
)
_STAGE: Final = "tiercel_stage_"
# Running tasks are never this old.
ORPHAN_AGE_S: Final = 24 * 3600
# Rows per fetch when reading a table.
_PAGE: Final = 10_000


class PostgreSqlTable:
    def __init__(self, options: TableOptions) -> None:
        if options.partition_by:
            raise TableError(f"{options}: partition_by is only for files; partition the table with SQL")
        self.options = options
        self._table = sql.Identifier(*options.name.split("."))

    def applied(self, app: str) -> int:
        with self._connect() as connection:
            if connection.execute("select to_regclass('tiercel_applied')").fetchone() == (None,):
                return -1
            return self._applied(connection, app)

    def _applied(self, connection: psycopg.Connection[Any], app: str) -> int:
        query = "select batch from tiercel_applied where table_name = %s and app = %s"
        found = connection.execute(query, (self.options.name, app)).fetchone()
        return -1 if found is None else int(found[0])

    def write(self, rows: DataFrame, marks: Mapping[str, int]) -> Written:
        if is_applied(self, marks):
            return Written(already=True)
        columns = _columns(rows)
        prefix = self._stage_prefix(marks)
        copy = functools.partial(_copy_partition, self.options.place, prefix, columns)
        try:
            stages = rows.mapInArrow(copy, "stage string, rows long").collect()
            count = sum(each["rows"] for each in stages)
            if not count:
                return Written()  # nothing to record either: a repeated empty batch is empty again
            moved = self._move([each["stage"] for each in stages], columns, count, marks)
        finally:
            self._drop_stages(prefix)
        return Written(count) if moved else Written(already=True)

    def _stage_prefix(self, marks: Mapping[str, int]) -> str:
        text = json.dumps([self.options.name, sorted(marks.items())])
        return f"{_STAGE}{hashlib.sha256(text.encode()).hexdigest()[:16]}_"

    def _move(
        self, stages: Sequence[str], columns: Mapping[str, str], count: int, marks: Mapping[str, int]
    ) -> bool:
        with self._connect() as connection:
            # Other writers that create or change this table wait here until we have committed.
            connection.execute(
                "select pg_advisory_xact_lock(hashtext(%s))", (f"tiercel {self.options.name}",)
            )
            connection.execute(_MARKS)
            if are_there(self.options, marks, functools.partial(self._applied, connection)):
                return False
            self._mark(connection, count, marks)
            self._prepare(connection, columns)
            names = sql.SQL(", ").join(map(sql.Identifier, columns))
            moved = 0
            for stage in stages:
                move = sql.SQL("insert into {} ({}) select {} from {}")
                moved += connection.execute(
                    move.format(self._table, names, names, sql.Identifier(stage))
                ).rowcount
            if moved != count:  # a server crash empties unlogged tables
                raise TableError(
                    f"{self.options.name}: {count} rows were staged, and {moved} are left; run it again"
                )
        return True

    def _mark(self, connection: psycopg.Connection[Any], count: int, marks: Mapping[str, int]) -> None:
        for app, batch in marks.items():
            connection.execute(
                "insert into tiercel_applied (table_name, app, batch, rows) values (%s, %s, %s, %s)"
                " on conflict (table_name, app) do update set batch = excluded.batch, rows = excluded.rows,"
                " applied_at = now()",
                (self.options.name, app, batch, count),
            )

    def _prepare(self, connection: psycopg.Connection[Any], columns: Mapping[str, str]) -> None:
        """Create the table, or add new columns to it; a column keeps its type."""
        schema, dot, _ = self.options.name.rpartition(".")
        if dot:
            connection.execute(sql.SQL("create schema if not exists {}").format(sql.Identifier(schema)))
        connection.execute(sql.SQL("create table if not exists {} ()").format(self._table))
        found = self._changes(connection, columns)
        is_new = not _known_columns(connection, self.options.name)
        for name in columns if is_new else found.new:
            add = sql.SQL("alter table {} add column {} {}")
            connection.execute(add.format(self._table, sql.Identifier(name), sql.SQL(columns[name])))
        for name in found.wider:
            widen = sql.SQL("alter table {} alter column {} type {}")
            connection.execute(widen.format(self._table, sql.Identifier(name), sql.SQL(columns[name])))

    def _changes(self, connection: psycopg.Connection[Any], columns: Mapping[str, str]) -> Changes:
        known = _known_columns(connection, self.options.name)
        of_table = {name: _COMPARED.get(kind, pa.null()) for name, kind in known.items()}
        of_batch = pa.schema([(name, _COMPARED[_KINDS.get(kind, kind)]) for name, kind in columns.items()])
        return changes(self.options, of_table, of_batch)

    def changes(self, rows: DataFrame) -> Changes:
        with self._connect() as connection:
            return self._changes(connection, _columns(rows))

    def _drop_stages(self, prefix: str, older_than_s: int = 0) -> int:
        """Drop staging tables, also those of failed attempts; their names contain the time of creation."""
        query = "select relname from pg_class where relkind = 'r' and starts_with(relname, %s)"
        oldest = time.time() - older_than_s
        with self._connect() as connection:
            names = [name for (name,) in connection.execute(query, (prefix,)).fetchall()]
            old = [name for name in names if int(name.split("_")[-2], 16) <= oldest]
            for name in old:
                connection.execute(sql.SQL("drop table if exists {}").format(sql.Identifier(name)))
        return len(old)

    def read(self, spark: SparkSession) -> DataFrame:
        with self._connect() as connection, connection.cursor() as cursor:
            try:
                cursor.execute(sql.SQL("select * from {}").format(self._table))
            except psycopg.errors.UndefinedTable as problem:
                raise NoTableError(self.options) from problem
            known = _known_columns(connection, self.options.name)
            schema = pa.schema([(name, _ARROW[kind]) for name, kind in known.items()])
            parts = [_arrow(rows, schema) for rows in iter(lambda: cursor.fetchmany(_PAGE), [])]
        return spark.createDataFrame(pa.Table.from_batches(parts, schema))

    def remove(self, ids: Sequence[str]) -> int:
        with self._connect() as connection:
            if not _known_columns(connection, self.options.name):
                return 0
            query = sql.SQL("delete from {} where message_id = any(%s)").format(self._table)
            return connection.execute(query, (list(ids),)).rowcount

    def compact(self) -> Compacted:
        """Drop the staging tables of dead tasks; PostgreSQL needs no compaction."""
        return Compacted(removed=self._drop_stages(_STAGE, ORPHAN_AGE_S))

    def _connect(self) -> psycopg.Connection[Any]:
        try:
            return psycopg.connect(self.options.place)
        except psycopg.OperationalError as problem:
            raise TableError(f"{self.options.name}: cannot reach PostgreSQL ({problem})") from problem


_KINDS: Final = {"timestamptz": "timestamp with time zone", "timestamp": "timestamp without time zone"}
_ARROW: Final = {
    "boolean": pa.bool_(),
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "double precision": pa.float64(),
    "numeric": pa.decimal128(38, 18),  # of any scale in the table
    "text": pa.string(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "jsonb": pa.string(),
    "timestamp with time zone": pa.timestamp("us", "UTC"),
    "timestamp without time zone": pa.timestamp("us"),
}


# Those that are equal in Arrow are different here.
_COMPARED: Final = _ARROW | {"jsonb": pa.struct([])}


def _columns(rows: DataFrame) -> dict[str, str]:
    return {each.name: _kind(each) for each in to_arrow_schema(rows.schema, timezone="UTC")}


def _kind(column: pa.Field) -> str:
    if pa.types.is_timestamp(column.type):
        return "timestamptz" if column.type.tz else "timestamp"
    for is_kind, kind in _TYPES:
        if is_kind(column.type):
            return kind
    raise TableError(f"column {column.name} is {column.type}, which PostgreSQL does not support; cast it")


def _known_columns(connection: psycopg.Connection[Any], name: str) -> dict[str, str]:
    query = (
        "select attname, format_type(atttypid, null) from pg_attribute"
        " where attrelid = to_regclass(%s) and attnum > 0 and not attisdropped order by attnum"
    )
    quoted = ".".join('"' + each.replace('"', '""') + '"' for each in name.split("."))
    return dict(connection.execute(query, (quoted,)).fetchall())


def _copy_partition(
    place: str, prefix: str, columns: Mapping[str, str], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """One attempt of one task: writes its rows to a staging table of its own."""
    stage = f"{prefix}{int(time.time()):x}_{uuid4().hex[:12]}"
    listed = sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind)) for name, kind in columns.items()
    )
    count = 0
    with psycopg.connect(place) as connection, connection.cursor() as cursor:
        cursor.execute(sql.SQL("create unlogged table {} ({})").format(sql.Identifier(stage), listed))
        copying = sql.SQL("copy {} from stdin (format binary)").format(sql.Identifier(stage))
        with cursor.copy(copying) as copy:
            copy.set_types(list(columns.values()))
            for batch in batches:
                for row in zip(*map(_values, batch.columns), strict=True):
                    copy.write_row(row)
                count += batch.num_rows
    yield pa.RecordBatch.from_pydict({"stage": [stage], "rows": [count]})


def _values(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if pa.types.is_string(column.type):
        return [_clean(each) for each in values]
    if pa.types.is_nested(column.type):
        dumps = functools.partial(json.dumps, default=str)
        return [each if each is None else Jsonb(_clean(each), dumps) for each in values]
    return values


def _clean(value: Any) -> Any:
    """The text without NUL, which a label may contain, but PostgreSQL's text and JSON may not."""
    match value:
        case str():
            return value.replace("\0", "\N{REPLACEMENT CHARACTER}")
        case list():
            return [_clean(each) for each in value]
        case dict():
            return {_clean(name): _clean(each) for name, each in value.items()}
    return value


def _arrow(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        pa.array(
            [json.dumps(value) if isinstance(value, dict | list) else value for value in column], each.type
        )
        for column, each in zip(zip(*rows, strict=True), schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
