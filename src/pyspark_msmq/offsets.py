"""Offsets of a stream, as Spark writes them to its checkpoint.

    {"c": "<consumer>", "q": {"<queue's guid>": {"b": 98304, "e": 3, "hi": 1200}}, "qm": "<guid>", "v": 1}

`hi` is the number of the last claim that the stream has taken (consume), or the last visibility sequence
that it has seen (browse); `e` is the queue's epoch, which a purge changes; `b` counts the bytes so far and
`n` the messages, where they are not the numbers themselves, so that a batch knows its weight; `lo` is where a
queue began that does not begin at 0. Spark compares offsets as text, so the keys always stand in the same
order, and a stream that has nothing new gives back the very offset that it was given.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

_VERSION = 1


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
    queue_manager: str = ""
    consumer: str = ""
    queues: Mapping[str, Reached] = field(default_factory=dict)  # by the queue's guid

    def to_json(self) -> dict[str, Any]:
        queues = {guid: self.queues[guid].to_json() for guid in sorted(self.queues)}
        return {"c": self.consumer, "q": queues, "qm": self.queue_manager, "v": _VERSION}

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> "Offset":
        if values.get("v") != _VERSION:
            raise OffsetError(
                f"the checkpoint has offset version {values.get('v')!r}, but {_VERSION} is supported: "
                "use the version of pyspark_msmq that wrote it"
            )
        queues = {guid: Reached.of_json(reached) for guid, reached in values["q"].items()}
        return cls(values["qm"], values["c"], queues)

    def with_queue(self, guid: str, reached: Reached) -> "Offset":
        return replace(self, queues={**self.queues, guid: reached})

    def check_belongs(self, queue_manager: str, consumer: str) -> None:
        """Check that the numbers belong to this queue manager and consumer."""
        if self.queue_manager not in {"", queue_manager}:
            raise OffsetError(
                f"the checkpoint is for queue manager {self.queue_manager}, but url leads to "
                f"{queue_manager}: use a new checkpointLocation, or the original url"
            )
        if self.consumer != consumer:
            raise OffsetError(
                f"the checkpoint is for consumer {self.consumer or '(none)'}, but the option says "
                f"{consumer or 'mode=browse'}: use a new checkpointLocation, or the original consumer"
            )


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
