"""`tiercel backup`: copies the store of a running or stopped queue manager."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.failures import Failure
from tiercel.server.backup import make_backup

verbs = typer.Typer()


@verbs.command(
    "backup",
    epilog="""\
The copy is a consistent snapshot with everything acknowledged so far, and does not block the daemon. Then
every page and message of the copy is verified, which takes most of the time. Express messages in memory are
not included.

    tiercel backup /backups/monday
    tiercel backup --data /var/lib/tiercel /backups/monday

To restore, stop the daemon, replace its directory with the copy, and start it again. docs/backup.md explains
the effects on other queue managers.

exit codes: 0 verified copy, 1 no copy, or the store and the copy are damaged
""",
)
def backup(
    target: Annotated[
        Path, typer.Argument(metavar="DIR", help="Target directory; must be empty or not exist.")
    ],
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Data directory (default: $TIERCEL_DATA, else ./data).",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> ExitCode:
    """Copy the store of a queue manager, running or not."""
    directory = Path(data or os.environ.get("TIERCEL_DATA") or "data")
    made = make_backup(directory, target)
    if as_json:
        print(json.dumps(asdict(made)))
    else:
        mebibytes = made.size_bytes / 2**20
        print(f"{target}: {made.messages} messages of {made.queues} queues, {mebibytes:.1f} MiB, verified")
    if made.problems:
        first, count = made.problems[0], len(made.problems)
        raise Failure(
            f"{directory} is damaged, and so is the copy: {first}" + (" and more" if count > 1 else "")
        )
    return ExitCode.FINE
