"""Deleting messages so that it can be undone, and undoing it; undoing moves.

Deleted messages go to the subqueue `;trash` of their queue, in slices of one commit each; the same commit
writes down which ones. Undoing puts them back into their old places, whatever was restarted meanwhile. A
move or a replay within this computer is undone in the same way, as far as nobody has received the messages.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, Final

from tiercel.admin import queue_lookup
from tiercel.admin.message_json import time_text
from tiercel.admin.queues import open_to_take
from tiercel.admin.runner import Runner
from tiercel.engine.engine import Engine
from tiercel.engine.handles import OpenQueue
from tiercel.engine.operations import Moved, OperationRow, OperationState
from tiercel.engine.queue_state import QueueState
from tiercel.model.codes import MessageClass, QueueAccess
from tiercel.model.errors import (
    IllegalOperationError,
    InsufficientResourcesError,
    OperationNotFoundError,
    QueueNotFoundError,
)
from tiercel.model.identifiers import lookup_id_sequence
from tiercel.model.queue_name import parse_queue_name, short_queue_name
from tiercel.security.access import Token

Json = dict[str, Any]

TRASH: Final = "trash"
MOVE: Final = "move"
REPLAY: Final = "replay"
_MOVES: Final = frozenset({MOVE, REPLAY})  # operations whose messages are in other queues, not in the trash
TRASH_S: Final = 86_400  # how long a deletion can be undone
TRASH_BYTES: Final = 256 << 20  # of all trash together
_SLICE: Final = 100  # messages per commit
_SHOWN: Final = 5  # messages of a dry run
_SYSTEM: Final = r".\system$"


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """Without lookup ids, the messages in queue order, at most `limit`; none that came after `plan`."""

    queue: str
    who: str
    lookup_ids: tuple[int, ...] | None = None
    limit: int | None = None
    plan: int | None = None
    dry_run: bool = False


class Operations:
    def __init__(self, runner: Runner, trash_s: int = TRASH_S, trash_bytes: int = TRASH_BYTES) -> None:
        self._runner = runner
        self.trash_s = trash_s
        self.trash_bytes = trash_bytes

    def described(self, row: OperationRow) -> Json:
        return described(row, self.trash_s)

    async def delete(self, request: DeleteRequest) -> Json:
        """Moves messages to the trash; a dry run only counts them, and its plan bounds the real one."""
        plan = await self._runner.call(lambda engine: _plan(engine, request))
        if request.dry_run:
            return plan.as_json(self.trash_bytes)
        if plan.size_bytes + plan.trash_bytes > self.trash_bytes:
            raise InsufficientResourcesError(
                "trash",
                problem="the messages do not fit, so deleting them could not be undone",
                present=f"{plan.trash_bytes} bytes, {plan.size_bytes} more requested",
                limit=f"{self.trash_bytes} bytes",
                fix="purge the queue, or delete fewer messages at once",
            )
        row = await self._runner.call(
            lambda engine: engine.operations.begin("delete", plan.path, request.who)
        )
        at, left, is_last, token = -1, plan.count, False, self._runner.driver.token
        while left > 0 and not is_last:
            step = partial(_throw, plan=plan, row=row, after=at, left=left, token=token)
            at, count, is_last = await self._runner.call(step)
            left -= count
        if not row.parts:  # nothing was there
            await self._runner.call(partial(_close, row=row, state=OperationState.FINISHED))
        return self.described(row)

    async def undo(self, number: int) -> Json:
        """Puts the messages back that are still in the trash, or where they were moved to."""
        token, part = self._runner.driver.token, 0
        while True:
            step = partial(_undo_part, number=number, part=part, token=token)
            row = await self._runner.call(step)
            if row.state is OperationState.UNDONE:
                return self.described(row)
            part += 1

    async def all(self) -> list[Json]:
        found = await self._runner.call(lambda engine: engine.operations.all())
        return [self.described(each) for each in found]

    async def tend(self) -> None:
        """Empties the trash of operations that are too old to be undone; what was moved stays where it is."""
        due = await self._runner.call(
            lambda engine: [
                each
                for each in engine.operations.all()
                if each.state is OperationState.DONE and each.time + self.trash_s <= engine.seconds
            ]
        )
        token, over = self._runner.driver.token, OperationState.OVER
        for row in due:
            for part in range(1, 1 if row.kind in _MOVES else row.parts + 1):
                await self._runner.call(partial(_empty, row=row, part=part, token=token))
            state = OperationState.FINISHED if row.kind in _MOVES else over
            await self._runner.call(partial(_close, row=row, state=state))
        if due:
            await self._runner.call(lambda engine: engine.operations.forget_oldest())


@dataclass(slots=True)
class _Plan:
    path: str
    newest: int
    chosen: tuple[int, ...] | None
    count: int
    size_bytes: int
    trash_bytes: int
    first: list[str]

    def as_json(self, limit: int) -> Json:
        return {
            "plan": str(self.newest),
            "count": self.count,
            "bytes": self.size_bytes,
            "first": self.first,
            "undoable": self.size_bytes + self.trash_bytes <= limit,
        }


def _plan(engine: Engine, request: DeleteRequest) -> _Plan:
    state = queue_lookup.find(engine, request.queue)
    check_has_trash(state)
    newest = engine.browsing.newest(state)
    if request.plan is not None:
        newest = min(request.plan, newest)
    chosen = request.lookup_ids
    count = state.count if chosen is None else len(set(chosen))
    limit = count if request.limit is None else min(count, request.limit)
    share = state.size_bytes if limit >= state.count else state.size_bytes * limit // max(state.count, 1)
    shown: list[str] = []
    for seen in engine.browsing.in_order(state, -1):
        if len(shown) >= min(_SHOWN, limit):
            break
        if chosen is None or seen.lookup_id in chosen:
            shown.append(str(seen.lookup_id))
        elif seen.lookup_id > max(chosen, default=0):
            break
    path = str(state.queue.pathname)
    return _Plan(path, newest, chosen, limit, share, trash_bytes(engine), shown)


def trash_bytes(engine: Engine) -> int:
    return sum(state.size_bytes for state in engine.queues.all() if is_trash(state))


def is_trash(state: QueueState) -> bool:
    path = state.queue.pathname
    return state.is_subqueue and path is not None and (path.subqueue or "").casefold() == TRASH


def has_trash(state: QueueState) -> bool:
    return not (state.is_outgoing or state.keeps_messages or state.is_subqueue)


def check_has_trash(state: QueueState) -> None:
    if not has_trash(state):
        problem = "only queues of applications have a trash: deleting from this one cannot be undone"
        raise IllegalOperationError(str(state), problem=problem, fix="purge it instead")


@contextmanager
def opened_trash(engine: Engine, state: QueueState, token: Token, *, to_take: bool) -> Iterator[OpenQueue]:
    """The trash of a queue, made if there is none."""
    name = parse_queue_name(f"{short_queue_name(str(state.queue.pathname))};{TRASH}")
    access = QueueAccess.RECEIVE if to_take else QueueAccess.MOVE
    opened = engine.opening.open(name, access, token=token)
    try:
        yield opened
    finally:
        engine.opening.close(opened)


@contextmanager
def _opened(engine: Engine, state: QueueState, token: Token) -> Iterator[OpenQueue]:
    opened = open_to_take(engine, state, token)
    try:
        yield opened
    finally:
        engine.opening.close(opened)


def _throw(
    engine: Engine, plan: _Plan, row: OperationRow, after: int, left: int, token: Token
) -> tuple[int, int, bool]:
    """One commit: where it has come to, how many messages it took, and whether there are no more."""
    state = queue_lookup.find(engine, plan.path)
    taken: list[int] = []
    size, at, is_last = 0, after, True
    chosen = None if plan.chosen is None else frozenset(plan.chosen)
    picked: list[int] = []
    for seen in engine.browsing.in_order(state, after):
        at = seen.lookup_id
        is_wanted = chosen is None or at in chosen
        if is_wanted and not seen.is_locked and lookup_id_sequence(at) <= plan.newest:
            picked.append(at)
        if len(picked) >= min(_SLICE, left):
            is_last = False
            break
    if picked:
        with (
            _opened(engine, state, token) as source,
            opened_trash(engine, state, token, to_take=False) as trash,
        ):
            for lookup_id in picked:
                size += engine.moving.throw_away(source, lookup_id, trash)
                taken.append(lookup_id)
        engine.operations.add(row, taken, size)
    return at, len(taken), is_last


def throw_one(engine: Engine, state: QueueState, lookup_id: int, row: OperationRow, token: Token) -> None:
    """Deletes one message so that it can be undone, in the running batch."""
    with _opened(engine, state, token) as source, opened_trash(engine, state, token, to_take=False) as trash:
        size = engine.moving.throw_away(source, lookup_id, trash)
    engine.operations.add(row, [lookup_id], size)


def _to_undo(engine: Engine, number: int) -> OperationRow:
    row = engine.operations.get(number)
    if row is None:
        raise OperationNotFoundError(f"operation {number}")
    if row.state is not OperationState.DONE:
        problem = f"it cannot be undone: it is {row.state} already"
        raise IllegalOperationError(f"operation {number}", problem=problem, fix="see GET /operations")
    return row


def _undo_part(engine: Engine, number: int, part: int, token: Token) -> OperationRow:
    """The messages of one part; part 0 only checks. The last one ends the operation."""
    row = _to_undo(engine, number)
    if part and row.kind in _MOVES:
        with suppress(QueueNotFoundError):  # their old queue was deleted
            _move_back(engine, row, engine.operations.moved_part(row, part), token)
    elif part:
        _put_back(engine, row, engine.operations.part(row, part), token)
    if part == row.parts:
        engine.operations.close(row, OperationState.UNDONE)
    else:
        engine.operations.save(row)
    return row


def _put_back(engine: Engine, row: OperationRow, lookup_ids: list[int], token: Token) -> None:
    home = queue_lookup.find(engine, row.queue)
    with _opened_home(engine, row, token) as goal, opened_trash(engine, home, token, to_take=True) as trash:
        for lookup_id in lookup_ids:
            row.restored += engine.moving.put_back(trash, lookup_id, goal)


def _move_back(engine: Engine, row: OperationRow, moved: Sequence[Moved], token: Token) -> None:
    with _opened_home(engine, row, token) as goal:
        for slot, group in groupby(moved, key=lambda each: each.slot):
            state = engine.queues.by_slot(slot) or _made_again(engine, row.request["to"])
            if state is None:  # deleted since, or a subqueue that has become empty
                continue
            with _opened(engine, state, token) as source:
                for each in group:
                    row.restored += engine.moving.move_back(source, each, goal)


def _made_again(engine: Engine, name: str | None) -> QueueState | None:
    """A subqueue that was empty in between; lookup ids are unique in a queue manager."""
    return None if name is None else engine.queues.find(parse_queue_name(name))


@contextmanager
def _opened_home(engine: Engine, row: OperationRow, token: Token) -> Iterator[OpenQueue]:
    """The queue that the messages came from; a subqueue that has become empty is made again."""
    name = parse_queue_name(short_queue_name(row.queue))
    goal = engine.opening.open(name, QueueAccess.MOVE, token=token)
    try:
        yield goal
    finally:
        engine.opening.close(goal)


def _empty(engine: Engine, row: OperationRow, part: int, token: Token) -> None:
    """Ends messages for good; a queue that was deleted has taken its trash along."""
    state = engine.queues.find(parse_queue_name(row.queue))
    if state is None:
        return
    with opened_trash(engine, state, token, to_take=True) as trash:
        queue = trash.queue_for(QueueAccess.RECEIVE)
        for lookup_id in engine.operations.part(row, part):
            engine.purging.end_one(queue, lookup_id, MessageClass.NACK_Q_PURGED)


def _close(engine: Engine, row: OperationRow, state: OperationState) -> None:
    engine.operations.close(row, state)


def described(row: OperationRow, trash_s: int = TRASH_S) -> Json:
    request = {name: value for name, value in row.request.items() if value is not None}
    return {
        "id": str(row.number),
        "kind": row.kind,
        "queue": _shown(row.queue),
        "who": row.who,
        "time": time_text(row.time),
        "state": str(row.state),
        "count": row.count,
        "bytes": row.size_bytes,
        "restored": row.restored,
        "note": row.note,
        "undo_until": time_text(row.time + trash_s) if row.state is OperationState.DONE else None,
        "request": request,
        "looked": row.looked,
        "total": row.total,
        "next": str(row.next) if row.is_unfinished else None,
    }


def _shown(name: str) -> str:
    """A queue as people type it: orders, ;deadletter, or a format name."""
    if "=" in name:
        return name
    short = short_queue_name(name)
    return short.removeprefix(_SYSTEM).lower() if short.startswith(_SYSTEM) else short
