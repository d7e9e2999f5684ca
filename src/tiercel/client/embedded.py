r"""The embedded queue manager: the whole engine inside one program, and the fixture that tests use.

    with tiercel.open("data") as qm:
        orders = qm.create_queue("orders", transactional=True)
        with qm.transaction() as tx:
            orders.send(tiercel.Message(b"..."), transaction=tx)
        message = orders.receive(timeout=0)

Threads may share it; a read that waits does not hold up the others. Its classes are in `embedded_sync`,
which is generated from `embedded_aio`.
"""

import os
import time
from collections.abc import Callable
from threading import Condition
from typing import Any, TypeVar

from tiercel.client.embedded_sync import EmbeddedQueueManager
from tiercel.engine.handles import Found, Waiter
from tiercel.server.driver import Driver
from tiercel.server.node import Clock
from tiercel.store import DEFAULT_MAX_BYTES

T = TypeVar("T")


def open(  # noqa: A001  # tiercel.open is what users will look for, as with gzip.open and shelve.open
    directory: str | os.PathLike[str],
    *,
    computer_name: str | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    clock: Clock = time.time,
) -> EmbeddedQueueManager:
    """Opens the queue manager whose data is in `directory`, and creates it on first use."""
    return EmbeddedQueueManager(
        ThreadRuntime(directory, computer_name=computer_name, max_bytes=max_bytes, clock=clock)
    )


class ThreadRuntime:
    """Reads that wait block their thread."""

    def __init__(self, directory: str | os.PathLike[str], **options: Any) -> None:
        self.driver = Driver(
            directory, completed=self._completed, deadline_changed=self._deadline_changed, **options
        )
        self.woken = Condition(self.driver.lock)

    def _completed(self, _waiter: Waiter) -> None:
        self.woken.notify_all()

    def _deadline_changed(self) -> None:
        self.woken.notify_all()

    def wait(self, waiter: Waiter) -> Found:
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

    block = wait

    def apart(self, work: Callable[[], T]) -> T:
        return work()

    def close(self) -> None:
        with self.driver.lock:
            self.driver.close()
            self.woken.notify_all()
