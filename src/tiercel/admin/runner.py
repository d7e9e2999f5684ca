"""Running commands on a queue manager: in the daemon, or on a store that no daemon has open (`local`)."""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from tiercel.engine.engine import Engine
from tiercel.engine.handles import Found, Waiter
from tiercel.server.driver import Driver

T = TypeVar("T")


class Runner(Protocol):
    driver: Driver
    turns: int  # batches so far; stays 0 where there is only one client

    def call(self, command: Callable[[Engine], T], *, is_last: bool = False) -> "asyncio.Future[T]":
        """Runs a command in the next batch; the result is available once that batch is durable.

        `is_last`: the caller's clients have no more for this batch, which may run before this returns.
        """

    async def read(self, command: Callable[[Engine], Found | Waiter]) -> Found:
        """A read that may wait; if it is cancelled, a message that had arrived goes back to its queue."""
