"""Journals, dead letters and discards: `journal`, `dead`, `discards`."""

import re
import shlex
from typing import Annotated, Any, Final

import typer

from tiercel.cli.clean_text import one_line
from tiercel.cli.completion import OptionalQueue
from tiercel.cli.context import Context, connected
from tiercel.cli.message_text import ARRIVED, BODY, COLUMNS, LABEL, whole
from tiercel.cli.output import Column, Record, Styled, moment, number, size
from tiercel.cli.pages import LAST_MAX, newest

verbs = typer.Typer()

Count = Annotated[
    int,
    typer.Option(
        "-n", "--count", metavar="N", min=1, max=LAST_MAX, help="Number of messages, newest (default: 20)."
    ),
]
Full = Annotated[bool, typer.Option("--full", help="Show all properties and the whole body.")]

_LOOKED_AT: Final = 1000  # entries of the ledger to search for reasons
_DEAD: Final = (";deadletter", ";deadxact")


@verbs.command(
    "journal",
    epilog=r"""
Without QUEUE, shows the journal of the computer: copies of messages that were sent with --journal and have
arrived. The journal of a queue has copies of the messages received from it, if the queue has journaling
enabled.

Examples:

    tiercel journal
    tiercel journal orders -n 100
    tiercel export 'orders;journal' > received.jsonl
    tiercel purge 'orders;journal'
""",
)
@connected
def journal(context: Context, queue: OptionalQueue = None, count: Count = 20, full: Full = False) -> None:
    """Show the journal of a queue or of the computer."""
    place = f"{queue};journal" if queue else ";journal"
    _show(
        context, newest(context, place, count)[0], full=full, columns=COLUMNS, empty="The journal is empty."
    )


def _goal(message: Record) -> str:
    """The destination queue; the short name for a local private queue."""
    return re.sub(
        r"^DIRECT=OS:\.\\private\$\\", "", str(message.get("destination_queue", "")), flags=re.IGNORECASE
    )


_DEAD_COLUMNS: Final = (
    ARRIVED,
    Column("IN", lambda message: message["queue"]),
    Column("LOOKUP ID", lambda message: message["lookup_id"], "right"),
    Column("WHY", lambda message: Styled(message["reason"], "red"), below=True),
    Column("FOR", _goal, below=True),
    LABEL,
    BODY,
)


def _replays(group: Record) -> str:
    """The command that replays all of the group; two if it is in both dead-letter queues."""
    if group["filter"] is None:
        return ""
    match = shlex.quote(group["filter"])
    return "; ".join(f"tiercel replay {shlex.quote(queue)} --match {match}" for queue in group["queues"])


_GROUP_COLUMNS: Final = (
    Column("MESSAGES", lambda group: number(group["count"]), "right"),
    Column("FIRST", lambda group: moment(group["first"]), style="dim"),
    Column("LAST", lambda group: moment(group["last"]), style="dim"),
    Column("WHY", lambda group: Styled(group["reason"], "red"), below=True),
    Column("FOR", lambda group: _goal({"destination_queue": group["destination"]}), below=True),
    Column("FIX", lambda group: group["fix"], below=True),
    Column("REPLAY", _replays, below=True, wraps=False),
)


@verbs.command(
    "dead",
    epilog=r"""
As in MSMQ there are two dead-letter queues: ;deadletter, and ;deadxact for transactional messages. They keep
messages that were sent with --dead-letter.

Examples:

    tiercel dead
    tiercel dead --full -n 1
    tiercel dead --group                           how many, why, what to do, and how to replay them
    tiercel replay ';deadxact' --match 4711        send one again
    tiercel purge ';deadletter'
""",
)
@connected
def dead(
    context: Context,
    count: Count = 20,
    full: Full = False,
    group: Annotated[bool, typer.Option("--group", help="Show causes instead of messages.")] = False,
) -> None:
    """Show dead letters: messages that were not delivered or not received in time, and why."""
    if group:
        groups = context.api.get("dead")["groups"]
        context.out.table(groups, _GROUP_COLUMNS, empty="There are no dead letters.")
        return
    messages: list[Record] = []
    for queue in _DEAD:
        messages += ({"queue": queue, **each} for each in newest(context, queue, count)[0])
    messages.sort(key=lambda each: each.get("arrival_time", ""))
    _add_reasons(context, messages)
    _show(context, messages[-count:], full=full, columns=_DEAD_COLUMNS, empty="There are no dead letters.")


def _add_reasons(context: Context, messages: list[Record]) -> None:
    """For dead letters that were stored by version 0.2 or older: as far as the ledger still has them."""
    without = [each for each in messages if "reason" not in each]
    lines = context.api.get("discards", limit=_LOOKED_AT)["discards"] if without else []
    reasons = {line["id"]: line["reason"] for line in reversed(lines)}
    for each in without:
        each["reason"] = reasons.get(each["id"], "")


def _show(context: Context, messages: list[Record], *, full: bool, columns: Any, empty: str) -> None:
    if full and not context.out.as_json:
        for message in messages:
            context.out.show(whole(message, is_full=True))
    else:
        context.out.table(messages, columns, empty=empty)


_DISCARD_COLUMNS: Final = (
    Column("TIME", lambda line: moment(line["time"]), style="dim"),
    Column("QUEUE", lambda line: line["queue"].removeprefix("queue ")),
    Column("LABEL", lambda line: Styled(one_line(line["label"], 60), "bold"), folds=True),
    Column("SIZE", lambda line: size(line["size"]), "right"),
    Column("REASON", lambda line: Styled(one_line(line["reason"], 200), "red"), below=True),
)


@verbs.command(
    "discards",
    epilog="""
Every dropped message has an entry here, with the reason but without its body.

Examples:

    tiercel discards
    tiercel discards -n 1000 --json | jq -r .reason | sort | uniq -c
""",
)
@connected
def discards(context: Context, count: Count = 20) -> None:
    """Show dropped messages, and why they were dropped."""
    lines = context.api.get("discards", limit=count)["discards"]
    context.out.table(reversed(lines), _DISCARD_COLUMNS, empty="No messages were dropped.")
