"""The synchronous faces, derived from the asynchronous ones: same arguments, same documentation, no `await`.

    class EmbeddedQueue:
        send = blocking(AsyncEmbeddedQueue.send)

A synchronous object has its asynchronous counterpart in `_target`, and in `_run` the function that runs a
coroutine to its end: `run_at_once` where nothing suspends, or a call into the event loop of another thread.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from tiercel.model.errors import IllegalOperationError

P = ParamSpec("P")
T = TypeVar("T")
Method = Callable[Concatenate[Any, P], T]


def run_at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that blocks this thread where it has to wait, and so never suspends."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    with suppress(asyncio.CancelledError):
        work.throw(asyncio.CancelledError())
    problem = "a synchronous call cannot wait on an event loop"
    raise IllegalOperationError("queue manager", problem=problem, fix="pass timeout=0")


def blocking(method: Method[P, Coroutine[Any, Any, T]]) -> Method[P, T]:
    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = self._run(method(self._target, *args, **kwargs))
        return result

    return call


def blocking_context(
    method: Method[P, AbstractAsyncContextManager[T]],
) -> Method[P, AbstractContextManager[T]]:
    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> AbstractContextManager[T]:
        return _BlockingContext(self._run, method(self._target, *args, **kwargs))

    return call


class _BlockingContext(AbstractContextManager[T]):
    def __init__(self, run: Callable[[Any], Any], context: AbstractAsyncContextManager[T]) -> None:
        self._run = run
        self._context = context

    def __enter__(self) -> T:
        value: T = self._run(self._context.__aenter__())
        return value

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        is_handled: bool | None = self._run(self._context.__aexit__(kind, error, trace))
        return is_handled


def blocking_generator(
    method: Method[P, AsyncGenerator[T, None]],
) -> Method[P, Generator[T, None, None]]:
    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Generator[T, None, None]:
        run, items = self._run, method(self._target, *args, **kwargs)
        try:
            while True:
                try:
                    item = run(anext(items))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            run(items.aclose())

    return call
