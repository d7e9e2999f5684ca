"""What the machines ask of a queue manager: the events of [MS-MQDMPR] 3.1.7.1 that [MS-NMFMB] raises.

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
class Commit:
    transaction: Any


@dataclass(frozen=True, slots=True)
class Abort:
    transaction: Any


@dataclass(frozen=True, slots=True)
class Enqueue:
    queue: Any
    message: Message
    transaction: Any  # None: outside of a transaction


@dataclass(frozen=True, slots=True)
class Dequeue:
    """Answered with a message, the oldest first."""

    queue: Any
    timeout_s: float | None
    transaction: Any


@dataclass(frozen=True, slots=True)
class CloseQueue:
    queue: Any


Request = OpenQueue | ReadDirectory | CreateTransaction | Commit | Abort | Enqueue | Dequeue | CloseQueue
Steps = Generator[Request, Any, T]
