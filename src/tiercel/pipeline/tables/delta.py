"""Delta Lake, written without a jar: executors write the files, the driver commits them with `deltalake`.

The marks are Delta's own application transactions, in the same commit as the files.
"""

import functools
import json
import re
import time
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame, SparkSession

from tiercel.pipeline.tables.changes import Changes, changes
from tiercel.pipeline.tables.data_files import DataFile, Layout, file_prefix, nullable, schema_of, write_files
from tiercel.pipeline.tables.file_systems import joined, local_path
from tiercel.pipeline.tables.reading import Fragment, read_fragments
from tiercel.pipeline.tables.table import (
    MIB,
    Compacted,
    NoTableError,
    TableError,
    TableOptions,
    Written,
    are_there,
    is_applied,
    other_partitions,
)

# How long files are kept after the table has dropped them, for active readers and tasks.
KEEP_HOURS: Final = 24


class DeltaLakeTable:
    def __init__(self, options: TableOptions) -> None:
        self.options = options

    def applied(self, app: str) -> int:
        return _applied(self._open(), app) if self._exists() else -1

    def write(self, rows: DataFrame, marks: Mapping[str, int]) -> Written:
        if is_applied(self, marks):
            return Written(already=True)
        schema = schema_of(rows)
        self._prepare(schema)
        partition_by = self.options.partition_by
        layout = Layout(folder=self.options.place, prefix=file_prefix(marks), partition_by=partition_by)
        files = write_files(rows, layout)
        if not files:
            return Written()  # nothing to record either: a repeated empty batch is empty again
        # From the version that the commit builds on: Delta refuses conflicts with later versions.
        table = self._open()
        if are_there(self.options, marks, functools.partial(_applied, table)):
            return Written(already=True)  # another driver has written the same rows
        transactions = [Transaction(app, batch) for app, batch in marks.items()]
        try:
            table.create_write_transaction(
                [_add(each) for each in files],
                "append",
                table.schema(),
                list(partition_by),
                commit_properties=CommitProperties(app_transactions=transactions),
            )
        except DeltaError as problem:
            if is_applied(self, marks):
                return Written(already=True)
            raise TableError(f"{self.options}: the commit failed ({problem})") from problem
        return Written(sum(each.rows for each in files), len(files))

    def read(self, spark: SparkSession) -> DataFrame:
        if not self._exists():
            raise NoTableError(self.options)
        table = self._open()
        actions = pa.table(table.get_add_actions(flatten=False)).to_pylist()
        root = self.options.place
        fragments = [Fragment(joined(root, each["path"]), each.get("partition") or {}) for each in actions]
        return read_fragments(spark, fragments, nullable(pa.schema(table.schema().to_arrow())))

    def changes(self, rows: DataFrame) -> Changes:
        known = _columns(self._open()) if self._exists() else {}
        return changes(self.options, known, schema_of(rows))

    def remove(self, ids: Sequence[str]) -> int:
        if not ids or not self._exists():
            return 0
        listed = ", ".join("'" + each.replace("'", "''") + "'" for each in ids)
        return int(self._open().delete(f"message_id in ({listed})")["num_deleted_rows"])

    def compact(self) -> Compacted:
        if not self._exists():
            return Compacted()
        table = self._open()
        done = table.optimize.compact(target_size=self.options.target_file_mib * MIB)
        removed = table.vacuum(
            retention_hours=KEEP_HOURS,
            dry_run=False,
            enforce_retention_duration=False,
            full=True,  # includes the files of failed attempts, which no version of the table has named
        )
        return Compacted(done["numFilesRemoved"], done["numFilesAdded"], len(removed))

    def _prepare(self, schema: pa.Schema) -> None:
        """Create the table, or add new columns to it; a column keeps its type."""
        if not self._exists():
            path = local_path(self.options.place)
            if path is not None:
                path.mkdir(parents=True, exist_ok=True)
            DeltaTable.create(
                self.options.place,
                Schema.from_arrow(schema),
                mode="ignore",
                partition_by=list(self.options.partition_by),
            )
        table = self._open()
        partition_by = table.metadata().partition_columns
        if partition_by != list(self.options.partition_by):
            raise other_partitions(self.options, partition_by)
        new = set(changes(self.options, _columns(table), schema).new)
        if new:
            table.alter.add_columns([each for each in Schema.from_arrow(schema).fields if each.name in new])

    def _exists(self) -> bool:
        try:
            return DeltaTable.is_deltatable(self.options.place)
        except (OSError, DeltaError) as problem:
            words = " ".join(re.sub("\x1b\\[\\d+m|↳", "", str(problem)).split())  # it is made for a terminal
            raise TableError(f"{self.options}: cannot reach the store ({words:.300})") from problem

    def _open(self) -> DeltaTable:
        return DeltaTable(self.options.place)


def _columns(table: DeltaTable) -> dict[str, pa.DataType]:
    return {each.name: each.type for each in nullable(pa.schema(table.schema().to_arrow()))}


def _applied(table: DeltaTable, app: str) -> int:
    version = table.transaction_version(app)
    return -1 if version is None else version


def _add(file: DataFile) -> AddAction:
    stats = json.dumps({"numRecords": file.rows, **file.statistics})
    return AddAction(
        file.path, file.size, file.partition, int(time.time() * 1000), data_change=True, stats=stats
    )
