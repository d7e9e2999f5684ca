"""Sources of messages: a queue, its journal, the dead letters, an outgoing queue, the discard ledger."""

from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from tiercel.engine.engine import Engine
from tiercel.engine.queue_state import QueueState
from tiercel.model.errors import InvalidParameterError, QueueNotFoundError
from tiercel.model.path_name import SystemQueue
from tiercel.model.queue_name import parse_queue_name, short_queue_name

Json = dict[str, Any]


class Source(StrEnum):
    QUEUE = "queue"
    JOURNAL = "journal"
    DEADLETTER = "deadletter"
    XACTDEADLETTER = "xactdeadletter"
    OUTGOING = "outgoing"
    DISCARDS = "discards"


_SYSTEM = {
    Source.JOURNAL: SystemQueue.JOURNAL,
    Source.DEADLETTER: SystemQueue.DEADLETTER,
    Source.XACTDEADLETTER: SystemQueue.DEADXACT,
}


def find(engine: Engine, queue: str | None, source: Source = Source.QUEUE) -> QueueState:
    """The named queue; without a name, the journal or dead letters of the computer."""
    if queue is None:
        if source not in _SYSTEM:
            fix = "give queue, as orders"
            raise InvalidParameterError("queue", problem="it is missing", fix=fix)
        return engine.queues.get(parse_queue_name(f";{_SYSTEM[source]}"))
    if source in {Source.DEADLETTER, Source.XACTDEADLETTER}:
        problem = f"from={source} exists once per computer"
        raise InvalidParameterError("queue", problem=problem, fix="leave queue out")
    state = engine.queues.get(parse_queue_name(queue))
    if source is Source.JOURNAL:
        if state.journal is None:
            raise QueueNotFoundError(f"journal of {state}")
        return state.journal
    if state.is_outgoing is not (source is Source.OUTGOING):
        problem = (
            "it is a queue of another computer" if state.is_outgoing else "it is a queue of this computer"
        )
        fix = "use from=outgoing" if state.is_outgoing else "leave from=outgoing out"
        raise InvalidParameterError(f"queue {queue}", problem=problem, fix=fix)
    return state


def listed(engine: Engine, pattern: str | None, source: Source = Source.QUEUE) -> list[QueueState]:
    """Application queues, their journals, or outgoing queues whose names match the pattern."""
    if source in {Source.DEADLETTER, Source.XACTDEADLETTER}:
        return [find(engine, None, source)]
    visible = [state for state in engine.queues.all() if engine.queues.is_visible(state)]
    chosen = [state for state in visible if state.is_outgoing is (source is Source.OUTGOING)]
    chosen = [state for state in chosen if pattern is None or name_matches(name_of(engine, state), pattern)]
    return [state.journal for state in chosen if state.journal] if source is Source.JOURNAL else chosen


def name_of(engine: Engine, state: QueueState) -> str:
    """The path name; for an outgoing queue, the format name of its destination."""
    path = state.queue.pathname
    return str(engine.queues.format_name(state)) if path is None else str(path)


def name_matches(name: str, pattern: str) -> bool:
    """Whether a pattern matches any spelling of a queue's name."""
    local = name.partition("\\")[2]
    spellings = (name, f".\\{local}", local, short_queue_name(name))
    return any(fnmatchcase(each.casefold(), pattern.casefold()) for each in spellings if each)


def described(engine: Engine, state: QueueState) -> Json:
    return {
        "queue": name_of(engine, state),
        "guid": str(state.queue.identifier),
        "e": state.epoch,
        "count": state.count,
        "bytes": state.size_bytes,
        "transactional": state.queue.transactional,
    }
