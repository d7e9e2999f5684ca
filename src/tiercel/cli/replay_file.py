"""`tiercel replay FILE`: sends the messages of a file that `export` has written to their own destinations."""

from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from tiercel.cli.connection import queue_path
from tiercel.cli.context import Context
from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.exporting import MAX_REQUEST_BYTES, MAX_REQUEST_MESSAGES, check_file, lines_of, parsed
from tiercel.cli.failures import Failure
from tiercel.cli.output import plural
from tiercel.cli.progress import bar

_SUFFIX: Final = ".jsonl"


class Goal(NamedTuple):
    queue: str
    transactional: bool | None  # None: as the queue is


class Wanted(NamedTuple):
    goal: Goal
    number: int  # of the line
    line: bytes


def is_file(source: str) -> bool:
    """Whether a source is a file, not a queue: its name has a slash or ends with .jsonl, and it is there."""
    return ("/" in source or source.endswith(_SUFFIX)) and Path(source).is_file()


def replay_file(
    context: Context, file: str, to: str | None, limit: int | None, *, transactional: bool, dry_run: bool
) -> ExitCode | None:
    """The whole file is checked before the first message is sent."""
    goals = _Goals(context, to, transactional=transactional)
    with Path(file).open("rb") as source:
        check_file(source, file, 0)
        count = sum(1 for _ in _wanted(source, file, goals, limit))
        if not dry_run:
            _send_all(context, file, count, _wanted(source, file, goals, limit))
    if context.out.as_json:
        context.out.record({"from": file, "to": to, "count": count, "dry_run": dry_run})
    else:
        what = "would be replayed" if dry_run else "replayed"
        where = "to their destinations" if to is None else f"to {to}"
        context.out.say(f"{plural(count, 'message')} of {file} {what} {where}")
    return None if count else ExitCode.NOTHING


def _wanted(source: IO[bytes], file: str, goals: "_Goals", limit: int | None) -> Iterator[Wanted]:
    source.seek(0)
    for number, line in islice(lines_of(source, 0), limit):
        yield Wanted(goals.of(line, f"{file}, line {number}"), number, line.strip())


class _Goals:
    """Where each message goes, and whether in a transaction: a queue of this computer decides that itself."""

    def __init__(self, context: Context, to: str | None, *, transactional: bool) -> None:
        self._context = context
        self._to = to
        self._transactional = transactional
        self._is_here: dict[str, bool] = {}

    def of(self, line: bytes, where: str) -> Goal:
        record = parsed(line)
        queue = self._to or record.get("destination_queue")
        if not isinstance(queue, str):
            raise Failure(
                f"{where}: it does not name the queue that it was sent to. Give --to; nothing was sent"
            )
        if self._transactional:
            return Goal(queue, True)
        was_transactional = "transaction_id" in record or "tx_sequence_id" in record
        return Goal(queue, True if was_transactional and not self._here(queue) else None)

    def _here(self, queue: str) -> bool:
        if queue not in self._is_here:
            self._is_here[queue] = self._kind(queue) not in {None, "outgoing"}
        return self._is_here[queue]

    def _kind(self, queue: str) -> Any:
        try:
            return self._context.api.get(queue_path(queue))["kind"]
        except Failure:
            return None  # no message has gone there yet


def _send_all(context: Context, file: str, count: int, wanted: Iterator[Wanted]) -> None:
    """Messages for the same queue that follow each other are sent together, all or none."""
    sent, reached = 0, 0
    with bar(f"replay {file}", count) as advance:
        for goal, rows in groupby(wanted, key=lambda each: each.goal):
            for part in _parts(rows):
                try:
                    lines = b"\n".join(each.line for each in part)
                    path = queue_path(goal.queue, "messages")
                    context.api.post_lines(path, lines, transactional=goal.transactional)
                except Failure as failure:
                    done = f"{plural(sent, 'message')} sent before, up to line {reached}"
                    raise Failure(f"{file}: {failure} {done}", failure.code) from failure
                sent, reached = sent + len(part), part[-1].number
                advance(len(part))


def _parts(rows: Iterable[Wanted]) -> Iterator[list[Wanted]]:
    part: list[Wanted] = []
    size = 0
    for each in rows:
        if part and (len(part) >= MAX_REQUEST_MESSAGES or size + len(each.line) > MAX_REQUEST_BYTES):
            yield part
            part, size = [], 0
        part.append(each)
        size += len(each.line)
    yield part
