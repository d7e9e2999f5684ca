"""Loads captures of port 1801 into a table of messages, one partition per capture.

Every captured message is a row: `arrived_time` is when its last byte was captured, `queue` its destination.
Missing or undecodable bytes are rows with only `decode_error`, so that nothing is dropped silently. A capture
that is already in the table, identified by its content, is skipped.
"""

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tiercel import columns
from tiercel.columns.messages import Row, of_rows
from tiercel.model.errors import DecodeError, TiercelError
from tiercel.pipeline.packets import packet_row
from tiercel.pipeline.tables import Table
from tiercel.wire.capture import TCP_PORT, Capture, Gap, Stream, is_capture, read_capture
from tiercel.wire.framer import Framer

# The source of a row, in addition to the columns of a message.
_PLACE: Final = (pa.field("capture", pa.string()), pa.field("stream", pa.string()))
_NAMES: Final = (*columns.names(), "decode_error")
SCHEMA: Final = pa.schema([*columns.arrow_schema(_NAMES), *_PLACE])
_DIRECT: Final = re.compile(r"DIRECT=(?:OS|TCP|HTTPS?):(.*)", re.IGNORECASE)
_BATCH: Final = 2000
_Moments = list[tuple[int, float]]


class CaptureError(TiercelError):
    """A file that is not a capture."""


class _Seen(NamedTuple):
    """A row with its stream and its time in seconds since 1970."""

    row: Row
    stream: str = ""
    moment: float | None = None


class Landed(NamedTuple):
    captures: int
    already: int
    messages: int


def land(
    spark: SparkSession, files: Sequence[Path], table: Table, ports: Sequence[int] = (TCP_PORT,)
) -> Landed:
    """Decode all captures that the table does not have yet, and add them in one step."""
    marks = {_mark(path): path for path in files}
    new = {mark: path for mark, path in marks.items() if table.applied(mark) < 0}
    if not new:
        return Landed(0, len(files), 0)
    written = table.write(read(spark, list(new.values()), ports), dict.fromkeys(new, 0))
    return Landed(len(new), len(files) - len(new), written.rows)


def read(spark: SparkSession, files: Sequence[Path], ports: Sequence[int] = (TCP_PORT,)) -> DataFrame:
    """The messages of captures; nothing is written."""
    names = [(str(path.absolute()),) for path in files]
    paths = spark.createDataFrame(spark.sparkContext.parallelize(names, len(names)), "path string")
    return paths.mapInArrow(partial(_read_files, tuple(ports)), from_arrow_schema(SCHEMA))


def _mark(path: Path) -> str:
    try:
        with path.open("rb") as file:
            if not is_capture(file.read(4)):
                raise CaptureError(f"{path}: neither pcap nor pcapng")
            file.seek(0)
            return f"capture-{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError as problem:
        raise CaptureError(f"{path}: cannot read the file ({problem.strerror})") from problem


def _read_files(ports: tuple[int, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for path in batch.column("path").to_pylist():
            rows = _rows(read_capture(Path(path).read_bytes(), ports, ()))
            while some := list(islice(rows, _BATCH)):
                yield _batch(some, path)


def _batch(seen: Sequence[_Seen], path: str) -> pa.RecordBatch:
    found = of_rows([each.row for each in seen], _NAMES)
    queues = [None if queue is None else _queue(queue) for queue in found.column("dest_queue").to_pylist()]
    arrays = dict(zip(_NAMES, found.columns, strict=True)) | {
        "queue": pa.array(queues, pa.string()),
        "lookup_id": pa.nulls(len(seen), pa.int64()),  # only queues assign one
        "arrived_time": pa.array(
            [_microseconds(each.moment) for each in seen], SCHEMA.field("arrived_time").type
        ),
        "capture": pa.array([path] * len(seen), pa.string()),
        "stream": pa.array([each.stream for each in seen], pa.string()),
    }
    return pa.RecordBatch.from_arrays([arrays[each.name] for each in SCHEMA], schema=SCHEMA)


def _queue(name: str) -> str:
    r"""`host\private$\orders` of `DIRECT=OS:host\private$\orders`; any other name as it is."""
    match = _DIRECT.fullmatch(name)
    return match[1] if match else name


def _microseconds(moment: float | None) -> int | None:
    return None if moment is None else round(moment * 1e6)


def _rows(capture: Capture) -> Iterator[_Seen]:
    for stream, moments in zip(capture.streams, capture.moments, strict=True):
        for row, moment in _stream_rows(stream, moments):
            yield _Seen(row, str(stream.flow), moment)
    if capture.damage is not None:
        yield _Seen(_problem(f"the capture is truncated: {capture.damage}"))
    if capture.unknown_link_types:
        listed = ", ".join(map(str, sorted(capture.unknown_link_types)))
        yield _Seen(_problem(f"frames of link type {listed} are not supported and were skipped"))


def _stream_rows(stream: Stream, moments: _Moments) -> Iterator[tuple[Row, float | None]]:
    for part in stream.parts:
        if isinstance(part, Gap):
            words = f"{part.size} bytes at {part.offset} are missing, or cannot be assigned to a packet"
            yield _problem(words), _moment(moments, part.offset)
        else:
            yield from _run_rows(part.data, part.offset, moments)


def _run_rows(data: bytes, at: int, moments: _Moments) -> Iterator[tuple[Row, float | None]]:
    framer = Framer()
    framer.receive(data)
    end = at + len(data)
    try:
        for packet in framer.packets():
            at += len(packet)
            row = packet_row(packet)
            if row is not None:
                yield row, _moment(moments, at - 1)
    except DecodeError as problem:
        words = f"{problem}; the {end - at} bytes that follow cannot be told apart"
        yield _problem(words), _moment(moments, at)
        return
    if at < end:
        yield _problem(f"the capture ends {end - at} bytes into a packet"), _moment(moments, at)


def _moment(moments: _Moments, offset: int) -> float | None:
    """When the byte at an offset was captured: with the last segment that begins at or before it."""
    place = bisect_right(moments, (offset, float("inf")))
    return moments[place - 1][1] if place else None


def _problem(text: str) -> Row:
    return Row(None, 0, error=text)
