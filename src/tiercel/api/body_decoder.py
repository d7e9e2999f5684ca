"""Decoding bodies for people, in another process with a budget.

Bodies come from strangers, and the decoders are Python: a body of 4 MB can be made to take many seconds. On
the thread of the event loop the whole queue manager would stand still meanwhile.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from tiercel.api.decode_frames import ANSWER, QUESTION
from tiercel.model.message import Message

BODY_S: Final = 5.0  # budget of one body
REQUEST_S: Final = 15.0  # budget of all bodies of a response

Json = dict[str, Any]


class BodyDecoder:
    """Starts its process with the first body, and again after it was killed for exceeding the budget."""

    def __init__(self, *, body_s: float = BODY_S, request_s: float = REQUEST_S) -> None:
        self._body_s = body_s
        self._request_s = request_s
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()  # one body at a time, so that requests take turns

    async def decode(self, messages: Sequence[Message]) -> list[Json | None]:
        """A description of each body; None for an empty one."""
        spent_s = 0.0
        found: list[Json | None] = []
        clock = asyncio.get_running_loop().time
        for message in messages:
            if not message.body:
                found.append(None)
            elif message.symmetric_key:
                found.append({"kind": "encrypted", "text": None})
            elif spent_s >= self._request_s:
                found.append(
                    _not_decoded(f"the bodies of this response took longer than {self._request_s:g} s")
                )
            else:
                async with self._turn:
                    started = clock()
                    found.append(await self._decode(message))
                    spent_s += clock() - started
        return found

    async def _decode(self, message: Message) -> Json:
        is_done = False
        try:
            async with asyncio.timeout(self._body_s):
                answer = await self._ask(message)
            is_done = True
        except TimeoutError:
            return _not_decoded(f"it takes longer than {self._body_s:g} s")
        except (asyncio.IncompleteReadError, OSError):  # it ran out of memory, or could not be started
            return _not_decoded("the decoder failed")
        finally:
            if not is_done:  # also when the request is cancelled: the next answer would be for this body
                await self.close()
        return answer

    async def _ask(self, message: Message) -> Json:
        process = await self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        body, extension = message.body, message.extension
        process.stdin.write(QUESTION.pack(message.body_type, len(body), len(extension)) + body + extension)
        await process.stdin.drain()
        (size,) = ANSWER.unpack(await process.stdout.readexactly(ANSWER.size))
        answer: Json = json.loads(await process.stdout.readexactly(size))
        return answer

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # never import from the working directory
                "-m",
                "tiercel.api.decode_process",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
        return self._process

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _not_decoded(reason: str) -> Json:
    return {"kind": "binary", "text": None, "error": f"not decoded: {reason}"}
