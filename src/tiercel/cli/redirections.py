"""`tiercel redirections`: messages over HTTP that are passed on, and URLs that are replaced."""

from enum import StrEnum
from typing import Annotated, Final

import typer

from tiercel.cli.context import Context, connected, shown_alone
from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.failures import Failure
from tiercel.cli.options import Yes
from tiercel.cli.output import Column, Record, Styled

verbs = typer.Typer()
redirections = typer.Typer(
    help="Show and change redirections of messages over HTTP.",
    epilog=r"""
    inbound     messages that arrive for a URL go to another queue, here or elsewhere
    outbound    messages to a URL are sent to another computer, such as a router or a proxy
    exception   URLs that outbound redirections leave alone
    receipts    where the receipts of streams to a URL come, if this computer has another name outside

A `*` at the end of a pattern stands for any rest, and case does not matter. Of each kind, the first
redirection that matches counts. `add` puts a new one last; with the pattern of another it replaces that one.

`set` decides what happens to messages for other computers: without store and forward they are refused.

Examples:

    tiercel redirections
    tiercel redirections set --store-and-forward
    tiercel redirections add inbound 'http://www.example.com/msmq/orders' 'http://inside/msmq/private$/orders'
    tiercel redirections add outbound 'https://*' http://proxy.example:8080/
    tiercel redirections remove outbound 'https://*'
""",
)
verbs.add_typer(redirections, name="redirections")


class Kind(StrEnum):
    INBOUND = "inbound"
    OUTBOUND = "outbound"
    EXCEPTION = "exception"
    RECEIPTS = "receipts"


Kinds = Annotated[Kind, typer.Argument(metavar="KIND", help="inbound, outbound, exception or receipts.")]
Pattern = Annotated[str, typer.Argument(metavar="PATTERN", help="URL; a * at the end stands for any rest.")]

_COLUMNS: Final = (
    Column("KIND", lambda each: each["kind"]),
    Column("PATTERN", lambda each: Styled(each["pattern"], "bold")),
    Column("TO", lambda each: each["to"] or "", below=True),
)


@shown_alone(redirections)
@connected
def _show(context: Context) -> None:
    found = context.api.get("redirections")
    if context.out.as_json:
        context.out.record(found)
        return
    if found["redirections"]:
        context.out.table(found["redirections"], _COLUMNS, empty="")
    _say_settings(context, found)


def _say_settings(context: Context, found: Record) -> None:
    done = "passed on" if found["store_and_forward"] else "refused"
    context.out.say(f"Messages for other computers are {done}.")
    if found["receipts_default"]:
        context.out.say(f"Receipts come to {found['receipts_default']} by default.")


@redirections.command("add")
@connected
def add(
    context: Context,
    kind: Kinds,
    pattern: Pattern,
    to: Annotated[str, typer.Argument(metavar="[URL]", help="The new URL; none for exceptions.")] = "",
) -> None:
    """Add a redirection, or replace the one with the same pattern."""
    done = context.api.post("redirections", {"kind": kind.value, "pattern": pattern, "to": to or None})
    if context.out.as_json:
        context.out.record(done)
    else:
        context.out.say(f"{done['kind']} {done['pattern']}: {done['to'] or 'not redirected'}")


@redirections.command("remove")
@connected
def remove(context: Context, kind: Kinds, pattern: Pattern, yes: Yes = False) -> None:
    """Remove a redirection."""
    context.confirm(f"Remove the {kind.value} redirection of {pattern}?", yes=yes)
    done = context.api.delete("redirections", kind=kind.value, pattern=pattern)
    if context.out.as_json:
        context.out.record(done)
    else:
        context.out.say(f"{done['kind']} {done['pattern']}: removed")


@redirections.command("set")
@connected
def change(
    context: Context,
    store_and_forward: Annotated[
        bool | None,
        typer.Option(
            "--store-and-forward/--no-store-and-forward",
            help="Pass on messages for other computers (default: refuse them).",
        ),
    ] = None,
    receipts_default: Annotated[
        str | None,
        typer.Option(
            "--receipts-default",
            metavar="URL",
            help="URL for the receipts of all other streams, or none (default: none).",
        ),
    ] = None,
) -> None:
    """Change what applies to all messages over HTTP."""
    changes: Record = {}
    if store_and_forward is not None:
        changes["store_and_forward"] = store_and_forward
    if receipts_default is not None:
        changes["receipts_default"] = None if receipts_default == "none" else receipts_default
    if not changes:
        raise Failure("nothing to set: add --store-and-forward or --receipts-default", ExitCode.WRONG_USAGE)
    found = context.api.patch("redirections", changes)
    if context.out.as_json:
        context.out.record(found)
    else:
        _say_settings(context, found)
