"""Purging a queue: [MS-MQDMPR] 3.1.7.1.7."""

from math import inf

from tiercel.engine.catalog import Catalog
from tiercel.engine.core import Core
from tiercel.engine.deadlines import Deadlines
from tiercel.engine.delivery import Delivery
from tiercel.engine.handles import OpenQueue
from tiercel.engine.numbering import Numbering
from tiercel.engine.queue_state import START, QueueState
from tiercel.model.codes import MessageClass, QueueAccess
from tiercel.model.identifiers import lookup_id_sequence


class Purging:
    def __init__(
        self, core: Core, catalog: Catalog, numbering: Numbering, deadlines: Deadlines, delivery: Delivery
    ) -> None:
        self._core = core
        self._catalog = catalog
        self._numbering = numbering
        self._deadlines = deadlines
        self._delivery = delivery

    def purge(self, opened: OpenQueue, *, newest: int | None = None, limit: float = inf) -> int:
        """Purge Queue ([MS-MQDMPR] 3.1.7.1.7): ends every message that is there; how many ended.

        A message that a reader has taken ends when it is given back (DMPR T-22). A consumer keeps what it has
        claimed. A long queue can be purged in parts of `limit` messages; messages whose sequence is above
        `newest` stay.
        """
        state = opened.queue_for(QueueAccess.RECEIVE)
        newest = self._numbering.newest_sequence if newest is None else newest
        taken = [each for each in state.locks.items() if lookup_id_sequence(each[0]) <= newest]
        doomed = [lookup_id for lookup_id, lock in taken if lock.doom is None]
        for lookup_id in doomed:
            state.doom(lookup_id, _reason(state, MessageClass.NACK_Q_PURGED))
            self._deadlines.purge_later(state, lookup_id)
        count = self._end_available(state, MessageClass.NACK_Q_PURGED, newest, limit)
        if (count or doomed) and not state.is_deleted:  # a subqueue may go with its last message
            self._catalog.raise_epoch(state)
        return count

    def end_all(self, state: QueueState, reason: MessageClass) -> None:
        """Ends every message, also those that readers hold; transactions tolerate that (DMPR T-21)."""
        for lookup_id in list(state.locks):
            record = state.get(self._core, lookup_id)
            if record is not None:
                self._delivery.finish(state, lookup_id, record, reason)
        self._end_available(state, reason, self._numbering.newest_sequence, inf)

    def end_one(self, state: QueueState, lookup_id: int, reason: MessageClass) -> None:
        """Ends one message, if it is there and no reader holds it."""
        record = None if lookup_id in state.locks else state.get(self._core, lookup_id)
        if record is not None:
            self._delivery.finish(state, lookup_id, record, _reason(state, reason))

    def _end_available(self, state: QueueState, reason: MessageClass, newest: int, limit: float) -> int:
        """Ends the messages that are available now, and none that comes of it; how many there were."""
        reason = _reason(state, reason)
        count, at = 0, START
        while count < limit and (found := state.next_available(self._core, at)) is not None:
            at = found[0]
            if lookup_id_sequence(at) <= newest:
                self._delivery.finish(state, *found, reason)
                count += 1
        return count


def _reason(state: QueueState, reason: MessageClass) -> MessageClass:
    """A message in an outgoing queue has not reached the queue whose end the reason speaks of."""
    return MessageClass.NACK_DELETED if state.is_outgoing else reason
