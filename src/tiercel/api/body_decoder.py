"""Decoding bodies for people, in another process with a budget.

Bodies come from strangers, and the decoders are Python: a body of 4 MB can be made to take many seconds.
"""

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Final

from tiercel.api.child_process import ChildFailedError, ChildProcess
from tiercel.api.decode_frames import QUESTION
from tiercel.model.message import Message

BODY_S: Final = 5.0  # budget of one body
REQUEST_S: Final = 15.0  # budget of all bodies of a response

Json = dict[str, Any]


class BodyDecoder:
    """Starts its process with the first body, and again after it was killed for exceeding the budget."""

    def __init__(self, *, body_s: float = BODY_S, request_s: float = REQUEST_S) -> None:
        self._body_s = body_s
        self._request_s = request_s
        self._child = ChildProcess("tiercel.api.decode_process")
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
        body = message.body
        question = QUESTION.pack(message.body_type, len(body)) + body + message.extension
        try:
            answer: Json = json.loads(await self._child.ask(question, self._body_s))
        except TimeoutError:
            return _not_decoded(f"it takes longer than {self._body_s:g} s")
        except ChildFailedError:
            return _not_decoded("the decoder failed")
        return answer

    async def close(self) -> None:
        await self._child.close()


def _not_decoded(reason: str) -> Json:
    return {"kind": "binary", "text": None, "error": f"not decoded: {reason}"}
