"""The interface of all table formats, and their names."""

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, Self

from pyspark.sql import DataFrame, SparkSession

from tiercel.model.errors import TiercelError

if TYPE_CHECKING:
    from tiercel.pipeline.tables.changes import Changes

# Format to module and class. Only the format in use is imported: each needs a heavy package.
FORMATS: Final[Mapping[str, tuple[str, str]]] = {
    "parquet": ("tiercel.pipeline.tables.parquet", "ParquetTable"),
    "delta": ("tiercel.pipeline.tables.delta", "DeltaLakeTable"),
    "iceberg": ("tiercel.pipeline.tables.iceberg", "IcebergTable"),
    "postgresql": ("tiercel.pipeline.tables.postgresql", "PostgreSqlTable"),
    "duckdb": ("tiercel.pipeline.tables.duckdb", "DuckDbTable"),
}
# Formats whose place holds many tables, so that a name is required.
NAMED: Final = frozenset({"iceberg", "postgresql", "duckdb"})

# Formats whose commit is one conditional write, of an object or of a catalog's pointer.
ON_STORES: Final = frozenset({"delta", "iceberg"})

MIB: Final = 1 << 20
# In a URL of PostgreSQL, and in its other form: host=... password=...
_PASSWORD: Final = re.compile(r"(://[^:/@\s]*:(?=[^@\s]*@)|password=)(?:'[^']*'|[^@&\s]*)")


class TableError(TiercelError):
    """A table that cannot be written or read."""


class NoTableError(TableError):
    def __init__(self, options: "TableOptions") -> None:
        super().__init__(f"{options}: the table does not exist yet")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """The place and layout of a table.

    `place` is a folder (parquet, delta, iceberg), a file (duckdb) or a URL (postgresql).
    """

    format: str
    place: str
    name: str = ""
    catalog: str = ""  # iceberg: the URI of its SQL catalog (default: a SQLite file in the folder)
    partition_by: tuple[str, ...] = ()
    target_file_mib: int = 128

    def __str__(self) -> str:
        """The table as users write it, without a password: logs and metrics show it."""
        place = _PASSWORD.sub(r"\1***", self.place)
        kind = "" if place.startswith(f"{self.format}:") else f"{self.format}:"
        return f"{kind}{place}" + (f"#{self.name}" if self.name else "")

    @classmethod
    def parse(cls, text: str) -> Self:
        """`FORMAT:PLACE[#NAME]`, or a place alone, whose format is then detected; raises `TableError`."""
        kind, colon, rest = text.partition(":")
        if kind not in FORMATS or not colon:
            kind, rest = _kind_of(text.partition("#")[0]), text
        elif rest.startswith("//"):  # postgresql://host/db is both the format and the place
            rest = text
        place, _, name = rest.partition("#")
        if not place:
            raise TableError(f"{text}: missing place after {kind}:")
        if kind in NAMED and not name:
            raise TableError(f"{text}: missing #NAME at the end; {kind} has many tables in one place")
        return cls(format=kind, place=place, name=name)

    def under(self, folder: Path) -> Self:
        """The same options with an absolute place."""
        is_url = self.format == "postgresql" or "://" in self.place
        return self if is_url else replace(self, place=str(folder / self.place))


def _kind_of(place: str) -> str:
    path = Path(place)
    if (path / "_delta_log").is_dir():
        return "delta"
    if (path / "catalog.db").is_file():
        return "iceberg"
    if path.is_dir():
        return "parquet"
    if path.is_file():
        return "duckdb"
    raise TableError(f"{place}: no such table; for a new one use FORMAT:PLACE, with FORMAT {_listed()}")


def _listed() -> str:
    return ", ".join(FORMATS)


@dataclass(frozen=True, slots=True)
class Written:
    """The effect of one batch on a table; `already` if the table had it."""

    rows: int = 0
    files: int = 0
    already: bool = False


@dataclass(frozen=True, slots=True)
class Compacted:
    """The numbers of files before and after merging, and of removed orphans."""

    before: int = 0
    after: int = 0
    removed: int = 0


class Table(Protocol):
    options: TableOptions

    def applied(self, app: str) -> int:
        """The last batch of an application in the table; -1 for none."""

    def write(self, rows: DataFrame, marks: Mapping[str, int]) -> Written:
        """Add the rows and the marks in one step, or nothing if all marks are there."""

    def read(self, spark: SparkSession) -> DataFrame:
        """All rows currently in the table."""

    def changes(self, rows: DataFrame) -> "Changes":
        """New and wider columns, if these rows were written; `TableError` if the table cannot take them."""

    def remove(self, ids: Sequence[str]) -> int:
        """Remove the rows with these message ids, in one step; returns their number."""

    def compact(self) -> Compacted:
        """Merge small files and remove leftovers of failed attempts."""


def open_table(options: TableOptions) -> Table:
    """The table of the options; nothing is created before the first batch."""
    module, name = FORMATS[options.format]
    try:
        kind = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as problem:
        raise TableError(
            f"{options}: package {problem.name} is missing; run pip install 'tiercel[pipeline]'"
        ) from problem
    table: Table = kind(options)
    return table


def is_applied(table: Table, marks: Mapping[str, int]) -> bool:
    return are_there(table.options, marks, table.applied)


def are_there(options: TableOptions, marks: Mapping[str, int], applied: Callable[[str], int]) -> bool:
    """Whether a table already has the rows of these marks; a `TableError` if it has only some."""
    found = {applied(app) >= batch for app, batch in marks.items()}
    if len(found) > 1:
        raise TableError(f"{options}: another run has added some of these rows; run it again for the rest")
    return found == {True}


def other_type(options: TableOptions, column: str, known: object, new: object) -> TableError:
    """The error for a column that would change its type."""
    return TableError(
        f"{options}: column {column} is {known} in the table and {new} in the batch;"
        " cast it, or write to a new table"
    )


def other_partitions(options: TableOptions, known: Sequence[str | None]) -> TableError:
    wanted = list(options.partition_by)
    return TableError(f"{options}: partitioned by {list(known)}, not {wanted}; write to a new table")
