"""Failed messages, with reason and time: dead letters and negative acknowledgements."""

from typing import NamedTuple

from matplotlib.figure import Figure
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tiercel.model.codes import MessageClass, message_class
from tiercel.pipeline.reports import style
from tiercel.pipeline.reports.findings import Findings, empty
from tiercel.pipeline.reports.times import Axis, axis, period

NAME = "dead-letters"
TITLE = "Dead letters by reason"
NEEDS = ("class", "sent_time", "arrived_time", "queue")
TAKES: tuple[str, ...] = ()

_NEGATIVE = 0x8000
_SHOWN = 7
_OTHERS = "other reasons"


class DeadLetters(NamedTuple):
    axis: Axis
    series: dict[str, list[int]]
    totals: list[tuple[str, str, int]]


def job(rows: DataFrame) -> Findings:
    time = f.coalesce("arrived_time", "sent_time")
    dead = rows.where(f.col("class").bitwiseAND(_NEGATIVE) != 0)
    whole = axis(dead, time)
    if whole is None:
        return empty("No message ended badly: nothing in this table has a negative class.")
    counts = dead.groupBy("class", whole.bucket(time).alias("at")).count().collect()
    totals: dict[int, int] = {}
    for row in counts:
        totals[row["class"]] = totals.get(row["class"], 0) + row["count"]
    order = sorted(totals, key=lambda each: -totals[each])
    places = {start: place for place, start in enumerate(whole.starts)}
    names = {each: _name(each) if each in order[:_SHOWN] else _OTHERS for each in order}
    series: dict[str, list[int]] = {names[each]: [0] * len(places) for each in order}
    for row in counts:
        if row["at"] in places:
            series[names[row["class"]]][places[row["at"]]] += row["count"]
    total = sum(totals.values())
    listed = [(_name(each), _meaning(each), totals[each]) for each in order]
    return Findings(
        headline=f"{total:,} messages ended badly, for {len(order)} reason{'s' * (len(order) != 1)},"
        f" {period(whole)}",
        facts=(
            ("dead letters", f"{total:,}"),
            ("reasons", f"{len(order):,}"),
            ("the commonest", f"{listed[0][1]} ({listed[0][2] / total:.0%})"),
        ),
        header=("reason", "what it means", "messages", "share"),
        rows=[(name, meaning, f"{count:,}", f"{count / total:.1%}") for name, meaning, count in listed],
        data=DeadLetters(whole, series, listed),
    )


def _name(value: int) -> str:
    known = message_class(value)
    return known.name.removeprefix("NACK_") if isinstance(known, MessageClass) else f"{value:#06x}"


def _meaning(value: int) -> str:
    known = message_class(value)
    return known.meaning if isinstance(known, MessageClass) else "an application's own reason"


def height(findings: Findings) -> float:
    return 4.6 + 0.35 * len(findings.data.totals[:8])


def draw(figure: Figure, findings: Findings) -> None:
    found: DeadLetters = findings.data
    palette = style.colours(list(found.series), _OTHERS)
    upper, lower = figure.subplots(
        2, 1, height_ratios=[6, 0.6 + len(found.totals[:8]) * 0.5], gridspec_kw={"hspace": 0.36}
    )
    style.stacked_columns(upper, found.axis, found.series, palette)
    upper.set_title(f"Messages per {found.axis.unit}")
    shown = found.totals[:8]
    lower.set_title("Reasons")
    lower.barh(
        range(len(shown)),
        [count for _, _, count in shown],
        0.62,
        color=[palette.get(name, style.OTHERS) for name, _, _ in shown],
    )
    lower.set_yticks(range(len(shown)), [name for name, _, _ in shown], color=style.INK)
    lower.set_ylim(len(shown) - 0.4, -0.6)
    for place, (_, meaning, count) in enumerate(shown):
        lower.annotate(
            f"{count:,}   {meaning}", (count, place), (6, 0), textcoords="offset points", va="center",
            fontsize=8.5, color=style.SOFT,
        )  # fmt: skip
    lower.set_xlim(0, max(count for _, _, count in shown) * 1.75)
    lower.set_xticks([])
    for side in ("left", "bottom"):
        lower.spines[side].set_visible(False)
