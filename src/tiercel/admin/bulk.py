"""Bulk work in the background: moving, copying, replaying, deleting or purging the messages that are wanted.

It runs in slices of one commit each. The commit that moves messages also says how far the work has come, so
that it goes on there after a restart, and no message is done twice or left out. Pausing and cancelling change
the row of the operation, which every slice reads first.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple

from tiercel.admin import queue_lookup
from tiercel.admin.errors import BusyError
from tiercel.admin.message_filter import Query
from tiercel.admin.operations import Operations, check_has_trash, opened_trash, trash_bytes
from tiercel.admin.queues import open_to_take
from tiercel.admin.runner import Runner
from tiercel.admin.searching import Searcher
from tiercel.admin.sources import name_of
from tiercel.admin.transfers import Goals, TransferRequest, TransferStep
from tiercel.engine.browsing import Seen
from tiercel.engine.engine import Engine
from tiercel.engine.handles import OpenQueue
from tiercel.engine.operations import Moved, OperationRow, OperationState
from tiercel.engine.queue_state import QueueState
from tiercel.engine.records import LAST_LOOKUP_ID
from tiercel.model.codes import MessageClass
from tiercel.model.errors import (
    IllegalOperationError,
    InsufficientResourcesError,
    InvalidParameterError,
    MqError,
    OperationNotFoundError,
)
from tiercel.security.access import Token

Json = dict[str, Any]

_MAX_RUNNING: Final = 8
_LOOK: Final = 500  # messages per look: about 3 ms
_LOOK_BYTES: Final = 1 << 20
_SLICE: Final = 100  # messages per commit
_SHOWN: Final = 5  # messages of a dry run
_MAX_PREVIEWED: Final = 1_000_000  # messages of a dry run
_REST_S: Final = 0.005  # between slices, so that other clients come first


class Action(StrEnum):
    MOVE = "move"
    COPY = "copy"
    REPLAY = "replay"
    DELETE = "delete"  # to the trash
    PURGE = "purge"  # for good


@dataclass(frozen=True, slots=True)
class BulkRequest:
    """`plan` is the newest message that a dry run has counted: later ones are left alone."""

    queue: str
    action: Action
    who: str
    to: str | None = None
    query: Query | None = None
    since: datetime | None = None  # of the arrival
    until: datetime | None = None
    limit: int | None = None
    rate: float | None = None  # messages per second
    plan: int | None = None
    keep: bool = False  # of a replay
    transactional: bool | None = None
    same_id: bool = False  # refuses a message that would get a new id

    def stored(self, newest: int) -> Json:
        return {
            "to": self.to,
            "query": None if self.query is None else list(self.query),
            "since": None if self.since is None else self.since.timestamp(),
            "until": None if self.until is None else self.until.timestamp(),
            "limit": self.limit,
            "rate": self.rate,
            "newest": newest,
            "keep": self.keep,
            "transactional": self.transactional,
            "same_id": self.same_id,
        }


class _Look(NamedTuple):
    """The messages that are wanted of a stretch of a queue."""

    wanted: list[Seen]
    looked: int
    reached: int
    is_last: bool


class Bulk:
    def __init__(self, runner: Runner, searcher: Searcher, operations: Operations) -> None:
        self._runner = runner
        self._searcher = searcher
        self._operations = operations
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def preview(self, request: BulkRequest) -> Json:
        """A dry run: how many messages, how large, the first of them, and the plan for the real one."""
        await self._check_query(request)
        newest = await self._runner.call(lambda engine: _checked(engine, request))
        row = OperationRow(0, request.action, request.queue, request.who, 0, request=request.stored(newest))
        count = size = looked = 0
        first: list[str] = []
        at, is_last = -1, False
        while not is_last and looked < _MAX_PREVIEWED and (request.limit is None or count < request.limit):
            look = await self._look(row, at)
            wanted = look.wanted if request.limit is None else look.wanted[: request.limit - count]
            first += [str(each.lookup_id) for each in wanted[: _SHOWN - len(first)]]
            count += len(wanted)
            size += sum(len(each.record.packet) for each in wanted)
            at, is_last, looked = look.reached, look.is_last, looked + look.looked
        in_trash = await self._runner.call(trash_bytes)
        fits = request.action is Action.DELETE and in_trash + size <= self._operations.trash_bytes
        return {
            "plan": str(newest),
            "count": count,
            "bytes": size,
            "looked": looked,
            "first": first,
            "undoable": fits,
        }

    async def start(self, request: BulkRequest) -> Json:
        """Begins the work; the answer says how to ask for its progress."""
        if len(self._tasks) >= _MAX_RUNNING:
            raise BusyError("operations", present=len(self._tasks), limit=_MAX_RUNNING)
        await self._check_query(request)
        row = await self._runner.call(lambda engine: _begin(engine, request))
        self._go_on(row.number)
        return self._operations.described(row)

    async def _check_query(self, request: BulkRequest) -> None:
        if request.query is not None:
            await self._searcher.search(request.query, [])

    async def resume_all(self) -> None:
        """Goes on with what a restart has interrupted."""
        found = await self._runner.call(lambda engine: engine.operations.all())
        for row in found:
            if row.state is OperationState.RUNNING:
                self._go_on(row.number)

    async def change(self, number: int, state: OperationState) -> Json:
        """Pauses, resumes or cancels."""
        row = await self._runner.call(lambda engine: _changed(engine, number, state))
        await self._stop(number)  # it may sleep for long
        if row.state is OperationState.RUNNING:
            self._go_on(number)
        return self._operations.described(row)

    async def one(self, number: int) -> Json:
        return self._operations.described(await self._runner.call(lambda engine: _get(engine, number)))

    async def close(self) -> None:
        for number in list(self._tasks):
            await self._stop(number)

    async def _stop(self, number: int) -> None:
        task = self._tasks.pop(number, None)
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    # The work.

    def _go_on(self, number: int) -> None:
        if number not in self._tasks:
            self._tasks[number] = asyncio.get_running_loop().create_task(self._run(number))

    async def _run(self, number: int) -> None:
        try:
            row = await self._runner.call(lambda engine: _get(engine, number))
            while row.state is OperationState.RUNNING:
                row = await self._step(row)
        except MqError as problem:
            text = str(problem)
            with suppress(MqError):  # the daemon stops: it goes on at the next start
                await self._runner.call(lambda engine: _fail(engine, number, text))
        finally:
            if self._tasks.get(number) is asyncio.current_task():
                del self._tasks[number]

    async def _step(self, row: OperationRow) -> OperationRow:
        """Look at a stretch of the queue and act on the messages that match, each slice in its own commit."""
        look = await self._look(row, row.next)
        rate = row.request["rate"]
        at_once = _SLICE if rate is None else max(1, min(_SLICE, int(rate)))
        parts = [look.wanted[at : at + at_once] for at in range(0, len(look.wanted), at_once)] or [[]]
        for number, part in enumerate(parts):
            is_end = number == len(parts) - 1
            slice_ = _Slice(
                row.number,
                tuple(each.lookup_id for each in part),
                look.reached if is_end else part[-1].lookup_id,
                look.looked if is_end else 0,
                is_end and look.is_last,
            )
            command = partial(
                _carry, slice_=slice_, token=self._runner.driver.token, limit=self._operations.trash_bytes
            )
            row = await self._runner.call(command)
            if row.state is not OperationState.RUNNING:
                return row
            await asyncio.sleep(_REST_S if rate is None else len(part) / rate)
        return row

    async def _look(self, row: OperationRow, at: int) -> _Look:
        request = row.request

        def command(engine: Engine) -> tuple[list[Seen], bool, int]:
            seen, size = [], 0
            for each in engine.browsing.in_order(queue_lookup.find(engine, row.queue), at):
                seen.append(each)
                size += len(each.record.packet)
                if len(seen) >= _LOOK or size >= _LOOK_BYTES:
                    return seen, False, engine.seconds
            return seen, True, engine.seconds

        seen, is_last, now = await self._runner.call(command)
        wanted = [each for each in seen if _is_meant(each, request)]
        if request["query"] is not None and wanted:
            query = Query(*request["query"])._replace(now=now)
            wanted = await self._matching(query, wanted)
        return _Look(wanted, len(seen), seen[-1].lookup_id if seen else at, is_last)

    async def _matching(self, query: Query, seen: list[Seen]) -> list[Seen]:
        found: set[int] = set()
        rows = [(each.lookup_id, each.record) for each in seen]
        while rows:
            searched = await self._searcher.search(query, rows)
            found.update(searched.found)
            reached = LAST_LOOKUP_ID if searched.reached is None else searched.reached
            rows = [row for row in rows if row[0] > reached]
        return [each for each in seen if each.lookup_id in found]


def _is_meant(seen: Seen, request: Json) -> bool:
    """Whether a plan and the times allow it; the query is asked later."""
    if seen.is_locked or seen.sequence > request["newest"]:
        return False
    arrival, since, until = seen.record.arrival_time, request["since"], request["until"]
    return (since is None or arrival >= since) and (until is None or arrival < until)


def _checked(engine: Engine, request: BulkRequest) -> int:
    """Refuses what can never be done; the newest message that counts."""
    state = queue_lookup.find(engine, request.queue)
    if request.action is Action.DELETE:
        check_has_trash(state)
    needs_goal = request.action in {Action.MOVE, Action.COPY}
    if needs_goal and request.to is None:
        raise InvalidParameterError("to", problem="it is missing", fix="name the destination queue")
    if request.to is not None and not needs_goal and request.action is not Action.REPLAY:
        raise InvalidParameterError("to", problem=f"{request.action} has no destination", fix="leave it out")
    if request.to is not None and queue_lookup.is_same(engine, state, request.to):
        raise InvalidParameterError("to", problem="it is the source queue itself", fix="name another queue")
    newest = engine.browsing.newest(state)
    return newest if request.plan is None else min(request.plan, newest)


def _begin(engine: Engine, request: BulkRequest) -> OperationRow:
    newest = _checked(engine, request)
    state = queue_lookup.find(engine, request.queue)
    row = engine.operations.begin(request.action, name_of(engine, state), request.who)
    row.state, row.request, row.total = OperationState.RUNNING, request.stored(newest), state.count
    engine.operations.save(row)
    return row


def _get(engine: Engine, number: int) -> OperationRow:
    row = engine.operations.get(number)
    if row is None:
        raise OperationNotFoundError(f"operation {number}")
    return row


def _changed(engine: Engine, number: int, state: OperationState) -> OperationRow:
    row = _get(engine, number)
    if not row.is_unfinished:
        problem = f"it is {row.state} already"
        raise IllegalOperationError(f"operation {number}", problem=problem, fix="see GET /operations")
    row.state, row.note = state, ""
    if state is OperationState.CANCELLED:
        _end(row, OperationState.CANCELLED)
    engine.operations.save(row)
    return row


def _end(row: OperationRow, state: OperationState) -> None:
    """What was deleted before a cancellation can be undone all the same."""
    row.note = "cancelled" if state is OperationState.CANCELLED else ""
    row.state = OperationState.DONE if row.parts else state


def _fail(engine: Engine, number: int, text: str) -> None:
    row = _get(engine, number)
    if row.state is OperationState.RUNNING:
        row.state, row.note = OperationState.FAILED, text
        engine.operations.save(row)


class _Slice(NamedTuple):
    number: int
    lookup_ids: tuple[int, ...]
    reached: int
    looked: int
    is_last: bool


def _carry(engine: Engine, slice_: _Slice, token: Token, limit: int) -> OperationRow:
    """One commit: the messages, and how far the operation has come."""
    row = _get(engine, slice_.number)
    if row.state is not OperationState.RUNNING:
        return row
    state, most = queue_lookup.find(engine, row.queue), row.request["limit"]
    done: list[Seen] = []
    failure: MqError | None = None
    moved: list[Moved] = []
    with engine.life.acting(row.who), ExitStack() as stack:
        work = _work(engine, row, state, token, limit, stack, moved)
        for seen in _there(engine, state, slice_.lookup_ids):
            if most is not None and row.count + len(done) >= most:
                break
            try:
                work(seen)
            except MqError as problem:
                failure = problem
                break
            done.append(seen)
    _count(engine, row, done, moved)
    if failure is not None:
        row.state, row.note = OperationState.FAILED, str(failure)
        row.next = done[-1].lookup_id if done else row.next
    else:
        row.next, row.looked = slice_.reached, row.looked + slice_.looked
        if slice_.is_last or (most is not None and row.count >= most):
            _end(row, OperationState.FINISHED)
    engine.operations.save(row)
    return row


def _count(engine: Engine, row: OperationRow, done: Sequence[Seen], moved: Sequence[Moved]) -> None:
    size = sum(len(each.record.packet) for each in done)
    if done and row.kind == Action.DELETE:
        engine.operations.add(row, [each.lookup_id for each in done], size)
        return
    row.count += len(done)
    row.size_bytes += size
    if moved:
        engine.operations.add_moved(row, moved)


def _there(engine: Engine, state: QueueState, lookup_ids: Sequence[int]) -> Iterator[Seen]:
    """Those that are still there, and that nobody holds."""
    for lookup_id in lookup_ids:
        seen = next(engine.browsing.in_order(state, lookup_id - 1), None)
        if seen is not None and seen.lookup_id == lookup_id and not seen.is_locked:
            yield seen


def _work(
    engine: Engine,
    row: OperationRow,
    state: QueueState,
    token: Token,
    limit: int,
    stack: ExitStack,
    moved: list[Moved],
) -> Callable[[Seen], object]:
    """What is done to each message of a commit; the queues stay open as long as the stack.

    `moved` gets the places of messages whose move can be undone.
    """
    action, request = Action(row.kind), row.request
    if action is Action.PURGE:
        return lambda seen: engine.purging.end_one(state, seen.lookup_id, MessageClass.NACK_Q_PURGED)
    opened = open_to_take(engine, state, token)
    stack.callback(engine.opening.close, opened)
    if action is Action.DELETE:
        trash = stack.enter_context(opened_trash(engine, state, token, to_take=False))
        return partial(_throw_away, engine, opened, trash, limit)
    moves = action is Action.MOVE or (action is Action.REPLAY and not request["keep"])
    goals = Goals(engine, token, state, moves=moves)
    stack.callback(goals.close)
    wanted = TransferRequest(
        row.queue,
        request["to"],
        moves,
        transactional=request["transactional"],
        same_id=request.get("same_id", False),
    )
    step = TransferStep(engine, opened, goals, wanted)
    step.moved = moved
    return step.carry


def _throw_away(engine: Engine, opened: OpenQueue, trash: OpenQueue, limit: int, seen: Seen) -> None:
    if trash_bytes(engine) + len(seen.record.packet) > limit:
        problem = "it is full, so deleting more could not be undone"
        fix = "purge instead, or raise [api] trash_bytes"
        raise InsufficientResourcesError("trash", problem=problem, limit=f"{limit} bytes", fix=fix)
    engine.moving.throw_away(opened, seen.lookup_id, trash)
