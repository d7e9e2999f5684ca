"""Moving, copying and replaying messages between queues, in slices of one commit each.

A message that moves within this computer keeps its id, and its sender is not notified. To another computer,
and between transactional and non-transactional queues, it is sent as a new message with every property that a
sender may set, in the commit that removes the original. Another computer's queue gets it as it was: a
transactional message is sent in a transaction. One that is moved there asks for its dead letter: it returns
if it cannot be delivered, and a transactional one also if the other computer refuses it.

A dead letter, or a copy in a journal, becomes a message again when it is moved. Replaying moves each message
to the queue that it was sent to. A move or replay can be undone if that is asked for: an operation then keeps
the old places of messages that stayed on this computer with their id.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from tiercel.admin import queue_lookup
from tiercel.admin.browsing import START, BrowseOptions, Order, message_of, start_of
from tiercel.admin.message_json import Json
from tiercel.admin.operations import MOVE
from tiercel.admin.queues import open_to_take
from tiercel.admin.runner import Runner
from tiercel.admin.sources import name_of
from tiercel.engine.browsing import Seen
from tiercel.engine.engine import Engine
from tiercel.engine.handles import OpenQueue
from tiercel.engine.operations import Moved, OperationRow, OperationState
from tiercel.engine.queue_state import QueueState
from tiercel.model.codes import QueueAccess
from tiercel.model.errors import (
    IllegalOperationError,
    InvalidParameterError,
    MessageNotFoundError,
    MqError,
    OperationNotFoundError,
    QueueNotFoundError,
)
from tiercel.model.format_name import DirectFormatName, FormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message, anew
from tiercel.model.queue_name import parse_queue_name
from tiercel.security.access import Token
from tiercel.wire.message import decode_destination
from tiercel.wire.user_message import UserMessage

MAX_LIMIT: Final = 10_000
MAX_NAMED: Final = 1000  # lookup ids per request
_SLICE: Final = 100  # messages per commit
_SLICE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class TransferRequest:
    """`moves`: the originals go; otherwise they stay. Without `to`, each goes to its own destination."""

    queue: str
    to: str | None
    moves: bool
    after: str = START
    limit: int = 1000
    lookup_ids: tuple[int, ...] | None = None
    transactional: bool | None = None
    dry_run: bool = False
    who: str = ""
    can_undo: bool = False
    operation: int | None = None  # the one of an earlier request, which this one goes on with
    kind: str = MOVE  # of the operation that can be undone
    same_id: bool = False  # refuses a message that would get a new id


@dataclass(slots=True)
class _Progress:
    at: int
    count: int = 0
    size_bytes: int = 0
    is_over: bool = False
    problem: MqError | None = None
    operation: OperationRow | None = None

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
            "operation": None if progress.operation is None else str(progress.operation.number),
        }

    def _begin(self, engine: Engine, request: TransferRequest) -> tuple[_Progress, int]:
        """Rejects invalid requests before anything is moved."""
        source = queue_lookup.find(engine, request.queue)
        at = start_of(engine, source, BrowseOptions(Order.QUEUE), request.after, None)
        if request.to is not None:
            with self._goals(engine, request, source) as goals:
                goals.named(parse_queue_name(request.to))
        earlier = None if request.operation is None else _earlier(engine, request, source)
        return _Progress(at, operation=earlier), engine.browsing.newest(source)

    def _slice(self, engine: Engine, request: TransferRequest, progress: _Progress, newest: int) -> None:
        source = queue_lookup.find(engine, request.queue)
        name = name_of(engine, source)  # a subqueue goes away with its last message
        with self._goals(engine, request, source) as goals, self._source(engine, source) as opened:
            step = TransferStep(engine, opened, goals, request)
            before = progress.count, progress.size_bytes
            self._carry_slice(step, _chosen(engine, source, request, progress), progress, newest)
            if request.can_undo and step.moved:
                done = progress.count - before[0], progress.size_bytes - before[1]
                progress.operation = _remembered(engine, request, name, progress.operation, step.moved, done)

    def _carry_slice(
        self, step: "TransferStep", chosen: Iterator[Seen], progress: _Progress, newest: int
    ) -> None:
        before, limit = (progress.count, progress.size_bytes), step.request.limit
        try:
            for seen in chosen:
                if seen.sequence > newest or seen.is_locked:
                    progress.at = seen.lookup_id
                    continue
                step.carry(seen)
                progress.done(seen)
                is_enough = progress.count >= limit
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
    def _goals(self, engine: Engine, request: TransferRequest, source: QueueState) -> Iterator["Goals"]:
        goals = Goals(engine, self._runner.driver.token, source, moves=request.moves)
        try:
            yield goals
        finally:
            goals.close()


def _earlier(engine: Engine, request: TransferRequest, source: QueueState) -> OperationRow:
    """The operation that an earlier request has begun for the same move."""
    row = engine.operations.get(request.operation or 0)
    if row is None:
        raise OperationNotFoundError(f"operation {request.operation}")
    same = (request.kind, name_of(engine, source), request.who, request.to)
    if row.state is not OperationState.DONE or (row.kind, row.queue, row.who, row.request.get("to")) != same:
        problem = f"it is another {request.kind}, or was undone"
        raise InvalidParameterError(f"operation {row.number}", problem=problem, fix="leave it out")
    return row


def _remembered(
    engine: Engine,
    request: TransferRequest,
    queue: str,
    row: OperationRow | None,
    moved: list[Moved],
    done: tuple[int, int],
) -> OperationRow:
    """Writes down the old places, in the commit of the move."""
    row = engine.operations.begin(request.kind, queue, request.who) if row is None else row
    row.request = {"to": request.to}
    row.count, row.size_bytes = row.count + done[0], row.size_bytes + done[1]
    engine.operations.add_moved(row, moved)
    return row


class Goals:
    """The destinations of one commit, each opened once."""

    def __init__(self, engine: Engine, token: Token, source: QueueState, *, moves: bool) -> None:
        self._engine = engine
        self._token = token
        self._source = source
        self._moves = moves
        self._opened: dict[FormatName, OpenQueue] = {}

    def named(self, name: FormatName) -> OpenQueue:
        opened = self._opened.get(name)
        if opened is None:
            opened = self._opened[name] = self._open(name)
        return opened

    def itself(self, state: QueueState) -> OpenQueue:
        """A queue of this computer, which may be the source."""
        name = self._engine.queues.format_name(state)
        opened = self._engine.opening.open(name, QueueAccess.SEND, token=self._token)
        self._opened[name] = opened
        return opened

    def own(self, seen: Seen) -> OpenQueue:
        """The queue that a message was sent to."""
        subject = f"message {seen.lookup_id} of {self._source}"
        name = decode_destination(UserMessage(seen.record.packet))
        if name is None:
            problem = "it does not name the queue that it was sent to"
            raise InvalidParameterError(subject, problem=problem, fix="name a queue")
        try:
            return self.named(self._without_http(name))
        except MqError as problem:
            problem.problem += f" ({subject} was sent to it)"
            raise

    def _without_http(self, name: FormatName) -> FormatName:
        """A queue of this computer by its own name: no message has to leave for it."""
        if not isinstance(name, DirectFormatName) or not name.is_http:
            return name
        queues = self._engine.queues
        found = queues.find_local(name) if queues.is_own_name(name.host) else None
        return name if found is None else queues.format_name(found)

    def _open(self, name: FormatName) -> OpenQueue:
        engine, found = self._engine, self._engine.queues.find(name)
        if found is self._source:
            problem = "it is the source queue itself"
            raise InvalidParameterError(f"to {name}", problem=problem, fix="name another queue")
        is_subqueue = isinstance(name, DirectFormatName) and name.subqueue is not None
        goes_home = self._source.is_subqueue and found is self._source.parent
        access = QueueAccess.MOVE if self._moves and (is_subqueue or goes_home) else QueueAccess.SEND
        try:
            return engine.opening.open(name, access, token=self._token)
        except QueueNotFoundError:
            raise queue_lookup.not_found(engine, name) from None

    def close(self) -> None:
        for opened in self._opened.values():
            self._engine.opening.close(opened)


class TransferStep:
    """The work of one commit."""

    def __init__(self, engine: Engine, opened: OpenQueue, goals: Goals, request: TransferRequest) -> None:
        self._engine = engine
        self._opened = opened
        self._goals = goals
        self.request = request
        self.moved: list[Moved] = []  # what undoing can put back
        self._to = None if request.to is None else parse_queue_name(request.to)

    def carry(self, seen: Seen) -> None:
        """Moves or copies one message, or only checks its destination; raises without effect."""
        goal = self._goals.own(seen) if self._to is None else self._goals.named(self._to)
        if self.request.same_id:
            self._check_same_id(seen, goal)
        if self.request.dry_run:
            return
        place = self._move(seen, goal) if self.request.moves else None
        if place is None:
            self._send(message_of(seen.lookup_id, seen.record), goal)
            if self.request.moves:
                self._engine.moving.take_away(self._opened, seen.lookup_id)
        else:
            self.moved.append(_moved(seen, place, goal))

    def _check_same_id(self, seen: Seen, goal: OpenQueue) -> None:
        packet, source = UserMessage(seen.record.packet), self._opened.queue_for(QueueAccess.RECEIVE)
        states = [state for state in _states(goal) if state is not None]
        moving = self._engine.moving
        if self.request.moves and len(states) == 1 and moving.keeps_id(source, packet, states[0]):
            return
        raise IllegalOperationError(
            f"message {seen.lookup_id} of {source}",
            problem=f"in {goal.format_name} it would be a new message with a new id",
            fix="leave same_id out, or choose a queue of this computer that takes it as it is",
        )

    def _move(self, seen: Seen, goal: OpenQueue) -> int | None:
        """The new lookup id; None if the message has to be sent anew."""
        moving = self._engine.moving
        how = moving.move if goal.access is QueueAccess.MOVE else moving.hand_over
        return how(self._opened, seen.lookup_id, goal)

    def _send(self, original: Message, goal: OpenQueue) -> None:
        message = anew(original)
        if self.request.moves and _leaves(goal) and not message.signature:  # which covers the property
            message.negative_journaling = True  # or nothing is left of it if the other computer refuses it
        send_in_batch(self._engine, goal, message, original, self.request.transactional)


def _moved(seen: Seen, lookup_id: int, goal: OpenQueue) -> Moved:
    record, state = seen.record, goal.queue_for(goal.access)
    sent_time = UserMessage(record.packet).sent_time
    return Moved(
        seen.lookup_id, lookup_id, state.slot, sent_time, record.abort_count, record.reason, record.is_copy
    )


def send_in_batch(
    engine: Engine, goal: OpenQueue, message: Message, original: Message, transactional: bool | None
) -> MessageId:
    """Sends a message made of another one, in a transaction if its goal takes only such."""
    is_transactional = _wanted(goal, original) if transactional is None else transactional
    if not is_transactional:
        return engine.sending.send(goal, message)
    transaction = engine.transactions.begin()
    try:
        identifier = engine.sending.send(goal, message, transaction)
        engine.transactions.commit(transaction.id)
    except MqError:
        engine.transactions.abort_if_active(transaction)
        raise
    return identifier


def _wanted(goal: OpenQueue, original: Message) -> bool:
    """Whether to send in a transaction: as the goal takes it; to another computer, as the original was."""
    if _leaves(goal):
        return original.is_transactional
    return all(state is not None and state.queue.transactional for state in _states(goal))


def _leaves(goal: OpenQueue) -> bool:
    """Whether a message to the goal leaves this computer."""
    return any(state is None or state.is_outgoing for state in _states(goal))


def _states(goal: OpenQueue) -> list[QueueState | None]:
    return [each.state for each in goal.children or (goal,)]


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
