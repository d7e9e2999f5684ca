"""Work for the next batch of a stream while Spark processes the current one."""

import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")


class Prefetch(Generic[T]):
    """One task at a time, in a daemon thread.

    Failures are only logged; the caller redoes the work and sees the error.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._result: T | None = None

    def start(self, work: Callable[[], T]) -> None:
        """Call only after `finish`: two tasks would share a connection."""
        self._thread = threading.Thread(target=self._run, args=(work,), name="msmq-prefetch", daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], T]) -> None:
        try:
            self._result = work()
        except Exception as problem:  # noqa: BLE001  # the caller redoes the work
            log.info("prefetching the next batch failed: %s", problem)

    @property
    def is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def join(self) -> None:
        """Wait for the current task."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def finish(self) -> T | None:
        """Wait, and return the result once."""
        self.join()
        result, self._result = self._result, None
        return result
