"""A DuckDB file. Executors write Parquet files beside it; the driver loads them, with the marks, in one
transaction.

DuckDB allows one writing process at a time; if another process has the file open, the error names it.
"""

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import duckdb
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tiercel.pipeline.tables.changes import Changes, changes
from tiercel.pipeline.tables.data_files import Layout, file_prefix, nullable, schema_of, write_files
from tiercel.pipeline.tables.table import (
    Compacted,
    NoTableError,
    TableError,
    TableOptions,
    Written,
    are_there,
    is_applied,
)

_ABANDONED_S = 24 * 3600

_MARKS = """create table if not exists tiercel_applied (
    table_name text, app text, batch bigint, rows bigint, applied_at timestamptz default now(),
    primary key (table_name, app))"""

_MARK = "insert or replace into tiercel_applied (table_name, app, batch, rows) values (?, ?, ?, ?)"


class DuckDbTable:
    def __init__(self, options: TableOptions) -> None:
        self.options = options
        self._path = Path(options.place)
        self._name = ".".join(_quoted(each) for each in options.name.split("."))

    def applied(self, app: str) -> int:
        if not self._path.exists():
            return -1
        with self._open(read_only=True) as connection:
            return self._applied(connection, app)

    def _applied(self, connection: Any, app: str) -> int:
        if not _exists(connection, "tiercel_applied"):
            return -1
        query = "select batch from tiercel_applied where table_name = ? and app = ?"
        found = connection.execute(query, [self.options.name, app]).fetchone()
        return -1 if found is None else found[0]

    def write(self, rows: DataFrame, marks: Mapping[str, int]) -> Written:
        if is_applied(self, marks):
            return Written(already=True)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._remove_abandoned()
        staging = mkdtemp(prefix=f".{self._path.name}-", dir=self._path.parent)
        try:
            files = write_files(rows, Layout(folder=staging, prefix=file_prefix(marks)))
            paths = [str(Path(staging) / each.path) for each in files]
            if not paths:
                return Written()  # nothing to record either: a repeated empty batch is empty again
            count = sum(each.rows for each in files)
            return Written(count) if self._take(paths, count, marks) else Written(already=True)
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def _remove_abandoned(self) -> None:
        """Remove the files of killed drivers: after a day, no running driver needs them."""
        for folder in self._path.parent.glob(f".{self._path.name}-*/"):
            with suppress(FileNotFoundError):  # another driver has removed it
                if folder.stat().st_mtime < time.time() - _ABANDONED_S:
                    shutil.rmtree(folder, ignore_errors=True)

    def _take(self, paths: list[str], count: int, marks: Mapping[str, int]) -> bool:
        with self._open() as connection:
            connection.execute("begin")
            connection.execute(_MARKS)
            if are_there(self.options, marks, partial(self._applied, connection)):
                connection.execute("rollback")
                return False
            for app, batch in marks.items():
                connection.execute(_MARK, [self.options.name, app, batch, count])
            self._prepare(connection, paths)
            connection.execute(f"insert into {self._name} by name select * from read_parquet(?)", [paths])  # noqa: S608  # quoted
            connection.execute("commit")
        return True

    def _prepare(self, connection: Any, paths: list[str]) -> None:
        """Create the table, or add new columns to it; a column keeps its type."""
        new = _columns(connection, "select * from read_parquet(?)", [paths])
        if not _exists(connection, self.options.name):
            schema, dot, _ = self.options.name.rpartition(".")
            if dot:
                connection.execute(f"create schema if not exists {_quoted(schema)}")
            listed = ", ".join(f"{_quoted(name)} {kind}" for name, kind in new.items())
            connection.execute(f"create table {self._name} ({listed})")
        found = changes(
            self.options, self._known(connection), _schema(connection, "read_parquet(?)", [paths])
        )
        for name in found.new:
            connection.execute(f"alter table {self._name} add column {_quoted(name)} {new[name]}")
        for name in found.wider:
            connection.execute(f"alter table {self._name} alter column {_quoted(name)} type {new[name]}")

    def _known(self, connection: Any) -> dict[str, pa.DataType]:
        return {each.name: each.type for each in _schema(connection, self._name)}

    def changes(self, rows: DataFrame) -> Changes:
        if not self._path.exists():
            return Changes()
        with self._open(read_only=True) as connection:
            if not _exists(connection, self.options.name):
                return Changes()
            return changes(self.options, self._known(connection), schema_of(rows))

    def read(self, spark: SparkSession) -> DataFrame:
        if not self._path.exists():
            raise NoTableError(self.options)
        with self._open(read_only=True) as connection:
            if not _exists(connection, self.options.name):
                raise NoTableError(self.options)
            connection.execute("set timezone = 'UTC'")
            rows = connection.sql(f"select * from {self._name}").to_arrow_table()  # noqa: S608  # quoted
        return spark.createDataFrame(rows)

    def remove(self, ids: Sequence[str]) -> int:
        if not ids or not self._path.exists():
            return 0
        with self._open() as connection:
            if not _exists(connection, self.options.name):
                return 0
            query = f"delete from {self._name} where list_contains(?, message_id)"  # noqa: S608  # quoted
            return int(connection.execute(query, [list(ids)]).fetchone()[0])

    def compact(self) -> Compacted:
        if self._path.exists():
            with self._open() as connection:
                connection.execute("checkpoint")
        return Compacted()

    @contextmanager
    def _open(self, *, read_only: bool = False) -> Iterator[Any]:
        try:
            connection = duckdb.connect(str(self._path), read_only=read_only)
        except duckdb.IOException as problem:
            raise TableError(f"{self.options}: cannot open the file ({problem})") from problem
        with connection:
            yield connection


def _exists(connection: Any, name: str) -> bool:
    schema, _, table = name.rpartition(".")
    query = "select count(*) from information_schema.tables where table_schema = ? and table_name = ?"
    return bool(connection.execute(query, [schema or "main", table]).fetchone()[0])


def _schema(connection: Any, place: str, values: Sequence[Any] = ()) -> pa.Schema:
    connection.execute("set timezone = 'UTC'")
    query = f"select * from {place} limit 0"  # noqa: S608  # quoted
    return nullable(connection.sql(query, params=list(values)).to_arrow_table().schema)


def _columns(connection: Any, query: str, values: list[Any]) -> dict[str, str]:
    return {name: kind for name, kind, *_ in connection.execute(f"describe {query}", values).fetchall()}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
