"""Edit and resend: a changed copy of a message is sent, and the original is deleted, in one commit."""

from dataclasses import dataclass
from typing import Any, Final

from tiercel.admin import queue_lookup
from tiercel.admin.browsing import message_of
from tiercel.admin.message_json import READ_ONLY, Json, from_json, to_json
from tiercel.admin.operations import has_trash, throw_one
from tiercel.admin.queues import open_to_take
from tiercel.admin.runner import Runner
from tiercel.admin.transfers import Goals, send_in_batch
from tiercel.engine.browsing import Seen
from tiercel.engine.engine import Engine
from tiercel.engine.queue_state import QueueState
from tiercel.model.errors import (
    InvalidParameterError,
    MessageAlreadyReceivedError,
    MessageNotFoundError,
    SharingViolationError,
)
from tiercel.model.identifiers import lookup_id_sequence
from tiercel.model.message import Message
from tiercel.model.queue_name import parse_queue_name
from tiercel.security.access import Token

# The body in its other forms: a change of one replaces the others.
_BODIES: Final = frozenset({"body", "text", "json"})
_SHOWN: Final = 200  # characters of a value in the audited difference


@dataclass(frozen=True, slots=True)
class EditRequest:
    """`changes` are properties as JSON; null sets one to its default. Without `to`, its own destination."""

    queue: str
    lookup_id: int
    changes: dict[str, Any]
    to: str | None
    who: str
    keep: bool = False
    transactional: bool | None = None


class Editing:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def edit(self, request: EditRequest) -> Json:
        """The id of the new message, and the properties that differ from the original."""
        token = self._runner.driver.token
        return await self._runner.call(lambda engine: _edit(engine, request, token))


def _edit(engine: Engine, request: EditRequest, token: Token) -> Json:
    source = queue_lookup.find(engine, request.queue)
    seen = _find(engine, source, request.lookup_id)
    original = message_of(seen.lookup_id, seen.record)
    edited = _edited(original, request.changes)
    goals = Goals(engine, token, source, moves=False)
    try:
        same = request.to is None and not source.keeps_messages and not source.is_outgoing
        if same or (request.to is not None and queue_lookup.is_same(engine, source, request.to)):
            goal = goals.itself(source.parent or source)
        elif request.to is None:
            goal = goals.own(seen)
        else:
            goal = goals.named(parse_queue_name(request.to))
        identifier = send_in_batch(engine, goal, edited, original, request.transactional)
        operation = None if request.keep else _take_away(engine, source, seen, request, token)
    finally:
        goals.close()
    return {
        "id": str(identifier),
        "edited_from": str(original.id),
        "changed": difference(original, edited),
        "operation": operation,
    }


def _find(engine: Engine, source: QueueState, lookup_id: int) -> Seen:
    seen = next(engine.browsing.in_order(source, lookup_id - 1), None)
    if seen is None or seen.lookup_id != lookup_id:
        if lookup_id_sequence(lookup_id) > engine.browsing.newest(source):
            raise MessageNotFoundError(f"message {lookup_id} of {source}")
        problem, fix = "it was received, moved or edited meanwhile", "look at the queue again"
        raise MessageAlreadyReceivedError(f"message {lookup_id} of {source}", problem=problem, fix=fix)
    if seen.is_locked:
        problem = "a reader holds it"
        raise SharingViolationError(
            f"message {lookup_id} of {source}", problem=problem, fix="try again later"
        )
    return seen


def _edited(original: Message, changes: dict[str, Any]) -> Message:
    if not changes:
        raise InvalidParameterError("changes", problem="nothing is to be changed", fix="replay it instead")
    fixed = sorted(READ_ONLY & changes.keys())
    if fixed:
        problem = "queue managers set it: it cannot be changed"
        raise InvalidParameterError(f"changes.{fixed[0]}", problem=problem, fix="leave it out")
    values = {name: value for name, value in to_json(original).items() if name not in READ_ONLY}
    if _BODIES & changes.keys():
        values = {name: value for name, value in values.items() if name not in _BODIES}
    values |= changes
    return from_json({name: value for name, value in values.items() if value is not None})


def _take_away(
    engine: Engine, source: QueueState, seen: Seen, request: EditRequest, token: Token
) -> str | None:
    """The original goes to the trash; a copy in a journal or dead-letter queue goes for good."""
    if has_trash(source):
        row = engine.operations.begin("edit", str(source.queue.pathname), request.who)
        throw_one(engine, source, seen.lookup_id, row, token)
        return str(row.number)
    opened = open_to_take(engine, source, token)
    try:
        engine.moving.take_away(opened, seen.lookup_id)
    finally:
        engine.opening.close(opened)
    return None


def difference(original: Message, edited: Message) -> dict[str, list[Any]]:
    """Old and new value of each property that a sender may set and that differs."""
    old, new = to_json(original), to_json(edited)
    names = (old.keys() | new.keys()) - READ_ONLY
    found = {name: [old.get(name), new.get(name)] for name in sorted(names) if old.get(name) != new.get(name)}
    return {name: [_short(each) for each in values] for name, values in found.items()}


def _short(value: Any) -> Any:
    return f"{value[:_SHOWN]}..." if isinstance(value, str) and len(value) > _SHOWN else value
