"""A queue manager that requests can be made of: the daemon, or a store that nobody else runs (`local`)."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from tiercel.engine.engine import Engine
from tiercel.engine.handles import Found, Waiter
from tiercel.server.driver import Driver

T = TypeVar("T")


class Host(Protocol):
    driver: Driver
    turns: int  # batches so far, as far as it has several clients

    def call(self, command: Callable[[Engine], T]) -> Awaitable[T]:
        """Runs a command in the next batch; the result is there when that batch is durable."""

    async def read(self, command: Callable[[Engine], Found | Waiter]) -> Found:
        """A read that may have to wait; who is cancelled meanwhile gives back what had come."""
