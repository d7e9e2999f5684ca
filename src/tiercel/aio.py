r"""The embedded queue manager for asyncio: the same names, with `await` where a call may wait or write.

    async with tiercel.aio.open("data") as qm:
        orders = await qm.create_queue("orders")
        message = await orders.receive(timeout=5)

Everything runs on the thread of the event loop, commits too: a worker thread would be slower. Cancelling a
read that waits loses nothing: a message that had come to it goes back to its queue.
"""

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

from tiercel.client.connecting import connect_on_loop as connect
from tiercel.client.consumer import AsyncConsumer as Consumer
from tiercel.client.embedded_aio import AsyncEmbeddedQueue, AsyncEmbeddedQueueManager
from tiercel.client.interfaces import AsyncQueue as Queue
from tiercel.client.interfaces import AsyncQueueManager as QueueManager
from tiercel.client.opening import Opening
from tiercel.client.remote_aio import AsyncRemoteCursor, AsyncRemoteQueue, AsyncRemoteQueueManager
from tiercel.engine.handles import Found, Waiter
from tiercel.faces import faces
from tiercel.model.errors import IllegalOperationError
from tiercel.server.config import Config
from tiercel.server.daemon import Daemon
from tiercel.server.driver import Driver
from tiercel.server.node import Clock
from tiercel.server.reads import Alarm, Reads
from tiercel.store import DEFAULT_MAX_BYTES

T = TypeVar("T")

__all__ = [
    "AsyncEmbeddedQueue",
    "AsyncEmbeddedQueueManager",
    "AsyncRemoteCursor",
    "AsyncRemoteQueue",
    "AsyncRemoteQueueManager",
    "Consumer",
    "Queue",
    "QueueManager",
    "connect",
    "open",
]


def open(  # noqa: A001  # the same name as tiercel.open
    directory: str | os.PathLike[str],
    *,
    computer_name: str | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    clock: Clock = time.time,
    listen: str | None = None,
    config: Config | None = None,
) -> Opening[AsyncEmbeddedQueueManager]:
    """Opens the queue manager of a directory; `listen` (HOST:PORT) or `config` put it on the network.

    `async with tiercel.aio.open(...) as qm` closes it at the end of the block; `await` returns it.
    """
    return Opening(_open(directory, computer_name, max_bytes, clock, listen, config))


async def _open(
    directory: str | os.PathLike[str],
    computer_name: str | None,
    max_bytes: int,
    clock: Clock,
    listen: str | None,
    config: Config | None,
) -> AsyncEmbeddedQueueManager:
    if listen is None and config is None:
        return AsyncEmbeddedQueueManager(
            _LoopRuntime(directory, computer_name=computer_name, max_bytes=max_bytes, clock=clock)
        )
    config = config or Config()
    if listen is not None:
        config = config.with_listen(listen)
    runtime = _DaemonRuntime(directory, config, computer_name, max_bytes, clock)
    await runtime.daemon.start()
    return AsyncEmbeddedQueueManager(runtime)


class _LoopRuntime:
    """Reads that wait are futures; a timer of the loop ends those that are due."""

    address = data_endpoint = None

    def __init__(self, directory: str | os.PathLike[str], **options: Any) -> None:
        self._reads = Reads()
        self._alarm = Alarm()
        self.driver = Driver(
            directory, completed=self._completed, deadline_changed=self._deadline_changed, **options
        )

    def _completed(self, waiter: Waiter) -> None:
        self._reads.completed(waiter)

    def _deadline_changed(self) -> None:
        if self._reads:
            self._alarm.set(self.driver)

    async def wait(self, waiter: Waiter) -> Found:
        self.driver.refuse_to_wait_in_batch(waiter)
        self._alarm.set(self.driver)
        return await self._reads.result(self.driver, waiter)

    def block(self, waiter: Waiter) -> Found:
        return _refuse_to_block(self.driver, waiter)

    async def apart(self, work: Callable[[], T]) -> T:
        return await asyncio.to_thread(work)

    async def close(self) -> None:
        self._alarm.cancel()
        self.driver.close()


class _DaemonRuntime:
    """The same on the network: the daemon has the timer, and its batches complete the futures."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        config: Config,
        computer_name: str | None,
        max_bytes: int,
        clock: Clock,
    ) -> None:
        node = replace(
            config.node,
            data=os.fspath(directory),
            max_bytes=max_bytes,
            computer_name=computer_name or config.node.computer_name,
        )
        config = replace(config, node=node)
        self._reads = Reads()
        self.daemon = Daemon(config, completed=self._completed, clock=clock, faces=faces(config))
        self.driver = self.daemon.driver

    def _completed(self, waiter: Waiter) -> None:
        self._reads.completed(waiter)

    async def wait(self, waiter: Waiter) -> Found:
        self.driver.refuse_to_wait_in_batch(waiter)
        return await self._reads.result(self.driver, waiter)

    def block(self, waiter: Waiter) -> Found:
        return _refuse_to_block(self.driver, waiter)

    async def apart(self, work: Callable[[], T]) -> T:
        return await asyncio.to_thread(work)

    async def close(self) -> None:
        await self.daemon.stop()
        self.driver.close()

    @property
    def address(self) -> str | None:
        return str(self.daemon.endpoints[0]) if self.daemon.endpoints else None

    @property
    def data_endpoint(self) -> str | None:
        addresses = [face.addresses for face in self.daemon.faces]
        return next((each["data_endpoint"] for each in addresses if "data_endpoint" in each), None)


def _refuse_to_block(driver: Driver, waiter: Waiter) -> NoReturn:
    driver.withdraw(waiter)
    problem = "a synchronous call cannot wait on an event loop"
    raise IllegalOperationError("queue manager", problem=problem, fix="pass timeout=0")
