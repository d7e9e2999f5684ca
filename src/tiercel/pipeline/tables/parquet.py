"""A folder of Parquet files for any reader: `**/*.parquet` are exactly the rows of the
table.

Spark's own file sink leaves files of failed attempts beside the good ones, and only readers of its
`_spark_metadata` can tell them apart. Here a file is renamed to `*.parquet` only after the commit. The commit
is the atomic replacement of one small file, `_tiercel/state.json`, with the marks, and the renames and
removals that follow from them. If a writer dies between the two, the next writer completes its renames and
removals first.
"""

import fcntl
import json
import os
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tiercel.pipeline.tables.changes import Changes, changes
from tiercel.pipeline.tables.data_files import (
    DataFile,
    Layout,
    file_prefix,
    join_files,
    joinable,
    schema_of,
    write_files,
    write_table,
)
from tiercel.pipeline.tables.file_systems import sync
from tiercel.pipeline.tables.table import (
    MIB,
    Compacted,
    NoTableError,
    TableError,
    TableOptions,
    Written,
    are_there,
    other_partitions,
)

_PENDING: Final = ".pending"
# The types of values in folder names: Arrow's names to Spark's.
_SPARK_TYPES: Final = {
    "date32[day]": "date",
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "timestamp[us, tz=UTC]": "timestamp",
}
# Running tasks write to their files; one that has not written for this long is dead.
ORPHAN_AGE_S: Final = 24 * 3600


@dataclass(slots=True)
class _State:
    """The content of `state.json`."""

    applied: dict[str, int] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    partition_by: list[str] | None = None
    renames: list[tuple[str, str]] = field(default_factory=list)
    removals: list[str] = field(default_factory=list)


class ParquetTable:
    def __init__(self, options: TableOptions) -> None:
        self.options = options
        self._folder = Path(options.place)
        self._own = self._folder / "_tiercel"
        self._state_file = self._own / "state.json"

    def applied(self, app: str) -> int:
        return self._load().applied.get(app, -1)

    def write(self, rows: DataFrame, marks: Mapping[str, int]) -> Written:
        with self._locked() as state:
            if self._has(state, marks):
                return Written(already=True)
        layout = Layout(
            folder=str(self._own / "files"),
            prefix=file_prefix(marks),
            suffix=_PENDING,
            partition_by=self.options.partition_by,
            are_folders_read=True,
        )
        files = write_files(rows, layout)
        if not files:
            return Written()  # nothing to record either: a repeated empty batch is empty again
        with self._locked() as state:
            if self._has(state, marks):  # another driver has written the same rows
                return Written(already=True)
            wider = self._take_columns(state, rows)
            state.applied |= marks
            state.renames = [_names(each) for each in files] + self._widened(wider)
            self._commit(state)
        return Written(sum(each.rows for each in files), len(files))

    def read(self, spark: SparkSession) -> DataFrame:
        state: _State | None = None
        if self._state_file.exists():
            with self._locked() as state:
                pass  # completes an interrupted commit
        if not any(self._folder.glob("**/*.parquet")):
            raise NoTableError(self.options)
        if state is None:  # not our folder
            return spark.read.option("mergeSchema", "true").parquet(str(self._folder))
        with _no_guessing(spark):
            rows = spark.read.option("mergeSchema", "true").parquet(str(self._folder))
        types = {name: _SPARK_TYPES.get(state.columns[name], "string") for name in state.partition_by or ()}
        return rows.withColumns({name: rows[name].cast(kind) for name, kind in types.items()})

    def remove(self, ids: Sequence[str]) -> int:
        if not ids or not self._own.is_dir():
            return 0
        chosen, count = pa.array(sorted(ids), pa.string()), 0
        with self._compacting():
            renames, removals = [], []
            for path in sorted(self._folder.glob("**/*.parquet")):
                rows = pq.ParquetFile(path).read()
                kept = rows.filter(pc.invert(pc.is_in(rows.column("message_id"), chosen)))
                if kept.num_rows == rows.num_rows:
                    continue
                count += rows.num_rows - kept.num_rows
                name = str(path.relative_to(self._folder))
                if kept.num_rows:
                    pending = self._own / "files" / f"kept-{uuid4().hex}{_PENDING}"
                    write_table(kept, str(pending))
                    renames.append((str(pending.relative_to(self._folder)), name))
                else:
                    removals.append(name)
            with self._locked() as state:
                state.renames, state.removals = renames, removals
                self._commit(state)
        return count

    def compact(self) -> Compacted:
        if not self._own.is_dir():
            return Compacted()
        before = after = 0
        with self._compacting():
            for folder, sizes in self._sizes().items():
                for names in joinable(sizes, self.options.target_file_mib * MIB):
                    self._join(folder, names)
                    before += len(names)
                    after += 1
            return Compacted(before, after, self._remove_orphans())

    def _join(self, folder: Path, names: list[str]) -> None:
        pending = self._own / "files" / f"joined-{names[0]}{_PENDING}"
        join_files([str(folder / name) for name in names], str(pending))
        with self._locked() as state:
            # Reuse the first name, so that readers in the order of names get the rows in order.
            target = (folder / names[0]).relative_to(self._folder)
            state.renames = [(str(pending.relative_to(self._folder)), str(target))]
            state.removals = [str((folder / name).relative_to(self._folder)) for name in names[1:]]
            self._commit(state)

    def _sizes(self) -> Mapping[Path, dict[str, int]]:
        found: defaultdict[Path, dict[str, int]] = defaultdict(dict)
        for path in self._folder.glob("**/*.parquet"):
            found[path.parent][path.name] = path.stat().st_size
        return found

    def _remove_orphans(self) -> int:
        oldest = time.time() - ORPHAN_AGE_S
        with self._locked():  # committed files have their final names now, so the rest is not needed
            found = [each for each in self._own.glob(f"**/*{_PENDING}") if each.stat().st_mtime < oldest]
            for path in found:
                path.unlink()
        return len(found)

    def _has(self, state: _State, marks: Mapping[str, int]) -> bool:
        return are_there(self.options, marks, lambda app: state.applied.get(app, -1))

    def _take_columns(self, state: _State, rows: DataFrame) -> Mapping[str, pa.DataType]:
        """Add the columns of a batch to the state; returns those that have become wider."""
        partition_by = list(self.options.partition_by)
        if state.partition_by is not None and state.partition_by != partition_by:
            raise other_partitions(self.options, state.partition_by)
        state.partition_by = partition_by
        schema = schema_of(rows)
        found = changes(self.options, _types(state, schema), schema)
        state.columns |= {each.name: str(each.type) for each in schema}
        return found.wider

    def _widened(self, wider: Mapping[str, pa.DataType]) -> list[tuple[str, str]]:
        """Rewrite the files with columns that become wider: readers expect one type in all files."""
        renames = []
        for path in sorted(self._folder.glob("**/*.parquet")) if wider else ():
            rows = pq.ParquetFile(path).read()
            schema = pa.schema([each.with_type(wider.get(each.name, each.type)) for each in rows.schema])
            if schema == rows.schema:
                continue
            pending = self._own / "files" / f"wider-{uuid4().hex}{_PENDING}"
            write_table(rows.cast(schema), str(pending))
            renames.append((str(pending.relative_to(self._folder)), str(path.relative_to(self._folder))))
        return renames

    def changes(self, rows: DataFrame) -> Changes:
        schema = schema_of(rows)
        return changes(self.options, _types(self._load(), schema), schema)

    @contextmanager
    def _compacting(self) -> Iterator[None]:
        """Allow one compaction at a time: two would merge and remove the same files."""
        with (self._own / "compaction").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TableError(f"{self.options}: another process is compacting it") from None
            with self._locked():
                pass  # completes an interrupted commit before the files are listed
            yield

    @contextmanager
    def _locked(self) -> Iterator[_State]:
        """Lock the state, and complete an earlier commit if it was interrupted."""
        self._own.mkdir(parents=True, exist_ok=True)
        with (self._own / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            state = self._load()
            self._complete(state)
            yield state

    def _load(self) -> _State:
        try:
            text = self._state_file.read_text("utf-8")
        except FileNotFoundError:
            return _State()
        try:
            return _State(**json.loads(text))
        except (ValueError, TypeError) as problem:
            raise TableError(f"{self._state_file}: damaged ({problem})") from problem

    def _commit(self, state: _State) -> None:
        self._save(state)  # this is the commit
        self._complete(state)

    def _save(self, state: _State) -> None:
        new = self._state_file.with_suffix(".new")
        with new.open("w", encoding="utf-8") as file:
            json.dump(asdict(state), file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._state_file)
        sync(self._own)

    def _complete(self, state: _State) -> None:
        """Perform the pending renames and removals of the state; idempotent."""
        if not state.renames and not state.removals:
            return
        # Removals first: readers may miss rows for a moment, but never count one twice.
        for name in state.removals:
            (self._folder / name).unlink(missing_ok=True)
        folders = set()
        for pending, name in state.renames:
            source, target = self._folder / pending, self._folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            folders.add(target.parent)
            if source.exists():
                source.replace(target)
            elif not target.exists():
                raise TableError(f"{self.options}: {source} was committed and is gone")
        for folder in folders:
            sync(folder)
        state.renames, state.removals = [], []
        self._save(state)


def _types(state: _State, schema: pa.Schema) -> dict[str, pa.DataType]:
    """The types of the table: of nested ones, the state has only the text."""
    batch = {each.name: each.type for each in schema}
    return {
        name: batch[name] if name in batch and str(batch[name]) == text else _type(text)
        for name, text in state.columns.items()
    }


def _type(text: str) -> pa.DataType:
    if match := re.fullmatch(r"decimal128\((\d+), (\d+)\)", text):
        return pa.decimal128(int(match[1]), int(match[2]))
    if text.startswith(("struct<", "list<", "map<")):
        return pa.struct([])
    if text.startswith("timestamp[us"):
        return pa.timestamp("us", "UTC" if "UTC" in text else None)
    return pa.type_for_alias(text)


@contextmanager
def _no_guessing(spark: SparkSession) -> Iterator[None]:
    """Turn off type inference: Spark would read a queue named 007 as the number 7."""
    option = "spark.sql.sources.partitionColumnTypeInference.enabled"
    before = spark.conf.get(option) or "true"
    spark.conf.set(option, "false")
    try:
        yield
    finally:
        spark.conf.set(option, before)


def _names(file: DataFile) -> tuple[str, str]:
    return f"_tiercel/files/{file.path}", file.path.removesuffix(_PENDING) + ".parquet"
