"""Long polls: they end when the queue manager stops or the client disconnects."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Caller(Protocol):
    """The client of a request."""

    async def gone(self) -> None:
        """Returns when the client has disconnected."""

    async def is_gone(self) -> bool: ...


class Waits:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self.are_over = False

    def stop(self) -> None:
        """Cancels every wait."""
        self.are_over = True
        for task in self._tasks:
            task.cancel()

    async def until(self, wait: Coroutine[Any, Any, T], caller: Caller | None = None) -> T | None:
        """The result of the wait; None if it was ended early."""
        if self.are_over:
            wait.close()
            return None
        loop = asyncio.get_running_loop()
        task = loop.create_task(wait)
        self._tasks.add(task)
        watch = None if caller is None else loop.create_task(_cancel_when(caller.gone(), task))
        try:
            return await task
        except asyncio.CancelledError:
            if not task.cancelled() or _is_cancelled():
                raise
            return None
        finally:
            task.cancel()
            self._tasks.discard(task)
            if watch is not None:
                watch.cancel()


async def _cancel_when(event: Awaitable[None], task: "asyncio.Task[Any]") -> None:
    await event
    task.cancel()


def _is_cancelled() -> bool:
    """Whether the current task itself was cancelled."""
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0
