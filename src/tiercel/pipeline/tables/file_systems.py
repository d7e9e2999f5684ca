"""Files of tables, in folders and on object stores, through Arrow's file systems.

A place is a path or a URL: `s3://bucket/lake`, `gs://bucket/lake`,
`abfss://container@account.dfs.core.windows.net/lake`. The credentials, the region and the endpoint of a store
are those of the environment, on the driver and on every executor. A file on an object store exists as soon
as its last byte is accepted, and not before; in a folder it is synced first.
"""

import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from tiercel.pipeline.tables.table import TableError

SCHEMES: Final = ("s3", "gs", "abfss")
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://?")


def scheme_of(place: str) -> str:
    """The scheme of a URL; "" for a path."""
    match = _URL.match(place)
    return match[1].lower() if match and match[1].lower() != "file" else ""


def local_path(place: str) -> Path | None:
    """The path of a place in a folder; None on an object store."""
    return None if scheme_of(place) else Path(re.sub(r"^file:(//)?", "", place))


def joined(place: str, name: str) -> str:
    return f"{place.rstrip('/')}/{name}"


@functools.cache
def _file_system(root: str) -> pafs.FileSystem:
    try:
        found, _ = pafs.FileSystem.from_uri(root)
    except (pa.ArrowException, OSError) as problem:
        raise TableError(f"{root}: cannot open the object store ({problem})") from problem
    return found


def _opened(place: str) -> tuple[pafs.FileSystem, str]:
    """The file system of a place, and its name there."""
    path = local_path(place)
    if path is not None:
        return pafs.LocalFileSystem(), str(path)
    head, _, rest = place.partition("://")
    host, _, name = rest.partition("/")
    bucket = host.partition("@")[0]  # abfss: container@account
    return _file_system(f"{head}://{host}"), f"{bucket}/{name}"


class Found(NamedTuple):
    place: str
    size: int
    modified: float  # in seconds since 1970


def listing(place: str, suffix: str) -> Iterator[Found]:
    """All files below a place whose name ends so; nothing if there is no such place."""
    files, name = _opened(place)
    for each in files.get_file_info(pafs.FileSelector(name, allow_not_found=True, recursive=True)):
        if each.type == pafs.FileType.File and each.path.endswith(suffix):
            yield Found(joined(place, each.path[len(name) :].lstrip("/")), each.size, each.mtime.timestamp())


def remove_file(place: str) -> None:
    files, name = _opened(place)
    files.delete_file(name)


def open_parquet(place: str) -> pq.ParquetFile:
    files, name = _opened(place)
    return pq.ParquetFile(name, filesystem=files)


class ParquetSink:
    """A Parquet file that is being written; whole, durable and visible once it is closed."""

    def __init__(self, place: str, schema: pa.Schema) -> None:
        self._path = local_path(place)
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        self._place = _opened(place)
        files, name = self._place
        # Spark needs microseconds; nanoseconds would be read back as another type.
        self._metadata: list[pq.FileMetaData] = []
        self._writer = pq.ParquetWriter(
            name,
            schema,
            filesystem=files,
            compression="zstd",
            coerce_timestamps="us",
            metadata_collector=self._metadata,
        )

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table)

    def close(self) -> int:
        """End the file; returns its size."""
        self._writer.close()
        if self._path is not None:
            sync(self._path)
            sync(self._path.parent)
        files, name = self._place
        size: int = files.get_file_info(name).size
        return size

    @property
    def metadata(self) -> pq.FileMetaData:
        """What the file says about itself; known once it is closed."""
        return self._metadata[0]


def sync(path: Path) -> None:
    """Make a file, or the entries of a folder, survive a power failure."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
