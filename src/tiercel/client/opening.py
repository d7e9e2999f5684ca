"""What `aio.open` and `aio.connect` return: `async with` and `await` both take it.

async with tiercel.aio.open("data") as qm: ...      closed at the end of the block
qm = await tiercel.aio.open("data")                 closed by `await qm.close()`
"""

from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar


class _Manager(Protocol):
    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


M = TypeVar("M", bound=_Manager)


class Opening(Coroutine[Any, Any, M], Generic[M]):
    """A coroutine, so that `asyncio.run` and `create_task` take it, and a context manager."""

    def __init__(self, work: Coroutine[Any, Any, M]) -> None:
        self._work = work
        self._manager: M | None = None

    def __await__(self) -> Generator[Any, Any, M]:
        return self._work.__await__()

    def send(self, value: Any, /) -> Any:
        return self._work.send(value)

    def throw(self, *error: Any) -> Any:
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    async def __aenter__(self) -> M:
        self._manager = await self._work
        return await self._manager.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._manager is not None:
            await self._manager.__aexit__(kind, error, trace)
