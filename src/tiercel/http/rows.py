"""Rows that a client has staged, as messages to send."""

from collections.abc import Callable, Iterator
from functools import lru_cache

import pyarrow as pa

from tiercel import columns
from tiercel.model.errors import InvalidParameterError, MqError
from tiercel.model.format_name import FormatName, named
from tiercel.model.message import Message

_named = lru_cache(maxsize=1024)(named)


def rows_of(queue: str | None) -> Callable[[bytes], Iterator[tuple[FormatName, Message]]]:
    """What a publish asks for the rows of a chunk; `queue` takes those that name none."""

    def rows(payload: bytes) -> Iterator[tuple[FormatName, Message]]:
        for name, message in _read(payload):
            goal = name or queue
            if goal is None:
                fix = "give queue, or a column queue without nulls"
                raise InvalidParameterError("queue", problem="a row names no queue", fix=fix)
            yield _named(goal), message

    return rows


def check(payload: bytes) -> int:
    """How many rows a chunk has; raises an `MqError` when one of them could not be sent."""
    return sum(1 for name, _ in _read(payload) if name is None or _named(name))


def _read(payload: bytes) -> Iterator[tuple[str | None, Message]]:
    try:
        with pa.ipc.open_stream(payload) as stream:
            columns.check_writer_schema(stream.schema, "any")
            for batch in stream:
                yield from columns.messages_of(batch)
    except MqError:
        raise
    except Exception as problem:  # whatever Arrow says: in the daemon, no other error may come of what a client sent
        raise InvalidParameterError("rows", problem=str(problem), fix="send an Arrow IPC stream") from problem
