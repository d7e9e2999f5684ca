"""Messages whose time is over, and purged messages whose reader is gone: they end here."""

from tiercel.engine.catalog import Catalog
from tiercel.engine.core import Core
from tiercel.engine.deadlines import SLICE, Deadlines
from tiercel.engine.delivery import Delivery
from tiercel.engine.queue_state import QueueState
from tiercel.engine.records import Record
from tiercel.model.codes import MessageClass


class Expiry:
    def __init__(self, core: Core, catalog: Catalog, deadlines: Deadlines, delivery: Delivery) -> None:
        self._core = core
        self._catalog = catalog
        self._deadlines = deadlines
        self._delivery = delivery

    def expire(self) -> None:
        """Time To Be Received Timer Expired ([MS-MQDMPR] 3.1.7.2.7), and time to reach queue."""
        deadline = self._deadlines.next_deadline
        if deadline is None or deadline > self._core.now:
            return
        for due in self._deadlines.due():
            for slot, lookup_id, is_purged in due:
                queue = self._catalog.by_slot.get(slot)
                record = None if queue is None else queue.get(self._core, lookup_id)
                if queue is not None and record is not None:
                    self._end(queue, lookup_id, record, is_purged=is_purged)
                else:
                    self._deadlines.drop(slot, lookup_id)
            if len(due) >= SLICE:
                self._core.checkpoint()  # a backlog of a million goes in slices, not in one batch

    def _end(self, queue: QueueState, lookup_id: int, record: Record, *, is_purged: bool) -> None:
        reason = MessageClass.NACK_RECEIVE_TIMEOUT
        if is_purged:
            reason = MessageClass.NACK_DELETED if queue.is_outgoing else MessageClass.NACK_Q_PURGED
        elif queue.is_outgoing:
            reason = MessageClass.NACK_REACH_QUEUE_TIMEOUT
        lock = queue.locks.get(lookup_id)
        if lock is None:
            self._deadlines.forget_purge(queue, lookup_id)
            self._delivery.finish(queue, lookup_id, record, reason)
        elif lock.doom is None:
            queue.doom(lookup_id, reason)
