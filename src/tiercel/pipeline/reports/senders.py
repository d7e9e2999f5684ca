"""The busiest senders."""

from typing import NamedTuple

from matplotlib.figure import Figure
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tiercel.model.errors import DecodeError
from tiercel.model.sid import SecurityIdentifier
from tiercel.pipeline.reports import style
from tiercel.pipeline.reports.findings import Findings, empty
from tiercel.pipeline.tables.table import MIB

NAME = "senders"
TITLE = "Top senders"
NEEDS = ("src_machine_id", "sender_id", "body_size", "queue")

_SHOWN = 15


class Sender(NamedTuple):
    account: str
    machine: str
    messages: int
    size: int
    queues: int


def job(rows: DataFrame) -> Findings:
    senders = rows.groupBy("src_machine_id", "sender_id").agg(
        f.count("*").alias("messages"),
        f.sum("body_size").alias("bytes"),
        f.approx_count_distinct("queue").alias("queues"),
    )
    total = rows.count()
    if not total:
        return empty("The table holds no messages.")
    number = senders.count()
    found = [
        Sender(
            _account(row["sender_id"]),
            row["src_machine_id"] or "?",
            row["messages"],
            row["bytes"] or 0,
            row["queues"],
        )
        for row in senders.orderBy(f.desc("messages")).limit(_SHOWN).collect()
    ]
    share = sum(each.messages for each in found) / total
    return Findings(
        headline=f"{number:,} sender{'s' * (number != 1)}, {total:,} messages"
        + f"; the {len(found)} busiest sent {share:.0%}" * (number > len(found)),
        facts=(
            ("senders", f"{number:,}"),
            ("messages", f"{total:,}"),
            ("sent by those shown", f"{share:.1%}"),
        ),
        header=("account", "computer", "messages", "MiB of bodies", "queues"),
        rows=[
            (each.account, each.machine, f"{each.messages:,}", f"{each.size / MIB:,.2f}", f"{each.queues:,}")
            for each in found
        ],
        data=found,
    )


def _account(sender: bytes | None) -> str:
    if not sender:
        return "not named"
    try:
        return str(SecurityIdentifier.decode(bytes(sender)))
    except DecodeError:
        return bytes(sender).hex()


def draw(figure: Figure, findings: Findings) -> None:
    found: list[Sender] = findings.data
    axes = figure.subplots()
    machines = list(dict.fromkeys(each.machine for each in found))
    palette = style.colours(machines)
    most = max(each.messages for each in found)
    for place, each in enumerate(found):
        axes.barh(place, each.messages, 0.62, color=palette.get(each.machine, style.OTHERS))
        words = (
            f"{each.messages:,}   {each.size / MIB:,.1f} MiB   {each.queues} queue{'s' * (each.queues != 1)}"
        )
        axes.annotate(
            words, (each.messages, place), (6, 0), textcoords="offset points", va="center", fontsize=8.5,
            color=style.SOFT,
        )  # fmt: skip
    labels = [f"{style.clipped(each.account)}\n{each.machine[:13]}…" for each in found]
    axes.set_yticks(range(len(found)), labels, color=style.INK, fontsize=8.5)
    axes.set_ylim(max(len(found), 4) - 0.4, -0.6)
    axes.set_xlim(0, most * 1.4)
    axes.set_xticks([])
    axes.set_title("Messages by account and computer (each computer has its colour)")
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
