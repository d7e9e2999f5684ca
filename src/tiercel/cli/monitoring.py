"""Monitoring: `outgoing`, `connections`, `transactions`, `claims`."""

from datetime import UTC, datetime
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from tiercel.cli.completion import queue_names
from tiercel.cli.context import Context, connected
from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.failures import Failure
from tiercel.cli.options import Yes
from tiercel.cli.output import Column, Record, Styled, age, number, plural, seconds, size, until

verbs = typer.Typer()


# outgoing


# The states of the specification ([MS-MQDMPR] 3.1.1.4), in words that need no specification.
_STATES: Final = {
    "connected": Styled("connected", "green"),
    "disconnected": Styled("not connected", "red"),
    "disconnecting": Styled("disconnecting"),
    "inactive": Styled("idle", "dim"),
    "locked": Styled("locked", "yellow"),
    "need_validation": Styled("not tried yet"),
    "waiting": Styled("cannot connect", "red"),
    "on_hold": Styled("paused", "yellow"),
}


def _state(queue: Record) -> Styled:
    if queue["paused"]:
        return _STATES["on_hold"]
    if queue["state"] == "need_validation" and queue["history"]:  # tried, and to be tried again
        return _STATES["waiting"]
    if queue["state"] == "inactive" and queue["count"]:
        return Styled("waiting to connect", "yellow")
    state: Styled = _words(_STATES, queue["state"])
    return state


def _words(words: dict[str, Any], code: str) -> Any:
    return words.get(code) or code.replace("_", " ")


def _last_try(queue: Record) -> str:
    tried = f"{age(queue['last_try'])} ago" if queue["last_try"] and not queue["reason"] else ""
    wait = until(queue["next_try"])
    return ", ".join(filter(None, (queue["why"], tried))) + (f"; next try in {wait}" if wait else "")


_OUTGOING: Final = (
    Column("TO", lambda queue: Styled(queue["format_name"], "bold")),
    Column("STATE", _state),
    Column("MESSAGES", lambda queue: number(queue["count"]), "right"),
    Column("SIZE", lambda queue: size(queue["bytes"]), "right"),
    Column("OLDEST", lambda queue: age(queue["oldest_arrival"]), "right"),
    Column("UNACKNOWLEDGED", lambda queue: _some(queue["unacknowledged"]), "right"),
    Column("BY", lambda queue: ", ".join(queue["next_hops"]), below=True),
    Column("LAST TRY", _last_try, below=True),
)


def _some(value: int) -> str:
    return number(value) if value else ""


@verbs.command(
    "outgoing",
    epilog=r"""
Examples:

    tiercel outgoing
    tiercel peek 'DIRECT=OS:server-a\private$\orders'
    tiercel pause 'DIRECT=OS:server-a\private$\orders'
    tiercel outgoing --json | jq '{format_name, count, history}'
""",
)
@connected
def outgoing(context: Context) -> None:
    """Show messages waiting for other computers, and why."""
    found = context.api.get("outgoing")["outgoing"]
    context.out.table(found, _OUTGOING, empty="No messages are waiting for other computers.")


# connections

_SESSIONS: Final = {
    "resolving": "looking up the address",
    "pinging": "connecting",
    "waiting_reconnect": "waiting to reconnect",
    "waiting_ec": "greeting",
    "waiting_ecr": "greeting",
    "waiting_cp": "greeting",
    "waiting_cpr": "greeting",
    "open": "connected",
}
_CONNECTIONS: Final = (
    Column("ADDRESS", lambda each: Styled(each["address"], "bold")),
    Column("", lambda each: "outgoing" if each["direction"] == "out" else "incoming"),
    Column("TRANSPORT", lambda each: each["transport"]),
    Column("STATE", lambda each: _words(_SESSIONS, each["state"])),
    Column("QUEUE MANAGER", lambda each: each["peer"] or "", below=True),
    Column("IN FLIGHT", lambda each: number(each["in_flight"]), "right"),
    Column("WINDOW", lambda each: number(each["window"]), "right"),
)


@verbs.command(
    "connections",
    epilog="""
Examples:

    tiercel connections
    tiercel connections --json | jq -r .address
""",
)
@connected
def connections(context: Context) -> None:
    """Show connections with other queue managers."""
    found = context.api.get("connections")["connections"]
    context.out.table(found, _CONNECTIONS, empty="No connections with other queue managers.")


# transactions

_TRANSACTIONS: Final = (
    Column("ID", lambda each: Styled(each["id"], "bold")),
    Column("STATE", lambda each: "in doubt" if each["is_in_doubt"] else each["state"].lower()),
    Column("AGE", lambda each: age(each["began"]), "right"),
    Column("SENDS", lambda each: _some(each["sends"]), "right"),
    Column("RECEIVES", lambda each: _some(each["receives"]), "right"),
    Column("MOVES", lambda each: _some(each["moves"]), "right"),
    Column("QUEUES", lambda each: ", ".join(each["queues"]), below=True),
)


@verbs.command(
    "transactions",
    epilog="""
A transaction is in doubt if it is prepared and its coordinator has not decided the outcome. If the
coordinator is gone for good, decide yourself, consistently with the other participants.

Examples:

    tiercel transactions
    tiercel transactions --abort 0f3b8a52-2f6c-4d0e-9a53-64a1f8f9a1c1
""",
)
@connected
def transactions(
    context: Context,
    commit: Annotated[str | None, typer.Option(metavar="ID", help="Commit a transaction in doubt.")] = None,
    abort: Annotated[str | None, typer.Option(metavar="ID", help="Abort a transaction in doubt.")] = None,
    yes: Yes = False,
) -> None:
    """Show open transactions, and resolve those in doubt."""
    if commit is not None and abort is not None:
        raise typer.BadParameter("use only one of these", param_hint=["--commit", "--abort"])
    if commit is None and abort is None:
        found = context.api.get("transactions")["transactions"]
        context.out.table(found, _TRANSACTIONS, empty="No open transactions.")
        return
    _decide(context, commit or abort or "", "commit" if commit else "abort", yes=yes)


def _decide(context: Context, wanted: str, how: str, *, yes: bool) -> None:
    found = context.api.get("transactions")["transactions"]
    known = next((each for each in found if each["id"] == wanted.strip("{}").lower()), None)
    if known is None:
        line = f"transaction {wanted}: no such transaction. `tiercel transactions` lists them"
        raise Failure(line, ExitCode.NOT_FOUND)
    work = f"{plural(known['sends'], 'send')}, {plural(known['receives'], 'receive')}"
    context.confirm(f"{how.capitalize()} {known['id']} ({work})?", yes=yes)
    done = context.api.post(f"transactions/{known['id']}/{how}")
    if context.out.as_json:
        context.out.record(done)
    else:
        context.out.say(f"{done['id']}: {done['outcome']}")


# claims


def _seen(claim: Record) -> str:
    return f"{seconds(datetime.now(UTC).timestamp() - claim['last_seen'])} ago"


_CLAIMS: Final = (
    Column("CONSUMER", lambda claim: Styled(claim["consumer"], "bold")),
    Column("QUEUE", lambda claim: claim["queue"]),
    Column("CLAIMED", lambda claim: number(claim["count"]), "right"),
    Column("SIZE", lambda claim: size(claim["bytes"]), "right"),
    Column("OLDEST", lambda claim: seconds(claim["age"]), "right"),
    Column("LAG", lambda claim: number(claim["lag"]), "right"),
    Column("LAST SEEN", _seen, "right"),
)


@verbs.command(
    "claims",
    epilog=r"""
Consumers such as Spark jobs claim messages and acknowledge them later. If a job will never run again, release
its claims: the messages return to their queues. Some of them may already have been processed.

Examples:

    tiercel claims
    tiercel claims --release lake
    tiercel claims --release lake --queue orders
    tiercel claims --forget lake
""",
)
@connected
def claims(
    context: Context,
    release: Annotated[
        str | None, typer.Option(metavar="CONSUMER", help="Return the messages claimed by CONSUMER.")
    ] = None,
    queue: Annotated[
        str | None, typer.Option(metavar="QUEUE", help="Only for this queue.", autocompletion=queue_names)
    ] = None,
    forget: Annotated[
        str | None, typer.Option(metavar="CONSUMER", help="Remove a consumer without claims.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Show claimed messages, and release them."""
    if release is not None and forget is not None:
        raise typer.BadParameter("use only one of these", param_hint=["--release", "--forget"])
    if release is not None:
        _release(context, release, queue, yes=yes)
    elif forget is not None:
        done = context.api.delete(f"consumers/{quote(forget, safe='')}")
        _tell(context, done, f"{forget}: forgotten")
    else:
        found = context.api.get("claims")["claims"]
        context.out.table(found, _CLAIMS, empty="No messages are claimed.")


def _release(context: Context, consumer: str, queue: str | None, *, yes: bool) -> None:
    found = context.api.get("claims")["claims"]
    count = sum(each["count"] for each in found if each["consumer"] == consumer and queue is None)
    what = f"{plural(count, 'message')}" if queue is None else f"all messages of {queue}"
    context.confirm(f"Return {what} claimed by {consumer}?", yes=yes)
    request: Record = {"consumer": consumer} | ({} if queue is None else {"queue": queue})
    done = context.api.post("claims/release", request)
    _tell(context, done, f"{consumer}: {plural(done['released'], 'message')} returned")


def _tell(context: Context, record: Any, line: str) -> None:
    if context.out.as_json:
        context.out.record(record)
    else:
        context.out.say(line)
