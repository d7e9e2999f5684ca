"""A queue manager on a store that no daemon has open."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tiercel.engine.engine import Engine
from tiercel.engine.handles import Found, Waiter
from tiercel.server.driver import Driver
from tiercel.server.reads import Alarm, Reads

T = TypeVar("T")


class LocalRunner:
    """Runs commands on the current event loop; the queue manager is off the network."""

    def __init__(self, directory: Path, *, create: bool = False) -> None:
        """Raises `StoreInUseError` when a daemon has it open, `StoreFailedError` when there is none."""
        self._loop = asyncio.get_running_loop()
        self.turns = 0  # it has only one client
        self._reads = Reads()
        self._alarm = Alarm()
        self.driver = Driver(
            directory,
            clock=time.time,
            completed=self._completed,
            deadline_changed=self._deadline_changed,
            create=create,
        )

    def call(self, command: Callable[[Engine], T], *, is_last: bool = False) -> "asyncio.Future[T]":  # noqa: ARG002  # it always is
        future: asyncio.Future[T] = self._loop.create_future()
        try:
            future.set_result(self.driver.run(lambda: command(self.driver.engine)))
        except Exception as problem:  # noqa: BLE001  # the caller sees it
            future.set_exception(problem)
        return future

    async def read(self, command: Callable[[Engine], Found | Waiter]) -> Found:
        result = await self.call(command)
        return result if isinstance(result, Found) else await self._reads.result(self.driver, result)

    def _completed(self, waiter: Waiter) -> None:
        self._reads.completed(waiter)

    def _deadline_changed(self) -> None:
        self._alarm.set(self.driver)

    def close(self) -> None:
        self._alarm.cancel()
        self.driver.close()
