"""Messages that a client has received and not yet acknowledged: each is leased for some seconds.

A leased message is locked, as by the first phase of a two-phase read: nobody else sees it, and it returns to
its place when the lease ends without an acknowledgement. Leases live in memory: when the queue manager ends,
however it does, every leased message is back in its queue.
"""

import asyncio
import secrets
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from tiercel.admin import queue_lookup
from tiercel.admin.browsing import message_of
from tiercel.admin.errors import BusyError
from tiercel.admin.message_json import Json, time_text, to_json
from tiercel.admin.queues import open_to_take
from tiercel.admin.runner import Host
from tiercel.admin.sources import name_of
from tiercel.admin.waits import Asker, Waits
from tiercel.engine.engine import Engine
from tiercel.engine.handles import Found, OpenQueue, Waiter
from tiercel.engine.queue_state import QueueState
from tiercel.model.codes import MessageSeekAction, QueueAccess
from tiercel.model.errors import IllegalOperationError, IoTimeoutError, LeaseEndedError, MqError

MAX_LIMIT: Final = 1000  # messages of one request
MAX_LEASE_S: Final = 12 * 3600
_MAX_LEASES: Final = 10_000
_MAX_BYTES: Final = 256 << 20  # what is leased is kept in memory
_ANSWER_BYTES: Final = 4 << 20  # of packets: an answer is written in one turn
_SLICE: Final = 50  # messages that are taken and shown in one turn
_REMEMBERED: Final = 10_000  # leases that have ended, of which we still know how
_INSTANCE_BYTES: Final = 4


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
class _Handle:
    """An opening of a queue, and how many leases are on it: it is closed after the last one."""

    opened: OpenQueue
    queue: str
    leases: int = 0


@dataclass(slots=True, eq=False)
class _Lease:
    id: str
    handle: _Handle
    lookup_id: int
    size_bytes: int
    until: float  # on the clock of the loop
    who: str
    seconds: float
    timer: asyncio.TimerHandle | None = field(default=None, repr=False)

    @property
    def state(self) -> QueueState | None:
        return self.handle.opened.state


class Wish(NamedTuple):
    """What a request wants to receive."""

    limit: int = 1
    wait_s: float = 0
    lease_s: float = 30
    is_final: bool = False  # received at once: no lease
    lookup_id: int | None = None
    bodies: bool = True
    decode: bool = False


class Leases:
    def __init__(self, host: Host, waits: Waits) -> None:
        self._host = host
        self._waits = waits
        self._instance = secrets.token_hex(_INSTANCE_BYTES)
        self._living: dict[str, _Lease] = {}
        self._ended: OrderedDict[str, End] = OrderedDict()
        self._due: deque[_Lease] = deque()  # those whose time has run out
        self._returning: asyncio.Task[None] | None = None
        self._bytes = 0

    @property
    def count(self) -> int:
        return len(self._living)

    # Receiving.

    async def receive(self, queue: str, wish: Wish, who: str, asker: Asker) -> list[Json]:
        """Messages in the order of the queue; none when none came in time."""
        handles: list[_Handle] = []  # known as soon as it is open, even to who is cancelled in that moment
        taken: list[Found] = []

        def begin(engine: Engine) -> _Handle:
            handles.append(handle := self._open(engine, queue))
            if wish.lookup_id is None:
                self._take_slice(engine, handle, wish, taken)
            else:
                taken.append(_take_exactly(engine, handle, wish))
            return handle

        try:
            handle = await self._host.call(begin)
            await self._take(handle, wish, taken, asker)
            rows = await self._shown(taken, wish)
            if wish.is_final:
                await self._finish(handle, taken, asker)
            else:
                self._lease(handle, taken, rows, wish, who)
        finally:
            for each in handles:
                self._close_if_idle(each)  # which gives back what was taken and not leased
        return rows

    def _open(self, engine: Engine, queue: str) -> _Handle:
        state = queue_lookup.find(engine, queue)
        if state.is_outgoing:
            problem = "a message on its way is not received here"
            raise IllegalOperationError(str(state), problem=problem, fix="delete it, or purge the queue")
        if len(self._living) >= _MAX_LEASES or self._bytes >= _MAX_BYTES:
            present = f"{len(self._living)} leases of {self._bytes} bytes"
            limit = f"{_MAX_LEASES} leases, {_MAX_BYTES} bytes"
            fix = "acknowledge what was received"
            raise BusyError("leases", problem="there are too many", present=present, limit=limit, fix=fix)
        return _Handle(open_to_take(engine, state, self._host), name_of(engine, state))

    def _take_slice(self, engine: Engine, handle: _Handle, wish: Wish, taken: list[Found]) -> int:
        """Takes some of what is there; how many."""
        before, size = len(taken), sum(len(each.record.packet) for each in taken)
        room = min(wish.limit - before, _SLICE, _MAX_LEASES - len(self._living) - before)
        while len(taken) - before < room and size < _ANSWER_BYTES:
            try:
                found = engine.reading.receive(handle.opened, 0, two_phase=True)
            except IoTimeoutError:
                break
            assert isinstance(found, Found)
            taken.append(found)
            size += len(found.record.packet)
        return len(taken) - before

    async def _take(self, handle: _Handle, wish: Wish, taken: list[Found], asker: Asker) -> None:
        """Takes what else is there, or waits for the first."""
        while len(taken) % _SLICE == 0 and 0 < len(taken) < wish.limit:
            if not await self._host.call(lambda engine: self._take_slice(engine, handle, wish, taken)):
                break
        if taken or not wish.wait_s:
            return
        first = await self._waits.until(self._wait(handle, wish.wait_s), asker)
        if first is not None:
            taken.append(first)

    async def _wait(self, handle: _Handle, seconds: float) -> Found | None:
        def command(engine: Engine) -> Found | Waiter:
            return engine.reading.receive(handle.opened, seconds, two_phase=True)

        try:
            return await self._host.read(command)
        except IoTimeoutError:
            return None

    async def _shown(self, taken: list[Found], wish: Wish) -> list[Json]:
        rows: list[Json] = []
        for number, (_, lookup_id, record, _) in enumerate(taken, 1):
            message = message_of(lookup_id, record)
            rows.append(to_json(message, body=wish.bodies, decode=wish.decode))
            if number % _SLICE == 0:
                await asyncio.sleep(0)  # others have a turn
        return rows

    async def _finish(self, handle: _Handle, taken: list[Found], asker: Asker) -> None:
        """Counts them as received, unless the client is known to be gone: then nobody has them."""
        if not taken or await asker.is_gone():
            return

        def command(engine: Engine) -> None:
            for found in taken:
                engine.reading.keep(handle.opened, found.lookup_id)

        await self._host.call(command)

    # Leases.

    def _lease(self, handle: _Handle, taken: list[Found], rows: list[Json], wish: Wish, who: str) -> None:
        now = asyncio.get_running_loop().time()
        for found, row in zip(taken, rows, strict=True):
            lease = _Lease(
                self._instance + secrets.token_hex(12),
                handle,
                found.lookup_id,
                len(found.record.packet),
                now + wish.lease_s,
                who,
                wish.lease_s,
            )
            self._living[lease.id] = lease
            self._bytes += lease.size_bytes
            handle.leases += 1
            self._set_timer(lease)
            row["lease"] = lease.id

    def _set_timer(self, lease: _Lease) -> None:
        if lease.timer is not None:
            lease.timer.cancel()
        loop = asyncio.get_running_loop()
        lease.timer = loop.call_at(lease.until, self._expire, lease)

    def _expire(self, lease: _Lease) -> None:
        """Thousands may run out at once, so they go back in slices."""
        self._due.append(lease)
        if self._returning is None:
            self._returning = asyncio.get_running_loop().create_task(self._return_due())

    async def _return_due(self) -> None:
        try:
            while self._due:
                part = [self._due.popleft() for _ in range(min(len(self._due), _SLICE))]
                await self._host.call(lambda engine: self._expired(engine, part))  # noqa: B023  # awaited here
        except MqError:  # the queue manager ends, and gives everything back
            self._due.clear()
        finally:
            self._returning = None

    def _expired(self, engine: Engine, leases: list[_Lease]) -> None:
        now = asyncio.get_running_loop().time()
        for lease in leases:
            if lease.until <= now:  # else it was extended in the last moment
                self._give_back(engine, lease, End.EXPIRED)

    async def acknowledge(self, identifier: str) -> Json:
        """The message is received; saying so twice changes nothing."""

        def command(engine: Engine) -> Json:
            if self._ended.get(identifier) is End.ACKNOWLEDGED:
                return {"lease": identifier, "already": True}
            lease = self._find(identifier)
            engine.reading.keep(lease.handle.opened, lease.lookup_id)
            self._end(engine, lease, End.ACKNOWLEDGED)
            return {"lease": identifier, "already": False}

        return await self._host.call(command)

    async def give_back(self, identifier: str) -> Json:
        """The message is in its old place again; saying so twice changes nothing."""

        def command(engine: Engine) -> Json:
            if self._ended.get(identifier) is End.RETURNED:
                return {"lease": identifier, "already": True}
            self._give_back(engine, self._find(identifier), End.RETURNED)
            return {"lease": identifier, "already": False}

        return await self._host.call(command)

    async def extend(self, identifier: str, seconds: float) -> Json:
        def command(_engine: Engine) -> Json:
            lease = self._find(identifier)
            lease.until = asyncio.get_running_loop().time() + seconds
            lease.seconds = seconds
            self._set_timer(lease)
            return {"lease": identifier, "lease_s": seconds}

        return await self._host.call(command)

    async def listed(self) -> list[Json]:
        return await self._host.call(
            lambda engine: [self._row(engine, each) for each in self._living.values()]
        )

    def _row(self, engine: Engine, lease: _Lease) -> Json:
        left = lease.until - asyncio.get_running_loop().time()
        return {
            "lease": lease.id,
            "queue": lease.handle.queue,
            "lookup_id": str(lease.lookup_id),
            "who": lease.who,
            "lease_s": lease.seconds,
            "seconds_left": round(max(left, 0.0), 3),
            "ends": time_text(int(engine.seconds + max(left, 0.0))),
        }

    def _find(self, identifier: str) -> _Lease:
        lease = self._living.get(identifier)
        if lease is None:
            raise LeaseEndedError(f"lease {identifier[:60]}", problem=self._why(identifier))
        state = lease.state
        lock = None if state is None else state.locks.get(lease.lookup_id)
        if lock is None or lock.owner is not lease.handle.opened:
            self._drop(lease, End.DELETED)
            raise LeaseEndedError(f"lease {identifier}", problem=_WHY[End.DELETED])
        return lease

    def _why(self, identifier: str) -> str:
        end = self._ended.get(identifier)
        if end is not None:
            return _WHY[end]
        if not identifier.startswith(self._instance):
            return "the queue manager was started again since, and the message is back in the queue"
        return "it ended long ago, or was never given"

    def _give_back(self, engine: Engine, lease: _Lease, end: End) -> None:
        if lease.id not in self._living:  # somebody was quicker
            return
        try:
            engine.reading.end_receive(lease.handle.opened, lease.lookup_id, delete=False)
        except MqError:  # the queue is gone, and the message with it
            end = End.DELETED
        self._end(engine, lease, end)

    def _end(self, engine: Engine, lease: _Lease, end: End) -> None:
        self._drop(lease, end)
        if not lease.handle.leases:
            engine.opening.close(lease.handle.opened)

    def _drop(self, lease: _Lease, end: End) -> None:
        del self._living[lease.id]
        self._bytes -= lease.size_bytes
        lease.handle.leases -= 1
        if lease.timer is not None:
            lease.timer.cancel()
        self._ended[lease.id] = end
        while len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)

    def _close_if_idle(self, handle: _Handle) -> None:
        if handle.leases:
            return
        self._host.driver.close_later({QueueAccess.RECEIVE: handle.opened})
        done = asyncio.ensure_future(self._host.call(lambda _: None))
        done.add_done_callback(lambda call: call.cancelled() or call.exception())


def _take_exactly(engine: Engine, handle: _Handle, wish: Wish) -> Found:
    assert wish.lookup_id is not None
    return engine.reading.read_by_lookup_id(
        handle.opened, wish.lookup_id, MessageSeekAction.SEEK_CURRENT, peek=False, two_phase=True
    )
