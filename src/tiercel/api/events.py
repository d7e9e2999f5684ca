"""Server-sent events: what changed, once a second, the same for all listeners.

The queues are looked at once for all listeners, and not at all without one. A listener that reads slowly gets
the newest state of each queue, not every step: nothing piles up.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

from tiercel.admin.errors import BusyError
from tiercel.admin.message_json import dumps
from tiercel.admin.queues import DEFAULT_KINDS, QueueKind, Queues, kind_of, matching
from tiercel.admin.runner import Runner
from tiercel.admin.sources import name_of
from tiercel.admin.waits import Waits
from tiercel.engine.engine import Engine
from tiercel.engine.queue_state import QueueState
from tiercel.model.queue import OutgoingQueue

Json = dict[str, Any]

MAX_LISTENERS: Final = 32
_INTERVAL_S: Final = 1.0
_QUIET_S: Final = 15.0  # after which a comment shows that the connection lives
_KINDS: Final = frozenset({*DEFAULT_KINDS, QueueKind.SYSTEM, QueueKind.JOURNAL})


class Listener:
    def __init__(self) -> None:
        self.queues: dict[str, Json] = {}  # the newest state of each queue that changed
        self.others: set[str] = set()  # kinds of other things that changed
        self._news = asyncio.Event()

    def tell(self, queues: dict[str, Json], others: set[str]) -> None:
        self.queues |= queues
        self.others |= others
        if self.queues or self.others:
            self._news.set()

    async def wait(self) -> bool:
        """False if nothing has changed for a while."""
        try:
            async with asyncio.timeout(_QUIET_S):
                await self._news.wait()
        except TimeoutError:
            return False
        self._news.clear()
        return True

    def take(self) -> list[tuple[str, Json]]:
        events: list[tuple[str, Json]] = []
        if self.queues:
            events.append(("queues", {"queues": list(self.queues.values())}))
        events += [(kind, {}) for kind in sorted(self.others)]
        self.queues, self.others = {}, set()
        return events


class Events:
    def __init__(self, runner: Runner, waits: Waits, queues: Queues) -> None:
        self._runner = runner
        self._waits = waits
        self._queues = queues
        self._listeners: set[Listener] = set()
        self._task: asyncio.Task[None] | None = None
        self._known: dict[QueueState, tuple[object, ...]] = {}
        self._others: dict[str, object] = {}

    @property
    def count(self) -> int:
        return len(self._listeners)

    def listen(self) -> Listener:
        if len(self._listeners) >= MAX_LISTENERS:
            raise BusyError("events", present=len(self._listeners), limit=MAX_LISTENERS)
        listener = Listener()
        self._listeners.add(listener)
        # A new listener gets everything, and so do the others: it is the same.
        self._known, self._others = {}, {}
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._watch())
        return listener

    def leave(self, listener: Listener) -> None:
        self._listeners.discard(listener)
        if not self._listeners and self._task is not None:
            self._task.cancel()
            self._task = None

    async def stream(self, listener: Listener, is_allowed: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
        number = 0
        yield b"retry: 3000\n\n"
        while (has_news := await self._waits.until(listener.wait())) is not None and is_allowed():
            if not has_news:
                yield b": no change\n\n"
            for kind, data in listener.take():
                number += 1
                yield f"id: {number}\nevent: {kind}\ndata: ".encode() + dumps(data) + b"\n\n"

    async def _watch(self) -> None:
        while not self._waits.are_over:
            queues, others = await self._runner.call(self._changed)
            for each in self._listeners:
                each.tell(queues, others)
            await asyncio.sleep(_INTERVAL_S)

    def _changed(self, engine: Engine) -> tuple[dict[str, Json], set[str]]:
        changed: dict[str, Json] = {}
        known: dict[QueueState, tuple[object, ...]] = {}
        for state in matching(engine, None, _KINDS):
            flow = self._queues.flow(state)
            now = (state.count, state.size_bytes, len(state.locks), state.claimed_count, *flow.values())
            known[state] = now
            if self._known.get(state) != now:
                name = name_of(engine, state)
                changed[name] = {
                    "path_name": name,
                    "kind": kind_of(state),
                    "count": state.count,
                    "bytes": state.size_bytes,
                    "locked": len(state.locks),
                    "claimed": state.claimed_count,
                } | flow
        for state in self._known.keys() - known.keys():
            if state.is_deleted:
                name = name_of(engine, state)
                changed[name] = {"path_name": name, "deleted": True}
        self._known = known
        before, self._others = self._others, _other_marks(engine)
        return changed, {kind for kind, mark in self._others.items() if before.get(kind) != mark}


def _other_marks(engine: Engine) -> dict[str, object]:
    """By kind of event, something that differs after each change."""
    return {
        "outgoing": [_mark(each) for each in engine.outgoing.queues()],
        "operations": engine.operations.changes,
        "audit": engine.audit.last,
    }


def _mark(state: QueueState) -> tuple[object, ...]:
    """Differs when the row of an outgoing queue does; cheaper than the row."""
    queue = state.queue
    assert isinstance(queue, OutgoingQueue)
    history = queue.connection_history
    tried = (history[-1].connection_history_time, history[-1].status) if history else None
    return state.slot, state.count, queue.state, queue.reason, queue.next_try, tried
