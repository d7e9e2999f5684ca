"""Leases: messages that a client has received and not yet acknowledged, each for a limited time.

A leased message is locked, as after the first phase of a two-phase read: no other reader sees it, and it
returns to its place when the lease ends without an acknowledgement. Leases live in memory: after a restart
every leased message is back in its queue.

A lease belongs to the client that took it (`who`): only that client and administrators can end or extend it.

This is a machine of the node (`tiercel.engine.machine`): it has no clock and no tasks. Its methods are called
inside a batch; leases that run out go back when the node flushes it.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from typing import Final, NamedTuple, Never

from tiercel.admin import queue_lookup
from tiercel.admin.errors import BusyError
from tiercel.admin.queues import open_to_take
from tiercel.admin.sources import name_of
from tiercel.engine.core import Effect
from tiercel.engine.engine import Engine
from tiercel.engine.handles import Found, OpenQueue, Waiter
from tiercel.model.codes import MessageSeekAction
from tiercel.model.errors import (
    AccessDeniedError,
    IllegalOperationError,
    IoTimeoutError,
    LeaseEndedError,
    LeaseNotFoundError,
    MqError,
)
from tiercel.security.access import Token

MAX_LIMIT: Final = 1000  # messages of one request
MAX_LEASE_S: Final = 12 * 3600
_MAX_LEASES: Final = 10_000
_MAX_BYTES: Final = 256 << 20  # leased messages are kept in memory
_ANSWER_BYTES: Final = 4 << 20  # of packets: an answer is written in one turn
SLICE: Final = 50  # messages taken or given back in one batch
_PAUSE_S: Final = 0.001  # between two slices of leases that ran out together
_REMEMBERED: Final = 10_000  # ended leases whose end is still known


class End(StrEnum):
    ACKNOWLEDGED = "acknowledged"
    RETURNED = "returned"
    EXPIRED = "expired"
    DELETED = "deleted"


_WHY: Final = {
    End.ACKNOWLEDGED: "its message was acknowledged",
    End.RETURNED: "its message was given back",
    End.EXPIRED: "its time ran out, and the message is back in the queue",
    End.DELETED: "the queue was deleted, and the message ended with it",
}


@dataclass(slots=True, eq=False)
class Receipt:
    """One receive request: its own opening of the queue, which holds what was taken and is closed last."""

    opened: OpenQueue
    queue: str
    taken: list[Found] = field(default_factory=list)
    leases: set[str] = field(default_factory=set)  # those that have not ended


@dataclass(slots=True, eq=False)
class _Lease:
    id: str
    receipt: Receipt
    lookup_id: int
    size_bytes: int
    until: float  # on the clock of `begin`
    seconds: float
    who: str


class LeaseStatus(NamedTuple):
    id: str
    queue: str
    lookup_id: int
    who: str
    seconds: float
    seconds_left: float


class _Ended(NamedTuple):
    end: End
    who: str


class Leases:
    """`new_id` makes the lease ids, which nobody can guess."""

    def __init__(self, engine: Engine, token: Token, new_id: Callable[[], str]) -> None:
        self._engine = engine
        self._token = token
        self._new_id = new_id
        self._now = 0.0  # of the batch
        self._living: dict[str, _Lease] = {}
        self._ended: OrderedDict[str, _Ended] = OrderedDict()
        self._deadlines: list[tuple[float, int, _Lease]] = []
        self._order = count()
        self._resume_at = 0.0
        self._bytes = 0

    @property
    def count(self) -> int:
        return len(self._living)

    # The interface of a machine.

    def begin(self, now: float) -> None:
        self._now = now

    def flush(self) -> None:
        """Gives back what ran out, one slice per batch: thousands of leases may run out at once."""
        if self._now < self._resume_at:
            return
        for _ in range(SLICE):
            lease = self._next_lease()
            if lease is None or lease.until > self._now:
                return
            heapq.heappop(self._deadlines)
            self._give_back(lease, End.EXPIRED)
        self._resume_at = self._now + _PAUSE_S

    def finish(self, effects: list[Effect]) -> list[Effect]:
        return effects  # waits belong to the requests

    def take_actions(self) -> list[Never]:
        return []

    @property
    def next_deadline(self) -> float | None:
        lease = self._next_lease()
        return None if lease is None else max(lease.until, self._resume_at)

    def _next_lease(self) -> _Lease | None:
        """The lease that runs out first; entries that were extended or have ended are dropped."""
        while self._deadlines:
            if self._is_current(self._deadlines[0]):
                return self._deadlines[0][2]
            heapq.heappop(self._deadlines)
        return None

    def _is_current(self, deadline: tuple[float, int, _Lease]) -> bool:
        until, _, lease = deadline
        return lease.id in self._living and lease.until == until

    # Receiving.

    def open(self, queue: str) -> Receipt:
        """Begins a request; it ends with `lease`, `keep` or `abandon`."""
        engine = self._engine
        state = queue_lookup.find(engine, queue)
        if state.is_outgoing:
            problem = "messages of an outgoing queue cannot be received"
            raise IllegalOperationError(str(state), problem=problem, fix="delete it, or purge the queue")
        if len(self._living) >= _MAX_LEASES or self._bytes >= _MAX_BYTES:
            present = f"{len(self._living)} leases of {self._bytes} bytes"
            limit = f"{_MAX_LEASES} leases, {_MAX_BYTES} bytes"
            fix = "acknowledge what was received"
            raise BusyError("leases", problem="there are too many", present=present, limit=limit, fix=fix)
        return Receipt(open_to_take(engine, state, self._token), name_of(engine, state))

    def take(self, receipt: Receipt, limit: int) -> int:
        """Takes what is there: at most one slice, and `limit` messages in all; returns how many."""
        taken = receipt.taken
        before, size = len(taken), sum(len(each.record.packet) for each in taken)
        room = min(limit - before, SLICE, _MAX_LEASES - len(self._living) - before)
        while len(taken) - before < room and size < _ANSWER_BYTES:
            try:
                found = self._engine.reading.receive(receipt.opened, 0, two_phase=True)
            except IoTimeoutError:
                break
            assert isinstance(found, Found)
            taken.append(found)
            size += len(found.record.packet)
        return len(taken) - before

    def take_exactly(self, receipt: Receipt, lookup_id: int) -> None:
        found = self._engine.reading.read_by_lookup_id(
            receipt.opened, lookup_id, MessageSeekAction.SEEK_CURRENT, peek=False, two_phase=True
        )
        receipt.taken.append(found)

    def wait(self, receipt: Receipt, seconds: float) -> Found | Waiter:
        """A read that may wait; the caller adds what it brings to `receipt.taken`."""
        return self._engine.reading.receive(receipt.opened, seconds, two_phase=True)

    def lease(self, receipt: Receipt, seconds: float, who: str) -> list[str]:
        """Leases what was taken; returns the ids of the leases, in the same order."""
        leases = [self._new_lease(receipt, found, seconds, who) for found in receipt.taken]
        self._close_if_idle(receipt)
        return [each.id for each in leases]

    def _new_lease(self, receipt: Receipt, found: Found, seconds: float, who: str) -> _Lease:
        lease = _Lease(
            self._new_id(),
            receipt,
            found.lookup_id,
            len(found.record.packet),
            self._now + seconds,
            seconds,
            who,
        )
        self._living[lease.id] = lease
        self._bytes += lease.size_bytes
        receipt.leases.add(lease.id)
        self._schedule(lease)
        return lease

    def keep(self, receipt: Receipt) -> None:
        """What was taken is received at once, without leases."""
        for found in receipt.taken:
            self._engine.reading.keep(receipt.opened, found.lookup_id)
        self._close_if_idle(receipt)

    def abandon(self, receipt: Receipt) -> None:
        """Ends a request that has no client to answer: what it took goes back."""
        for identifier in list(receipt.leases):
            self._give_back(self._living[identifier], End.RETURNED)
        self._close_if_idle(receipt)

    # Leases. `who` is the client; None is an administrator, who may end any lease.

    def acknowledge(self, identifier: str, who: str | None = None) -> bool:
        """The message is received for good; False if that had been said before."""
        if self._ended_as(identifier, who) is End.ACKNOWLEDGED:
            return False
        lease = self._find(identifier, who)
        self._engine.reading.keep(lease.receipt.opened, lease.lookup_id)
        self._end(lease, End.ACKNOWLEDGED)
        return True

    def give_back(self, identifier: str, who: str | None = None) -> bool:
        """The message returns to its place; False if that had been said before."""
        if self._ended_as(identifier, who) is End.RETURNED:
            return False
        self._give_back(self._find(identifier, who), End.RETURNED)
        return True

    def extend(self, identifier: str, seconds: float, who: str | None = None) -> None:
        lease = self._find(identifier, who)
        lease.until, lease.seconds = self._now + seconds, seconds
        self._schedule(lease)

    def all(self) -> list[LeaseStatus]:
        return [
            LeaseStatus(
                each.id,
                each.receipt.queue,
                each.lookup_id,
                each.who,
                each.seconds,
                max(each.until - self._now, 0.0),
            )
            for each in self._living.values()
        ]

    def _schedule(self, lease: _Lease) -> None:
        if len(self._deadlines) > 2 * len(self._living) + SLICE:  # mostly leases that were extended or ended
            self._deadlines = [each for each in self._deadlines if self._is_current(each)]
            heapq.heapify(self._deadlines)
        heapq.heappush(self._deadlines, (lease.until, next(self._order), lease))

    def _ended_as(self, identifier: str, who: str | None) -> End | None:
        """How a lease of this client ended, if it has ended and is still known."""
        ended = self._ended.get(identifier)
        if ended is None:
            return None
        _check_holder(identifier, ended.who, who)
        return ended.end

    def _find(self, identifier: str, who: str | None) -> _Lease:
        lease = self._living.get(identifier)
        if lease is None:
            end = self._ended_as(identifier, who)
            if end is None:
                raise LeaseNotFoundError(f"lease {identifier[:60]}")
            raise LeaseEndedError(f"lease {identifier}", problem=_WHY[end])
        _check_holder(identifier, lease.who, who)
        opened = lease.receipt.opened
        lock = None if opened.state is None else opened.state.locks.get(lease.lookup_id)
        if lock is None or lock.owner is not opened:
            self._drop(lease, End.DELETED)
            raise LeaseEndedError(f"lease {identifier}", problem=_WHY[End.DELETED])
        return lease

    def _give_back(self, lease: _Lease, end: End) -> None:
        if lease.id not in self._living:
            return
        try:
            self._engine.reading.end_receive(lease.receipt.opened, lease.lookup_id, delete=False)
        except MqError:  # the queue is gone, and the message with it
            end = End.DELETED
        self._end(lease, end)

    def _end(self, lease: _Lease, end: End) -> None:
        self._drop(lease, end)
        self._close_if_idle(lease.receipt)

    def _drop(self, lease: _Lease, end: End) -> None:
        del self._living[lease.id]
        self._bytes -= lease.size_bytes
        lease.receipt.leases.discard(lease.id)
        self._ended[lease.id] = _Ended(end, lease.who)
        while len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)

    def _close_if_idle(self, receipt: Receipt) -> None:
        if not receipt.leases:  # closing gives back what is still held
            self._engine.opening.close(receipt.opened)


def _check_holder(identifier: str, holder: str, who: str | None) -> None:
    if who is not None and who != holder:
        raise AccessDeniedError(
            f"lease {identifier}",
            problem="it was taken with another token",
            fix="use the token that received the message, or one with the role admin",
        )
