"""`tiercel cp` and `tiercel mv`: messages from one queue to another, all their properties with them."""

from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from tiercel.cli.completion import queue_names
from tiercel.cli.connection import queue_path
from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.output import plural
from tiercel.cli.progress import bar
from tiercel.cli.session import DryRun, Session, connected
from tiercel.cli.watching import expression, matches

verbs = typer.Typer()

_AT_ONCE: Final = 1000  # messages of one request, and of one transaction

From = Annotated[
    str, typer.Argument(metavar="FROM", help="The queue that has them.", autocompletion=queue_names)
]
To = Annotated[str, typer.Argument(metavar="TO", help="The queue to get them.", autocompletion=queue_names)]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Only the first N.")]
LookupIds = Annotated[
    list[str] | None, typer.Option("--lookup-id", metavar="ID", help="Only this message; may be repeated.")
]
Match = Annotated[
    str | None,
    typer.Option("--match", metavar="PATTERN", help="Only messages that `tiercel grep PATTERN` would find."),
]


@verbs.command(
    "mv",
    epilog=r"""
A thousand at a time are taken and sent in one transaction: whatever is killed, each message is in one queue,
and in one only. What comes into FROM meanwhile stays there.

Examples:

    tiercel mv orders archive
    tiercel mv ';deadxact' orders --match 4711
    tiercel mv orders 'DIRECT=OS:server-b\private$\orders'
    tiercel mv --dry-run orders archive

exit codes: 0 something was moved, 3 there was nothing to move
""",
)
@connected
def move(
    session: Session,
    source: From,
    to: To,
    limit: Limit = None,
    lookup_id: LookupIds = None,
    match: Match = None,
    dry_run: DryRun = False,
) -> ExitCode | None:
    """Move messages to another queue."""
    return _carry(session, "move", source, to, limit, _ids(session, source, lookup_id, match), dry_run)


@verbs.command(
    "cp",
    epilog=r"""
What is in FROM now is copied, in its order. A copy has an id of its own; all that a sender may set is the
same.

Examples:

    tiercel cp orders test
    tiercel cp orders test --limit 10
    tiercel cp 'orders;journal' orders --match 4711

exit codes: 0 something was copied, 3 there was nothing to copy
""",
)
@connected
def copy(
    session: Session,
    source: From,
    to: To,
    limit: Limit = None,
    lookup_id: LookupIds = None,
    match: Match = None,
    dry_run: DryRun = False,
) -> ExitCode | None:
    """Copy messages to another queue."""
    return _carry(session, "copy", source, to, limit, _ids(session, source, lookup_id, match), dry_run)


def _ids(
    session: Session, source: str, lookup_ids: list[str] | None, pattern: str | None
) -> list[str] | None:
    if pattern is None:
        return lookup_ids
    found = [message["lookup_id"] for message, _ in matches(session, source, expression(pattern))]
    return found if lookup_ids is None else [each for each in found if each in lookup_ids]


def _carry(
    session: Session,
    verb: str,
    source: str,
    to: str,
    limit: int | None,
    lookup_ids: list[str] | None,
    dry_run: bool,
) -> ExitCode | None:
    if lookup_ids is None:
        total = session.api.get(queue_path(source))["count"]
        total = total if limit is None else min(total, limit)
        requests = _stretches(total)
    else:
        chosen = lookup_ids[:limit]
        total = len(chosen)
        requests = _named(chosen)
    count = _ask(session, verb, source, to, requests, total, dry_run=dry_run)
    done = "copied" if verb == "copy" else "moved"
    if session.out.as_json:
        session.out.record({"from": source, "to": to, "count": count, "dry_run": dry_run})
    else:
        what = f"would be {done}" if dry_run else done
        session.out.say(f"{plural(count, 'message')} of {source} {what} to {to}")
    return None if count else ExitCode.NOTHING


def _ask(
    session: Session,
    verb: str,
    source: str,
    to: str,
    requests: Iterator[dict[str, Any]],
    total: int,
    *,
    dry_run: bool,
) -> int:
    """One request after the other, until there is nothing left; gives how many messages it was."""
    count = 0
    where: dict[str, str] = {}
    with bar(f"{verb} {source}", total) as advance:
        for request in requests:
            answer = session.api.post(
                queue_path(source, verb), {"to": to, "dry_run": dry_run, **request, **where}
            )
            count += answer["count"]
            advance(answer["count"])
            after = answer.get("next")
            where = {} if after is None else {"after": after}
            if "limit" in request and (not answer["count"] or dry_run or (verb == "copy" and after is None)):
                break
    return count


def _stretches(total: int) -> Iterator[dict[str, Any]]:
    while total > 0:
        yield {"limit": min(total, _AT_ONCE)}
        total -= _AT_ONCE


def _named(lookup_ids: list[str]) -> Iterator[dict[str, Any]]:
    for start in range(0, len(lookup_ids), _AT_ONCE):
        yield {"lookup_ids": lookup_ids[start : start + _AT_ONCE]}
