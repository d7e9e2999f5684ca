"""Changing messages with a way back: `delete`, `undo`, `operations`, `edit`, `audit`."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tiercel.cli.completion import QueueName
from tiercel.cli.connection import queue_path
from tiercel.cli.context import Context, connected
from tiercel.cli.copy_move import Limit, LookupIds, Match, chosen_ids
from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.failures import Failure
from tiercel.cli.options import DryRun, Yes
from tiercel.cli.output import Column, Record, Styled, moment, number, plural, size
from tiercel.cli.receiving import lookup_id_of

verbs = typer.Typer()

_STATES: Final = {
    "running": Styled("running", "yellow"),
    "paused": Styled("paused", "yellow"),
    "failed": Styled("failed", "red"),
    "finished": Styled("finished", "green"),
    "cancelled": Styled("cancelled", "dim"),
    "done": Styled("can be undone", "green"),
    "undone": Styled("undone", "dim"),
}


# delete, undo, operations


@verbs.command(
    "delete",
    epilog="""
The messages go to the subqueue QUEUE;trash. For 24 hours, `tiercel undo` puts them back into their old
places. `tiercel purge` ends messages at once and for good.

Examples:

    tiercel delete orders --match 4711
    tiercel delete orders --dry-run
    tiercel delete orders --yes
    tiercel undo 7

exit codes: 0 success, 3 no message matched
""",
)
@connected
def delete(
    context: Context,
    queue: QueueName,
    limit: Limit = None,
    lookup_id: LookupIds = None,
    match: Match = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> ExitCode | None:
    """Delete messages; `tiercel undo` brings them back."""
    chosen = chosen_ids(context, queue, lookup_id, match)
    if chosen is not None and not chosen:
        return ExitCode.NOTHING
    wanted: dict[str, Any] = {} if chosen is None else {"lookup_ids": chosen[:limit]}
    wanted |= {"limit": limit} if limit is not None and chosen is None else {}
    plan = context.api.post(queue_path(queue, "delete"), wanted | {"dry_run": True})
    if dry_run:
        if context.out.as_json:
            context.out.record(plan)
        context.out.say(f"{plural(plan['count'], 'message')} of {queue} would be deleted")
        return None
    context.confirm(f"Delete {plural(plan['count'], 'message')} of {queue}?", yes=yes or chosen is not None)
    done = context.api.post(queue_path(queue, "delete"), wanted | {"plan": plan["plan"]})
    if context.out.as_json:
        context.out.record(done)
    undo = f"tiercel undo {done['id']}"
    context.out.say(f"{plural(done['count'], 'message')} of {queue} deleted; `{undo}` brings them back")
    return None


@verbs.command(
    "undo",
    epilog="""
What was moved or replayed can be undone as far as it stayed on this computer and nobody has received it. Dead
letters become dead letters again.

Examples:

    tiercel operations
    tiercel undo 7
""",
)
@connected
def undo(
    context: Context,
    operation: Annotated[int, typer.Argument(metavar="OPERATION", min=1, help="Number of the operation.")],
) -> None:
    """Undo a deletion, an edit, a move or a replay: put the messages back into their old places."""
    done = context.api.post(f"operations/{operation}/undo")
    if context.out.as_json:
        context.out.record(done)
    text = f"{done['restored']} of {plural(done['count'], 'message')} put back into {done['queue']}"
    context.out.say(text)


def _state(operation: Record) -> Styled:
    found = _STATES.get(operation["state"], Styled("trash emptied", "dim"))
    if operation["state"] in {"running", "paused", "failed"} and operation["total"]:
        return Styled(f"{found} at {operation['looked']} of {operation['total']}", found.style)
    return found


_OPERATIONS: Final = (
    Column("ID", lambda each: each["id"], "right"),
    Column("TIME", lambda each: moment(each["time"]), style="dim"),
    Column("WHAT", lambda each: Styled(each["kind"], "bold")),
    Column("QUEUE", lambda each: each["queue"]),
    Column("MESSAGES", lambda each: number(each["count"]), "right"),
    Column("SIZE", lambda each: size(each["bytes"]), "right"),
    Column("STATE", _state),
    Column("WHO", lambda each: each["who"], below=True),
    Column("NOTE", lambda each: each["note"], below=True),
)


@verbs.command(
    "operations",
    epilog="""
`tiercel replay`, `mv` and `cp` with --rate, --since, --until or --background run in the queue manager, also
after a restart of it.

Examples:

    tiercel operations
    tiercel operations --pause 7
    tiercel operations --resume 7
    tiercel operations --cancel 7
    tiercel operations --json | jq 'select(.state == "done")'
""",
)
@connected
def operations(
    context: Context,
    pause: Annotated[int | None, typer.Option("--pause", metavar="ID", min=1, help="Pause it.")] = None,
    resume: Annotated[
        int | None, typer.Option("--resume", metavar="ID", min=1, help="Go on with it.")
    ] = None,
    cancel: Annotated[
        int | None, typer.Option("--cancel", metavar="ID", min=1, help="End it; what is done stays done.")
    ] = None,
) -> None:
    """Show bulk work: its progress, and what can be undone."""
    for verb, chosen in (("pause", pause), ("resume", resume), ("cancel", cancel)):
        if chosen is not None:
            context.api.post(f"operations/{chosen}/{verb}")
    found = context.api.get("operations")["operations"]
    context.out.table(found, _OPERATIONS, empty="Nothing was deleted, edited or moved in bulk.")


# edit

_SET_HELP: Final = "Property and value, as label=new or priority=5; repeatable."
_EDITABLE: Final = ("label", "priority", "text", "json", "time_to_be_received", "application_tag")


def _pair(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE")
    if name == "text":
        return name, value
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


@verbs.command(
    "edit",
    epilog=r"""
One commit sends the changed message and deletes the original, so neither both nor none exist. The original
goes to QUEUE;trash (`tiercel undo`). Without --set or --text, opens $EDITOR with the properties as JSON.

Examples:

    tiercel edit ';deadletter' 288230376151711750
    tiercel edit orders 288230376151711750 --set label='order 8' --set priority=7
    tiercel edit ';deadxact' 288230376151711750 --text '{"total": 12}' --to orders
""",
)
@connected
def edit(
    context: Context,
    queue: QueueName,
    lookup_id: Annotated[str, typer.Argument(metavar="LOOKUP_ID", parser=lookup_id_of, help="Lookup id.")],
    changes: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=_SET_HELP)] = None,
    text: Annotated[str | None, typer.Option("--text", metavar="TEXT", help="New body.")] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="QUEUE", help="Destination (default: its own queue).")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the original, too.")] = False,
) -> None:
    """Change a message and send it again."""
    wanted = dict(map(_pair, changes or ())) | ({} if text is None else {"text": text})
    if not wanted:
        wanted = _edited(context, queue, lookup_id)
    body = {"changes": wanted, "keep": keep} | ({} if to is None else {"to": to})
    done = context.api.post(queue_path(queue, "messages", lookup_id, "edit"), body)
    if context.out.as_json:
        context.out.record(done)
        return
    for name, (old, new) in done["changed"].items():
        context.out.say(
            f"{name}: {json.dumps(old, ensure_ascii=False)} -> {json.dumps(new, ensure_ascii=False)}"
        )
    context.out.say(f"sent as {done['id']}")
    if done["operation"]:
        context.out.say(f"`tiercel undo {done['operation']}` brings the original back")


def _edited(context: Context, queue: str, lookup_id: str) -> dict[str, Any]:
    """What the user has changed in an editor."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor or not sys.stdin.isatty():
        raise Failure("use --set or --text, or set EDITOR and run it in a terminal", ExitCode.WRONG_USAGE)
    message = context.api.get(queue_path(queue, "messages", lookup_id), decode="true")
    before = {name: message[name] for name in _EDITABLE if name in message}
    decoded = message.get("decoded") or {}
    if isinstance(decoded.get("text"), str):
        before["text"] = decoded["text"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "message.json"
        file.write_text(json.dumps(before, indent=2, ensure_ascii=False) + "\n", "utf-8")
        if subprocess.run([*shlex.split(editor), str(file)], check=False).returncode:  # noqa: S603
            raise Failure("the editor failed; nothing was done")
        try:
            after = json.loads(file.read_text("utf-8"))
        except ValueError as problem:
            raise Failure(f"not valid JSON ({problem}); nothing was done") from problem
    changed = {
        name: after.get(name) for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    }
    if not changed:
        raise Failure("nothing was changed, so nothing was sent")
    return changed


# audit

_SHOWN_APART: Final = frozenset({"line", "time", "who", "what", "subject", "previous"})


def _details(line: Record) -> str:
    apart = _SHOWN_APART | ({"address"} if line.get("address") == line.get("who") else frozenset())
    return ", ".join(f"{name} {value}" for name, value in line.items() if name not in apart)


_AUDIT: Final = (
    Column("TIME", lambda line: moment(line["time"]), style="dim"),
    Column("WHO", lambda line: line.get("who", "")),
    Column("WHAT", lambda line: Styled(line.get("what", ""), "bold")),
    Column("SUBJECT", lambda line: line.get("subject", "")),
    Column("DETAILS", _details, below=True),
)


@verbs.command(
    "audit",
    epilog="""
Each line was written in the commit of the change, and holds the SHA-256 of the line before: `tiercel check`
verifies the chain.

Examples:

    tiercel audit
    tiercel audit -n 1000 --json | jq 'select(.what == "purge queue")'
""",
)
@connected
def audit(
    context: Context,
    count: Annotated[
        int,
        typer.Option("-n", "--count", metavar="N", min=1, max=1000, help="Number of lines (default: 20)."),
    ] = 20,
) -> None:
    """Show who changed what."""
    lines = context.api.get("audit", limit=count)["lines"]
    context.out.table(lines[::-1], _AUDIT, empty="Nothing was changed.")
