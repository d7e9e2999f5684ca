"""Shell completion of queue names, from the running daemon."""

from typing import Annotated, Any

import typer

_NAME_HELP = r"Queue name: orders, .\private$\orders, orders;sub, ;deadletter, or a format name."


def queue_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return no names on any error, because a shell cannot show errors here."""
    given: dict[str, Any] = ctx.params
    try:
        from tiercel.cli.connection import Place, connect  # noqa: PLC0415  # only for completion
        from tiercel.cli.contexts import chosen  # noqa: PLC0415

        place = Place(given.get("data"), given.get("server"), given.get("token_file"))
        # Do not open a store without a daemon: that would block a daemon from starting.
        with connect(chosen(place, given.get("context") or ctx.obj), at_rest=False) as api:
            found = api.get("queues", pattern=f"{incomplete}*")["queues"]
    except Exception:  # noqa: BLE001  # the shell shows nothing
        return []
    return [queue["name"] for queue in found if queue["kind"] != "outgoing"]


QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help=_NAME_HELP, autocompletion=queue_names)]
QueueNames = Annotated[
    list[str], typer.Argument(metavar="QUEUE...", help=_NAME_HELP, autocompletion=queue_names)
]
OptionalQueue = Annotated[
    str | None, typer.Argument(metavar="QUEUE", help=_NAME_HELP, autocompletion=queue_names)
]
