"""`tiercel top`: the busiest queues, what waits for other computers, and consumers, live."""

import sys
import time
from typing import Annotated, Any, Final

import typer

from tiercel.cli.context import Context, connected
from tiercel.cli.output import Column, Record, Styled, age, number, plural, size
from tiercel.cli.table import layout

verbs = typer.Typer()

_SPARK: Final = "▁▂▃▄▅▆▇█"
_WIDTH: Final = 10_000  # for output that is not a terminal
_SPARK_WIDTH: Final = 20


def _rate(value: float) -> str:
    return f"{value:,.1f}" if value else ""


def _spark(queue: Record) -> str:
    depths = (queue.get("depths") or [])[-_SPARK_WIDTH:]
    most = max(depths, default=0)
    return "".join(_SPARK[each * (len(_SPARK) - 1) // most] for each in depths) if most else ""


_QUEUES: Final = (
    Column("QUEUE", lambda queue: Styled(queue["name"], "bold")),
    Column("MESSAGES", lambda queue: number(queue["count"]), "right"),
    Column("SIZE", lambda queue: size(queue["bytes"]), "right"),
    Column("OLDEST", lambda queue: age(queue["oldest_arrival"]), "right"),
    Column("IN/S", lambda queue: _rate(queue["in_rate"]), "right"),
    Column("OUT/S", lambda queue: _rate(queue["out_rate"]), "right"),
    Column("10 MIN", _spark),
)
_OUTGOING: Final = (
    Column("WAITING FOR", lambda queue: Styled(queue["format_name"], "bold")),
    Column("MESSAGES", lambda queue: number(queue["count"]), "right"),
    Column("OLDEST", lambda queue: age(queue["oldest_arrival"]), "right"),
    Column("WHY", lambda queue: Styled(queue["why"], "red"), below=True),
)
_CLAIMS: Final = (
    Column("CONSUMER", lambda claim: Styled(claim["consumer"], "bold")),
    Column("QUEUE", lambda claim: claim["queue"].removeprefix("queue ")),
    Column("CLAIMED", lambda claim: number(claim["count"]), "right"),
    Column("LAG", lambda claim: number(claim["lag"]), "right"),
)


@verbs.command(
    "top",
    epilog="""
Without a terminal, prints one frame. The rates are those of the last seconds.

Examples:

    tiercel top
    tiercel top --every 5
    tiercel top | head
""",
)
@connected
def top(
    context: Context,
    every: Annotated[
        float,
        typer.Option("--every", metavar="SECONDS", min=0.2, help="Seconds between frames (default: 2)."),
    ] = 2.0,
    count: Annotated[
        int, typer.Option("-n", "--count", metavar="N", min=1, help="Number of queues (default: 20).")
    ] = 20,
) -> None:
    """Show the busiest queues, live."""
    if context.out.as_json:
        context.out.record(_frame(context, count))
    elif not sys.stdout.isatty():
        for line in _lines(_frame(context, count), _WIDTH):
            print("".join(line).rstrip())
    else:
        _live(context, every, count)


def _frame(context: Context, count: int) -> dict[str, Any]:
    queues = context.api.get("queues", depths=_SPARK_WIDTH)["queues"]
    own = [queue for queue in queues if queue["kind"] != "outgoing"]
    own.sort(key=lambda queue: (-queue["in_rate"] - queue["out_rate"], -queue["count"], queue["name"]))
    outgoing = [queue for queue in context.api.get("outgoing")["outgoing"] if queue["count"]]
    return {
        "total": sum(queue["count"] for queue in own),
        "queues": own[:count],
        "outgoing": outgoing[:count],
        "claims": context.api.get("claims")["claims"][:count],
    }


def _lines(frame: dict[str, Any], width: int) -> list[list[Styled]]:
    parts = plural(len(frame["queues"]), "queue"), plural(frame["total"], "message")
    waiting = sum(queue["count"] for queue in frame["outgoing"])
    summary = ", ".join((*parts, f"{waiting:,} waiting for other computers"))
    lines: list[list[Styled]] = [[Styled(summary, "bold")]]
    for rows, columns in (
        (frame["queues"], _QUEUES),
        (frame["outgoing"], _OUTGOING),
        (frame["claims"], _CLAIMS),
    ):
        if rows:
            lines += [[Styled("")], *layout(rows, columns, width, rule=False)]
    return lines


def _live(context: Context, every: float, count: int) -> None:
    from rich.live import Live  # noqa: PLC0415  # loaded for a terminal only
    from rich.text import Text  # noqa: PLC0415

    console = context.out.console
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            lines = _lines(_frame(context, count), console.width)[: console.height]
            joined = [Text.assemble(*((str(part), part.style) for part in line)) for line in lines]
            live.update(Text("\n").join(joined), refresh=True)
            time.sleep(every)
