"""Operations on queues: list, create, change, purge, delete."""

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from typing import Any, Final
from uuid import UUID

from tiercel.admin import queue_lookup
from tiercel.admin.message_json import time_text
from tiercel.admin.runner import Runner
from tiercel.admin.samples import Samples
from tiercel.admin.sources import name_matches, name_of
from tiercel.engine.attributes import SETTABLE, SETTABLE_OF_MANAGER, Settable
from tiercel.engine.engine import Engine
from tiercel.engine.handles import OpenQueue
from tiercel.engine.queue_state import QueueState
from tiercel.model.codes import OutgoingQueueState, QueueAccess, QueueAccessMask, QueuePrivacyLevel, QueueType
from tiercel.model.errors import (
    DecodeError,
    IllegalOperationError,
    IllegalPropertyValueError,
    IllegalSecurityDescriptorError,
    PropertyNotAllowedError,
    QueueExistsError,
)
from tiercel.model.limits import INFINITE
from tiercel.model.path_name import shown
from tiercel.model.queue import OutgoingQueue
from tiercel.model.queue_name import parse_new_queue_name, short_queue_name
from tiercel.security.access import Token
from tiercel.security.descriptor import SecurityDescriptor

Json = dict[str, Any]

_LISTED: Final = 100  # queues described per turn
_ENDED: Final = 500  # messages purged per turn


class QueueKind(StrEnum):
    PRIVATE = "private"
    PUBLIC = "public"
    SYSTEM = "system"
    OUTGOING = "outgoing"
    SUBQUEUE = "subqueue"
    JOURNAL = "journal"


_ALL: Final = frozenset(QueueKind)
DEFAULT_KINDS: Final = (QueueKind.PRIVATE, QueueKind.PUBLIC, QueueKind.OUTGOING, QueueKind.SUBQUEUE)


def kind_of(state: QueueState) -> QueueKind:
    if state.is_outgoing:
        return QueueKind.OUTGOING
    if state.keeps_messages:
        return QueueKind.SYSTEM if state.parent is None else QueueKind.JOURNAL
    if state.is_subqueue:
        return QueueKind.SUBQUEUE
    return QueueKind.PUBLIC if state.queue.queue_type is QueueType.PUBLIC else QueueKind.PRIVATE


class Queues:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.samples = Samples()

    def sample(self) -> Awaitable[None]:
        return self._runner.call(
            lambda engine: self.samples.take(int(engine.seconds), matching(engine, None, _ALL))
        )

    async def sampled(self, queue: str, step_s: int) -> list[Json]:
        rows = await self._runner.call(
            lambda engine: self.samples.of(queue_lookup.find(engine, queue), step_s)
        )
        return [row | {"time": time_text(row["time"])} for row in rows]

    async def listed(self, pattern: str | None, kinds: Iterable[QueueKind], *, depths: int = 0) -> list[Json]:
        """`depths` is the number of points for a small chart of each queue."""
        wanted = frozenset(kinds)
        found = await self._runner.call(lambda engine: list(matching(engine, pattern, wanted)))
        rows: list[Json] = []
        for start in range(0, len(found), _LISTED):
            part = found[start : start + _LISTED]
            rows += await self._runner.call(partial(self._described, part, depths))
        return rows

    def _described(self, states: list[QueueState], depths: int, engine: Engine) -> list[Json]:
        rows = []
        for state in states:
            if not state.is_deleted:
                row = described(engine, state) | self.flow(state)
                rows.append(row | ({"depths": self.samples.depths(state, depths)} if depths else {}))
        return rows

    def flow(self, state: QueueState) -> Json:
        """Messages that came in and left since the start, and per second."""
        rates = self.samples.rates(state)
        return {
            "in_total": state.entered,
            "out_total": state.left,
            "in_rate": rates.entered,
            "out_rate": rates.left,
        }

    async def get(self, queue: str) -> Json:
        return await self._runner.call(
            lambda engine: with_properties(engine, queue_lookup.find(engine, queue))
        )

    async def create(
        self, queue: str, properties: Json, *, transactional: bool, exist_ok: bool
    ) -> tuple[Json, bool]:
        """The queue, and whether it is new."""
        path, owner = parse_new_queue_name(queue), self._runner.driver.owner
        attributes = attributes_of(properties, SETTABLE)

        def command(engine: Engine) -> tuple[Json, bool]:
            try:
                state = engine.queues.create(path, owner, transactional=transactional, **attributes)
            except QueueExistsError:
                if not exist_ok:
                    raise
                return with_properties(engine, queue_lookup.find(engine, queue)), False
            return with_properties(engine, state), True

        return await self._runner.call(command)

    async def change(self, queue: str, properties: Json) -> Json:
        attributes, token = attributes_of(properties, SETTABLE), self._runner.driver.token

        def command(engine: Engine) -> Json:
            state = queue_lookup.find(engine, queue)
            if kind_of(state) not in {QueueKind.PRIVATE, QueueKind.PUBLIC}:
                problem = f"a {kind_of(state)} queue has no properties of its own"
                raise IllegalOperationError(str(state), problem=problem, fix="change the queue it belongs to")
            engine.queues.set_properties(state, token, **attributes)
            return with_properties(engine, state)

        return await self._runner.call(command)

    async def delete(self, queue: str, *, dry_run: bool) -> Json:
        """A long queue is purged first, in slices: deleting it at once would block the event loop."""
        counts, parts = await self._runner.call(lambda engine: _counts_to_delete(engine, queue))
        if dry_run:
            return counts
        for part in parts:
            await self.purge(part, dry_run=False)
        token = self._runner.driver.token
        await self._runner.call(lambda engine: engine.queues.delete(queue_lookup.find(engine, queue), token))
        return counts

    async def purge(self, queue: str, *, dry_run: bool) -> Json:
        """Ends the messages present now, not later arrivals; locked messages end when they are given back."""
        size = 0

        def begin(engine: Engine) -> tuple[Json, int]:
            state = queue_lookup.find(engine, queue)
            locked = len(state.locks)
            counts = {"count": state.count - locked, "bytes": state.size_bytes, "locked": locked}
            return counts, engine.browsing.newest(state)

        def command(engine: Engine) -> tuple[int, int]:
            state = queue_lookup.find(engine, queue)
            before = state.size_bytes
            opened = open_to_take(engine, state, self._runner.driver.token)
            try:
                return engine.purging.purge(opened, newest=newest, limit=_ENDED), before - state.size_bytes
            finally:
                engine.opening.close(opened)

        before, newest = await self._runner.call(begin)
        if dry_run:
            return before
        count = 0
        while True:
            ended, freed = await self._runner.call(command)
            count, size = count + ended, size + freed
            if ended < _ENDED:
                return {"count": count, "bytes": size, "locked": before["locked"]}
            await asyncio.sleep(0)  # others have a turn


def open_to_take(engine: Engine, state: QueueState, token: Token) -> OpenQueue:
    """Opens the queue for receiving, even an outgoing one."""
    access = QueueAccess.RECEIVE_ADMIN if state.is_outgoing else QueueAccess.RECEIVE
    return engine.opening.open(engine.queues.format_name(state), access, token=token)


def _counts_to_delete(engine: Engine, queue: str) -> tuple[Json, list[str]]:
    """What deleting a queue would end, and which parts are too long for one turn."""
    state = queue_lookup.find(engine, queue)
    if kind_of(state) in {QueueKind.OUTGOING, QueueKind.JOURNAL, QueueKind.SYSTEM}:
        fix = "purge it" if state.keeps_messages else "purge it: an empty outgoing queue goes away by itself"
        raise IllegalOperationError(
            str(state), problem=f"a queue of the kind {kind_of(state)} cannot be deleted", fix=fix
        )
    journal = state.journal
    doomed = [state, *state.subqueues.values(), *([] if journal is None else [journal])]
    if any(engine.transactions.is_in_doubt(each) for each in doomed):
        problem = "a prepared transaction still uses it"
        raise IllegalOperationError(str(state), problem=problem, fix="commit or abort that transaction first")
    counts = {"count": sum(each.count for each in doomed), "bytes": sum(each.size_bytes for each in doomed)}
    return counts, [str(each.queue.pathname) for each in doomed if each.count > _ENDED]


# Responses.


def matching(engine: Engine, pattern: str | None, kinds: frozenset[QueueKind]) -> Iterator[QueueState]:
    for state in engine.queues.all():
        if engine.queues.is_internal(state):
            continue
        family = [state] if state.journal is None else [state, state.journal]
        for each in family:
            if kind_of(each) in kinds and (pattern is None or name_matches(name_of(engine, each), pattern)):
                yield each


def described(engine: Engine, state: QueueState) -> Json:
    """A queue as listed."""
    queue, journal = state.queue, state.journal
    row: Json = {
        "path_name": name_of(engine, state),
        "name": name_of(engine, state) if state.is_outgoing else short_queue_name(str(queue.pathname)),
        "format_name": str(engine.queues.format_name(state)),
        "kind": kind_of(state),
        "label": queue.label,
        "transactional": queue.transactional,
        "authentication": queue.authentication,
        "privacy_level": QueuePrivacyLevel(queue.privacy_level).name.lower(),
        "journaling": queue.journaling,
        "quota_kib": _limit(queue.quota_kib),
        "count": state.count,
        "bytes": state.size_bytes,
        "journal_count": 0 if journal is None else journal.count,
        "journal_bytes": 0 if journal is None else journal.size_bytes,
        "oldest_arrival": time_text(engine.browsing.oldest_arrival(state)),
        "claimed": state.claimed_count,
        "locked": len(state.locks),
        "paused": is_paused(state),
    }
    if isinstance(queue, OutgoingQueue):
        row |= {"state": queue.state.name.lower(), "next_hops": queue.next_hops or []}
    return row


def with_properties(engine: Engine, state: QueueState) -> Json:
    """A queue with all of its properties."""
    queue = state.queue
    return described(engine, state) | {
        "guid": str(queue.identifier),
        "created": time_text(queue.create_time),
        "modified": time_text(queue.modify_time),
        "type": str(queue.type),
        "journal_quota_kib": _limit(queue.journal_quota_kib),
        "base_priority": queue.base_priority,
        "multicast_address": queue.multicast_address,
        "security": None if queue.security is None else _sddl(queue.security),
        "subqueues": sorted(str(each.queue.pathname) for each in state.subqueues.values()),
        "open_handles": len(state.handles),
        "waiting_readers": len(state.waiters),
    }


def is_paused(state: QueueState) -> bool:
    return isinstance(state.queue, OutgoingQueue) and state.queue.state is OutgoingQueueState.ON_HOLD


def _limit(number: int) -> int | None:
    return None if number == INFINITE else number


def _sddl(security: bytes) -> str:
    return SecurityDescriptor.decode(security).text(QueueAccessMask)


# Requests.


def attributes_of(properties: Mapping[str, Any], settable: Settable) -> Json:
    """Attributes for the engine; unknown names and invalid values are rejected in terms of the JSON."""
    return {name: _attribute(name, value, settable) for name, value in properties.items()}


def _attribute(name: str, value: Any, settable: Settable) -> Any:
    kinds = settable.get(name)
    if kinds is None:
        near = difflib.get_close_matches(name, settable, 1)
        fix = f"perhaps {near[0]} is meant" if near else f"there are {', '.join(settable)}"
        raise PropertyNotAllowedError(f"property {shown(name[:60])}", problem="it cannot be set", fix=fix)
    if name.endswith("_kib") and value is None:
        return INFINITE
    try:
        return _READERS.get(name, _same)(value)
    except (ValueError, KeyError, TypeError, AttributeError, DecodeError) as problem:
        wanted = _WANTED[name]
        if name == "security":
            raise IllegalSecurityDescriptorError("property security", problem=str(problem)) from problem
        raise IllegalPropertyValueError(
            f"property {name}", present=shown(repr(value)[:60]), limit=wanted, fix=f"give {wanted}"
        ) from problem


def _same(value: Any) -> Any:
    return value


_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "type": UUID,
    "privacy_level": lambda value: QueuePrivacyLevel[value.upper()],
    "security": lambda value: SecurityDescriptor.parse(value, QueueAccessMask).encode(),
    "out_routing_server_identifier_list": lambda value: [UUID(each) for each in value],
    "in_routing_server_identifier_list": lambda value: [UUID(each) for each in value],
}
_WANTED: Final = {
    "type": "a GUID",
    "privacy_level": "none, optional or body",
    "security": "a security descriptor in SDDL",
    "out_routing_server_identifier_list": "a list of GUIDs",
    "in_routing_server_identifier_list": "a list of GUIDs",
}


# The queue manager itself.


def manager_properties(engine: Engine) -> Json:
    manager = engine.queue_manager
    return {name: _plain(name, getattr(manager, name)) for name in SETTABLE_OF_MANAGER}


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [str(each) for each in value]
    return _limit(value) if name.endswith("_kib") else value


def discards(engine: Engine, before: int | None, limit: int) -> list[Json]:
    """Lines of the discard ledger before line `before`, newest first."""
    return [
        {
            "line": number,
            "time": time_text(line.time),
            "queue": line.queue,
            "id": line.message_id,
            "label": line.label,
            "size": line.size,
            "class": line.message_class,
            "reason": line.reason,
        }
        for number, line in engine.ledger.newest(before, limit)
    ]
