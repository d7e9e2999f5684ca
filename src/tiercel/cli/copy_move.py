"""`tiercel cp`, `mv` and `replay`: copy or move messages between queues, with all properties."""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import typer

from tiercel.cli.completion import queue_names
from tiercel.cli.connection import queue_path
from tiercel.cli.context import Context, connected
from tiercel.cli.durations import seconds_of
from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.failures import Failure
from tiercel.cli.options import DryRun
from tiercel.cli.output import note, plural
from tiercel.cli.progress import bar
from tiercel.cli.receiving import lookup_id_of
from tiercel.cli.replay_file import is_file, replay_file
from tiercel.cli.tail_grep import matches, search_text

verbs = typer.Typer()

_AT_ONCE: Final = 1000  # messages per request and transaction
_POLL_S: Final = 0.2


def _per_second(text: str) -> float:
    found = re.fullmatch(r"([0-9]{1,7}(?:\.[0-9]{1,3})?)(?:/(s|min|m|h))?", text)
    value = 0.0 if found is None else float(found[1]) / {"min": 60, "m": 60, "h": 3600}.get(found[2], 1)
    if value <= 0:
        raise typer.BadParameter(f"{text!r} is not a valid rate; write 50/s or 100/min")
    return value


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
SameId = Annotated[
    bool,
    typer.Option("--same-id", help="Refuse messages that would get a new id, as on another computer."),
]
Keep = Annotated[bool, typer.Option("--keep", help="Keep the originals, and send copies.")]
Match = Annotated[
    str | None,
    typer.Option("--match", metavar="FILTER", help="Only messages that `tiercel grep FILTER` finds."),
]


Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="Only messages that arrived then or later: ISO 8601, or 2h."
    ),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Only messages that arrived before.")
]
Rate = Annotated[
    float | None,
    typer.Option("--rate", metavar="N/s", parser=_per_second, help="Messages per second, at most."),
]
Background = Annotated[
    bool, typer.Option("--background", help="Return at once; `tiercel operations` shows the progress.")
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
        since: Since = None,
        until: Until = None,
        rate: Rate = None,
        background: Background = False,
    ) -> ExitCode | None:
        if background or rate is not None or since is not None or until is not None:
            wanted = _Bulk(verb, source, limit, match, since, until, rate, dry_run, background)
            return wanted.run(
                context, lookup_id, {"to": to} | ({"transactional": True} if transactional else {})
            )
        chosen = chosen_ids(context, source, lookup_id, match)
        how = {"to": to, "dry_run": dry_run} | ({"transactional": True} if transactional else {})
        how |= {"undo": True} if verb == "move" else {}
        return _transfer(context, _Transfer(verb, source, limit, chosen, how))

    transfer.__doc__ = words
    return transfer


verbs.command(
    "mv",
    epilog=r"""
Each message is received and sent in one commit, so it is always in exactly one queue, even if a process is
killed. Within one computer it keeps its id, and for 24 hours `tiercel undo` puts it back. Messages leased by
other readers are not moved. A dead letter becomes a message again: its time to live starts anew, and its end
is acknowledged and journaled.

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
journals, and subqueues of messages that failed. Within this computer it keeps its id; to another computer it
is sent with a new one. For 24 hours, `tiercel undo` puts back what stayed on this computer and nobody has
received. FROM can be a file of `tiercel export`, as ./orders.jsonl: its messages are sent anew. `tiercel dead
--group` prints the command that replays a group.

Examples:

    tiercel replay ';deadxact'
    tiercel replay ';deadletter' --match 'label:"order 7" age<1d'
    tiercel replay ';deadletter' --match 'reason:nack_bad_dst_q destination:orders' --dry-run
    tiercel replay ';deadletter' --to orders --limit 10
    tiercel replay 'orders;journal' --keep --dry-run
    tiercel replay ';deadxact' --since 2h --rate 50/s
    tiercel replay ';deadletter' --same-id --dry-run
    tiercel replay ./orders.jsonl --dry-run

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
    same_id: SameId = False,
    transactional: Transactional = False,
    dry_run: DryRun = False,
    since: Since = None,
    until: Until = None,
    rate: Rate = None,
    background: Background = False,
) -> ExitCode | None:
    """Send messages again, by default to their own destination."""
    if is_file(source):
        _check_for_file(lookup_id, match, since, until, rate, are_set=background or same_id)
        return replay_file(context, source, to, limit, transactional=transactional, dry_run=dry_run)
    if background or rate is not None or since is not None or until is not None:
        how = {"to": to, "keep": keep, "same_id": same_id}
        how |= {"transactional": True} if transactional else {}
        wanted = _Bulk("replay", source, limit, match, since, until, rate, dry_run, background)
        return wanted.run(context, lookup_id, how)
    chosen = chosen_ids(context, source, lookup_id, match)
    how = {"to": to, "dry_run": dry_run, "keep": keep, "undo": not keep, "same_id": same_id}
    how |= {"transactional": True} if transactional else {}
    return _transfer(context, _Transfer("replay", source, limit, chosen, how))


def _check_for_file(*of_queues: object, are_set: bool) -> None:
    if are_set or any(each is not None for each in of_queues):
        raise typer.BadParameter("a file of `export` takes --to, --limit, --transactional and --dry-run only")


def chosen_ids(
    context: Context, source: str, lookup_ids: list[str] | None, pattern: str | None
) -> list[str] | None:
    if pattern is None:
        return lookup_ids
    found = [message["lookup_id"] for message, _ in matches(context, source, search_text(pattern, "--match"))]
    return found if lookup_ids is None else [each for each in found if each in lookup_ids]


@dataclass(frozen=True, slots=True)
class _Bulk:
    """Work that the queue manager does by itself; the command only waits for its end."""

    verb: str
    source: str
    limit: int | None
    match: str | None
    since: str | None
    until: str | None
    rate: float | None
    dry_run: bool
    background: bool

    def run(self, context: Context, lookup_ids: list[str] | None, how: dict[str, Any]) -> ExitCode | None:
        if lookup_ids is not None:
            raise typer.BadParameter(
                "it excludes --since, --until, --rate and --background", param_hint="--lookup-id"
            )
        times = {"since": _time("--since", self.since), "until": _time("--until", self.until)}
        body = {"action": self.verb, "limit": self.limit, "rate": self.rate, **times, **how, **self._query()}
        body = {name: value for name, value in body.items() if value is not None}
        begun = context.api.post(queue_path(self.source, "operations"), body | {"dry_run": self.dry_run})
        done = begun if self.dry_run or self.background else self._wait(context, begun)
        if context.out.as_json:
            context.out.record(done)
        context.out.say(self._sentence(done))
        return ExitCode.NOTHING if not done["count"] and not self.background else None

    def _query(self) -> dict[str, str]:
        if self.match is None:
            return {}
        wanted = search_text(self.match, "--match")
        return {"filter": wanted} if isinstance(wanted, str) else {"pattern": wanted.pattern}

    def _wait(self, context: Context, begun: dict[str, Any]) -> dict[str, Any]:
        """Ctrl-C ends the command, and not the work."""
        with bar(f"{self.verb} {self.source}", begun["total"]) as advance:
            before = 0
            try:
                while begun["state"] == "running":
                    begun = context.api.get(f"operations/{begun['id']}")
                    advance(begun["looked"] - before)
                    before = begun["looked"]
                    time.sleep(_POLL_S if begun["state"] == "running" else 0)
            except KeyboardInterrupt:
                note(f"it goes on in the background; `tiercel operations --cancel {begun['id']}` ends it")
                raise
        if begun["state"] == "failed":
            raise Failure(f"{begun['note']} ({plural(begun['count'], 'message')} {_DONE[self.verb]} before)")
        return begun

    def _sentence(self, done: dict[str, Any]) -> str:
        if self.background and not self.dry_run:
            return f"operation {done['id']} has begun; `tiercel operations` shows its progress"
        what = f"would be {_DONE[self.verb]}" if self.dry_run else _DONE[self.verb]
        can_undo = done.get("state") == "done"
        back = f"; `tiercel undo {done['id']}` puts them back" if can_undo else ""
        return f"{plural(done['count'], 'message')} of {self.source} {what}{back}"


def _time(word: str, text: str | None) -> str | None:
    """ISO 8601, in local time unless it has a zone; or a duration before now, as 2h."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone().isoformat()
    except ValueError:
        pass
    try:
        return (datetime.now(UTC) - timedelta(seconds=seconds_of(text))).isoformat()
    except typer.BadParameter:
        line = f"{text!r} is not a valid time; write 2026-11-18T13:00 or 2h"
        raise typer.BadParameter(line, param_hint=word) from None


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
    (count, operation), to = _run(context, transfer), transfer.how["to"]
    if context.out.as_json:
        record = {"from": transfer.source, "to": to, "count": count, "dry_run": transfer.how["dry_run"]}
        record |= {"operation": operation} if transfer.verb != "copy" else {}
        context.out.record(record)
    else:
        done = _DONE[transfer.verb]
        what = f"would be {done}" if transfer.how["dry_run"] else done
        where = "to their destinations" if to is None else f"to {to}"
        back = f"; `tiercel undo {operation}` puts them back" if operation else ""
        context.out.say(f"{plural(count, 'message')} of {transfer.source} {what} {where}{back}")
    return ExitCode.NOTHING if transfer.lookup_ids is not None and not count else None


def _run(context: Context, transfer: _Transfer) -> tuple[int, str | None]:
    """Make the requests one by one; return the number of messages, and the operation that undo takes."""
    total, requests = transfer.requests(context)
    common = dict(transfer.how)
    count = 0
    with bar(f"{transfer.verb} {transfer.source}", total) as advance:
        for request in requests:
            answer = context.api.post(queue_path(transfer.source, transfer.verb), common | request)
            count += answer["count"]
            advance(answer["count"])
            common |= {"operation": answer["operation"]} if answer.get("operation") else {}
            if "limit" in request and answer["next"] is None:  # the queue has fewer messages by now
                break
            common |= {"after": answer["next"]} if "limit" in request else {}
    return count, common.get("operation")
