"""How many messages came to which queue when, and how long they were on their way."""

from typing import NamedTuple

from matplotlib.figure import Figure
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tiercel.pipeline.reports import style
from tiercel.pipeline.reports.findings import Findings, empty
from tiercel.pipeline.reports.times import Axis, axis, duration, period

NAME = "traffic"
TITLE = "Traffic and latency of queues"
NEEDS = ("queue", "sent_time", "arrived_time", "body_size")

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
    # Clocks of two computers differ; a message does not arrive before it was sent.
    seconds = f.greatest(f.lit(0), f.unix_seconds("arrived_time") - f.unix_seconds("sent_time"))
    queues = (
        rows.groupBy("queue")
        .agg(
            f.count("*").alias("messages"),
            f.sum("body_size").alias("bytes"),
            f.percentile_approx(seconds, [0.5, 0.95]).alias("parts"),
            f.max(seconds).alias("longest"),
        )
        .orderBy(f.desc("messages"))
        .collect()
    )
    shown = {row["queue"] for row in queues[:_SHOWN]}
    counts = (
        rows.groupBy(
            f.when(f.col("queue").isin(*shown), f.col("queue")).alias("queue"), whole.bucket(time).alias("at")
        )
        .count()
        .collect()
    )
    places = {start: place for place, start in enumerate(whole.starts)}
    names = [style.short_queue(row["queue"]) for row in queues[:_SHOWN]]
    series = {name: [0] * len(places) for name in names}
    for row in counts:
        name = style.short_queue(row["queue"]) if row["queue"] in shown else _OTHERS
        if row["at"] in places:
            series.setdefault(name, [0] * len(places))[places[row["at"]]] += row["count"]
    latency = {
        style.short_queue(row["queue"]): (float(row["parts"][0]), float(row["parts"][1]), float(row["longest"]))
        for row in queues[:_SHOWN]
        if row["parts"]
    }
    total = sum(row["messages"] for row in queues)
    size = sum(row["bytes"] or 0 for row in queues)
    seconds_all = whole.last + whole.width - whole.first
    return Findings(
        headline=f"{total:,} messages to {len(queues)} queue{'s' * (len(queues) != 1)}, {period(whole)}",
        facts=(
            ("messages", f"{total:,}"),
            ("bodies", f"{size / (1 << 20):,.1f} MiB"),
            ("queues", f"{len(queues):,}"),
            ("messages a second, on average", f"{total / seconds_all:,.2f}"),
        ),
        header=("queue", "messages", "MiB of bodies", "latency p50", "p95", "longest"),
        rows=[
            (
                row["queue"] or "",
                f"{row['messages']:,}",
                f"{(row['bytes'] or 0) / (1 << 20):,.2f}",
                *(duration(each) for each in row["parts"] or ()),
                duration(row["longest"]) if row["longest"] is not None else "",
            )
            for row in queues
        ],
        data=Traffic(whole, series, latency),
    )


def draw(figure: Figure, findings: Findings) -> None:
    found: Traffic = findings.data
    palette = style.colours(list(found.series), _OTHERS)
    rows = max(len(found.latency), 1)
    upper, lower = figure.subplots(
        2, 1, height_ratios=[6, 0.9 + rows * 0.55], gridspec_kw={"hspace": 0.42}
    )
    style.stacked_columns(upper, found.axis, found.series, palette)
    upper.set_title(f"Messages in {found.axis.every}")
    style.legend(upper)
    lower.set_title("From sending to arrival")
    style.spans(lower, list(found.latency), list(found.latency.values()), palette)
