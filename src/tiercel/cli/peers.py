"""`tiercel peers`: the addresses of other queue managers, as they were learned."""

from typing import Annotated, Final
from urllib.parse import quote

import typer

from tiercel.cli.context import Context, connected, shown_alone
from tiercel.cli.options import Yes
from tiercel.cli.output import Column, Styled

verbs = typer.Typer()
peers = typer.Typer(
    help="Show learned addresses of other queue managers, and forget one.",
    epilog=r"""
A queue manager that sends transactional messages is remembered with the address that it last used.
Acknowledgements go there, and so do messages to queues that are named by its GUID, unless the configuration
says where it is (`[machines]`, `[[peers]]`).

`forget` drops a wrong address, such as that of a computer that only claimed the GUID. The next transactional
message of the queue manager tells its address again; pin it in `[[peers]]` to believe no other.

Examples:

    tiercel peers
    tiercel peers forget 40d7c85b-be11-4984-a852-4488ea85537c
""",
)
verbs.add_typer(peers, name="peers")

_COLUMNS: Final = (
    Column("QUEUE MANAGER", lambda each: Styled(each["guid"], "bold")),
    Column(
        "ADDRESS", lambda each: each["address"] or "unknown: its messages come through a router", below=True
    ),
)


@shown_alone(peers)
@connected
def _show(context: Context) -> None:
    found = context.api.get("peers")["peers"]
    context.out.table(found, _COLUMNS, empty="No addresses of other queue managers were learned.")


@peers.command("forget")
@connected
def forget(
    context: Context,
    guid: Annotated[str, typer.Argument(metavar="GUID", help="Queue manager to forget.")],
    yes: Yes = False,
) -> None:
    """Forget the learned address of a queue manager."""
    context.confirm(f"Forget the address of {guid}?", yes=yes)
    done = context.api.delete(f"peers/{quote(guid, safe='')}")
    if context.out.as_json:
        context.out.record(done)
    else:
        context.out.say(f"{done['guid']}: address forgotten")
