"""Deadlines of messages: time to be received in a queue, time to reach queue on the way.

Deadlines of stored messages are keys in the store, sorted by time, so that a restart reads none of the
messages. [MS-MQDMPR] 3.1.2.4, 3.1.7.2.7; which message is removed is decided by its position, not by the
transaction that sent it (DMPR T-04).
"""

import heapq
from collections.abc import Iterable, Iterator
from itertools import islice

from tiercel.engine.core import Core
from tiercel.engine.queue_state import QueueState
from tiercel.engine.records import expiry_key, split_expiry_key
from tiercel.model.limits import INFINITE
from tiercel.store.interface import Keyspace
from tiercel.wire.user_message import UserMessage

_NEVER = 1 << 63
_SPARE = 1000
SLICE = 1000
_DAY_S = 86400
_PURGED = b"purged"


class Deadlines:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._express: list[tuple[int, int, int]] = []  # a heap of (deadline, slot, lookup id)
        self._waiting: set[tuple[int, int, int]] = set()  # those in the heap that have not ended yet
        first = core.batch.first(Keyspace.EXPIRIES, b"", expiry_key(_NEVER, 0, 0))
        self._next_stored = _NEVER if first is None else split_expiry_key(first[0])[0]

    def watch(self, queue: QueueState, lookup_id: int, packet: UserMessage) -> None:
        if packet.time_to_be_received == INFINITE and not queue.is_outgoing:  # nearly every message
            return
        deadline = _deadline(queue, packet)
        if deadline is None:
            return
        if packet.is_recoverable:
            self._core.batch.put(Keyspace.EXPIRIES, expiry_key(deadline, queue.slot, lookup_id), b"")
            self._next_stored = min(self._next_stored, deadline)
        else:
            heapq.heappush(self._express, (deadline, queue.slot, lookup_id))
            self._waiting.add((deadline, queue.slot, lookup_id))

    def watch_run(self, queue: QueueState, lookup_ids: Iterable[int], first: UserMessage) -> None:
        """`watch` for recoverable messages of the first one's shape: all have its deadline."""
        deadline = _deadline(queue, first)
        if deadline is not None:
            rows = [(expiry_key(deadline, queue.slot, lookup_id), b"") for lookup_id in lookup_ids]
            self._core.batch.put_many(Keyspace.EXPIRIES, rows)
            self._next_stored = min(self._next_stored, deadline)

    def forget(self, queue: QueueState, lookup_id: int, packet: UserMessage) -> None:
        if packet.time_to_be_received == INFINITE and not queue.is_outgoing:
            return
        deadline = _deadline(queue, packet)
        if deadline is None:
            return
        if packet.is_recoverable:
            self._core.batch.delete(Keyspace.EXPIRIES, expiry_key(deadline, queue.slot, lookup_id))
            return
        self._waiting.discard((deadline, queue.slot, lookup_id))
        if len(self._express) > 2 * len(self._waiting) + _SPARE:  # mostly messages that were received
            self._express = sorted(self._waiting)

    def forget_run(self, queue: QueueState, lookup_ids: Iterable[int], first: UserMessage) -> None:
        """`forget` for messages of the first one's shape; the keys of most are neighbours."""
        if not first.is_recoverable:
            for lookup_id in lookup_ids:
                self.forget(queue, lookup_id, first)
        elif (deadline := _deadline(queue, first)) is not None:
            keys = [expiry_key(deadline, queue.slot, lookup_id) for lookup_id in lookup_ids]
            self._core.batch.delete_many(Keyspace.EXPIRIES, keys)

    def purge_later(self, queue: QueueState, lookup_id: int) -> None:
        """Ends a message that a reader holds as purged, even if the reader dies with the process."""
        if lookup_id not in queue.express:
            self._core.batch.put(Keyspace.EXPIRIES, expiry_key(0, queue.slot, lookup_id), _PURGED)

    def forget_purge(self, queue: QueueState, lookup_id: int) -> None:
        self._core.batch.delete(Keyspace.EXPIRIES, expiry_key(0, queue.slot, lookup_id))

    @property
    def next_deadline(self) -> int | None:
        express = self._express[0][0] if self._express else _NEVER
        earliest = min(express, self._next_stored)
        return None if earliest == _NEVER else earliest

    def due(self) -> Iterator[list[tuple[int, int, bool]]]:
        """Slices of the messages whose time is over by now: slot, lookup id, and whether it was purged.

        A key stays until its message ends: one that is locked just now must expire after a crash, too.
        """
        now = self._core.seconds
        express: list[tuple[int, int, bool]] = []
        while self._express and self._express[0][0] <= now:
            entry = heapq.heappop(self._express)
            if entry in self._waiting:  # else it was received long ago
                express.append((*entry[1:], False))
        if express:
            yield express
        if self._next_stored > now:
            return
        start, later = b"", expiry_key(now + 1, 0, 0)
        while rows := list(islice(self._core.batch.range(Keyspace.EXPIRIES, start, later), SLICE)):
            yield [(*split_expiry_key(key)[1:], mark == _PURGED) for key, mark in rows]
            start = rows[-1][0] + b"\0"
        first = self._core.batch.first(Keyspace.EXPIRIES, later, expiry_key(_NEVER, 0, 0))
        self._next_stored = _NEVER if first is None else split_expiry_key(first[0])[0]

    def drop(self, slot: int, lookup_id: int) -> None:
        """Forgets the deadline of a message that is gone; that of a damaged one is not known."""
        later = expiry_key(self._core.seconds + 1, 0, 0)
        for key, _ in list(self._core.batch.range(Keyspace.EXPIRIES, b"", later)):
            if split_expiry_key(key)[1:] == (slot, lookup_id):
                self._core.batch.delete(Keyspace.EXPIRIES, key)

    def is_over(self, packet: UserMessage) -> bool:
        """Whether the message may no longer be received, though no timer has removed it yet."""
        limit = packet.time_to_be_received
        return limit != INFINITE and packet.sent_time + limit <= self._core.seconds

    def is_late(self, packet: UserMessage) -> bool:
        """Whether the message ran out of time on its way here.

        Nothing is subtracted: a sender whose clock is ahead must not kill its message (MQQB T71).
        """
        limit = packet.time_to_reach_queue
        return self.is_over(packet) or (limit != INFINITE and packet.sent_time + limit < self._core.seconds)

    def clock_note(self, packet: UserMessage) -> str:
        """What to add to the reason of a refusal when the sender's clock is probably wrong.

        A queue manager sends no message whose time is over, so it cannot be late by days.
        """
        limit = min(packet.time_to_reach_queue, packet.time_to_be_received)
        days = (self._core.seconds - packet.sent_time - limit) // _DAY_S
        if limit == INFINITE or days < 1:
            return ""
        return f"; it is late by {days} days: check the clock of its sender"

    def difference_note(self, sent_time: int) -> str:
        """The same for an acknowledgement of a message of ours, which was sent just now."""
        days = int((sent_time - self._core.seconds) / _DAY_S)
        if not days:
            return ""
        return f"; its clock is {abs(days)} days {'ahead of' if days > 0 else 'behind'} ours"

    def ahead_note(self, sent_time: int) -> str:
        """The same for an acknowledgement that may have been on its way for days, and only seem behind."""
        return self.difference_note(sent_time) if sent_time > self._core.seconds else ""


def _deadline(queue: QueueState, packet: UserMessage) -> int | None:
    """When the message expires in this queue; in journals and dead-letter queues never."""
    if queue.is_outgoing:  # it may leave in the very second in which its time ends (MQQB-107)
        limit = min(packet.time_to_reach_queue, packet.time_to_be_received)
        return None if limit == INFINITE else packet.sent_time + limit + 1
    if queue.keeps_messages:
        return None
    limit = packet.time_to_be_received
    return None if limit == INFINITE else packet.sent_time + limit
