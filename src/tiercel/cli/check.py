"""`tiercel check`: verifies the store of a queue manager and reports damage."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tiercel.cli.clean_text import clean_line
from tiercel.engine.check import Checker, Counts
from tiercel.engine.problem import Problem
from tiercel.model.errors import (
    MqError,
    StoreDamagedError,
    StoreFailedError,
    StoreInUseError,
    StoreVersionError,
)
from tiercel.store import open_snapshot, verify_store

SOUND, DAMAGED, UNUSABLE = 0, 1, 2

verbs = typer.Typer()


@verbs.command(
    "check",
    epilog="""\
A running queue manager is not disturbed. In that case its last commit is checked but not the pages of the
file, because they change; stop the queue manager to verify them too.

    tiercel check data
    tiercel check data --json | jq .

exit codes: 0 no problems, 1 damaged (one line per problem), 2 invalid usage or no store in DIR
""",
)
def check(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Data directory.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per problem, then one with the counts.")
    ] = False,
) -> int:
    """Verify a store and report damage.

    Checks the pages of the file and every record: messages against their checksums, and queues, counts,
    expiries, transactions, sequences, discards and stages against each other. Changes nothing.
    """
    found = _Check(directory)
    problems = 0
    try:
        for problem in found.problems():
            problems += 1
            print(json.dumps(problem._asdict()) if as_json else clean_line(str(problem)))
    except StoreFailedError as error:
        return _give_up(directory, error.problem)
    except OSError as error:
        return _give_up(directory, str(error))
    for note in found.notes:
        print(f"tiercel check: {directory}: {note}", file=sys.stderr)
    print(_summary_json(found, problems) if as_json else _summary(found, problems))
    return DAMAGED if problems else SOUND


def _give_up(directory: Path, problem: str) -> int:
    print(f"tiercel check: {directory}: {problem}", file=sys.stderr)
    return UNUSABLE


class _Check:
    def __init__(self, directory: Path) -> None:
        self.notes: list[str] = []
        self.pages_verified = False
        self.counts: Counts | None = None
        self._directory = directory

    def problems(self) -> Iterator[Problem]:
        pages = self._verify_pages()
        for text in pages:
            yield Problem("pages", text)
        if pages:  # LMDB trusts its pages; reading damaged ones can crash the process
            self.notes.append("the records were not checked because the pages are damaged")
            return
        try:
            with open_snapshot(self._directory) as view:
                checker = Checker(view)
                self.counts = checker.counts
                yield from checker.problems()
        except (StoreDamagedError, StoreVersionError) as error:
            yield Problem("pages", _words(error))

    def _verify_pages(self) -> list[str]:
        try:
            found = verify_store(self._directory)
        except StoreInUseError as error:
            self.notes.append(f"in use ({error.present}): the last commit was checked, the pages were not")
            return []
        self.pages_verified = True
        return found


def _words(error: MqError) -> str:
    known = [
        f"{name}: {value}" for name, value in (("present", error.present), ("limit", error.limit)) if value
    ]
    return f"{error.problem} ({', '.join(known)})" if known else error.problem


def _summary(check: _Check, problems: int) -> str:
    result = f"{problems} problem{'' if problems == 1 else 's'}" if problems else "sound"
    counts = check.counts
    if counts is None:
        return result
    amounts = (
        (counts.queues, "queues"),
        (counts.messages, f"messages ({counts.message_bytes} bytes)"),
        (counts.claimed, "claimed messages"),
        (counts.transactions, "prepared transactions"),
        (counts.discards, "discards"),
        (counts.stages, "stages"),
        (counts.set_aside, "records set aside"),
    )
    return f"{result}: {', '.join(f'{amount} {noun}' for amount, noun in amounts)}"


def _summary_json(check: _Check, problems: int) -> str:
    counts = None if check.counts is None else asdict(check.counts)
    return json.dumps({"problems": problems, "pages_verified": check.pages_verified, "counts": counts})
