"""Rows that a client has staged, as messages to send."""

from collections.abc import Callable, Iterator
from functools import lru_cache

import pyarrow as pa

from tiercel import columns
from tiercel.model.errors import InvalidParameterError, MqError
from tiercel.model.format_name import FormatName, named
from tiercel.model.message import Message

_ANY = "any"  # the queue may still be named when the rows are published
_named = lru_cache(maxsize=1024)(named)


def rows_of(queue: str | None) -> Callable[[bytes], Iterator[tuple[FormatName, Message]]]:
    """What a publish asks for the rows of a chunk; `queue` takes those that name none."""

    def rows(payload: bytes) -> Iterator[tuple[FormatName, Message]]:
        for batch in _batches(payload):
            for name, message in _messages(batch):
                goal = name or queue
                if goal is None:
                    fix = "give queue, or a column queue without nulls"
                    raise InvalidParameterError("queue", problem="a row names no queue", fix=fix)
                yield _named(goal), message

    return rows


def check(payload: bytes) -> int:
    """How many rows a chunk has; raises an `MqError` when one of them could not be sent."""
    count = 0
    for batch in _batches(payload):
        try:
            columns.check_rows(batch, _ANY)
        except ValueError as problem:
            raise _wrong(problem) from problem
        count += batch.num_rows
    return count


def _batches(payload: bytes) -> Iterator[pa.RecordBatch]:
    try:
        with pa.ipc.open_stream(payload) as stream:
            columns.check_writer_schema(stream.schema, _ANY)
            yield from list(stream)
    except (ValueError, OSError, pa.ArrowException) as problem:
        raise _wrong(problem) from problem


def _messages(batch: pa.RecordBatch) -> Iterator[tuple[str | None, Message]]:
    try:
        yield from columns.messages_of(batch)
    except MqError:
        raise
    except ValueError as problem:
        raise _wrong(problem) from problem


def _wrong(problem: Exception) -> InvalidParameterError:
    fix = f"send an Arrow IPC stream with columns of {', '.join(columns.WRITER_COLUMNS)}"
    return InvalidParameterError("rows", problem=str(problem), fix=fix)
