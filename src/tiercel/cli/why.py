"""`tiercel why` and `tiercel explain`: where a message is, and whether one would reach its queue."""

import re
from typing import Annotated, Any, Final

import typer

from tiercel.cli.completion import QueueName
from tiercel.cli.context import Context, connected
from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.failures import Failure
from tiercel.cli.output import Styled, moment, note, size, when

verbs = typer.Typer()

_UNITS: Final = {"": 1, "k": 1024, "m": 1024**2}
_STYLES: Final = {"ok": "green", "warn": "yellow", "fail": "red", "unknown": "dim"}
_MARKS: Final = {"unknown": "?"}


@verbs.command(
    "why",
    epilog=r"""
Looks for the message in queues, claims, journals, dead-letter queues and the ledger of discards, for
acknowledgements that name it, and in the record of what happened to each message ([life] in the
configuration). With --hops, also asks the queue managers of [[peers]] that have a url.

Examples:

    tiercel why '{05ede9a5-4f1b-4b0f-9d6c-0c5d6f1f2b11}\100173'
    tiercel why --hops "$(tiercel send orders hello)"

exit codes: 0 something is known, 3 nothing is known
""",
)
@connected
def why(
    context: Context,
    message_id: Annotated[str, typer.Argument(metavar="ID", help=r"Message id, as {guid}\number.")],
    hops: Annotated[bool, typer.Option("--hops", help="Ask other queue managers, too.")] = False,
) -> ExitCode | None:
    """Show where a message is, what happened to it, and what to do."""
    found = context.api.get("why", id=message_id, **({"hops": "true"} if hops else {}))
    answers = [found, *(each["answer"] for each in found.get("hops", ()) if each["answer"])]
    is_known = any(each["state"] != "unknown" for each in answers)
    if context.out.as_json:
        context.out.record(found)
    else:
        _show(context, found, is_known=is_known)
    return None if is_known else ExitCode.NOTHING


def _show(context: Context, found: dict[str, Any], *, is_known: bool) -> None:
    if not is_known:
        note(_unknown(found))
    if found["state"] != "unknown":
        context.out.line(Styled(_summary(found), "bold"))
    for time, where, text in _events(found):
        context.out.say(f"{moment(time):8}  {where}{text}")
    for hop in found.get("hops", ()):
        if hop["error"]:
            note(f"{hop['name']} gave no answer: {hop['error']}")
    answers = [found, *(hop["answer"] for hop in found.get("hops", ()) if hop["answer"])]
    for each in answers:
        if each.get("fix"):
            context.out.say(f"What to do: {each['fix']}")
            for command in each.get("commands", ()):
                context.out.say(f"  {command}")
            return


def _unknown(found: dict[str, Any]) -> str:
    if found["life_since"]:
        return f"nothing is known about it; the record goes back to {when(found['life_since'])}"
    if found["discards_since"]:
        dropped = f"dropped messages are recorded since {when(found['discards_since'])}"
        return f"nothing is known about it; {dropped}, all others are not ([life] max_bytes)"
    return "nothing is known about it; no message was ever dropped here"


def _summary(found: dict[str, Any]) -> str:
    name = found["label"] or "(no label)" if "label" in found else found["id"]
    parts = [str(name), size(found["size"]) if "size" in found else ""]
    if "recoverable" in found:
        kind = (
            "transactional"
            if found["transactional"]
            else "recoverable"
            if found["recoverable"]
            else "express"
        )
        by = f" by {found['sent_by']}" if found.get("sent_by") else ""
        parts += [kind, f"sent {when(found['sent'])}{by}"]
    return ", ".join(filter(None, parts))


def _events(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    """By time, of all queue managers that were asked."""
    events = [(str(each["time"] or ""), "", str(each["text"])) for each in found["events"]]
    for hop in found.get("hops", ()):
        said = (hop["answer"] or {}).get("events", ())
        events += [(str(each["time"] or ""), f"{hop['name']}: ", str(each["text"])) for each in said]
    return sorted(events, key=lambda event: event[0])


def _bytes(text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,9})([km]?)", text.casefold())
    if found is None:
        raise typer.BadParameter(f"{text!r} is not a valid size; write 20k, 3m or a number of bytes")
    return int(found[1]) * _UNITS[found[2]]


@verbs.command(
    "explain",
    epilog=r"""
Makes the checks of sending without sending: the name, the kind of the queue, rights, quotas, and for a queue
of another computer its address and port.

Examples:

    tiercel explain orders --transactional --size 20k
    tiercel explain 'DIRECT=OS:server-b\private$\paid'
    tiercel explain --as S-1-5-21-1-2-3-1001 orders
    tiercel explain --peer 'DIRECT=OS:server-b\private$\paid'

exit codes: 0 the message would go, 1 it would fail
""",
)
@connected
def explain(
    context: Context,
    queue: QueueName,
    transactional: Annotated[
        bool, typer.Option("--transactional", "-t", help="A transactional message.")
    ] = False,
    bytes_: Annotated[
        int, typer.Option("--size", metavar="SIZE", parser=_bytes, help="Size of the message, as 20k.")
    ] = 0,
    signed: Annotated[bool, typer.Option("--sign", help="A signed message.")] = False,
    encrypted: Annotated[bool, typer.Option("--encrypt", help="An encrypted message.")] = False,
    account: Annotated[
        str | None, typer.Option("--as", metavar="SID", help="The sender: a SID, everyone or anonymous.")
    ] = None,
    peer: Annotated[
        bool, typer.Option("--peer", help="Ask the API of the other computer ([[peers]] url).")
    ] = False,
    no_network: Annotated[
        bool, typer.Option("--no-network", help="Do not connect to the other computer.")
    ] = False,
) -> None:
    """Check whether a message would reach a queue, and why not."""
    options: dict[str, Any] = {"queue": queue, "size": bytes_}
    chosen = {"transactional": transactional, "signed": signed, "encrypted": encrypted, "peer": peer}
    options |= {name: "true" for name, value in chosen.items() if value}
    options |= {"account": account} if account is not None else {}
    options |= {"network": "false"} if no_network else {}
    found = context.api.get("explain", **options)
    if context.out.as_json:
        context.out.record(found)
    else:
        for each in found["findings"]:
            mark = _MARKS.get(each["result"], each["result"])
            context.out.line(Styled(f"{mark:5} ", _STYLES.get(each["result"], "")), each["text"])
    if not found["would_go"]:
        code = f" ({found['error']})" if found["error"] else ""
        fix = f". {found['fix'][:1].upper()}{found['fix'][1:]}" if found["fix"] else ""
        raise Failure(f"a message to {queue} would not arrive{code}{fix}")
