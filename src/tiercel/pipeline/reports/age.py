"""How long messages waited in their queues before they were received, or are still waiting."""

from typing import NamedTuple

from matplotlib.figure import Figure
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tiercel.pipeline.reports import style
from tiercel.pipeline.reports.findings import Findings, empty
from tiercel.pipeline.reports.times import DAY, HOUR, MINUTE, duration, whole_duration

NAME = "age"
TITLE = "Age of messages"
NEEDS = ("queue", "arrived_time")
TAKES = ("landed_time",)

# Upper limit of each band in seconds; the last band has none.
_BANDS = (1, 10, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY)
_NAMES = (
    "below 1 s",
    "1-10 s",
    "10-60 s",
    "1-10 min",
    "10-60 min",
    "1-6 h",
    "6-24 h",
    "1-7 days",
    "over 7 days",
)
_SHOWN = 12


class Ages(NamedTuple):
    queues: list[tuple[str, list[int], float]]


def job(rows: DataFrame) -> Findings:
    """Ages at the time of landing (`landed_time`), or now if the table has no such column."""
    end = f.col("landed_time") if "landed_time" in rows.columns else f.current_timestamp()
    age = f.greatest(f.lit(0.0), (end.cast("double") - f.col("arrived_time").cast("double")))
    aged = rows.where("arrived_time is not null").select("queue", age.alias("age"))
    bands = [f.count_if((f.col("age") >= low) & (f.col("age") < high)) for low, high in _edges()]
    found = (
        aged.groupBy("queue")
        .agg(
            f.count("*").alias("messages"),
            f.percentile_approx("age", 0.5).alias("median"),
            f.max("age").alias("oldest"),
            f.array(*bands).alias("bands"),
        )
        .orderBy(f.desc("median"))
        .collect()
    )
    if not found:
        return empty("The table holds no message with a time of arrival.")
    total = sum(row["messages"] for row in found)
    oldest = max(row["oldest"] for row in found)
    what = "when they were landed" if "landed_time" in rows.columns else "now"
    return Findings(
        headline=f"{total:,} messages in {len(found)} queue{'s' * (len(found) != 1)}, their age {what};"
        f" the oldest {duration(oldest)}",
        facts=(("messages", f"{total:,}"), ("the oldest", duration(oldest)), ("age is counted until", what)),
        header=("queue", "messages", "median", "oldest", *_NAMES),
        rows=[
            (
                row["queue"] or "",
                f"{row['messages']:,}",
                whole_duration(row["median"]),
                duration(row["oldest"]),
                *(f"{each:,}" for each in row["bands"]),
            )
            for row in found
        ],
        data=Ages([(style.short_queue(row["queue"]), row["bands"], row["median"]) for row in found[:_SHOWN]]),
    )


def _edges() -> list[tuple[float, float]]:
    return list(zip((0, *_BANDS), (*_BANDS, float("inf")), strict=True))


def height(findings: Findings) -> float:
    return style.bars_height(len(findings.data.queues))


def draw(figure: Figure, findings: Findings) -> None:
    found: Ages = findings.data
    axes = figure.subplots()
    places = range(len(found.queues))
    left = [0.0] * len(found.queues)
    for band, (name, colour) in enumerate(zip(_NAMES, style.AGES, strict=True)):
        shares = [100 * bands[band] / sum(bands) for _, bands, _ in found.queues]
        axes.barh(places, shares, 0.66, left, color=colour, label=name, edgecolor="white", linewidth=0.8)
        for place, (start, share) in enumerate(zip(left, shares, strict=True)):
            if share >= 6:
                axes.text(
                    start + share / 2, place, f"{share:.0f} %", ha="center", va="center", fontsize=8.5,
                    color="white" if band > 3 else style.INK,
                )  # fmt: skip
        left = [start + share for start, share in zip(left, shares, strict=True)]
    for place, (_, bands, median) in enumerate(found.queues):
        axes.text(
            101,
            place,
            f"{sum(bands):,} messages\nmedian {whole_duration(median)}",
            va="center",
            fontsize=8.5,
            color=style.SOFT,
        )
    axes.set_yticks(places, [style.clipped(name) for name, _, _ in found.queues], color=style.INK)
    axes.set_ylim(len(found.queues) - 0.4, -0.6)
    axes.set_xlim(0, 118)
    axes.set_xticks([])
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    style.legend(axes, 9)
