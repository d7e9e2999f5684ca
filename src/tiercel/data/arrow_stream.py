"""A response that is an Arrow IPC stream, encoded while it is sent.

An error after the first batch follows the end of the stream, as one JSON problem. A stream without an end
means that the data process died: request it again.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final

import pyarrow as pa

from tiercel.api.problems import problem_of
from tiercel.api.streaming import StreamWithTimeout
from tiercel.model.errors import MqError

MEDIA_TYPE: Final = "application/vnd.apache.arrow.stream"
_END_OF_STREAM: Final = b"\xff\xff\xff\xff\0\0\0\0"
_SENT_BYTES: Final = 512 << 10  # per write: larger writes are copied more often

Batches = AsyncGenerator[pa.RecordBatch, None]


class ArrowStream(StreamWithTimeout):
    def __init__(self, schema: pa.Schema, batches: Batches, ended: Callable[[], None]) -> None:
        super().__init__(_encoded(schema, batches), MEDIA_TYPE, ended)


async def _encoded(schema: pa.Schema, batches: Batches) -> AsyncGenerator[memoryview | bytes, None]:
    yield memoryview(schema.serialize())
    try:
        async with aclosing(batches):
            async for batch in batches:
                data = memoryview(batch.serialize())
                for at in range(0, len(data), _SENT_BYTES):
                    yield data[at : at + _SENT_BYTES]
                await asyncio.sleep(0)  # other clients get a turn, however fast this one is
    except MqError as error:
        yield _END_OF_STREAM
        yield json.dumps(problem_of(error)).encode()
    else:
        yield _END_OF_STREAM
