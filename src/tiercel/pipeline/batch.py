"""What one batch of a pipeline did, for people, logs, metrics and lineage.

The rows and bytes of each queue are those of Spark's offsets, so no message is counted by reading it again.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final

from pyspark_msmq.offsets import Offsets, spans
from tiercel.pipeline.waiting import Waiting

# Spark's names for the steps of a trigger, and ours.
_STEPS: Final = {
    "latestOffset": "claim",
    "queryPlanning": "plan",
    "walCommit": "log",
    "addBatch": "write",
    "commitOffsets": "finish",
    "triggerExecution": "total",
}


@dataclass(slots=True)
class Outcome:
    """What the tables took of a batch, and how long each needed."""

    tables: dict[str, int] = field(default_factory=dict)
    quarantined: int = 0
    again: int = 0  # tables that had the batch already
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueShare:
    """A queue's part of a batch, and what waits in it; null where the queue manager did not say."""

    rows: int
    bytes: int
    lag: int | None = None
    oldest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    pipeline: str
    run: str
    batch: int
    time: str
    source: str
    rows: int
    bytes: int
    lag: int | None
    oldest: str | None
    quarantined: int
    again: int
    queues: Mapping[str, QueueShare]
    tables: Mapping[str, int]
    seconds: Mapping[str, float]

    def line(self) -> str:
        """The batch as one line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @property
    def moment(self) -> float:
        """When it began, in seconds since 1970."""
        return datetime.fromisoformat(self.time).timestamp()


def batch_of(
    name: str, url: str, progress: Mapping[str, Any], outcome: Outcome, waiting: Sequence[Waiting]
) -> Batch:
    """A batch from Spark's progress, what the tables said, and what waits (nothing if that is unknown)."""
    queues = _queues(progress["sources"][0], waiting)
    durations = progress["durationMs"]
    steps = {name: durations[key] / 1000 for key, name in _STEPS.items() if key in durations}
    return Batch(
        pipeline=name,
        run=str(progress["runId"]),
        batch=progress["batchId"],
        time=progress["timestamp"],
        source=url,
        rows=progress["numInputRows"],
        bytes=sum(each.bytes for each in queues.values()),
        lag=sum(each.lag or 0 for each in queues.values()) if waiting else None,
        oldest=min((each.oldest for each in queues.values() if each.oldest), default=None),
        quarantined=outcome.quarantined,
        again=outcome.again,
        queues=queues,
        tables=dict(outcome.tables),
        seconds=steps | {name: round(each, 3) for name, each in outcome.seconds.items()},
    )


def _queues(source: Mapping[str, Any], waiting: Sequence[Waiting]) -> dict[str, QueueShare]:
    """Each queue by name; one that has no name, because it is gone or not ours to ask, by its GUID."""
    start, end = _offsets(source["startOffset"]), _offsets(source["endOffset"])
    parts = {each.guid: each for guid, part in end.parts.items() for each in spans(start.part(guid), part)}
    known = {each["guid"]: each for each in waiting}
    found = {}
    for guid in sorted(parts.keys() | known.keys()):
        part, state = parts.get(guid), known.get(guid)
        name = state["queue"] if state else guid
        found[name if name not in found else f"{name} ({guid})"] = QueueShare(  # two computers of one name
            rows=part.count if part else 0,
            bytes=part.size_bytes if part else 0,
            lag=state["waiting"] if state else None,
            oldest=state["oldest"] if state else None,
        )
    return found


def _offsets(value: Any) -> Offsets:
    """Spark has an offset as text, or null before the first batch; those of msmq-rpc are not ours."""
    found = json.loads(value) if isinstance(value, str) else value
    return Offsets.of_json(found) if found and "ids" not in found else Offsets()
