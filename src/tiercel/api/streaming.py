"""Streaming responses that end when the client stalls."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

_STALLED_S: Final = 300.0  # a client that reads nothing for this long is considered gone


class StreamWithTimeout(StreamingResponse):
    """`ended` is called when the stream ends or the client disconnects."""

    def __init__(self, stream: AsyncGenerator[Any, None], media_type: str, ended: Callable[[], None]) -> None:
        self._stream = stream
        self._ended = ended
        super().__init__(stream, media_type=media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()
            await self._stream.aclose()

    async def stream_response(self, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(_STALLED_S):
                await send(message)

        await super().stream_response(send_in_time)
