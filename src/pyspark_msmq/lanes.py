"""The queue managers of a stream, side by side: each has a lane, a thread that asks it for messages.

No lane waits for another. Work that is not done when a batch is complete goes on, and what it claims is held
for the next batch: as after a lost response, these messages are claimed and in no offset log, and if the
driver stops now, the next run reads them first.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from pyspark_msmq.consumer import Consumer
from pyspark_msmq.data_client import EndpointLostError
from pyspark_msmq.offsets import Offset, spans

log = logging.getLogger(__name__)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 10.0
_NAME: Final = "msmq-lane"


class Claimed(NamedTuple):
    """Messages of one queue manager."""

    begin: Offset
    end: Offset
    is_full: bool  # reached its limit: there is more

    @property
    def rows(self) -> int:
        return sum(span.count for span in spans(self.begin, self.end))

    @property
    def size_bytes(self) -> int:
        return sum(span.size_bytes for span in spans(self.begin, self.end))


Work = Callable[[], Claimed | None]


class Lane:
    """One queue manager; it does one piece of work at a time."""

    def __init__(self, consumer: Consumer, changed: threading.Condition, *, waits: bool) -> None:
        self.consumer = consumer
        self.held: Claimed | None = None  # not handed out yet
        self.is_full = False  # the last claim had all that it asked for
        self.down_since: float | None = None
        self.last_waiting: dict[str, int] = {}  # by queue: the last known lag
        self._changed = changed
        self._waits = waits
        self._thread: threading.Thread | None = None
        self._is_done = False
        self._result: Claimed | None = None
        self._problem: Exception | None = None
        self._pause_s, self._retry_at = _FIRST_PAUSE_S, 0.0

    @property
    def is_busy(self) -> bool:
        return self._thread is not None

    @property
    def is_done(self) -> bool:
        """Whether there is a result to settle."""
        return self._is_done

    @property
    def is_free(self) -> bool:
        return self._thread is None and self.held is None and time.monotonic() >= self._retry_at

    def start(self, work: Work) -> None:
        assert self._thread is None
        self._thread = threading.Thread(target=self._run, args=(work,), name=_NAME, daemon=True)
        self._thread.start()

    def _run(self, work: Work) -> None:
        try:
            self._result = work()
        except Exception as problem:  # noqa: BLE001  # raised by `settle`
            self._problem = problem
        with self._changed:
            self._is_done = True
            self._changed.notify_all()

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def settle(self) -> None:
        """Take over the result of finished work; an unreachable queue manager is asked again later."""
        if self._thread is None:
            return
        self._thread.join()
        problem, result = self._problem, self._result
        self._thread = self._problem = self._result = None
        self._is_done = False
        if problem is not None:
            self._fail(problem)
            return
        if self.down_since is not None:
            log.warning("%s: reachable again", self.consumer.endpoint)
        self.down_since, self._pause_s, self._retry_at = None, _FIRST_PAUSE_S, 0.0
        if result is not None:
            self.is_full = result.is_full
            self.held = result if result.end != result.begin else None

    def _fail(self, problem: Exception) -> None:
        if not (self._waits and isinstance(problem, EndpointLostError)):
            raise problem
        if self.down_since is None:
            self.down_since = time.monotonic()
            log.warning("%s; the stream goes on without it", problem)
        self.is_full = False
        self._retry_at = time.monotonic() + self._pause_s
        self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)

    def hand_out(self) -> Claimed:
        held, self.held = self.held, None
        assert held is not None
        return held
