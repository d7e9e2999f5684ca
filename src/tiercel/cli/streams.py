"""`tiercel streams`: streams of transactional messages between queue managers."""

from typing import Annotated, Final
from urllib.parse import quote

import typer

from tiercel.cli.completion import queue_names
from tiercel.cli.context import Context, connected, shown_alone
from tiercel.cli.options import Yes
from tiercel.cli.output import Column, Styled, age, number

verbs = typer.Typer()
streams = typer.Typer(
    help="Show streams of transactional messages, and repair one.",
    epilog=r"""
The transactional messages of one sender to one queue are a stream: numbered, accepted in order, and each of
them once. A stream that cannot go on has a reason in the last column.

`reset` forgets how far a sender has come with its messages to a queue. The next message of the sender is
accepted, even one that it has sent before: use it only if the sender is blocked.

An outgoing stream that is blocked is reset at the other computer, which keeps count of it. To give up its
messages instead, purge the outgoing queue.

Examples:

    tiercel streams
    tiercel streams reset orders 40d7c85b-be11-4984-a852-4488ea85537c
""",
)
verbs.add_typer(streams, name="streams")

_COLUMNS: Final = (
    Column("QUEUE", lambda each: Styled(each["queue"], "bold")),
    Column("", lambda each: "outgoing" if each["direction"] == "out" else "incoming"),
    Column("QUEUE MANAGER", lambda each: each["peer"] or "", below=True),
    Column("SEQUENCE", lambda each: each["sequence"], below=True),
    Column("NUMBER", lambda each: number(each["number"]), "right"),
    Column("SENT", lambda each: _number(each["sent"]), "right"),
    Column("ACKNOWLEDGED", lambda each: _number(each["acknowledged"]), "right"),
    Column("REJECTED", lambda each: number(each["rejected"]) if each["rejected"] else "", "right"),
    Column("LAST", lambda each: age(each["last_change"]), "right"),
    Column("PROBLEM", lambda each: each["problem"] or "", below=True),
)


def _number(value: int | None) -> str:
    return "" if value is None else number(value)


@shown_alone(streams)
@connected
def _show(context: Context) -> None:
    found = context.api.get("streams")["streams"]
    context.out.table(found, _COLUMNS, empty="No streams of transactional messages.")


@streams.command("reset")
@connected
def reset(
    context: Context,
    queue: Annotated[
        str, typer.Argument(metavar="QUEUE", help="Queue of this computer.", autocompletion=queue_names)
    ],
    sender: Annotated[str, typer.Argument(metavar="GUID", help="Queue manager that sends the messages.")],
    yes: Yes = False,
) -> None:
    """Forget how far a sender has come with its messages to a queue."""
    context.confirm(f"Accept whatever {sender} sends to {queue} next?", yes=yes)
    done = context.api.delete(f"queues/{quote(queue, safe='')}/streams/{quote(sender, safe='')}")
    if context.out.as_json:
        context.out.record(done)
    else:
        context.out.say(f"{done['queue']}: stream of {done['peer']} reset")
