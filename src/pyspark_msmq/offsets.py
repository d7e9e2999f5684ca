"""Offsets of a stream, as Spark writes them to its checkpoint.

    {"c": "<consumer>", "q": {"<queue's guid>": {"b": 98304, "e": 3, "hi": 1200}}, "qm": "<guid>", "v": 1}
    {"c": "<consumer>", "m": {"<queue manager's guid>": {"<queue's guid>": {...}}, ...}, "v": 2}

The second form is for several queue managers; a stream that has read from one writes the first.

`hi` is the number of the last claim that the stream has taken (consume), or the last visibility sequence
that it has seen (browse); `e` is the queue's epoch, which a purge changes; `b` counts the bytes so far and
`n` the messages, where they are not the numbers themselves, so that a batch knows its weight; `lo` is where a
queue began that does not begin at 0. Spark compares offsets as text, so the keys always stand in the same
order, and a stream that has nothing new gives back the very offset that it was given.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

_ONE, _MANY = 1, 2  # versions


class OffsetError(RuntimeError):
    """A checkpoint that does not fit."""


@dataclass(frozen=True, slots=True)
class Reached:
    """The position in one queue."""

    epoch: int
    hi: int
    size_bytes: int = 0
    lo: int = 0
    count: int = 0

    def to_json(self) -> dict[str, int]:
        values = {"b": self.size_bytes, "e": self.epoch, "hi": self.hi}
        values |= {"lo": self.lo} if self.lo else {}
        return values | {"n": self.count} if self.count else values

    @classmethod
    def of_json(cls, values: Mapping[str, int]) -> "Reached":
        return cls(values["e"], values["hi"], values.get("b", 0), values.get("lo", 0), values.get("n", 0))


@dataclass(frozen=True, slots=True)
class Offset:
    """The position in the queues of one queue manager."""

    queue_manager: str = ""
    consumer: str = ""
    queues: Mapping[str, Reached] = field(default_factory=dict)  # by the queue's guid

    def with_queue(self, guid: str, reached: Reached) -> "Offset":
        return replace(self, queues={**self.queues, guid: reached})


@dataclass(frozen=True, slots=True)
class Offsets:
    """The position of a stream: an offset for each queue manager of which it has read messages."""

    consumer: str = ""
    parts: Mapping[str, Offset] = field(default_factory=dict)  # by the queue manager's guid

    def to_json(self) -> dict[str, Any]:
        queues = {guid: _queues(self.parts[guid]) for guid in sorted(self.parts) if self.parts[guid].queues}
        if len(queues) > 1:
            return {"c": self.consumer, "m": queues, "v": _MANY}
        ((guid, only),) = queues.items() or [("", {})]
        return {"c": self.consumer, "q": only, "qm": guid, "v": _ONE}

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> "Offsets":
        match values.get("v"):
            case 1:
                # Browse streams did not name their queue manager.
                found = {values["qm"]: values["q"]} if values["qm"] or values["q"] else {}
            case 2:
                found = values["m"]
            case version:
                raise OffsetError(
                    f"the checkpoint has offset version {version!r}, but {_ONE} and {_MANY} are supported: "
                    "use the version of pyspark_msmq that wrote it"
                )
        parts = {guid: Offset(guid, values["c"], _reached(queues)) for guid, queues in found.items()}
        return cls(values["c"], parts)

    def part(self, queue_manager: str) -> Offset:
        return self.parts.get(queue_manager) or Offset(queue_manager, self.consumer)

    def with_part(self, part: Offset) -> "Offsets":
        return replace(self, parts={**self.parts, part.queue_manager: part})

    def without(self, queue_manager: str) -> "Offsets":
        return replace(self, parts={guid: part for guid, part in self.parts.items() if guid != queue_manager})

    def check_belongs(self, consumer: str) -> None:
        if self.consumer != consumer:
            raise OffsetError(
                f"the checkpoint is for consumer {self.consumer or '(none)'}, but the option says "
                f"{consumer or 'mode=browse'}: use a new checkpointLocation, or the original consumer"
            )


def _queues(part: Offset) -> dict[str, Any]:
    return {guid: part.queues[guid].to_json() for guid in sorted(part.queues)}


def _reached(queues: Mapping[str, Any]) -> dict[str, Reached]:
    return {guid: Reached.of_json(reached) for guid, reached in queues.items()}


@dataclass(frozen=True, slots=True)
class Span:
    """The part of a queue in one batch: (lo, hi], and its size."""

    guid: str
    lo: int
    hi: int
    count: int
    size_bytes: int


def spans(start: Offset, end: Offset) -> list[Span]:
    """The spans between two offsets; depends on nothing else, so Spark may ask repeatedly."""
    found = []
    for guid, reached in sorted(end.queues.items()):
        before = start.queues.get(guid) or Reached(reached.epoch, 0)
        # A `lo` set in between marks numbers that can no longer be read.
        lo = max(before.hi, reached.lo)
        if reached.hi > lo:
            count = reached.count - before.count if reached.count else reached.hi - lo
            found.append(Span(guid, lo, reached.hi, count, reached.size_bytes - before.size_bytes))
    return found
