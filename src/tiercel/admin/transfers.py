"""Moving and copying messages between queues, in slices of one commit each.

A message that moves within this computer keeps its id, and its sender is not notified. To another computer,
and between transactional and non-transactional queues, it is sent as a new message with every property that a
sender may set, in the commit that removes the original.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, Final

from tiercel.admin import queue_lookup
from tiercel.admin.browsing import START, BrowseOptions, Order, message_of, start_of
from tiercel.admin.message_json import READ_ONLY, Json
from tiercel.admin.queues import open_to_take
from tiercel.admin.runner import Runner
from tiercel.engine.browsing import Seen
from tiercel.engine.engine import Engine
from tiercel.engine.handles import OpenQueue
from tiercel.engine.queue_state import QueueState
from tiercel.model.codes import QueueAccess
from tiercel.model.errors import InvalidParameterError, MessageNotFoundError, MqError, QueueNotFoundError
from tiercel.model.format_name import DirectFormatName
from tiercel.model.message import Message
from tiercel.model.queue_name import parse_queue_name

MAX_LIMIT: Final = 10_000
MAX_NAMED: Final = 1000  # lookup ids per request
_SLICE: Final = 100  # messages per commit
_SLICE_BYTES: Final = 1 << 20
_KEPT: Final = [each.name for each in fields(Message) if each.name not in READ_ONLY]


@dataclass(frozen=True, slots=True)
class TransferRequest:
    """`moves`: the originals go; otherwise they stay."""

    queue: str
    to: str
    moves: bool
    after: str = START
    limit: int = 1000
    lookup_ids: tuple[int, ...] | None = None
    transactional: bool | None = None
    dry_run: bool = False


@dataclass(slots=True)
class _Progress:
    at: int
    count: int = 0
    size_bytes: int = 0
    is_over: bool = False
    problem: MqError | None = None

    def done(self, seen: Seen) -> None:
        self.at = seen.lookup_id
        self.count += 1
        self.size_bytes += len(seen.record.packet)


class Transfers:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def run(self, request: TransferRequest) -> Json:
        """Returns the counts; if a message fails, those before it have gone, and the error says how many."""
        progress, newest = await self._runner.call(lambda engine: self._begin(engine, request))
        while not progress.is_over:
            await self._runner.call(lambda engine: self._slice(engine, request, progress, newest))
        if progress.problem is not None:
            word = "moved" if request.moves else "copied"
            progress.problem.problem += f"; {progress.count} messages were {word} before"
            raise progress.problem
        return {
            "count": progress.count,
            "bytes": progress.size_bytes,
            "next": str(progress.at) if progress.count >= request.limit else None,
            "dry_run": request.dry_run,
        }

    def _begin(self, engine: Engine, request: TransferRequest) -> tuple[_Progress, int]:
        """Rejects invalid requests before anything is moved."""
        source = queue_lookup.find(engine, request.queue)
        at = start_of(engine, source, BrowseOptions(Order.QUEUE), request.after, None)
        if engine.queues.find(parse_queue_name(request.to)) is source:
            problem = "it is the source queue itself"
            raise InvalidParameterError(f"to {request.to}", problem=problem, fix="name another queue")
        with self._goal(engine, request, source):
            return _Progress(at), engine.browsing.newest

    def _slice(self, engine: Engine, request: TransferRequest, progress: _Progress, newest: int) -> None:
        source = queue_lookup.find(engine, request.queue)
        with self._goal(engine, request, source) as goal, self._source(engine, source) as opened:
            step = _Step(engine, opened, goal, request)
            before = progress.count, progress.size_bytes
            try:
                for seen in _chosen(engine, source, request, progress):
                    if seen.sequence > newest or seen.is_locked:
                        progress.at = seen.lookup_id
                        continue
                    if not request.dry_run:
                        step.carry(seen)
                    progress.done(seen)
                    is_enough = progress.count >= request.limit
                    if is_enough or progress.count - before[0] >= _SLICE:
                        progress.is_over = is_enough
                        return
                    if progress.size_bytes - before[1] >= _SLICE_BYTES:
                        return
                progress.is_over = True
            except MqError as problem:
                progress.problem, progress.is_over = problem, True

    @contextmanager
    def _source(self, engine: Engine, source: QueueState) -> Iterator[OpenQueue]:
        opened = open_to_take(engine, source, self._runner.driver.token)
        try:
            yield opened
        finally:
            engine.opening.close(opened)

    @contextmanager
    def _goal(self, engine: Engine, request: TransferRequest, source: QueueState) -> Iterator[OpenQueue]:
        name, token = parse_queue_name(request.to), self._runner.driver.token
        is_subqueue = isinstance(name, DirectFormatName) and name.subqueue is not None
        goes_home = source.is_subqueue and engine.queues.find(name) is source.parent
        access = QueueAccess.MOVE if request.moves and (is_subqueue or goes_home) else QueueAccess.SEND
        try:
            opened = engine.opening.open(name, access, token=token)
        except QueueNotFoundError:
            raise queue_lookup.not_found(engine, name) from None
        try:
            yield opened
        finally:
            engine.opening.close(opened)


class _Step:
    """The work of one commit."""

    def __init__(self, engine: Engine, opened: OpenQueue, goal: OpenQueue, request: TransferRequest) -> None:
        self._engine = engine
        self._opened = opened
        self._goal = goal
        self._moves = request.moves
        state = goal.state
        knows = request.transactional is None and state is not None
        self._is_transactional = state.queue.transactional if knows and state else bool(request.transactional)

    def carry(self, seen: Seen) -> None:
        """Moves or copies one message; raises without effect."""
        engine, lookup_id = self._engine, seen.lookup_id
        if self._goal.access is QueueAccess.MOVE:
            engine.moving.move(self._opened, lookup_id, self._goal)
            return
        if self._moves and engine.moving.hand_over(self._opened, lookup_id, self._goal):
            return
        self._send(_anew(message_of(lookup_id, seen.record)))
        if self._moves:
            engine.moving.take_away(self._opened, lookup_id)

    def _send(self, message: Message) -> None:
        if not self._is_transactional:
            self._engine.sending.send(self._goal, message)
            return
        transaction = self._engine.transactions.begin()
        try:
            self._engine.sending.send(self._goal, message, transaction)
            self._engine.transactions.commit(transaction.id)
        except MqError:
            self._engine.transactions.abort_if_active(transaction)
            raise


def _chosen(
    engine: Engine, source: QueueState, request: TransferRequest, progress: _Progress
) -> Iterator[Seen]:
    if request.lookup_ids is None:
        yield from engine.browsing.in_order(source, progress.at)
        return
    for lookup_id in request.lookup_ids[progress.count :]:
        seen = next(engine.browsing.in_order(source, lookup_id - 1), None)
        if seen is None or seen.lookup_id != lookup_id or seen.is_locked:
            raise MessageNotFoundError(f"message {lookup_id} of {source}")
        yield seen


def _anew(message: Message) -> Message:
    """A new message with every property that a sender may set."""
    kept: dict[str, Any] = {name: getattr(message, name) for name in _KEPT}
    return Message(**kept)
