"""Staged rows as messages to send."""

import struct
from collections.abc import Callable, Iterator

import pyarrow as pa

from tiercel import columns
from tiercel.model.errors import InvalidParameterError, MqError
from tiercel.model.format_name import FormatName
from tiercel.model.message import Message
from tiercel.model.queue_name import parse_queue_name

_OFFSET, _BACK, _SHORT = struct.Struct("<I"), struct.Struct("<i"), struct.Struct("<H")  # of FlatBuffers
_ANY = "any"  # the queue may be given when the rows are published
_AT_ONCE = 500  # rows that become Python objects together, some milliseconds: port 1801 waits for them


def rows_of(queue: str | None) -> Callable[[bytes], Iterator[tuple[FormatName, Message]]]:
    """Decodes the rows of a chunk; `queue` is for rows that name none."""

    def rows(payload: bytes) -> Iterator[tuple[FormatName, Message]]:
        for batch in _batches(payload):
            for name, message in _messages(batch):
                goal = name or queue
                if goal is None:
                    fix = "give queue, or a column queue without nulls"
                    raise InvalidParameterError("queue", problem="a row names no queue", fix=fix)
                destination = parse_queue_name(goal)
                if message.destination_queue not in {None, destination}:  # it was a packet
                    columns.without_signature(message)
                yield destination, message

    return rows


def check(payload: bytes) -> int:
    """Counts the rows of a chunk; raises an `MqError` if one of them is invalid."""
    count = 0
    for batch in _batches(payload):
        try:
            columns.check_rows(batch, _ANY)
        except MqError:
            raise
        except ValueError as problem:
            raise _wrong(problem) from problem
        count += batch.num_rows
    return count


def _batches(payload: bytes) -> Iterator[pa.RecordBatch]:
    try:
        _refuse_compressed(payload)
        with pa.ipc.open_stream(payload) as stream:
            columns.check_writer_schema(stream.schema, _ANY)
            yield from list(stream)
    except (ValueError, OSError, pa.ArrowException) as problem:
        raise _wrong(problem) from problem


def _refuse_compressed(payload: bytes) -> None:
    """64 MB compressed may be 64 GB, and Arrow has no limit for decompression."""
    for message in pa.ipc.MessageReader.open_stream(payload):
        if message.type == "record batch" and _is_compressed(bytes(message.metadata)):
            raise ValueError("the stream is compressed; write it without compression")


def _is_compressed(metadata: bytes) -> bool:
    """Whether the RecordBatch of a Message has its field `compression` (Arrow's Message.fbs)."""
    try:
        header = _field(metadata, _table(metadata, 0), 2)
        return header != 0 and _field(metadata, _table(metadata, header), 3) != 0
    except struct.error as problem:
        raise ValueError("its metadata is truncated") from problem


def _table(data: bytes, at: int) -> int:
    return at + int(_OFFSET.unpack_from(data, at)[0])


def _field(data: bytes, table: int, number: int) -> int:
    """The offset of a field of a FlatBuffers table; 0 if it is absent."""
    virtual = table - int(_BACK.unpack_from(data, table)[0])
    (size,) = _SHORT.unpack_from(data, virtual)
    at = 4 + 2 * number
    offset = int(_SHORT.unpack_from(data, virtual + at)[0]) if at < size else 0
    return table + offset if offset else 0


def _messages(batch: pa.RecordBatch) -> Iterator[tuple[str | None, Message]]:
    try:
        for start in range(0, batch.num_rows, _AT_ONCE):
            yield from columns.messages_of(batch.slice(start, _AT_ONCE))
    except MqError:
        raise
    except ValueError as problem:
        raise _wrong(problem) from problem


def _wrong(problem: Exception) -> InvalidParameterError:
    fix = f"send an Arrow IPC stream with columns of {', '.join(columns.WRITER_COLUMNS)}"
    return InvalidParameterError("rows", problem=str(problem), fix=fix)
