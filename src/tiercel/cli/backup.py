"""`tiercel backup`: a copy of a store, of a queue manager that runs or not."""

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
The copy is of one moment: all that was acknowledged before is in it. It is made from a snapshot, so the
daemon works on; then it is read through, every page and every message, which takes most of the time. Express
messages that are in memory are not in it.

    tiercel backup /backups/monday
    tiercel backup --data /var/lib/tiercel /backups/monday

To restore it, stop the daemon, put the copy in the place of its directory, and start it again:
docs/backup.md says what that means for the queue managers it speaks with.

exit codes: 0 there is a sound copy, 1 there is none, or the store is damaged and so is its copy
""",
)
def backup(
    target: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where the copy goes: an empty directory, or a new one.")
    ],
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Where the queue manager keeps its data; TIERCEL_DATA or data, if left out.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for programs.")] = False,
) -> ExitCode:
    """Copy the store of a queue manager while it works."""
    directory = Path(data or os.environ.get("TIERCEL_DATA") or "data")
    made = make_backup(directory, target)
    if as_json:
        print(json.dumps(asdict(made)))
    else:
        mebibytes = made.size_bytes / 2**20
        print(
            f"{target}: {made.messages} messages of {made.queues} queues, {mebibytes:.1f} MiB, read through"
        )
    if made.problems:
        first, count = made.problems[0], len(made.problems)
        raise Failure(
            f"{directory} is damaged, and so is the copy: {first}" + (" and more" if count > 1 else "")
        )
    return ExitCode.FINE
