"""Finding the queue that a request names."""

import difflib

from tiercel.engine.engine import Engine
from tiercel.engine.queue_state import QueueState
from tiercel.model.errors import QueueNotFoundError
from tiercel.model.format_name import DirectFormatName, FormatName
from tiercel.model.queue_name import parse_queue_name, short_queue_name


def find(engine: Engine, text: str) -> QueueState:
    """An existing queue of this computer, or an outgoing queue; the error suggests the nearest name."""
    name = parse_queue_name(text)
    state = engine.queues.find(name)
    if state is None or engine.queues.is_internal(state):
        raise not_found(engine, name)
    return state


def is_same(engine: Engine, state: QueueState, text: str) -> bool:
    """Whether a name means this queue."""
    return engine.queues.find(parse_queue_name(text)) is state


def not_found(engine: Engine, name: FormatName) -> QueueNotFoundError:
    if not engine.queues.is_local(name):
        problem = "there is no outgoing queue for it here"
        return QueueNotFoundError(str(name), problem=problem, fix="ask the computer that has the queue")
    wanted = short_queue_name(str(name.path)) if isinstance(name, DirectFormatName) else str(name)
    visible = filter(engine.queues.is_visible, engine.queues.all())
    known = [short_queue_name(str(each.queue.pathname)) for each in visible]
    near = difflib.get_close_matches(wanted.casefold(), known, 1)
    fix = f"perhaps {near[0]} is meant" if near else None
    return QueueNotFoundError(f"queue {wanted}", fix=fix)
