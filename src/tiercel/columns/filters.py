"""Row filters: by label, class and sent time."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from tiercel.columns.schema import BY_NAME
from tiercel.model.codes import MessageClass


@dataclass(frozen=True, slots=True)
class RowFilter:
    """All conditions must hold; None means no condition."""

    label_like: str | None = None  # a pattern of SQL: % for any text, _ for any character
    classes: frozenset[int] | None = None
    sent_after: datetime | None = None  # at this time or later
    sent_before: datetime | None = None  # earlier than this

    @classmethod
    def of_options(cls, options: Mapping[str, str]) -> Self | None:
        """The filter in the options of the data source, or None."""
        chosen = {name: value for name, value in options.items() if name in _OPTIONS and value}
        if not chosen:
            return None
        return cls(
            chosen.get("labelLike"),
            frozenset(map(_class, chosen["class"].split(","))) if "class" in chosen else None,
            _time("sentAfter", chosen["sentAfter"]) if "sentAfter" in chosen else None,
            _time("sentBefore", chosen["sentBefore"]) if "sentBefore" in chosen else None,
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the conditions look at."""
        needed = {
            "label": self.label_like is not None,
            "class": self.classes is not None,
            "sent_time": self.sent_after is not None or self.sent_before is not None,
        }
        return tuple(name for name, is_needed in needed.items() if is_needed)

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """True for each selected row; rows without the value are not selected."""
        conditions = list(self._conditions(batch))
        mask = conditions[0] if conditions else pa.array([True] * len(batch), pa.bool_())
        for condition in conditions[1:]:
            mask = pc.and_(mask, condition)
        return pc.fill_null(mask, False)

    def _conditions(self, batch: pa.RecordBatch) -> Iterator[pa.BooleanArray]:
        if self.label_like is not None:
            yield pc.match_like(batch["label"], self.label_like)
        if self.classes is not None:
            yield pc.is_in(batch["class"], value_set=pa.array(sorted(self.classes), BY_NAME["class"].type))
        time = BY_NAME["sent_time"].type
        if self.sent_after is not None:
            yield pc.greater_equal(batch["sent_time"], pa.scalar(self.sent_after, time))
        if self.sent_before is not None:
            yield pc.less(batch["sent_time"], pa.scalar(self.sent_before, time))


_OPTIONS = ("labelLike", "class", "sentAfter", "sentBefore")


def _class(text: str) -> int:
    """A message class by number or by its name in the specification."""
    name = text.strip()
    if name.upper() in MessageClass.__members__:
        return int(MessageClass[name.upper()])
    try:
        return int(name, 0)
    except ValueError:
        known = ", ".join(MessageClass.__members__)
        problem = f"class {name!r} is neither a number nor a class of messages; use one of {known}"
        raise ValueError(problem) from None


def _time(option: str, text: str) -> datetime:
    """A time; UTC if it has no zone, like all times in the columns."""
    try:
        if text.isdecimal():
            return datetime.fromtimestamp(int(text), UTC)
        time = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        problem = f"{option} {text!r} is not a valid time; use 2025-01-31T12:00:00Z, or seconds since 1970"
        raise ValueError(problem) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
