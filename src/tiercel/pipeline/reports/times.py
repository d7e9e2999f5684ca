"""Times on an axis and as text."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400
# Possible widths of a column; the narrowest that needs at most BUCKETS columns is used.
_WIDTHS = (1, 5, 10, 30, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, DAY, 7 * DAY, 28 * DAY)
_BUCKETS = 72
# The minimum number of columns, so that a few messages do not become a few very wide bars.
_LEAST = 12


@dataclass(frozen=True, slots=True)
class Axis:
    """The time from `first` to `last`, both in seconds since 1970, cut into columns of `width` seconds."""

    first: int
    last: int
    width: int
    since: int  # begin of the first column that is not empty
    until: int  # end of the last one

    @property
    def starts(self) -> list[int]:
        return list(range(self.first, self.last + 1, self.width))

    def bucket(self, time: Column) -> Column:
        """The start of the column of a time."""
        return f.floor(f.unix_seconds(time) / self.width).cast("long") * self.width

    @property
    def unit(self) -> str:
        """The width of a column as text: `hour` or `15 min`."""
        return {1: "second", MINUTE: "minute", HOUR: "hour", DAY: "day"}.get(self.width, duration(self.width))


def axis(rows: DataFrame, time: Column) -> Axis | None:
    """The axis for all the times; None if there are none."""
    found = rows.select(
        f.min(f.unix_seconds(time)).alias("first"), f.max(f.unix_seconds(time)).alias("last")
    ).first()
    if found is None or found["first"] is None:
        return None
    return axis_of(found["first"], found["last"])


def axis_of(first: int, last: int) -> Axis:
    width = next((each for each in _WIDTHS if (last - first) / each < _BUCKETS), _WIDTHS[-1])
    begin, end = first // width * width, last // width * width
    more = max(_LEAST - 1 - (end - begin) // width, 0)  # empty columns, on both sides
    return Axis(begin - more // 2 * width, end + (more - more // 2) * width, width, begin, end + width)


def moments(starts: Iterable[int]) -> list[datetime]:
    return [datetime.fromtimestamp(each, UTC) for each in starts]


def period(axis: Axis) -> str:
    form = "%Y-%m-%d %H:%M" if axis.width >= MINUTE else "%Y-%m-%d %H:%M:%S"
    begin, end = moments([axis.since, axis.until])
    return f"{begin.strftime(form)} to {end.strftime(form)} UTC"


def whole_duration(seconds: float) -> str:
    """A time between two stamps of MSMQ, which counts whole seconds: 0 means less than one."""
    return "below 1 s" if seconds < 1 else duration(seconds)


def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min`, `2.5 h`, `4 days`, `13.1 years`."""
    for limit, unit, name in (
        (MINUTE, 1, "s"),
        (HOUR, MINUTE, "min"),
        (2 * DAY, HOUR, "h"),
        (2 * YEAR, DAY, "days"),
    ):
        if seconds < limit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / YEAR:.3g} years"
