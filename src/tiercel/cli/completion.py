"""Names of queues for the shell that completes them: those of the daemon, asked at that moment."""

from pathlib import Path
from typing import Annotated, Any

import typer

_NAME_HELP = r"As orders, private$\orders, .\private$\orders, orders;sub, ;deadletter, or a format name."


def queue_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """What cannot be asked completes nothing: a shell has no place for errors."""
    given: dict[str, Any] = ctx.params
    try:
        from tiercel.cli.connection import connect  # noqa: PLC0415  # only the shell comes here

        token_file = given.get("token_file")
        path = Path(token_file) if token_file else None
        # A store at rest is not opened for this: it would be in the way of whoever starts a daemon.
        with connect(given.get("data"), given.get("server"), path, at_rest=False) as api:
            found = api.get("queues", pattern=f"{incomplete}*")["queues"]
    except Exception:  # noqa: BLE001  # whatever it is, the shell shows nothing
        return []
    return [queue["name"] for queue in found if queue["kind"] != "outgoing"]


QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help=_NAME_HELP, autocompletion=queue_names)]
QueueNames = Annotated[
    list[str], typer.Argument(metavar="QUEUE...", help=_NAME_HELP, autocompletion=queue_names)
]
OptionalQueue = Annotated[
    str | None, typer.Argument(metavar="QUEUE", help=_NAME_HELP, autocompletion=queue_names)
]
