"""Apache Iceberg with `pyiceberg`: executors write the files, the driver adds them in one snapshot.

The catalog is a SQLite file in the table's folder by default. The mark of an application is a property of the
table, set in the same commit as the snapshot: properties survive when old snapshots expire. The snapshot
records its batch too, for readers of the history.
"""

import functools
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlparse

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.expressions import In
from pyiceberg.io.pyarrow import parquet_files_to_data_files
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.table import Table as Iceberg
from pyiceberg.table import TableProperties
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ByteType, ShortType

from tiercel.pipeline.tables.changes import Changes, changes
from tiercel.pipeline.tables.data_files import (
    DataFile,
    Layout,
    file_prefix,
    join_files,
    joinable,
    nullable,
    schema_of,
    write_files,
)
from tiercel.pipeline.tables.file_systems import joined, listing, local_path, remove_file
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

_MARK: Final = "tiercel.applied."
# Each commit writes a metadata file; pyiceberg removes the oldest only if configured to.
_PROPERTIES: Final = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}
ORPHAN_AGE_S: Final = 24 * 3600
_TRIES: Final = 10  # attempts to commit, besides other writers


class IcebergTable:
    def __init__(self, options: TableOptions) -> None:
        self.options = options
        path = local_path(options.place)
        self._folder = None if path is None else path.absolute()
        name = options.name if "." in options.name else f"default.{options.name}"
        self._namespace, _, _ = name.rpartition(".")
        self._identifier = name

    def applied(self, app: str) -> int:
        table = self._load()
        return -1 if table is None else _applied(table, app)

    def write(self, rows: DataFrame, marks: Mapping[str, int]) -> Written:
        if is_applied(self, marks):
            return Written(already=True)
        rows = _with_wide_integers(rows)
        table = self._prepare(schema_of(rows))
        files = write_files(rows, self._layout(table, file_prefix(marks)))
        if not files:
            return Written()  # nothing to record either: a repeated empty batch is empty again
        with self._catalog() as catalog:
            for tries_left in reversed(range(_TRIES)):
                table = self._load_to_commit(catalog)
                if are_there(self.options, marks, functools.partial(_applied, table)):
                    return Written(already=True)  # another driver has written the same rows
                try:
                    self._commit(table, files, marks)
                    break
                except CommitFailedException as problem:  # perhaps another driver committed this batch: check
                    if not tries_left:
                        raise TableError(f"{self.options}: the commit failed ({problem})") from problem
        return Written(sum(each.rows for each in files), len(files))

    def _load_to_commit(self, catalog: Catalog) -> Iceberg:
        """The table; a commit to it fails if it has changed since.

        By default, pyiceberg would retry on top of that change, without checking the marks.
        """
        table = catalog.load_table(self._identifier)
        table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
        return table

    def _commit(self, table: Iceberg, files: list[DataFile], marks: Mapping[str, int]) -> None:
        data = _data(table)
        app, batch = next(iter(marks.items()))
        with table.transaction() as transaction:
            transaction.set_properties({_MARK + each: str(number) for each, number in marks.items()})
            if files:
                transaction.add_files(
                    [joined(data, each.path) for each in files],
                    snapshot_properties={"tiercel.app": app, "tiercel.batch": str(batch)},
                    check_duplicate_files=False,
                )

    def read(self, spark: SparkSession) -> DataFrame:
        table = self._load()
        if table is None:
            raise NoTableError(self.options)
        files = [Fragment(_local(task.file.file_path), {}) for task in table.scan().plan_files()]
        return read_fragments(spark, files, nullable(table.schema().as_arrow()))

    def changes(self, rows: DataFrame) -> Changes:
        table = self._load()
        known = {} if table is None else _columns(table)
        return changes(self.options, known, schema_of(_with_wide_integers(rows)))

    def remove(self, ids: Sequence[str]) -> int:
        with self._catalog() as catalog:
            if not ids or not catalog.table_exists(self._identifier):
                return 0
            table = catalog.load_table(self._identifier)
            chosen = In("message_id", set(ids))  # type: ignore[call-arg, arg-type]  # its types are those of its fields
            count = table.scan(row_filter=chosen).count()
            table.delete(chosen)
        return count

    def compact(self) -> Compacted:
        before = after = 0
        with self._catalog() as catalog:
            if not catalog.table_exists(self._identifier):
                return Compacted()
            table = catalog.load_table(self._identifier)
            for files in _by_partition(table):
                sizes = {each.file_path: each.file_size_in_bytes for each in files}
                for names in joinable(sizes, self.options.target_file_mib * MIB):
                    _join(table, [each for each in files if each.file_path in names])
                    before += len(names)
                    after += 1
            removed = self._remove_orphans(table)
        return Compacted(before, after, removed)

    def _remove_orphans(self, table: Iceberg) -> int:
        """Files that no snapshot names: leftovers of failed attempts."""
        known = {_local(each) for each in table.inspect.all_files().column("file_path").to_pylist()}
        oldest = time.time() - ORPHAN_AGE_S
        found = [
            each.place
            for each in listing(_data(table), ".parquet")
            if each.place not in known and each.modified < oldest
        ]
        for place in found:
            remove_file(place)
        return len(found)

    def _prepare(self, schema: pa.Schema) -> Iceberg:
        """Create the table, or add new columns to it; a column keeps its type."""
        with self._catalog() as catalog:
            if not catalog.table_exists(self._identifier):
                catalog.create_namespace_if_not_exists(self._namespace)
                return self._create(catalog, schema)
            table = catalog.load_table(self._identifier)
            self._check_partitions(table)
            found = changes(self.options, _columns(table), schema)
            if found.new or found.wider:
                with table.update_schema() as update:
                    update.union_by_name(schema)
            return table

    def _create(self, catalog: Catalog, schema: pa.Schema) -> Iceberg:
        table = catalog.create_table(self._identifier, schema, properties=_PROPERTIES)
        if self.options.partition_by:
            with table.update_spec() as update:
                for name in self.options.partition_by:
                    update.add_identity(name)
        return table

    def _check_partitions(self, table: Iceberg) -> None:
        names = [table.schema().find_column_name(each.source_id) for each in table.spec().fields]
        if names != list(self.options.partition_by):
            raise other_partitions(self.options, names)

    def _layout(self, table: Iceberg, prefix: str) -> Layout:
        return Layout(
            folder=_data(table),
            prefix=prefix,
            partition_by=self.options.partition_by,
            keep_partition_columns=True,
        )

    def _load(self) -> Iceberg | None:
        if not self.options.catalog and self._folder and not (self._folder / "catalog.db").exists():
            return None
        with self._catalog() as catalog:
            try:
                return catalog.load_table(self._identifier)
            except NoSuchTableError:
                return None

    @contextmanager
    def _catalog(self) -> Iterator[Catalog]:
        try:
            catalog = open_catalog(self.options.catalog, self.options.place, self._folder)
        except TableError:
            raise
        except Exception as problem:  # every catalog has errors of its own
            raise TableError(f"{self.options}: cannot open the catalog ({problem})") from problem
        try:
            yield catalog
        finally:
            catalog.close()


def open_catalog(text: str, place: str, folder: Path | None) -> Catalog:
    """The catalog of an option: `glue`, a REST server's URL, `name:NAME` of .pyiceberg.yaml, or a SQL URI.

    Without one, it is a SQLite file in the folder.
    """
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    warehouse = place if folder is None else f"file://{folder}"
    if text.startswith("name:"):
        return load_catalog(text.removeprefix("name:"))
    properties = {"warehouse": warehouse, **_endpoint()}
    if text == "glue":
        return load_catalog("tiercel", type="glue", **properties)
    if text.startswith(("http://", "https://")):
        return load_catalog("tiercel", type="rest", uri=text, **properties)
    if not text and folder is None:
        raise TableError(f"iceberg:{place}: an object store cannot hold the catalog; set catalog")
    return SqlCatalog("tiercel", uri=text or f"sqlite:///{folder}/catalog.db", **properties)


def _endpoint() -> dict[str, str]:
    """The server of the environment, which Arrow and delta-rs use by themselves, and pyiceberg does not."""
    found = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    return {"s3.endpoint": found} if found else {}


def _columns(table: Iceberg) -> dict[str, pa.DataType]:
    return {each.name: each.type for each in nullable(table.schema().as_arrow())}


def _applied(table: Iceberg, app: str) -> int:
    return int(table.properties.get(_MARK + app, -1))


def _by_partition(table: Iceberg) -> list[list[IcebergFile]]:
    found: defaultdict[str, list[IcebergFile]] = defaultdict(list)
    for task in table.scan().plan_files():
        found[str(task.file.partition)].append(task.file)
    return list(found.values())


def _join(table: Iceberg, files: list[IcebergFile]) -> None:
    """Merge many files of one partition into one, in a separate snapshot."""
    paths = [_local(each.file_path) for each in files]
    folder, _, name = paths[0].rpartition("/")
    target = f"{folder}/joined-{time.time_ns()}-{name}"
    join_files(paths, target)
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as overwrite:
        for each in files:
            overwrite.delete_data_file(each)
        for new in parquet_files_to_data_files(table.io, transaction.table_metadata, iter([target])):
            overwrite.append_data_file(new)


def _data(table: Iceberg) -> str:
    return joined(_local(table.location()), "data")


def _local(location: str) -> str:
    return urlparse(location).path if location.startswith("file:") else location


def _with_wide_integers(rows: DataFrame) -> DataFrame:
    """Widen integers: Iceberg only has 32 and 64 bits."""
    narrow = {each.name for each in rows.schema if isinstance(each.dataType, ByteType | ShortType)}
    return rows.withColumns({name: rows[name].cast("int") for name in narrow}) if narrow else rows
