"""The time that traced messages took from the first computer on their route to the last.

Every computer that a traced message passes sends a report ([MS-MQQB] 3.1.5.8.9): the label names the message
and its hop count, the body names its destination queue. The reports of one message, in order of time, are its
journey.
"""

from typing import NamedTuple

from matplotlib.figure import Figure
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tiercel.model.codes import MessageClass
from tiercel.pipeline.reports import style
from tiercel.pipeline.reports.findings import Findings, empty
from tiercel.pipeline.reports.times import Axis, axis_of, moments, period, whole_duration

NAME = "end-to-end"
TITLE = "End-to-end time of traced messages"
NEEDS = ("class", "label", "body", "sent_time")
TAKES: tuple[str, ...] = ()

# `3C5F:0000002A:01 received by ...`: source, message number and hop count.
_LABEL = r"^([0-9A-Fa-f]{4}:[0-9A-Fa-f]{1,8}):([0-9A-Fa-f]{1,4}) "
_TARGET = r"<TARGET QUEUE>([^<]*)</TARGET QUEUE>"
_SHOWN = 7


class Journeys(NamedTuple):
    axis: Axis
    median: list[float | None]
    high: list[float | None]
    queues: dict[str, tuple[float, float, float]]


def job(rows: DataFrame) -> Findings:
    journeys = _journeys(rows)
    found = (
        journeys.groupBy("target")
        .agg(
            f.count("*").alias("messages"),
            f.percentile_approx("seconds", [0.5, 0.95]).alias("parts"),
            f.max("seconds").alias("longest"),
            f.max("hops").alias("hops"),
            f.min("began").alias("first"),
            f.max("began").alias("last"),
        )
        .orderBy(f.desc("messages"))
        .collect()
    )
    if not found:
        return empty("There is no traced message with two reports; messages are traced with trace = 1.")
    whole = axis_of(min(row["first"] for row in found), max(row["last"] for row in found))
    at = (f.floor(f.col("began") / whole.width).cast("long") * whole.width).alias("at")
    over = journeys.groupBy(at).agg(f.percentile_approx("seconds", [0.5, 0.95]).alias("parts")).collect()
    parts = {row["at"]: row["parts"] for row in over}
    total = sum(row["messages"] for row in found)
    slowest = max(row["longest"] for row in found)
    return Findings(
        headline=f"{total:,} traced messages, {period(whole)}; the slowest took {whole_duration(slowest)}",
        facts=(("traced messages", f"{total:,}"), ("the slowest", whole_duration(slowest))),
        header=("queue", "messages", "p50", "p95", "longest", "most computers passed"),
        rows=[
            (
                row["target"],
                f"{row['messages']:,}",
                *map(whole_duration, row["parts"]),
                whole_duration(row["longest"]),
                f"{row['hops']:,}",
            )
            for row in found
        ],
        data=Journeys(
            whole,
            [parts[each][0] if each in parts else None for each in whole.starts],
            [parts[each][1] if each in parts else None for each in whole.starts],
            {
                style.short_queue(row["target"]): (*map(float, row["parts"]), float(row["longest"]))  # type: ignore[misc]
                for row in found[:_SHOWN]
            },
        ),
    )


def _journeys(rows: DataFrame) -> DataFrame:
    """One row for each traced message that at least two computers reported."""
    reports = rows.where(f.col("class") == int(MessageClass.REPORT)).select(
        f.regexp_extract("label", _LABEL, 1).alias("message"),
        f.conv(f.regexp_extract("label", _LABEL, 2), 16, 10).cast("int").alias("hop"),
        f.regexp_extract(f.decode("body", "UTF-16LE"), _TARGET, 1).alias("target"),
        f.unix_seconds("sent_time").alias("at"),
    )
    return (
        reports.where("message <> ''")
        .groupBy("message")
        .agg(
            f.max("target").alias("target"),
            f.min("at").alias("began"),
            (f.max("at") - f.min("at")).alias("seconds"),
            f.count("*").alias("reports"),
            f.max("hop").alias("hops"),
        )
        .where("reports > 1")
    )


def height(findings: Findings) -> float:
    return 4.9 + 0.4 * len(findings.data.queues)


def draw(figure: Figure, findings: Findings) -> None:
    found: Journeys = findings.data
    upper, lower = figure.subplots(
        2, 1, height_ratios=[6, 0.9 + len(found.queues) * 0.55], gridspec_kw={"hspace": 0.42}
    )
    starts = moments(each + found.axis.width // 2 for each in found.axis.starts)
    known = [place for place, value in enumerate(found.median) if value is not None]
    times = [starts[place] for place in known]
    medians = [found.median[place] or 0 for place in known]
    highs = [found.high[place] or 0 for place in known]
    upper.fill_between(times, medians, highs, color=style.COLOURS[0], alpha=0.16, linewidth=0)
    upper.plot(
        times, highs, color=style.COLOURS[0], alpha=0.5, linewidth=1.4, label="p95", marker="o", markersize=3
    )
    upper.plot(times, medians, color=style.COLOURS[0], linewidth=2.2, label="p50", marker="o", markersize=4)
    upper.set_title(f"Seconds from the first report to the last, of messages begun in each {found.axis.unit}")
    upper.set_ylim(bottom=0)
    style.dated(upper, found.axis)
    style.counted(upper)
    style.legend(upper)
    lower.set_title("By queue")
    style.spans(lower, list(found.queues), list(found.queues.values()), style.colours(list(found.queues)))
