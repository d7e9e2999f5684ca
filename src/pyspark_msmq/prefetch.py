"""What a stream does for its next batch while Spark is at this one."""

import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")


class Prefetch(Generic[T]):
    """One piece of work at a time, in a thread that no end of a process waits for.

    Nobody hears of a failure: who finds nothing done does it himself, and hears of it then.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._result: T | None = None

    def start(self, work: Callable[[], T]) -> None:
        """After `finish`: two of them at once would share a connection."""
        self._thread = threading.Thread(target=self._run, args=(work,), name="msmq-prefetch", daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], T]) -> None:
        try:
            self._result = work()
        except Exception as problem:  # noqa: BLE001  # whatever it is
            log.info("what was begun ahead of the next batch has failed: %s", problem)

    @property
    def is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def join(self) -> None:
        """Waits for what is under way."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def finish(self) -> T | None:
        """The same; and the result, once."""
        self.join()
        result, self._result = self._result, None
        return result
