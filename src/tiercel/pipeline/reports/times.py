"""Times on an axis and in words."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400
# How wide a column of a picture may be; the narrowest that gives no more than BUCKETS of them is taken.
_WIDTHS = (1, 5, 10, 30, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, DAY, 7 * DAY, 28 * DAY)
_BUCKETS = 72
# Three messages within a second are no three broad towers: there are at least so many columns.
_LEAST = 12


@dataclass(frozen=True, slots=True)
class Axis:
    """The time from `first` to `last`, both in seconds since 1970, cut into columns of `width` seconds."""

    first: int
    last: int
    width: int
    until: int  # where the last column with something in it ends

    @property
    def starts(self) -> list[int]:
        return list(range(self.first, self.last + 1, self.width))

    def bucket(self, time: Column) -> Column:
        """The start of the column that a time falls into."""
        return f.floor(f.unix_seconds(time) / self.width).cast("long") * self.width

    @property
    def unit(self) -> str:
        """`hour`, or `15 min`: what a column stands for."""
        return {1: "second", MINUTE: "minute", HOUR: "hour", DAY: "day"}.get(self.width, duration(self.width))


def axis(rows: DataFrame, time: Column) -> Axis | None:
    """The axis that holds every time there is; None when there is none."""
    found = rows.select(
        f.min(f.unix_seconds(time)).alias("first"), f.max(f.unix_seconds(time)).alias("last")
    ).first()
    if found is None or found["first"] is None:
        return None
    return axis_of(found["first"], found["last"])


def axis_of(first: int, last: int) -> Axis:
    width = next((each for each in _WIDTHS if (last - first) / each < _BUCKETS), _WIDTHS[-1])
    begin, end = first // width * width, last // width * width
    return Axis(begin, max(end, begin + (_LEAST - 1) * width), width, end + width)


def moments(starts: Iterable[int]) -> list[datetime]:
    return [datetime.fromtimestamp(each, UTC) for each in starts]


def period(axis: Axis) -> str:
    form = "%Y-%m-%d %H:%M" if axis.width >= MINUTE else "%Y-%m-%d %H:%M:%S"
    begin, end = moments([axis.first, axis.until])
    return f"{begin.strftime(form)} to {end.strftime(form)} UTC"


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
