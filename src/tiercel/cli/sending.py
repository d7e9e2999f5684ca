"""`tiercel send`: sends one message to a local or remote queue."""

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
_VALUES: Final = frozenset({"json", "activex", "binary"})  # TEXT is JSON for these


def _form(text: str) -> str:
    if text not in FORMS:
        raise typer.BadParameter(f"{text!a} is not a valid form; use {', '.join(FORMS)}")
    return text


def _priority(value: int | None) -> int | None:
    if value is not None and not 0 <= value <= PRIORITY_MAX:
        raise typer.BadParameter(f"priority must be 0 to {PRIORITY_MAX}, not {value}")
    return value


@verbs.command(
    "send",
    epilog=r"""
Body forms: utf-8 (TEXT unchanged), json (validated), xml (like a string from .NET's XmlMessageFormatter),
bstr, lpwstr, lpstr (like COM and C programs), activex and binary (like .NET's other formatters, with TEXT as
JSON). Use --file for binary data.

As in MSMQ, a message is express by default and lost when the daemon ends. In a transactional queue it is
recoverable and delivered exactly once.

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
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="Body text.")] = None,
    text_option: Annotated[str | None, typer.Option("--text", metavar="TEXT", help="Same as TEXT.")] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE", help="File with the body; - is stdin."),
    ] = None,
    form: Annotated[
        str,
        typer.Option("--as", metavar="FORM", parser=_form, help=f"Body form: {', '.join(FORMS)}."),
    ] = "utf-8",
    label: Annotated[
        str | None,
        typer.Option(
            "--label", "-l", metavar="TEXT", help=f"Label, up to {LABEL_MAX_UTF16_UNITS} characters."
        ),
    ] = None,
    priority: Annotated[
        int | None,
        typer.Option(
            "--priority",
            "-p",
            metavar="0-7",
            callback=_priority,
            help="Priority, 7 is the highest (default: 3).",
        ),
    ] = None,
    recoverable: Annotated[
        bool, typer.Option("--recoverable", "-r", help="Store the message on disk, here and on the way.")
    ] = False,
    transactional: Annotated[
        bool,
        typer.Option(
            "--transactional", "-t", help="For a remote transactional queue; automatic for local ones."
        ),
    ] = False,
    ttl: Annotated[
        str | None,
        typer.Option(
            "--ttl",
            metavar="TIME",
            parser=lifetime_of,
            help="Time to be received: 30, 10m, 2h, 7d (default: infinite).",
        ),
    ] = None,
    ttrq: Annotated[
        str | None,
        typer.Option(
            "--ttrq", metavar="TIME", parser=lifetime_of, help="Time to reach the queue (default: 4d)."
        ),
    ] = None,
    journal: Annotated[
        bool, typer.Option("--journal", help="Keep a copy in the journal of this computer.")
    ] = False,
    dead_letter: Annotated[
        bool, typer.Option("--dead-letter", help="Keep a dead letter if the message cannot be delivered.")
    ] = False,
    response_queue: Annotated[str | None, typer.Option(metavar="QUEUE", help="Response queue.")] = None,
    administration_queue: Annotated[
        str | None,
        typer.Option("--admin-queue", metavar="QUEUE", help="Administration queue, for acknowledgements."),
    ] = None,
    acknowledge: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            help="Acknowledgements: full_reach_queue, full_receive, nack_reach_queue, nack_receive, ...",
        ),
    ] = None,
    correlation_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help=r"Correlation id, such as the id of a request: {guid}\number."),
    ] = None,
    sign: Annotated[
        bool, typer.Option("--sign", help="Sign with the key of the queue manager; see tiercel key.")
    ] = False,
    encrypt: Annotated[
        bool, typer.Option("--encrypt", help="Encrypt the body on its way; see tiercel trust.")
    ] = False,
    more: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any other property; repeatable."),
    ] = None,
) -> None:
    """Send a message and print its id."""
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
        queue_path(queue, "messages"),
        message,
        transactional=True if transactional else None,
        sign=True if sign else None,
        encrypt=True if encrypt else None,
    )
    if context.out.as_json:
        context.out.record(sent)
    else:
        context.out.say(sent["id"])


def refuse_express(context: Context, queue: str) -> None:
    """Refuse express messages without a daemon: they would be lost when the command ends."""
    if not context.api.get(queue_path(queue))["transactional"]:
        problem = "no daemon is running to keep an express message in memory"
        raise Failure(f"queue {queue}: {problem}. Add --recoverable, or start the daemon")


def _body(text: str | None, file: str | None, form: str) -> dict[str, Any]:
    if text is not None and file is not None:
        raise typer.BadParameter("use only one of these", param_hint=["TEXT", "--file"])
    if file is not None:
        return _said(Encoded(_read(file), 0))
    if text is None:
        wanted = "missing body: give TEXT or --file FILE (- is stdin); '' is an empty body"
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
    if present > MAX_PACKET_SIZE:  # avoids reading a large file; the queue manager checks exactly
        facts = f"present: {present} bytes or more, limit: {MAX_PACKET_SIZE} bytes with all properties"
        raise Failure(f"{what}: too large for a message ({facts}). Split it, or send its location instead")


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as problem:
        raise Failure(
            f"TEXT: not valid JSON ({problem}). Quote it: '{{\"order\": 7}}'", ExitCode.WRONG_USAGE
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
