"""`tiercel tail` and `tiercel grep`: follow and search queues."""

import re
import shlex
import sys
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from tiercel.cli.clean_text import clean_line, one_line
from tiercel.cli.completion import QueueName, QueueNames
from tiercel.cli.connection import queue_path
from tiercel.cli.context import Context, connected
from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.failures import Failure
from tiercel.cli.output import Record, Styled, moment, note, size
from tiercel.cli.pages import LAST_MAX, newest

verbs = typer.Typer()

_WAIT_MS: Final = 30_000  # per request
_AROUND: Final = 60  # characters of context before and after a match
_FIELD: Final = re.compile(
    r"(?:^|\s)-?(?:(?:label|body|class|reason|id):|destination(?:[:=]|!=)|"
    r"(?:priority|size|age|json(?:\.[\w-]+)+)(?:[:=<>]|!=))"
)


@verbs.command(
    "tail",
    epilog="""
Messages are shown in arrival order and stay in the queue. With -f, messages that another reader receives at
once are shown too.

Examples:

    tiercel tail orders              the last ten messages
    tiercel tail -f orders           follow new messages until Ctrl-C
    tiercel tail -n 0 -f orders      only new messages
    tiercel tail -f --json orders | jq -r .label
""",
)
@connected
def tail(
    context: Context,
    queue: QueueName,
    count: Annotated[
        int,
        typer.Option(
            "-n",
            "--count",
            metavar="N",
            min=0,
            max=LAST_MAX,
            help="Number of messages, newest (default: 10).",
        ),
    ] = 10,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Follow new messages.")] = False,
) -> None:
    """Show the last messages of a queue; with -f, follow new ones."""

    def show(message: Record) -> None:
        if context.out.as_json:
            context.out.record(message)
        else:
            context.out.line(*_line(message))

    messages, after = newest(context, queue, count)
    for message in messages:
        show(message)
    sys.stdout.flush()
    if not follow:
        return
    if sys.stdout.isatty():
        note(f"{queue}: waiting for messages; stop with Ctrl-C")
    for message in _news(context, queue, after):
        show(message)
        sys.stdout.flush()


def _news(context: Context, queue: str, after: str) -> Iterator[Record]:
    while True:
        page = context.api.get(
            queue_path(queue, "messages"), order="arrival", after=after, wait_ms=_WAIT_MS, limit=500
        )
        yield from page["messages"]
        after = page["next"]


def _line(message: Record) -> Iterator[str]:
    from tiercel.cli.message_text import marks, preview, property_of  # noqa: PLC0415  # see `_place`

    name = str(property_of(message, "message_class"))
    yield Styled(moment(message.get("arrival_time")), "dim")
    yield f"  {marks(message) or '-':<4}"
    yield Styled(f"{size(message['body_size']):>9}  ", "cyan")
    if name != "normal":
        yield Styled(f"{name}  ", "red" if name.startswith("nack") else "green")
    yield Styled(one_line(property_of(message, "label"), 60) or "(no label)", "bold")
    yield "  "
    yield preview(message)


# grep


@verbs.command(
    "grep",
    epilog=r"""
PATTERN is a Python regular expression. It is searched in labels and in decoded bodies, as `peek` shows them:
XML, JSON, .NET objects, WCF messages with their action and addresses, and text in any encoding.

A PATTERN with fields is a filter: label:"order 7" priority>=5 age>1h size>10k body:Smith json.total>100
class:nack* reason:nack_bad_dst_q destination:orders id:{GUID}\\7. All terms must hold; - before a term
negates it. Filters ignore case.

Examples:

    tiercel grep 4711 orders
    tiercel grep -i 'customer.*smith' orders ';deadletter'
    tiercel grep 'priority>=5 age>1h -label:test' orders
    tiercel grep --count '"state": *"new"' orders
    tiercel grep --json 4711 orders | jq -r .lookup_id

exit codes: 0 match found, 3 no match
""",
)
@connected
def grep(
    context: Context,
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="Regular expression, or a filter.")],
    queues: QueueNames,
    ignore_case: Annotated[bool, typer.Option("-i", "--ignore-case", help="Ignore case.")] = False,
    fixed: Annotated[bool, typer.Option("-F", "--fixed-string", help="PATTERN is plain text.")] = False,
    only_count: Annotated[
        bool, typer.Option("-c", "--count", help="Print only the number of matches.")
    ] = False,
) -> ExitCode | None:
    """Search messages by label or body."""
    wanted = (
        expression(re.escape(pattern), "PATTERN", ignore_case=ignore_case)
        if fixed
        else search_text(pattern, "PATTERN", ignore_case=ignore_case)
    )
    total = 0
    for queue in queues:
        found = 0
        try:
            for message, place in matches(context, queue, wanted):
                found += 1
                if context.out.as_json and not only_count:
                    context.out.record({"queue": queue, **message})
                elif not only_count:
                    context.out.line(*_match_line(message, place, queue if len(queues) > 1 else ""))
        except Failure as failure:
            raise _turned_round(context, failure, pattern, queue) from None
        total += found
        if only_count:
            _tell_count(context, queue, found, is_only=len(queues) == 1)
    return None if total else ExitCode.NOTHING


def _turned_round(context: Context, failure: Failure, pattern: str, queue: str) -> Failure:
    """The failure, with a hint if the queue was given before the pattern."""
    if failure.code is not ExitCode.NOT_FOUND:
        return failure
    try:
        context.api.get(queue_path(pattern))
    except Failure:
        return failure
    command = f"tiercel grep {shlex.quote(queue)} {shlex.quote(pattern)}"
    return Failure(f"{failure} The pattern comes first: `{command}`", failure.code)


def _tell_count(context: Context, queue: str, found: int, *, is_only: bool) -> None:
    if context.out.as_json:
        context.out.record({"queue": queue, "count": found})
    else:
        context.out.say(str(found) if is_only else f"{found:>8} {queue}")


def expression(pattern: str, word: str, *, ignore_case: bool = False) -> "re.Pattern[str]":
    try:
        return re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except re.error as problem:
        line = f"{pattern!a} is not a valid regular expression ({problem}); use -F for plain text"
        raise typer.BadParameter(line, param_hint=word) from None


Place = tuple[str, "re.Match[str] | None"]


def search_text(text: str, word: str, *, ignore_case: bool = False) -> "re.Pattern[str] | str":
    """A text with fields is a filter, any other a regular expression."""
    if not _FIELD.search(text):
        return expression(text, word, ignore_case=ignore_case)
    return text


def matches(context: Context, queue: str, wanted: "re.Pattern[str] | str") -> Iterator[tuple[Record, Place]]:
    """Matching messages, with the match in the label or the decoded body; the queue manager searches."""
    after: str | None = None
    query: dict[str, Any] = {"filter": wanted}
    if not isinstance(wanted, str):
        query = {"pattern": wanted.pattern, "ignore_case": bool(wanted.flags & re.IGNORECASE)}
    while True:
        page = context.api.get(queue_path(queue, "search"), **query, after=after, limit=LAST_MAX)
        for lookup_id in page["skipped"]:
            note(f"{queue}: message {lookup_id} was not searched, because that takes too long")
        for message in page["messages"]:
            place = _place(message, wanted)
            if place is not None:
                yield message, place
        after = page["next"]
        if after is None:
            return


def _place(message: Record, wanted: "re.Pattern[str] | str") -> Place | None:
    # slow to load: only for a message that is there
    from tiercel.cli.message_text import decoded_body, headers_of, preview, property_of  # noqa: PLC0415

    if isinstance(wanted, str):
        return preview(message), None
    decoded = decoded_body(message)
    headers = headers_of(message, decoded).values()
    for text in (property_of(message, "label"), *headers, decoded.text or ""):
        found = wanted.search(text)
        if found is not None:
            return text, found
    return None


def _match_line(message: Record, place: Place, queue: str) -> Iterator[str]:
    from tiercel.cli.message_text import property_of  # noqa: PLC0415  # see `_place`

    text, found = place
    start, end = (0, 0) if found is None else found.span()
    label = one_line(property_of(message, "label"), 60) or "(no label)"
    if queue:
        yield Styled(f"{clean_line(queue)}  ", "magenta")
    yield Styled(f"{message['lookup_id']}  ", "dim")
    yield Styled(label, "bold")
    yield "  "
    yield _blank(text[max(0, start - _AROUND) : start])
    yield Styled(_blank(text[start:end]), "bold red")
    yield _blank(text[end : end + _AROUND])


def _blank(text: str) -> str:
    return clean_line(re.sub(r"\s+", " ", text))
