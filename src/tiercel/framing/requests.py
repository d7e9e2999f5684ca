"""Requests of the machines to a queue manager: the events of [MS-MQDMPR] 3.1.7.1 that [MS-NMFMB] raises.

The steps of a machine are generators: they yield requests and are sent the answers, so that one machine
serves programs with threads and with asyncio. A request that fails is raised where it was yielded.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from tiercel.model.codes import QueueAccess, ShareMode
from tiercel.model.format_name import FormatName
from tiercel.model.message import Message
from tiercel.model.path_name import PathName

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OpenQueue:
    """Answered with the open queue."""

    name: FormatName
    access: QueueAccess
    share: ShareMode = ShareMode.DENY_NONE


@dataclass(frozen=True, slots=True)
class ReadDirectory:
    """Answered with the Identifier of the public queue of that path name."""

    path: PathName


@dataclass(frozen=True, slots=True)
class CreateTransaction:
    """Answered with a new transaction, whose identifier is unique."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Answered with a place for one message that is held, but not in a transaction: a read in two phases."""


@dataclass(frozen=True, slots=True)
class Commit:
    """End a transaction or a hold: what was received is gone."""

    transaction: Any


@dataclass(frozen=True, slots=True)
class Abort:
    """End a transaction or a hold: what was received is back in its queue."""

    transaction: Any


@dataclass(frozen=True, slots=True)
class Enqueue:
    """The message is signed if its authentication level says so."""

    queue: Any
    message: Message
    transaction: Any  # None: outside of a transaction


@dataclass(frozen=True, slots=True)
class Dequeue:
    """Answered with a message, the oldest first."""

    queue: Any
    timeout_s: float | None
    transaction: Any  # or what Hold was answered with
    lookup_id: int | None = None  # of the message to take, if it must be that one


@dataclass(frozen=True, slots=True)
class Wait:
    """Answered when there is a message; an error when none comes in time."""

    queue: Any
    timeout_s: float | None


@dataclass(frozen=True, slots=True)
class Subqueue:
    """Answered with the part of a queue that has this name."""

    queue: Any
    name: str


@dataclass(frozen=True, slots=True)
class Peek:
    """Answered with the first message, or the one after `lookup_id`; an error when there is none."""

    queue: Any
    lookup_id: int | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """Into a subqueue, or back into the queue (None)."""

    queue: Any
    lookup_id: int
    subqueue: str | None


@dataclass(frozen=True, slots=True)
class Reject:
    """Have the commit of its transaction refuse a message: the sender is told."""

    queue: Any
    lookup_id: int


@dataclass(frozen=True, slots=True)
class CloseQueue:
    queue: Any


Request = (
    OpenQueue
    | ReadDirectory
    | CreateTransaction
    | Hold
    | Commit
    | Abort
    | Enqueue
    | Dequeue
    | Wait
    | Subqueue
    | Peek
    | Move
    | Reject
    | CloseQueue
)
Steps = Generator[Request, Any, T]
