"""`tiercel export` and `tiercel import`: messages with all properties, one JSON object per line."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, Final

import typer

from tiercel.cli.clean_text import clean_json
from tiercel.cli.completion import QueueName
from tiercel.cli.connection import queue_path
from tiercel.cli.context import Context, connected
from tiercel.cli.failures import Failure
from tiercel.cli.options import DryRun
from tiercel.cli.output import note, plural
from tiercel.cli.progress import bar
from tiercel.model.errors import MqError

verbs = typer.Typer()

MAX_REQUEST_MESSAGES: Final = 10_000
MAX_REQUEST_BYTES: Final = 48 << 20
_IN_MEMORY: Final = 16 << 20  # of stdin; the rest goes to disk
_SHOWN: Final = 60


@verbs.command(
    "export",
    epilog=r"""
Writes the current messages and leaves them in the queue. `tiercel import` sends them again.

Examples:

    tiercel export orders > orders.jsonl
    tiercel export orders --out orders.jsonl
    tiercel export --decode orders | jq -r .decoded.text
    tiercel export orders | tiercel import other
    tiercel export ';deadletter' | jq -r .label
""",
)
@connected
def export(
    context: Context,
    queue: QueueName,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Output file (default: stdout)."),
    ] = None,
    decode: Annotated[
        bool, typer.Option("--decode", help="Add the decoded body, which `import` ignores.")
    ] = False,
) -> None:
    """Print all messages of a queue with all properties, one JSON object per line."""
    total = context.api.get(queue_path(queue))["count"]
    is_shown = out is None and sys.stdout.isatty()
    with _sink(out) as sink, bar(f"export {queue}", total) as advance:
        count = 0
        options = {"decode": True} if decode else {}
        for lines in context.api.raw_lines(queue_path(queue, "messages"), **options):
            sink.write(_shown(lines) if is_shown else lines)
            count += lines.count(b"\n")
            advance(lines.count(b"\n"))
        sink.flush()
    if out is not None:
        note(f"{out}: {plural(count, 'message')} of {queue}")


def _shown(lines: bytes) -> bytes:
    """The same values without characters that a terminal would obey."""
    return "\n".join(map(clean_json, lines.decode().split("\n"))).encode()


@contextmanager
def _sink(path: Path | None) -> Iterator[IO[bytes]]:
    """Replace the file only when everything was written."""
    if path is None:
        yield sys.stdout.buffer
        return
    new = path.with_name(f".{path.name}.new")
    try:
        with new.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as problem:
        raise OSError(problem.errno, problem.strerror, str(path)) from problem
    finally:
        with suppress(OSError):
            new.unlink(missing_ok=True)


@verbs.command(
    "import",
    epilog=r"""
The whole file is checked before the first message is sent; if a line is invalid, nothing is sent. Properties
that a sender may set are kept; id, lookup id, times and transaction positions are new. Messages are sent in
file order, up to 10,000 messages or 48 MiB at a time, all or none.

Examples:

    tiercel import orders orders.jsonl
    tiercel import --dry-run orders orders.jsonl      only check the file
    tiercel export orders | tiercel import other
    zcat orders.jsonl.gz | tiercel import orders
""",
)
@connected
def import_(
    context: Context,
    queue: QueueName,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Input file; - is stdin.")] = "-",
    recoverable: Annotated[
        bool, typer.Option("--recoverable", "-r", help="Make all messages recoverable.")
    ] = False,
    transactional: Annotated[
        bool, typer.Option("--transactional", "-t", help="For a remote transactional queue.")
    ] = False,
    skip: Annotated[int, typer.Option("--skip", metavar="N", min=0, help="Skip the first N lines.")] = 0,
    dry_run: DryRun = False,
) -> None:
    """Send the messages in a file written by `export`."""
    with _source(file) as source:
        name = "standard input" if file == "-" else file
        found = check_file(source, name, skip)
        if (
            context.api.is_stopped
            and found.express
            and not (recoverable or _is_transactional(context, queue))
        ):
            problem = f"{plural(found.express, 'message')} would be express, and no daemon is running"
            raise Failure(f"{name}: {problem}. Nothing was sent; add --recoverable, or start the daemon")
        if not dry_run:
            source.seek(0)
            _send_all(
                context, queue, _Parts(source, skip, recoverable=recoverable), found, name, transactional
            )
    if context.out.as_json:
        context.out.record({"queue": queue, "count": found.count, "dry_run": dry_run})
    else:
        what = "would be sent to" if dry_run else "sent to"
        context.out.say(f"{name}: {plural(found.count, 'message')} {what} {queue}")


def _is_transactional(context: Context, queue: str) -> bool:
    return bool(context.api.get(queue_path(queue))["transactional"])


@contextmanager
def _source(file: str) -> Iterator[IO[bytes]]:
    """A file that can be read twice; stdin is copied to a temporary file."""
    if file != "-":
        with Path(file).open("rb") as opened:
            yield opened
        return
    if sys.stdin.isatty():
        note("reading messages from stdin, one JSON object per line; end with Ctrl-D")
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as spool:
        shutil.copyfileobj(sys.stdin.buffer, spool)
        spool.seek(0)
        yield spool


@dataclass(frozen=True, slots=True)
class _Found:
    count: int
    express: int


def lines_of(source: IO[bytes], skip: int) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(source, 1):
        if number > skip and line.strip():
            yield number, line


def check_file(source: IO[bytes], name: str, skip: int) -> _Found:
    """Count the messages of a file; raise `Failure` if one is invalid."""
    from tiercel.admin.message_json import from_json  # noqa: PLC0415  # slow to import, needed only here

    count = express = 0
    for number, line in lines_of(source, skip):
        try:
            message = from_json(parsed(line))
        except MqError as error:
            raise Failure(f"{name}, line {number}: {error} Nothing was sent.") from error
        except (ValueError, RecursionError) as problem:
            wrong = f"not a JSON object ({problem}). Is the file complete? Nothing was sent"
            raise Failure(f"{name}, line {number}: {wrong}") from problem
        count += 1
        express += not message.is_recoverable
    return _Found(count, express)


def parsed(line: bytes) -> dict[str, Any]:
    record = json.loads(line)
    if not isinstance(record, dict):
        raise ValueError(f"found {line[:_SHOWN].decode('utf-8', 'replace').strip()}")  # noqa: TRY004
    return record


class _Parts:
    """The lines of a file in pieces for one request each."""

    def __init__(self, source: IO[bytes], skip: int, *, recoverable: bool) -> None:
        self._source = source
        self._skip = skip
        self._recoverable = recoverable

    def __iter__(self) -> Iterator[tuple[int, int, bytes]]:
        """Number of messages, number of the last line, and the lines."""
        lines: list[bytes] = []
        size = last = 0
        for number, line in lines_of(self._source, self._skip):
            if lines and (len(lines) >= MAX_REQUEST_MESSAGES or size + len(line) > MAX_REQUEST_BYTES):
                yield len(lines), last, b"\n".join(lines)
                lines, size = [], 0
            lines.append(self._ready(line))
            size, last = size + len(line), number
        if lines:
            yield len(lines), last, b"\n".join(lines)

    def _ready(self, line: bytes) -> bytes:
        if not self._recoverable:
            return line.strip()
        return json.dumps({**json.loads(line), "delivery": "recoverable"}).encode()


def _send_all(
    context: Context, queue: str, parts: _Parts, found: _Found, name: str, transactional: bool
) -> None:
    sent, sent_lines = 0, 0
    with bar(f"import into {queue}", found.count) as advance:
        for count, last_line, lines in parts:
            try:
                context.api.post_lines(
                    queue_path(queue, "messages"), lines, transactional=True if transactional else None
                )
            except Failure as failure:
                raise _told(failure, name, sent, sent_lines) from failure
            sent, sent_lines = sent + count, last_line
            advance(count)


def _told(failure: Failure, name: str, sent: int, lines: int) -> Failure:
    """Add what was sent so far and how to continue."""
    if not sent:
        return Failure(f"{name}: {failure} Nothing was sent.", failure.code)
    done = f"{plural(sent, 'message')} sent before that; continue with --skip {lines}"
    return Failure(f"{name}, after line {lines}: {failure} {done}", failure.code)
