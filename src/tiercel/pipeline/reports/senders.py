"""The busiest senders."""

from collections import Counter
from typing import NamedTuple

from matplotlib.figure import Figure
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tiercel.model.errors import DecodeError
from tiercel.model.sid import SecurityIdentifier
from tiercel.pipeline.reports import style
from tiercel.pipeline.reports.findings import Findings, empty
from tiercel.pipeline.words import size_text

NAME = "senders"
TITLE = "Top senders"
NEEDS = ("src_machine_id", "sender_id", "body_size", "queue")
TAKES = ("resp_queue", "admin_queue")

_SHOWN = 15
# `DIRECT=OS:shop-1\private$\answers`, `DIRECT=TCP:10.0.0.7\...`, `shop-1\private$\answers`
_HOST = r"(?i)^(?:DIRECT=(?:OS|TCP|HTTPS?):/{0,2})?([^=\\/:.;][^=\\/:;]*)[\\/:]"


class Sender(NamedTuple):
    account: str
    machine: str  # its name, if its messages tell one, or else its GUID
    guid: str
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
    names = _computers(rows)
    found = [
        Sender(
            _account(row["sender_id"]),
            names.get(row["src_machine_id"], row["src_machine_id"] or "unknown"),
            row["src_machine_id"] or "",
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
        header=("account", "computer", "its GUID", "messages", "bodies", "queues"),
        rows=[
            (
                each.account,
                each.machine,
                each.guid,
                f"{each.messages:,}",
                size_text(each.size),
                f"{each.queues:,}",
            )
            for each in found
        ],
        data=found,
    )


def _computers(rows: DataFrame) -> dict[str, str]:
    """The names of computers by GUID: that of the host to which most of their messages want answers.

    A message has only the GUID of the computer it comes from. A name that two GUIDs claim says nothing.
    """
    hosts = [f.regexp_extract(each, _HOST, 1) for each in TAKES if each in rows.columns]
    if not hosts:
        return {}
    host = f.lower(f.coalesce(*[f.nullif(each, f.lit("")) for each in hosts]))
    counts = rows.select("src_machine_id", host.alias("host")).where("host is not null")
    found = counts.groupBy("src_machine_id").agg(f.mode("host", True).alias("host")).collect()
    names = {row["src_machine_id"]: row["host"] for row in found if row["src_machine_id"]}
    often = Counter(names.values())
    return {guid: name for guid, name in names.items() if often[name] == 1}


def _account(sender: bytes | None) -> str:
    if not sender:
        return "not named"
    try:
        return str(SecurityIdentifier.decode(bytes(sender)))
    except DecodeError:
        return bytes(sender).hex()


def height(findings: Findings) -> float:
    return style.bars_height(len(findings.data))


def draw(figure: Figure, findings: Findings) -> None:
    found: list[Sender] = findings.data
    axes = figure.subplots()
    machines = list(dict.fromkeys(each.machine for each in found))
    palette = style.colours(machines)
    most = max(each.messages for each in found)
    for place, each in enumerate(found):
        axes.barh(place, each.messages, 0.62, color=palette.get(each.machine, style.OTHERS))
        words = f"{each.messages:,}   {size_text(each.size)}   {each.queues} queue{'s' * (each.queues != 1)}"
        axes.annotate(
            words, (each.messages, place), (6, 0), textcoords="offset points", va="center", fontsize=8.5,
            color=style.SOFT,
        )  # fmt: skip
    labels = [f"{style.clipped(each.account)}\n{style.clipped(each.machine)}" for each in found]
    axes.set_yticks(range(len(found)), labels, color=style.INK, fontsize=8.5)
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.set_xlim(0, most * 1.4)
    axes.set_xticks([])
    axes.set_title("Messages by account and computer (each computer has its colour)")
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
