"""Synchronous methods derived from asynchronous ones: same arguments, same documentation, no `await`.

    class RemoteQueue:
        send = blocking(AsyncRemoteQueue.send)

A synchronous object has its asynchronous counterpart in `_target`, and in `_run` the function that runs a
coroutine to its end: a call into the event loop of another thread, or `run_at_once` where nothing waits.

The embedded queue is generated instead (`embedded_sync`): coroutines would make a send or receive 7 to 13 %
slower.
"""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Method = Callable[Concatenate[Any, P], T]


def run_at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never suspends."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("the coroutine has suspended")


def blocking(method: Method[P, Coroutine[Any, Any, T]]) -> Method[P, T]:
    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = self._run(method(self._target, *args, **kwargs))
        return result

    return call
