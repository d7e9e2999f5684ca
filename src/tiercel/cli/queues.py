"""Commands for queues: `ls`, `create`, `set`, `rm`, `count`, `purge`, `pause`, `resume`."""

import json
from typing import Annotated, Any, Final

import typer

from tiercel.cli.completion import QueueName, QueueNames, queue_names
from tiercel.cli.connection import queue_path
from tiercel.cli.context import Context, connected
from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.failures import Failure
from tiercel.cli.options import DryRun, Yes
from tiercel.cli.output import Column, Record, Styled, age, number, plural, size

verbs = typer.Typer()

# Alternative names for properties of the API.
_ALIASES: Final = {
    "journal": "journaling",
    "quota": "quota_kib",
    "journal_quota": "journal_quota_kib",
    "privacy": "privacy_level",
    "authenticate": "authentication",
}
_TEXTS: Final = frozenset({"label", "type", "security", "privacy_level"})
_SETTABLE: Final = (
    "label",
    "journaling",
    "quota_kib",
    "journal_quota_kib",
    "authentication",
    "privacy_level",
    "base_priority",
    "type",
    "multicast_address",
    "security",
)


# ls


def _name(queue: Record) -> Styled:
    style = {"outgoing": "cyan", "system": "magenta", "journal": "magenta", "subqueue": "blue"}
    return Styled(_typed_name(queue), style.get(queue["kind"], "bold"))


def _typed_name(queue: Record) -> str:
    """The name to type: ;deadletter for the dead letters of the computer, orders;journal for a journal."""
    name: str = queue["name"]
    if queue["kind"] not in {"system", "journal"}:
        return name
    owner, _, what = name.rpartition(";")
    return f"{'' if queue['kind'] == 'system' else owner};{what.lower()}"


def _marks(queue: Record) -> Styled:
    marks = {
        "transactional": queue["transactional"],
        "journal": queue["journaling"],
        "authenticated": queue["authentication"],
        "encrypted": queue["privacy_level"] == "body",
        "outgoing": queue["kind"] == "outgoing",
        "paused": queue["paused"],
    }
    words = " ".join(name for name, is_on in marks.items() if is_on)
    return Styled(words, "yellow" if queue["paused"] else "")


def _count(queue: Record) -> Styled:
    return Styled(number(queue["count"]), "bold" if queue["count"] else "dim")


_COLUMNS: Final = (
    Column("QUEUE", _name),
    Column("MESSAGES", _count, "right"),
    Column("SIZE", lambda queue: size(queue["bytes"]), "right"),
    Column("OLDEST", lambda queue: age(queue["oldest_arrival"]), "right"),
    Column(
        "IN JOURNAL", lambda queue: number(queue["journal_count"]) if queue["journal_count"] else "", "right"
    ),
    Column("CLAIMED", lambda queue: number(queue["claimed"]) if queue["claimed"] else "", "right"),
    Column("KIND", _marks, below=True),
    Column("LABEL", lambda queue: queue["label"] if queue["kind"] != "outgoing" else "", folds=True),
)
_LONG_COLUMNS: Final = (
    Column("QUEUE", _name),
    Column("MESSAGES", _count, "right"),
    Column("BYTES", lambda queue: number(queue["bytes"]), "right"),
    Column("QUOTA", lambda queue: size(queue["quota_kib"] * 1024) if queue["quota_kib"] else "none", "right"),
    Column("PATH NAME", lambda queue: queue["path_name"], below=True),
    Column("FORMAT NAME", lambda queue: queue["format_name"], below=True),
)


@verbs.command(
    "ls",
    epilog=r"""
Examples:

    tiercel ls                        all queues, including outgoing ones
    tiercel ls 'order*'               queues with a matching name
    tiercel ls --all                  with journals and dead-letter queues
    tiercel ls --json | jq .count     for programs
""",
)
@connected
def list_queues(
    context: Context,
    pattern: Annotated[
        str | None,
        typer.Argument(metavar="PATTERN", help="Name pattern with * and ?.", autocompletion=queue_names),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Include journals and dead-letter queues.")
    ] = False,
    long: Annotated[
        bool, typer.Option("--long", "-l", help="Show quota, path name and format name.")
    ] = False,
) -> None:
    """List queues with the number, size and age of their messages."""
    kind = "all" if everything else None
    queues = context.api.get("queues", pattern=pattern, kind=kind)["queues"]
    if pattern and not queues:
        raise Failure(f"{pattern}: no such queue. `tiercel ls` lists all queues", ExitCode.NOT_FOUND)
    empty = "No queues. Create one with `tiercel create orders`."
    context.out.table(queues, _LONG_COLUMNS if long else _COLUMNS, empty=empty)


# create, set, rm

Properties = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE...", help=f"Properties: {', '.join(_SETTABLE)}.")
]


@verbs.command(
    "create",
    epilog=r"""
Examples:

    tiercel create orders
    tiercel create orders --transactional --label 'Orders of the shop'
    tiercel create '.\private$\orders' --journal quota_kib=1048576
    tiercel create orders --exist-ok
    tiercel create prices --multicast 234.1.1.1:8001
""",
)
@connected
def create(
    context: Context,
    queue: Annotated[
        str, typer.Argument(metavar="QUEUE", help=r"Queue name, such as orders or .\private$\orders.")
    ],
    properties: Properties = None,
    transactional: Annotated[
        bool,
        typer.Option("--transactional", "-t", help="Make the queue transactional; cannot be changed later."),
    ] = False,
    label: Annotated[str | None, typer.Option(metavar="TEXT", help="Description.")] = None,
    journal: Annotated[bool, typer.Option("--journal", help="Keep copies of received messages.")] = False,
    multicast: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS:PORT", help="Multicast address to listen to, such as 234.1.1.1:8001."),
    ] = None,
    exist_ok: Annotated[
        bool, typer.Option("--exist-ok", help="Succeed if the queue exists already.")
    ] = False,
) -> None:
    """Create a queue."""
    wanted = _properties(properties)
    wanted |= {} if label is None else {"label": label}
    wanted |= {"journaling": True} if journal else {}
    wanted |= {} if multicast is None else {"multicast_address": multicast}
    body = {"path_name": queue, "transactional": transactional, "exist_ok": exist_ok, **wanted}
    made = context.api.post("queues", body)
    if context.out.as_json:
        context.out.record(made)
    else:
        context.out.say(made["path_name"])


@verbs.command(
    "set",
    epilog=r"""
Without KEY=VALUE, shows the current properties. Quotas are in KiB, or none.

Examples:

    tiercel set orders
    tiercel set orders label='Orders of the shop' journaling=true
    tiercel set orders quota_kib=none
    tiercel set prices multicast_address=234.1.1.1:8001    or none
    tiercel set orders authentication=true privacy_level=body
""",
)
@connected
def set_properties(context: Context, queue: QueueName, properties: Properties = None) -> None:
    """Change or show the properties of a queue."""
    wanted = _properties(properties)
    path = queue_path(queue)
    found = context.api.patch(path, wanted) if wanted else context.api.get(path)
    if context.out.as_json:
        context.out.record(found)
        return
    shown = wanted or [name for name in _SETTABLE if name in found]
    context.out.facts((name, _value(found[name])) for name in shown)


def _value(value: Any) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value)


def _properties(words: list[str] | None) -> dict[str, Any]:
    found = {}
    for word in words or ():
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise Failure(
                f"{word}: write properties as KEY=VALUE, for example label=Orders", ExitCode.WRONG_USAGE
            )
        key = key.strip().lower().replace("-", "_")
        key = _ALIASES.get(key, key)
        found[key] = text if key in _TEXTS else _typed(text)
    return found


def _typed(text: str) -> Any:
    """Convert to a number, a Boolean or None; anything else stays text, for the queue manager to check."""
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    if text.lower() in words:
        return words[text.lower()]
    if text.lower() in {"none", "null", "infinite", ""}:
        return None
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() else text


@verbs.command(
    "rm",
    epilog="""
Examples:

    tiercel rm --dry-run orders      shows how many messages would be deleted
    tiercel rm orders
    tiercel rm --yes orders invoices
""",
)
@connected
def remove(context: Context, queues: QueueNames, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Delete queues with all their messages."""
    counts = {queue: context.api.delete(queue_path(queue), dry_run=True) for queue in queues}
    if dry_run:
        _tell(context, counts, "would be deleted")
        return
    context.confirm(f"Delete {_these(counts)}?", yes=yes)
    done = {queue: context.api.delete(queue_path(queue)) for queue in queues}
    _tell(context, done, "deleted")


@verbs.command(
    "purge",
    epilog="""
As in MSMQ, purged messages leave negative acknowledgements and dead letters if their senders asked for them.

Examples:

    tiercel purge --dry-run orders
    tiercel purge orders
    tiercel purge --yes ';deadletter'
""",
)
@connected
def purge(context: Context, queues: QueueNames, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Delete all messages of queues, but not the queues."""
    counts = {queue: context.api.post(queue_path(queue, "purge"), dry_run=True) for queue in queues}
    if dry_run:
        _tell(context, counts, "would be purged")
        return
    context.confirm(f"Purge {_these(counts)}?", yes=yes)
    done = {queue: context.api.post(queue_path(queue, "purge")) for queue in queues}
    _tell(context, done, "purged")


def _these(counts: dict[str, Record]) -> str:
    messages, size_bytes = (sum(each[key] for each in counts.values()) for key in ("count", "bytes"))
    return f"{', '.join(counts)} with {plural(messages, 'message')} ({size(size_bytes)})"


def _tell(context: Context, counts: dict[str, Record], what: str) -> None:
    for queue, found in counts.items():
        if context.out.as_json:
            context.out.record({"queue": queue, "what": what, **found})
        else:
            context.out.say(f"{queue}: {what}, {plural(found['count'], 'message')} ({size(found['bytes'])})")


# count


@verbs.command(
    "count",
    epilog="""
Examples:

    tiercel count orders
    tiercel count orders ';deadletter' ';deadxact'
    test "$(tiercel count orders)" -eq 0
""",
)
@connected
def count(context: Context, queues: QueueNames) -> None:
    """Print the number of messages: one number, or one line per queue. Claimed messages are not counted."""
    for queue in queues:
        found = context.api.get(queue_path(queue))
        if context.out.as_json:
            context.out.record({"queue": queue, "count": found["count"], "bytes": found["bytes"]})
        else:
            context.out.say(str(found["count"]) if len(queues) == 1 else f"{found['count']:>8} {queue}")


# pause, resume


@verbs.command(
    "pause",
    epilog="""
Messages can still be sent to a paused queue; they wait. As in MSMQ, a restart ends the pause.

Examples:

    tiercel outgoing
    tiercel pause 'DIRECT=OS:server-a\\private$\\orders'
""",
)
@connected
def pause(context: Context, queues: QueueNames) -> None:
    """Pause outgoing queues until they are resumed."""
    _hold(context, queues, "pause", "paused")


@verbs.command(
    "resume",
    epilog="""
Examples:

    tiercel resume 'DIRECT=OS:server-a\\private$\\orders'
""",
)
@connected
def resume(context: Context, queues: QueueNames) -> None:
    """Resume outgoing queues; try at once to connect for one that waits for its next try."""
    _hold(context, queues, "resume", "resumed")


def _hold(context: Context, queues: list[str], verb: str, done: str) -> None:
    for queue in queues:
        found = context.api.post(queue_path(queue, verb))
        if context.out.as_json:
            context.out.record(found)
        else:
            context.out.say(f"{queue}: {done}")
