"""A process of ours that does slow work on untrusted data, and is killed when it exceeds its budget.

On the thread of the event loop the whole queue manager would stand still meanwhile.
"""

import asyncio
import os
import resource
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_SIZE: Final = struct.Struct("<I")  # before every question and answer
_MAX_MEMORY_BYTES: Final = 1 << 30
_NICE: Final = 5  # the queue manager has priority on a busy computer


class ChildFailedError(Exception):
    """It ended, ran out of memory, or could not be started."""


class ChildProcess:
    """Started by the first question, and again after it was killed. One question at a time."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: asyncio.subprocess.Process | None = None

    async def ask(self, question: bytes, budget_s: float) -> bytes:
        """The answer; raises TimeoutError after `budget_s` seconds."""
        is_done = False
        try:
            async with asyncio.timeout(budget_s):
                answer = await self._ask(question)
            is_done = True
        except (asyncio.IncompleteReadError, OSError) as problem:
            if isinstance(problem, TimeoutError):
                raise
            raise ChildFailedError from problem
        finally:
            if not is_done:  # also when the request is cancelled: the next answer would be for this question
                await self.close()
        return answer

    async def _ask(self, question: bytes) -> bytes:
        process = await self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(_SIZE.pack(len(question)) + question)
        await process.stdin.drain()
        (size,) = _SIZE.unpack(await process.stdout.readexactly(_SIZE.size))
        return await process.stdout.readexactly(size)

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # never import from the working directory
                "-m",
                self._module,
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


def serve(answer: Callable[[bytes], bytes]) -> None:
    """The child's side: answers until stdin is closed, which happens at the latest when the parent ends."""
    # Not the address space: a store that is mapped to be read takes no memory.
    resource.setrlimit(resource.RLIMIT_DATA, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))
    with suppress(OSError):  # may be forbidden
        os.nice(_NICE)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while head := source.read(_SIZE.size):
        (size,) = _SIZE.unpack(head)
        result = answer(source.read(size))
        sink.write(_SIZE.pack(len(result)) + result)
        sink.flush()
