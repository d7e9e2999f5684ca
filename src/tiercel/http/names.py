r"""Which queue is meant: path names, format names, and what people type.

orders            .\private$\orders
private$\orders   the same
orders;poison     its subqueue
orders;journal    its journal
;journal          the journal of the computer; ;deadletter and ;deadxact its dead letters
"""

import difflib
from typing import Final

from tiercel.engine.engine import Engine
from tiercel.engine.queue_state import QueueState
from tiercel.model.errors import QueueNotFoundError
from tiercel.model.format_name import DirectFormatName, FormatName, named
from tiercel.model.path_name import PathKind, PathName

_PRIVATE: Final = PathKind.PRIVATE.value
_SYSTEM: Final = PathKind.SYSTEM.value


def queue_name(text: str) -> FormatName:
    """Raises an `MqError` when no queue can have the name."""
    head = text.partition("\\")[0]
    if "=" in head:
        return named(text)
    if text.startswith(";"):
        return named(f".\\{_SYSTEM}{text[1:].upper()}")
    if "\\" not in text and text.casefold().startswith(_SYSTEM):
        return named(f".\\{text}")
    if "\\" not in text:
        return named(f".\\{_PRIVATE}{text}")
    return named(f".\\{text}" if f"{head}\\".casefold() == _PRIVATE else text)


def path_name(text: str) -> PathName:
    """The same for a queue that is to be made."""
    name = queue_name(text)
    return name.path if isinstance(name, DirectFormatName) else PathName.parse(text)


def find(engine: Engine, text: str) -> QueueState:
    """The queue of this computer, or the outgoing queue, that is there; else the nearest is named."""
    name = queue_name(text)
    state = engine.find(name)
    if state is None or engine.is_internal(state):
        raise not_found(engine, name)
    return state


def not_found(engine: Engine, name: FormatName) -> QueueNotFoundError:
    if not engine.is_local(name):
        problem = "nothing waits here for that queue of another computer"
        return QueueNotFoundError(str(name), problem=problem, fix="look at it on its own computer")
    wanted = short_name(str(name.path)) if isinstance(name, DirectFormatName) else str(name)
    known = {
        short_name(str(each.queue.pathname)): each for each in engine.queues() if engine.is_visible(each)
    }
    near = difflib.get_close_matches(wanted.casefold(), known, 1)
    fix = f"perhaps {near[0]} is meant" if near else None
    return QueueNotFoundError(f"queue {wanted}", fix=fix)


def short_name(path: str) -> str:
    r"""What people type for a queue of this computer: without the computer, and without private$\."""
    local = path.partition("\\")[2]
    return local[len(_PRIVATE) :] if local.casefold().startswith(_PRIVATE) else f".\\{local}"
