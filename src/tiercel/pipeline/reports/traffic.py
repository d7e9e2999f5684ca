"""The number of messages per queue over time, and their transit times."""

from typing import NamedTuple

from matplotlib.figure import Figure
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as f

from tiercel.pipeline.reports import style
from tiercel.pipeline.reports.findings import Findings, empty
from tiercel.pipeline.reports.times import Axis, axis, period, whole_duration
from tiercel.pipeline.words import size_text

NAME = "traffic"
TITLE = "Traffic and latency of queues"
NEEDS = ("queue", "sent_time", "arrived_time", "body_size", "class")
TAKES: tuple[str, ...] = ()

_SHOWN = 7
_OTHERS = "others"


class Traffic(NamedTuple):
    axis: Axis
    series: dict[str, list[int]]
    latency: dict[str, tuple[float, float, float]]


def job(rows: DataFrame) -> Findings:
    time = f.coalesce("arrived_time", "sent_time")
    whole = axis(rows, time)
    if whole is None:
        return empty("The table holds no message with a time.")
    queues = _queues(rows)
    total = sum(row["messages"] for row in queues)
    size = sum(row["bytes"] or 0 for row in queues)
    return Findings(
        headline=f"{total:,} messages to {len(queues)} queue{'s' * (len(queues) != 1)}, {period(whole)}",
        facts=(
            ("messages", f"{total:,}"),
            ("bodies", size_text(size)),
            ("queues", f"{len(queues):,}"),
            ("messages a second, on average", f"{total / (whole.until - whole.since):,.3g}"),
        ),
        header=("queue", "messages", "bodies", "latency p50", "p95", "longest"),
        rows=[_line(row) for row in queues],
        data=Traffic(
            whole,
            _series(rows, time, whole, [row["queue"] for row in queues[:_SHOWN]]),
            {style.short_queue(row["queue"]): _latency(row) for row in queues[:_SHOWN] if row["parts"]},
        ),
    )


def _queues(rows: DataFrame) -> list[Row]:
    """Each queue, the busiest first.

    Clocks of two computers differ, but no message arrives before it was sent. The arrival time of a dead
    letter in a dead-letter queue says nothing about its transit time.
    """
    between = f.unix_seconds("arrived_time") - f.unix_seconds("sent_time")
    seconds = f.when(f.col("class") == 0, f.greatest(f.lit(0), between))
    counted = rows.groupBy("queue").agg(
        f.count("*").alias("messages"),
        f.sum("body_size").alias("bytes"),
        f.percentile_approx(seconds, [0.5, 0.95]).alias("parts"),
        f.max(seconds).alias("longest"),
    )
    return counted.orderBy(f.desc("messages")).collect()


def _series(rows: DataFrame, time: Column, whole: Axis, shown: list[str | None]) -> dict[str, list[int]]:
    queue = f.when(f.col("queue").isin(*[each for each in shown if each]), f.col("queue"))
    counts = rows.groupBy(queue.alias("queue"), whole.bucket(time).alias("at")).count().collect()
    places = {start: place for place, start in enumerate(whole.starts)}
    series = {style.short_queue(each): [0] * len(places) for each in shown if each}
    for row in counts:
        if row["at"] in places:
            name = style.short_queue(row["queue"]) if row["queue"] else _OTHERS
            series.setdefault(name, [0] * len(places))[places[row["at"]]] += row["count"]
    return series


def _latency(row: Row) -> tuple[float, float, float]:
    return float(row["parts"][0]), float(row["parts"][1]), float(row["longest"])


def _line(row: Row) -> tuple[str, ...]:
    times = [whole_duration(each) for each in _latency(row)] if row["parts"] else [""] * 3
    return row["queue"] or "", f"{row['messages']:,}", size_text(row["bytes"] or 0), *times


def height(findings: Findings) -> float:
    return 4.9 + 0.4 * max(len(findings.data.latency), 1)


def draw(figure: Figure, findings: Findings) -> None:
    found: Traffic = findings.data
    palette = style.colours(list(found.series), _OTHERS)
    rows = max(len(found.latency), 1)
    upper, lower = figure.subplots(2, 1, height_ratios=[6, 0.9 + rows * 0.55], gridspec_kw={"hspace": 0.42})
    style.stacked_columns(upper, found.axis, found.series, palette)
    upper.set_title(f"Messages per {found.axis.unit}")
    style.legend(upper)
    lower.set_title("From sending to arrival")
    style.spans(lower, list(found.latency), list(found.latency.values()), palette)
