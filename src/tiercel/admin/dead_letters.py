"""Dead letters by cause: which reason, for which queue, and what to do about it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import takewhile
from typing import Any, Final

from tiercel.admin import queue_lookup
from tiercel.admin.message_filter import destination_name, filter_of
from tiercel.admin.message_json import time_text
from tiercel.admin.runner import Runner
from tiercel.engine.browsing import LAST_SEQUENCE, Seen
from tiercel.engine.engine import Engine
from tiercel.model.codes import MessageClass, class_meaning, message_class
from tiercel.wire.user_message import UserMessage

Json = dict[str, Any]

QUEUES: Final = (";deadletter", ";deadxact")
MAX_LOOKED: Final = 20_000  # dead letters per request
_SLICE: Final = 200  # messages per turn: about 5 ms
_SHOWN_IDS: Final = 1000  # lookup ids of a group, for a replay

_FIXES: Final = {
    MessageClass.NACK_BAD_DST_Q: "create the queue on the destination computer, then replay",
    MessageClass.NACK_DELETED: "it was deleted on purpose; replay it if that was a mistake",
    MessageClass.NACK_REACH_QUEUE_TIMEOUT: (
        "make the destination computer reachable (`tiercel outgoing` says why it is not), then replay; "
        "or send with a longer time to reach the queue"
    ),
    MessageClass.NACK_Q_EXCEED_QUOTA: "empty the queue or raise its quota, then replay",
    MessageClass.NACK_ACCESS_DENIED: "allow the sender to write to the queue, then replay",
    MessageClass.NACK_HOP_COUNT_EXCEEDED: "correct the routes between the computers: they form a loop",
    MessageClass.NACK_BAD_SIGNATURE: "sign the messages, or trust the sender's certificate (`tiercel trust`)",
    MessageClass.NACK_BAD_ENCRYPTION: "let the sender fetch the public key of the destination again",
    MessageClass.NACK_COULD_NOT_ENCRYPT: "give the sender the public key of the destination",
    MessageClass.NACK_NOT_TRANSACTIONAL_Q: "send without a transaction, or use a transactional queue",
    MessageClass.NACK_NOT_TRANSACTIONAL_MSG: "send in a transaction, or use a non-transactional queue",
    MessageClass.NACK_MESSAGE_TOO_LARGE: "send a smaller body: a message has at most 4 MB",
    MessageClass.NACK_Q_DELETED: "create the queue again, then replay",
    MessageClass.NACK_Q_PURGED: "it was purged on purpose; replay it if that was a mistake",
    MessageClass.NACK_RECEIVE_TIMEOUT: (
        "start the receiver, then replay; or send with a longer time to be received"
    ),
    MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER: (
        "make the destination computer reachable, then replay; or send with a longer time to be received"
    ),
    MessageClass.NACK_RECEIVE_REJECTED: "correct the message or the receiver, then replay",
}


def fix_of(code: int) -> str:
    """What to do about a message that ended with this class; "" if nothing is known to help."""
    known = message_class(code)
    return _FIXES.get(known, "") if isinstance(known, MessageClass) else ""


class GroupBy(StrEnum):
    REASON = "reason"
    QUEUE = "queue"  # the destination


@dataclass(slots=True)
class _Group:
    reason: int
    destination: str
    count: int = 0
    size_bytes: int = 0
    first: int = 0
    last: int = 0
    lookup_ids: dict[str, list[str]] = field(default_factory=dict)  # by dead-letter queue
    counts: Counter[str] = field(default_factory=Counter)  # by dead-letter queue

    def add(self, queue: str, seen: Seen) -> None:
        arrival = seen.record.arrival_time
        self.first = min(self.first, arrival) if self.count else arrival
        self.last = max(self.last, arrival)
        self.count += 1
        self.size_bytes += len(seen.record.packet)
        self.counts[queue] += 1
        ids = self.lookup_ids.setdefault(queue, [])
        if len(ids) < _SHOWN_IDS:
            ids.append(str(seen.lookup_id))


class DeadLetters:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def grouped(self, by: Iterable[GroupBy]) -> Json:
        """The newest dead letters of both queues, in groups, the largest first."""
        by, looked = frozenset(by), Counter[str]()
        groups: dict[tuple[int, str], _Group] = {}
        total = 0
        for queue in QUEUES:
            total += await self._runner.call(lambda engine: queue_lookup.find(engine, queue).count)  # noqa: B023
            at = LAST_SEQUENCE
            while looked[queue] < MAX_LOOKED // len(QUEUES):
                part, at = await self._newest_before(queue, at)
                for each in part:
                    _add(groups, by, queue, each)
                looked[queue] += len(part)
                if len(part) < _SLICE:
                    break
        rows = sorted(groups.values(), key=lambda group: (-group.count, group.destination))
        return {"groups": [_row(each, by) for each in rows], "looked": looked.total(), "total": total}

    async def _newest_before(self, queue: str, end: int) -> tuple[list[Seen], int]:
        def command(engine: Engine) -> tuple[list[Seen], int]:
            state = queue_lookup.find(engine, queue)
            begin = engine.browsing.before_last(state, _SLICE, end)
            return list(
                takewhile(lambda seen: seen.sequence <= end, engine.browsing.by_arrival(state, begin))
            ), begin

        return await self._runner.call(command)


def _add(groups: dict[tuple[int, str], _Group], by: frozenset[GroupBy], queue: str, seen: Seen) -> None:
    reason = seen.record.reason if GroupBy.REASON in by else 0
    goal = destination_name(UserMessage(seen.record.packet)) if GroupBy.QUEUE in by else ""
    key = reason, goal.casefold()  # as filters and queue managers compare names
    group = groups.get(key)
    if group is None:
        group = groups[key] = _Group(reason, goal)
    group.add(queue, seen)


def _row(group: _Group, by: frozenset[GroupBy]) -> Json:
    known = message_class(group.reason)
    return {
        "class": known.name.lower() if isinstance(known, MessageClass) and group.reason else None,
        "reason": class_meaning(group.reason) if group.reason else "",
        "fix": fix_of(group.reason),
        "destination": group.destination,
        "count": group.count,
        "bytes": group.size_bytes,
        "first": time_text(group.first),
        "last": time_text(group.last),
        "lookup_ids": group.lookup_ids,
        "queues": dict(group.counts),
        "filter": filter_of(
            group.reason if GroupBy.REASON in by else None,
            group.destination if GroupBy.QUEUE in by else None,
        ),
    }
