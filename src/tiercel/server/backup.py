"""Backups: a copy of the store beside a queue manager that goes on, read through before it counts as one.

`make_backup` is for a process that has not opened the store itself. The daemon has another one do it:
`python -m tiercel.server.backup FROM TO`, which prints the answer as JSON.
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
    """What was copied; `problems` are those of the store itself, for a copy is as sound as what it shows."""

    directory: str
    size_bytes: int
    queues: int
    messages: int
    problems: tuple[str, ...] = ()


def make_backup(directory: Path, target: Path) -> Backup:
    """Copies the last committed state of a store to an empty directory, and reads all of the copy."""
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
    """The same by a process of its own, for one that has the store open and other things to do."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # what lies in the working directory is no part of the program
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
        print(error.problem, file=sys.stderr)  # noqa: T201  # for the process that has started this one
        return _FAILED
    print(json.dumps(asdict(made)))  # noqa: T201  # the same
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
