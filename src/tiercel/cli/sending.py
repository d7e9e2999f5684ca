"""`tiercel send`: one message into a queue, here or on another computer."""

import base64
import json
import sys
from pathlib import Path
from typing import Annotated, Any, Final, get_args

import typer

from tiercel.bodies import Encoded, encode
from tiercel.bodies.encoding import Form
from tiercel.cli.completion import QueueName
from tiercel.cli.connection import queue_path
from tiercel.cli.context import Context, connected
from tiercel.cli.durations import lifetime_of
from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.failures import Failure
from tiercel.model.limits import LABEL_MAX_UTF16_UNITS, MAX_PACKET_SIZE, PRIORITY_MAX

verbs = typer.Typer()

FORMS: Final = get_args(Form)
_VALUES: Final = frozenset({"json", "activex", "binary"})  # forms of any value, which is written as JSON


def _form(text: str) -> str:
    if text not in FORMS:
        raise typer.BadParameter(f"{text!a} is none of {', '.join(FORMS)}")
    return text


def _priority(value: int | None) -> int | None:
    if value is not None and not 0 <= value <= PRIORITY_MAX:
        raise typer.BadParameter(f"{value} is no priority: 0 is the lowest, {PRIORITY_MAX} the highest")
    return value


@verbs.command(
    "send",
    epilog=r"""
The forms of a body: utf-8 (the text as it is), json (checked), xml (as .NET's XmlMessageFormatter writes a
string), bstr, lpwstr, lpstr (as COM and C programs do), activex and binary (as .NET's other formatters; TEXT
is JSON then). What is no text comes from --file, byte by byte.

A message is express unless told otherwise, as with MSMQ: it is gone when the daemon ends. In a transactional
queue it is recoverable, and comes exactly once.

Examples:

    tiercel send orders hello
    tiercel send orders '{"order": 7}' --as json --label 'order 7' --recoverable
    tiercel send 'DIRECT=TCP:192.0.2.7\private$\orders' hello --transactional
    tiercel send orders --file picture.png --priority 7 --ttl 10m
    date | tiercel send orders --file -
    tiercel send orders hello --response-queue answers --set application_tag=7
""",
)
@connected
def send(
    context: Context,
    queue: QueueName,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="The body.")] = None,
    text_option: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="The same as TEXT.")
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE", help="The body, from a file; - is the standard input."),
    ] = None,
    form: Annotated[
        str,
        typer.Option("--as", metavar="FORM", parser=_form, help=f"What becomes of TEXT: {', '.join(FORMS)}."),
    ] = "utf-8",
    label: Annotated[
        str | None,
        typer.Option("--label", "-l", metavar="TEXT", help=f"Up to {LABEL_MAX_UTF16_UNITS} characters."),
    ] = None,
    priority: Annotated[
        int | None,
        typer.Option(
            "--priority", "-p", metavar="0-7", callback=_priority, help="7 comes first; 3 is usual."
        ),
    ] = None,
    recoverable: Annotated[
        bool, typer.Option("--recoverable", "-r", help="On disk, here and on the way.")
    ] = False,
    transactional: Annotated[
        bool,
        typer.Option(
            "--transactional", "-t", help="For a transactional queue of another computer; here it is known."
        ),
    ] = False,
    ttl: Annotated[
        str | None,
        typer.Option("--ttl", metavar="TIME", parser=lifetime_of, help="To be received in: 30, 10m, 2h, 7d."),
    ] = None,
    ttrq: Annotated[
        str | None,
        typer.Option(
            "--ttrq", metavar="TIME", parser=lifetime_of, help="To reach the queue in; 4d is usual."
        ),
    ] = None,
    journal: Annotated[
        bool, typer.Option("--journal", help="Keep a copy in the journal of this computer.")
    ] = False,
    dead_letter: Annotated[
        bool, typer.Option("--dead-letter", help="Keep it as a dead letter, if it cannot be delivered.")
    ] = False,
    response_queue: Annotated[str | None, typer.Option(metavar="QUEUE", help="Where answers go.")] = None,
    administration_queue: Annotated[
        str | None, typer.Option("--admin-queue", metavar="QUEUE", help="Where acknowledgements go.")
    ] = None,
    acknowledge: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT", help="Of full_reach_queue, full_receive, nack_reach_queue, nack_receive, ..."
        ),
    ] = None,
    correlation_id: Annotated[
        str | None, typer.Option(metavar="ID", help=r"The id of the message that it answers, {guid}\number.")
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any other property; may be repeated."),
    ] = None,
) -> None:
    """Send a message, and print its id."""
    message = _more(more) | _body(text if text is not None else text_option, file, form)
    given = {
        "label": label,
        "priority": priority,
        "delivery": "recoverable" if recoverable or transactional else None,
        "time_to_be_received": _seconds(ttl),
        "time_to_reach_queue": _seconds(ttrq),
        "positive_journaling": journal or None,
        "negative_journaling": dead_letter or None,
        "response_queue": response_queue,
        "administration_queue": administration_queue,
        "acknowledgements": acknowledge.split(",") if acknowledge else None,
        "correlation_id": correlation_id,
    }
    message |= {name: value for name, value in given.items() if value is not None}
    if context.api.is_stopped and message.get("delivery") != "recoverable":
        refuse_express(context, queue)
    sent = context.api.post(
        queue_path(queue, "messages"), message, transactional=True if transactional else None
    )
    if context.out.as_json:
        context.out.record(sent)
    else:
        context.out.say(sent["id"])


def refuse_express(context: Context, queue: str) -> None:
    """An express message would end with this program."""
    if not context.api.get(queue_path(queue))["transactional"]:
        problem = "no daemon runs here, and an express message lives in the memory of one"
        raise Failure(f"queue {queue}: {problem}. Say --recoverable, or start the daemon")


def _body(text: str | None, file: str | None, form: str) -> dict[str, Any]:
    if text is not None and file is not None:
        raise typer.BadParameter("give one of the two", param_hint=["TEXT", "--file"])
    if file is not None:
        return _said(Encoded(_read(file), 0))
    if text is None:
        wanted = "a body is wanted: TEXT, or --file FILE, where - is the standard input; '' is an empty one"
        raise typer.BadParameter(wanted, param_hint="TEXT")
    return _said(encode(_value(text) if form in _VALUES else text, form))  # type: ignore[arg-type]  # checked


def _said(body: Encoded) -> dict[str, Any]:
    _check_size("body", len(body.body))
    said: dict[str, Any] = {"body": base64.b64encode(body.body).decode()}
    return said | {"body_type": body.body_type} if body.body_type else said


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read(MAX_PACKET_SIZE + 1)
    path = Path(file)
    if path.is_file():
        _check_size(file, path.stat().st_size)
    with path.open("rb") as stream:
        return stream.read(MAX_PACKET_SIZE + 1)


def _check_size(what: str, present: int) -> None:
    if present > MAX_PACKET_SIZE:  # the queue manager knows exactly; this keeps a large file out of memory
        facts = f"present: {present} bytes or more, limit: {MAX_PACKET_SIZE} bytes with all properties"
        raise Failure(
            f"{what}: it is too large for a message ({facts}). Send it in parts, or send the name of a file"
        )


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as problem:
        raise Failure(
            f"TEXT: it is no JSON ({problem}). Quote it: '{{\"order\": 7}}'", ExitCode.WRONG_USAGE
        ) from None


def _seconds(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isdigit() else text


def _more(words: list[str] | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word in words or ():
        key, equals, text = word.partition("=")
        if not equals:
            raise Failure(f"--set {word}: write it as KEY=VALUE", ExitCode.WRONG_USAGE)
        try:
            found[key] = json.loads(text)
        except ValueError:
            found[key] = text
    return found
