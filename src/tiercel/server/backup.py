"""Online backups: a copy of the store of a running queue manager, checked record by record.

`make_backup` must run in a process that has not opened the store. The daemon starts one:
`python -m tiercel.server.backup FROM TO`, which prints the result as JSON.
"""

import asyncio
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tiercel.engine.check import Checker
from tiercel.model.errors import MqError, StoreFailedError
from tiercel.store import copy_store, open_snapshot

_FAILED: Final = 1
_NAMED_PROBLEMS: Final = 10


@dataclass(frozen=True, slots=True)
class Backup:
    """The result; `problems` are those of the store itself, which the copy shares."""

    directory: str
    size_bytes: int
    queues: int
    messages: int
    problems: tuple[str, ...] = ()


def make_backup(directory: Path, target: Path) -> Backup:
    """Copy the last committed state of a store to an empty directory, and check every record of the copy."""
    size_bytes = copy_store(directory, target)
    with open_snapshot(target, alone=True) as view:
        checker = Checker(view)
        problems = [str(each) for each in checker.problems()]
    counts = checker.counts
    return Backup(
        str(target),
        size_bytes,
        counts.queues,
        counts.messages,
        tuple(problems[:_NAMED_PROBLEMS]),
    )


async def make_backup_apart(directory: Path, target: Path) -> Backup:
    """`make_backup` in a child process, for a process that has the store open."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # do not import from the working directory
        "-m",
        "tiercel.server.backup",
        str(directory),
        str(target),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, errors = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode:
        said = errors.decode(errors="replace").strip().splitlines()
        raise StoreFailedError(f"backup {target}", problem=said[-1] if said else "the copying process died")
    answer = json.loads(out)
    return Backup(**answer | {"problems": tuple(answer["problems"])})


def main(directory: str, target: str) -> int:
    try:
        made = make_backup(Path(directory), Path(target))
    except MqError as error:
        print(error.problem, file=sys.stderr)  # noqa: T201  # read by the parent
        return _FAILED
    print(json.dumps(asdict(made)))  # noqa: T201  # the same
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
