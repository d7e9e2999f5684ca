"""Quotas of queues and of the queue manager, and flow control: [MS-MQDMPR] 3.1.7.1.9."""

from tiercel.engine.catalog import Catalog
from tiercel.engine.core import Core
from tiercel.engine.queue_state import QueueState
from tiercel.model.errors import InsufficientResourcesError
from tiercel.model.limits import INFINITE
from tiercel.model.path_name import SystemQueue


class Quotas:
    def __init__(self, core: Core, catalog: Catalog) -> None:
        self._core = core
        self._catalog = catalog

    def check(self, queue: QueueState, size: int) -> None:
        """Raises when the queue cannot take `size` more bytes; the queue manager's own limits come first."""
        self.check_manager(size)
        self.check_queue(queue, size)

    def check_manager(self, size: int) -> None:
        manager = self._catalog.queue_manager
        if manager.throttled:
            problem = "it takes no messages while flow control is on"
            raise InsufficientResourcesError(str(manager), problem=problem, fix="wait until it has recovered")
        _check(manager, self._core.total_bytes, size, manager.queue_manager_quota_kib)

    def check_queue(self, queue: QueueState, size: int) -> None:
        quota_kib = queue.queue.quota_kib
        if queue.keeps_messages and queue is self._catalog.system(SystemQueue.JOURNAL):
            quota_kib = self._catalog.queue_manager.journal_quota_kib
        _check(queue, queue.used_bytes, size, quota_kib)

    def check_room(self, size: int) -> None:
        """Raises when neither the quota of the queue manager nor the store has room for `size` more bytes."""
        self.check_manager(size)
        self._core.reserve(size)


def _check(subject: object, used: int, size: int, quota_kib: int) -> None:
    if used + size <= quota_kib * 1024 or quota_kib == INFINITE:
        return
    is_hopeless = size > quota_kib * 1024
    raise InsufficientResourcesError(
        str(subject),
        problem="the message alone is larger than the quota" if is_hopeless else None,
        present=f"{used} bytes used, {size} more requested",
        limit=f"{quota_kib} KiB",
        fix="raise the quota" if is_hopeless else "receive or purge messages, or raise the quota",
    )
