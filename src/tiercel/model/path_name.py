r"""Path names: a queue by its computer and its name there ([MS-MQMQ] 2.1.1).

    computer\queue              a public queue
    computer\private$\queue     a private queue
    computer\system$;queue      a system queue
    ... ;subqueue  ... ;JOURNAL a subqueue or the journal of a public or private queue

The printed grammar is ASCII and does not mention case. Names are Unicode and compared without case, as on
Windows. Keywords are compared by `casefold` like names: otherwise "system$" with a long s would be a public
queue that equals a system queue.
"""

import re
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from typing import Self

from tiercel.model.errors import IllegalQueuePathNameError
from tiercel.model.limits import (
    COMPUTER_NAME_MAX_CHARACTERS,
    QUEUE_NAME_MAX_CHARACTERS,
    SUBQUEUE_NAME_MAX_CHARACTERS,
)

SHOWN_CHARACTERS = 120

# The printed grammar allows DEL (%x7F). Half a surrogate pair cannot be encoded as UTF-8.
_NEVER = r"\x00-\x1f\x80-\x9f\ud800-\udfff"
NOT_IN_QUEUE = re.compile(rf'[\\;+,"{_NEVER}]')
# Slash and comma are VCHAR, but not in computer names: they end the computer in URLs and in lists.
NOT_IN_COMPUTER = re.compile(rf'[\\/;,"\s{_NEVER}]')


class PathKind(Enum):
    r"""The part between `computer\` and the name of the queue, which decides the type of the queue."""

    PUBLIC = ""
    PRIVATE = "private$\\"
    SYSTEM = "system$;"


class SystemQueue(StrEnum):
    """The system queues that format names can address."""

    JOURNAL = "JOURNAL"
    DEADLETTER = "DEADLETTER"
    DEADXACT = "DEADXACT"


# As System.Messaging writes them; accepted, but printed in the form of the grammar.
_ALIASES = {
    "journal$": SystemQueue.JOURNAL,
    "deadletter$": SystemQueue.DEADLETTER,
    "xactdeadletter$": SystemQueue.DEADXACT,
}
_RESERVED = {"private$", "system$", *_ALIASES}


@dataclass(frozen=True, slots=True, eq=False)
class CaselessName:
    """A name that is compared by its text, without case; `key` is that text, casefolded."""

    key: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._check()
        object.__setattr__(self, "key", str(self).casefold())

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def _check(self) -> None:
        """Raise unless the text of this name would be read back as this name."""


@dataclass(frozen=True, slots=True, eq=False)
class PathName(CaselessName):
    computer: str
    """A name or an address; "." is this computer."""
    kind: PathKind
    queue: str
    subqueue: str | None = None
    journal: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        r"""Read a path name, also as the APIs write it: `computer\queue\Journal$`, `computer\Deadletter$`."""
        computer, _, local_name = _without_alias(text).partition("\\")
        return cls.on(computer, local_name)

    @classmethod
    def on(cls, computer: str, local_name: str) -> Self:
        """Read what follows the computer and its backslash, by the grammar alone."""
        kind, name = PathKind.PUBLIC, local_name
        folder, _, inside = local_name.partition("\\")
        if folder.casefold() == "private$":
            kind, name = PathKind.PRIVATE, inside
        queue, semicolon, suffix = name.partition(";")
        if kind is PathKind.PUBLIC and queue.casefold() == "system$":
            return cls(computer, PathKind.SYSTEM, suffix)
        if suffix.casefold() == "journal":
            return cls(computer, kind, queue, journal=True)
        return cls(computer, kind, queue, suffix if semicolon else None)

    def __str__(self) -> str:
        return f"{self.computer}\\{self.local_name}"

    @property
    def local_name(self) -> str:
        r"""The name on its computer: `private$\queue;subqueue`."""
        subqueue = "" if self.subqueue is None else f";{self.subqueue}"
        return f"{self.kind.value}{self.queue}{subqueue}{';JOURNAL' if self.journal else ''}"

    @property
    def is_read_only(self) -> bool:
        """Journals and system queues: the queue manager writes there, a client only reads."""
        return self.journal or self.kind is PathKind.SYSTEM

    def with_computer(self, computer: str) -> Self:
        """The same path on another computer; with the full computer name, the qualified path name."""
        return replace(self, computer=computer)

    def without_subqueue(self) -> Self:
        """The queue that a subqueue belongs to."""
        return replace(self, subqueue=None)

    def _check(self) -> None:
        self._check_part("computer name", self.computer, COMPUTER_NAME_MAX_CHARACTERS, NOT_IN_COMPUTER)
        self._check_part("queue name", self.queue, QUEUE_NAME_MAX_CHARACTERS, NOT_IN_QUEUE)
        if self.queue.casefold() in _RESERVED:
            raise self._illegal(f"{self.queue} is not a queue name", "put the queue's own name after it")
        if self.subqueue is not None:
            self._check_part("subqueue name", self.subqueue, SUBQUEUE_NAME_MAX_CHARACTERS, NOT_IN_QUEUE)
            if self.subqueue.casefold() == "journal":
                raise self._illegal(
                    "JOURNAL is not a valid subqueue name", "choose another name for the subqueue"
                )
        if (self.subqueue is not None) + self.journal + (self.kind is PathKind.SYSTEM) > 1:
            raise self._illegal(
                "only a public or private queue has a journal and subqueues", "drop the suffix"
            )

    def _check_part(self, part: str, value: str, limit: int, forbidden: re.Pattern[str]) -> None:
        if not value.strip():
            raise self._illegal(f"the {part} is empty", "write it as computer\\queue or .\\private$\\queue")
        if (length := utf16_length(value)) > limit:
            raise self._illegal(f"the {part} is too long", f"use at most {limit} characters", limit, length)
        if bad := forbidden.search(value):
            raise self._illegal(f"the {part} holds the character {bad[0]!a}", "leave that character out")

    def _illegal(
        self, problem: str, fix: str, limit: int | None = None, present: int | None = None
    ) -> IllegalQueuePathNameError:
        subject = f"path name {shown(str(self))}"
        return IllegalQueuePathNameError(subject, problem=problem, limit=limit, present=present, fix=fix)


def utf16_length(text: str) -> int:
    """The length in UTF-16 code units, as Windows counts and packets limit it."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def shown(text: str) -> str:
    """Untrusted text as an error shows it: bounded, and without control characters."""
    text = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."
    return text if text.isprintable() else ascii(text)


def _without_alias(text: str) -> str:
    owner, _, last = text.rpartition("\\")
    system_queue = _ALIASES.get(last.casefold())
    if system_queue is None:
        return text
    if "\\" not in owner:
        return f"{owner}\\{PathKind.SYSTEM.value}{system_queue}"
    return f"{owner};JOURNAL" if system_queue is SystemQueue.JOURNAL else text
