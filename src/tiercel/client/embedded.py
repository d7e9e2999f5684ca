r"""The embedded queue manager: the whole engine inside one program, and the fixture that tests use.

    with tiercel.open("data") as qm:
        orders = qm.create_queue("orders", transactional=True)
        with qm.transaction() as tx:
            orders.send(tiercel.Message(b"..."), transaction=tx)
        message = orders.receive(timeout=0)

Threads may share it; a read that waits does not hold up the others. The implementation is in `embedded_aio`.
"""

import os
import time
from contextlib import AbstractContextManager
from threading import Condition
from types import TracebackType
from typing import Any, Self

from tiercel.client.blocking import blocking, blocking_context, blocking_generator, run_at_once
from tiercel.client.consumer import Consumer
from tiercel.client.embedded_aio import AsyncEmbeddedQueue, AsyncEmbeddedQueueManager, EmbeddedCursor
from tiercel.client.embedded_core import (
    EmbeddedTransaction,
    QueueCore,
    QueueManagerCore,
    Runtime,
    transaction_block,
)
from tiercel.engine.handles import Found, OpenQueue, Waiter
from tiercel.model.codes import QueueAccess
from tiercel.model.format_name import FormatName
from tiercel.server.driver import Driver
from tiercel.server.node import Clock
from tiercel.store import DEFAULT_MAX_BYTES


def open(  # noqa: A001  # tiercel.open is what users will look for, as with gzip.open and shelve.open
    directory: str | os.PathLike[str],
    *,
    computer_name: str | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    clock: Clock = time.time,
) -> "EmbeddedQueueManager":
    """Opens the queue manager whose data is in `directory`, and creates it on first use."""
    return EmbeddedQueueManager(
        ThreadRuntime(directory, computer_name=computer_name, max_bytes=max_bytes, clock=clock)
    )


class ThreadRuntime:
    """Reads that wait block their thread."""

    address = data_endpoint = None

    def __init__(self, directory: str | os.PathLike[str], **options: Any) -> None:
        self.driver = Driver(
            directory, completed=self._completed, deadline_changed=self._deadline_changed, **options
        )
        self.woken = Condition(self.driver.lock)

    def _completed(self, _waiter: Waiter) -> None:
        self.woken.notify_all()

    def _deadline_changed(self) -> None:
        self.woken.notify_all()

    async def wait(self, waiter: Waiter) -> Found:
        with self.driver.lock:
            self.driver.refuse_to_wait_in_batch(waiter)
            try:
                while not waiter.is_done:
                    self.woken.wait(self.driver.seconds_to_deadline())
                    if self.driver.is_open:
                        self.driver.run(lambda: None)  # ends what is due
            except BaseException:  # Ctrl-C, or a signal handler that raises
                self.driver.withdraw(waiter)
                raise
            return waiter.result()

    async def close(self) -> None:
        with self.driver.lock:
            self.driver.close()
            self.woken.notify_all()


class EmbeddedQueue(QueueCore):
    """A queue, opened when it is first used; `close` ends what was opened."""

    _run = staticmethod(run_at_once)

    def __init__(self, runtime: Runtime, name: FormatName) -> None:
        super().__init__(runtime, name)
        self._target = AsyncEmbeddedQueue(runtime, name)

    set_properties = blocking(AsyncEmbeddedQueue.set_properties)
    delete = blocking(AsyncEmbeddedQueue.delete)
    close = blocking(AsyncEmbeddedQueue.close)

    send = blocking(AsyncEmbeddedQueue.send)
    send_many = blocking(AsyncEmbeddedQueue.send_many)
    receive = blocking(AsyncEmbeddedQueue.receive)
    receive_many = blocking(AsyncEmbeddedQueue.receive_many)
    receiving = blocking_context(AsyncEmbeddedQueue.receiving)
    consume = blocking_generator(AsyncEmbeddedQueue.consume)
    peek = blocking(AsyncEmbeddedQueue.peek)
    move = blocking(AsyncEmbeddedQueue.move)
    reject = blocking(AsyncEmbeddedQueue.reject)
    purge = blocking(AsyncEmbeddedQueue.purge)

    def cursor(self) -> EmbeddedCursor:
        return self._target.cursor()

    def opened(self, access: QueueAccess) -> OpenQueue:
        """The handle for an access; runs inside a command."""
        return self._target.opened(access)


class EmbeddedQueueManager(QueueManagerCore[EmbeddedQueue]):
    _run = staticmethod(run_at_once)

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self._target = AsyncEmbeddedQueueManager(runtime)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _queue(self, name: FormatName) -> EmbeddedQueue:
        return EmbeddedQueue(self._runtime, name)

    def create_queue(
        self, path_name: str, *, transactional: bool = False, exist_ok: bool = False, **properties: Any
    ) -> EmbeddedQueue:
        r"""Creates a queue, such as `orders`, which is short for `.\private$\orders`.

        The properties are those that `set_properties` takes. With `exist_ok`, an existing queue of that name
        is returned as it is.
        """
        created = self._target.create_queue(
            path_name, transactional=transactional, exist_ok=exist_ok, **properties
        )
        return self._queue(run_at_once(created).format_name)

    close = blocking(AsyncEmbeddedQueueManager.close)
    delete_queue = blocking(AsyncEmbeddedQueueManager.delete_queue)
    set_properties = blocking(AsyncEmbeddedQueueManager.set_properties)
    release_claims = blocking(AsyncEmbeddedQueueManager.release_claims)
    forget_consumer = blocking(AsyncEmbeddedQueueManager.forget_consumer)
    begin_transaction = blocking(AsyncEmbeddedQueueManager.begin_transaction)

    def consumer(self, name: str) -> Consumer:
        """Attaches a consumer, and creates it on first use; whoever had it attached before is refused."""
        return Consumer(self.driver, name)

    def transaction(self) -> AbstractContextManager[EmbeddedTransaction]:
        """Commits when the block ends, aborts when it raises."""
        return transaction_block(self.driver)
