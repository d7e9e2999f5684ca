"""The API on a store that nobody runs: the same requests, without any network.

with local.serving(Path("data")):
    ...  # DATA/tiercel.sock answers, as that of a daemon does
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tiercel.api.endpoint import Doors
from tiercel.engine.engine import Engine
from tiercel.engine.handles import Found, Waiter
from tiercel.server.config import ApiOptions
from tiercel.server.driver import Driver
from tiercel.server.reads import Alarm, Reads
from tiercel.store import SOCKET_NAME

T = TypeVar("T")


class LocalHost:
    """A queue manager that talks to nobody, on the event loop that runs."""

    def __init__(self, directory: Path, *, create: bool = False) -> None:
        """Raises `StoreInUseError` when somebody runs it, `StoreFailedError` when there is none."""
        self._loop = asyncio.get_running_loop()
        self.turns = 0  # nobody else is there to wait for one
        self._reads = Reads()
        self._alarm = Alarm()
        self.driver = Driver(
            directory,
            clock=time.time,
            completed=self._completed,
            deadline_changed=self._deadline_changed,
            create=create,
        )

    def call(self, command: Callable[[Engine], T]) -> "asyncio.Future[T]":
        future: asyncio.Future[T] = self._loop.create_future()
        try:
            future.set_result(self.driver.run(lambda: command(self.driver.engine)))
        except Exception as problem:  # noqa: BLE001  # whoever waits for it hears of it
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


@contextmanager
def serving(directory: Path, *, create: bool = False) -> Iterator[Path]:
    """Serves the store from a thread of its own; gives the socket where it answers."""
    ready: Future[asyncio.Event] = Future()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=[_serve(directory, create, ready)])
    thread.start()
    try:
        end = ready.result()
        try:
            yield directory / SOCKET_NAME
        finally:
            loop.call_soon_threadsafe(end.set)
    finally:
        thread.join()
        loop.close()


async def _serve(directory: Path, create: bool, ready: "Future[asyncio.Event]") -> None:
    try:
        host = LocalHost(directory, create=create)
        try:
            doors = Doors(host, directory, ApiOptions())
        except BaseException:
            host.close()
            raise
    except BaseException as problem:  # noqa: BLE001  # the one who asked for it is in another thread
        ready.set_exception(problem)
        return
    end = asyncio.Event()
    ready.set_result(end)
    try:
        await end.wait()
        await doors.close()
    finally:
        host.close()
        await asyncio.get_running_loop().shutdown_default_executor()
