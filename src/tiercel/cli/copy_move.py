"""`tiercel cp`, `mv` and `replay`: copy or move messages between queues, with all properties."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from tiercel.cli.completion import queue_names
from tiercel.cli.connection import queue_path
from tiercel.cli.context import Context, connected
from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.options import DryRun
from tiercel.cli.output import plural
from tiercel.cli.progress import bar
from tiercel.cli.receiving import lookup_id_of
from tiercel.cli.tail_grep import matches, wish

verbs = typer.Typer()

_AT_ONCE: Final = 1000  # messages per request and transaction

From = Annotated[str, typer.Argument(metavar="FROM", help="Source queue.", autocompletion=queue_names)]
To = Annotated[str, typer.Argument(metavar="TO", help="Destination queue.", autocompletion=queue_names)]
Limit = Annotated[
    int | None, typer.Option("--limit", metavar="N", min=1, help="Limit to the first N messages.")
]
LookupIds = Annotated[
    list[str] | None,
    typer.Option("--lookup-id", metavar="ID", parser=lookup_id_of, help="Only this message; repeatable."),
]
Transactional = Annotated[
    bool,
    typer.Option(
        "--transactional", "-t", help="For a remote transactional queue (default: as each message is)."
    ),
]
Goal = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="QUEUE",
        help="Destination queue (default: the queue that each message was sent to).",
        autocompletion=queue_names,
    ),
]
Keep = Annotated[bool, typer.Option("--keep", help="Keep the originals, and send copies.")]
Match = Annotated[
    str | None,
    typer.Option("--match", metavar="FILTER", help="Only messages that `tiercel grep FILTER` finds."),
]


def _verb(verb: str, words: str) -> Callable[..., ExitCode | None]:
    """Make the command for `move` or `copy`, which have the same options."""

    @connected
    def transfer(
        context: Context,
        source: From,
        to: To,
        limit: Limit = None,
        lookup_id: LookupIds = None,
        match: Match = None,
        transactional: Transactional = False,
        dry_run: DryRun = False,
    ) -> ExitCode | None:
        chosen = chosen_ids(context, source, lookup_id, match)
        how = {"to": to, "dry_run": dry_run} | ({"transactional": True} if transactional else {})
        return _transfer(context, _Transfer(verb, source, limit, chosen, how))

    transfer.__doc__ = words
    return transfer


verbs.command(
    "mv",
    epilog=r"""
Each message is received and sent in one commit, so it is always in exactly one queue, even if a process is
killed. Within one computer it keeps its id. Messages leased by other readers are not moved. A dead letter
becomes a message again: its time to live starts anew, and its end is acknowledged and journaled.

Examples:

    tiercel mv orders archive
    tiercel mv ';deadxact' orders --match 4711
    tiercel mv orders 'DIRECT=OS:server-b\private$\orders'
    tiercel mv --dry-run orders archive

exit codes: 0 success, 3 no message matched
""",
)(_verb("move", "Move messages to another queue."))

verbs.command(
    "cp",
    epilog=r"""
Copies the current messages of FROM, in order. A copy has a new id and keeps all properties that a sender may
set.

Examples:

    tiercel cp orders test
    tiercel cp orders test --limit 10
    tiercel cp 'orders;journal' orders --match 4711

exit codes: 0 success, 3 no message matched
""",
)(_verb("copy", "Copy messages to another queue."))


@verbs.command(
    "replay",
    epilog=r"""
Moves each message to the queue that it was sent to, with all properties and in one commit: dead letters,
journals, and subqueues of messages that failed. To another computer it is sent with a new id.

Examples:

    tiercel replay ';deadxact'
    tiercel replay ';deadletter' --match 'label:"order 7" age<1d'
    tiercel replay ';deadletter' --to orders --limit 10
    tiercel replay 'orders;journal' --keep --dry-run

exit codes: 0 success, 3 no message matched
""",
)
@connected
def replay(
    context: Context,
    source: From,
    to: Goal = None,
    limit: Limit = None,
    lookup_id: LookupIds = None,
    match: Match = None,
    keep: Keep = False,
    transactional: Transactional = False,
    dry_run: DryRun = False,
) -> ExitCode | None:
    """Send messages again, by default to their own destination."""
    chosen = chosen_ids(context, source, lookup_id, match)
    how = {"to": to, "dry_run": dry_run, "keep": keep} | ({"transactional": True} if transactional else {})
    return _transfer(context, _Transfer("replay", source, limit, chosen, how))


def chosen_ids(
    context: Context, source: str, lookup_ids: list[str] | None, pattern: str | None
) -> list[str] | None:
    if pattern is None:
        return lookup_ids
    found = [message["lookup_id"] for message, _ in matches(context, source, wish(pattern, "--match"))]
    return found if lookup_ids is None else [each for each in found if each in lookup_ids]


@dataclass(frozen=True, slots=True)
class _Transfer:
    verb: str
    source: str
    limit: int | None
    lookup_ids: list[str] | None
    how: dict[str, Any]  # the rest of each request

    def requests(self, context: Context) -> tuple[int, Iterator[dict[str, Any]]]:
        """The number of messages, and the requests to make."""
        if self.lookup_ids is not None:
            chosen = self.lookup_ids[: self.limit]
            return len(chosen), _named(chosen)
        total = context.api.get(queue_path(self.source))["count"]
        total = total if self.limit is None else min(total, self.limit)
        return total, _stretches(total)


def _stretches(total: int) -> Iterator[dict[str, Any]]:
    for start in range(0, total, _AT_ONCE):
        yield {"limit": min(total - start, _AT_ONCE)}


def _named(lookup_ids: list[str]) -> Iterator[dict[str, Any]]:
    for start in range(0, len(lookup_ids), _AT_ONCE):
        yield {"lookup_ids": lookup_ids[start : start + _AT_ONCE]}


_DONE: Final = {"copy": "copied", "move": "moved", "replay": "replayed"}


def _transfer(context: Context, transfer: _Transfer) -> ExitCode | None:
    count, to = _run(context, transfer), transfer.how["to"]
    if context.out.as_json:
        record = {"from": transfer.source, "to": to, "count": count, "dry_run": transfer.how["dry_run"]}
        context.out.record(record)
    else:
        done = _DONE[transfer.verb]
        what = f"would be {done}" if transfer.how["dry_run"] else done
        where = "to their destinations" if to is None else f"to {to}"
        context.out.say(f"{plural(count, 'message')} of {transfer.source} {what} {where}")
    return ExitCode.NOTHING if transfer.lookup_ids is not None and not count else None


def _run(context: Context, transfer: _Transfer) -> int:
    """Make the requests one by one; return the number of messages."""
    total, requests = transfer.requests(context)
    common = dict(transfer.how)
    count = 0
    with bar(f"{transfer.verb} {transfer.source}", total) as advance:
        for request in requests:
            answer = context.api.post(queue_path(transfer.source, transfer.verb), common | request)
            count += answer["count"]
            advance(answer["count"])
            if "limit" in request and answer["next"] is None:  # the queue has fewer messages by now
                break
            common |= {"after": answer["next"]} if "limit" in request else {}
    return count
