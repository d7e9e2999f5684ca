"""`tiercel multicast`: groups, the sources that are heard, loss and repair."""

from typing import Final

import typer

from tiercel.cli.context import Context, connected
from tiercel.cli.output import Column, Record, Styled, number

verbs = typer.Typer()


def _lost(each: Record) -> Styled:
    lost = each.get("lost") or 0
    return Styled(number(lost), "red" if lost else "dim")


_COLUMNS: Final = (
    Column("ADDRESS", lambda each: Styled(each["address"], "bold")),
    Column("SOURCE", lambda each: each["source"]),
    Column("PACKETS", lambda each: number(each["packets"]), "right"),
    Column("REPAIRED", lambda each: number(each["repairs"]), "right"),
    Column("LOST", _lost, "right"),
    Column("QUEUES", lambda each: " ".join(each["queues"]), below=True),
)


@verbs.command(
    "multicast",
    epilog=r"""
One line for each source that is heard at the address of a queue, and one for each address that this queue
manager sends to. LOST counts packets that could not be repaired: the messages in them did not arrive.

A queue subscribes by its multicast_address. `[multicast]` in the configuration turns multicast on.

Examples:

    tiercel create prices --multicast 234.1.1.1:8001
    tiercel send MULTICAST=234.1.1.1:8001 'MSFT 428.10'
    tiercel multicast
""",
)
@connected
def multicast(context: Context) -> None:
    """Show multicast groups, the sources heard, and what was lost and repaired."""
    found = context.api.get("multicast")
    if context.out.as_json:
        context.out.record(found)
        return
    empty = "No multicast addresses. Subscribe one with `tiercel create prices --multicast 234.1.1.1:8001`."
    context.out.table(_rows(found), _COLUMNS, empty=empty)
    if not found["enabled"]:
        context.out.say("Multicast is off: set [multicast] enabled = true in the configuration.")


def _rows(found: Record) -> list[Record]:
    rows: list[Record] = []
    for group in found["groups"]:
        heard = [
            {
                "source": each["address"],
                "packets": each["packets"],
                "repairs": each["repaired"],
                "lost": each["lost"],
            }
            for each in group["sources"]
        ] or [{"source": "none heard yet", "packets": 0, "repairs": 0, "lost": 0}]
        rows += [{"address": group["address"], "queues": group["queues"], **each} for each in heard]
    for sent in found["sending"]:
        rows.append({**sent, "source": "this queue manager", "lost": 0, "queues": []})
    return rows
