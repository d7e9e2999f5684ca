"""`tiercel pipeline`: loads queues and captures into tables with Spark, and makes reports."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from tiercel.cli.clean_text import clean_line
from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.failures import Failure
from tiercel.model.errors import TiercelError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tiercel.pipeline.config import Pipeline

TABLE_HELP = "FORMAT:PLACE#NAME, such as parquet:lake/raw, delta:lake/orders or duckdb:shop.db#orders."
REPORTS = ("traffic", "dead-letters", "age", "senders", "end-to-end")

REPLAY_SOURCES = ("journal", "archive", "table")

verbs = typer.Typer()
pipeline = typer.Typer(
    help="Load queues into tables with Spark, exactly once.",
    epilog="""\
Runs a pipeline.toml: reads messages from queues, decodes them, applies SQL or a function, and writes them to
tables. Each message ends up in each table once, even if processes are killed. docs/pipeline.md lists every
option.

Requires `pip install 'tiercel\\[pipeline]'`, which also installs Java if there is none.

    tiercel pipeline plan pipeline.toml
    tiercel pipeline run pipeline.toml
    tiercel pipeline report all --table delta:lake/orders --out reports

exit codes: 0 success, 1 failure, 2 invalid usage or pipeline.toml
""",
)
verbs.add_typer(pipeline, name="pipeline")

File = Annotated[Path, typer.Argument(metavar="FILE", help="Pipeline file (pipeline.toml).")]
Match = Annotated[str, typer.Option(metavar="SQL", help="Condition on the columns of the messages.")]
Master = Annotated[str, typer.Option(metavar="URL", help="Spark master (default: local\\[*]).")]


@pipeline.command("run")
def run(file: File) -> None:
    """Run the pipeline, until the queues are empty or at its interval."""
    _guarded(lambda: _run(file))


@pipeline.command("plan")
def plan(file: File) -> None:
    """Show what the pipeline would do; change nothing."""
    _guarded(lambda: _plan(file))


@pipeline.command("compact")
def compact(file: File) -> None:
    """Merge small files of the tables and remove leftovers of failed attempts."""
    _guarded(lambda: _compact(file))


def _report_name(name: str) -> str:
    if name not in (*REPORTS, "all"):
        raise typer.BadParameter(f"{name!a} is not a report; use {', '.join(REPORTS)} or all")
    return name


@pipeline.command("report")
def report(
    name: Annotated[
        str, typer.Argument(metavar="NAME", callback=_report_name, help=f"{', '.join(REPORTS)} or all.")
    ],
    table: Annotated[str, typer.Option(metavar="TABLE", help=TABLE_HELP)],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Output directory (default: .).")] = Path(),
    master: Master = "local[*]",
) -> None:
    """Make a report on a table of messages: a PNG and an HTML page."""
    _guarded(lambda: _report(name, table, out, master))


def _replay_source(name: str) -> str:
    if name not in REPLAY_SOURCES:
        raise typer.BadParameter(f"{name!a} is not a source; use {', '.join(REPLAY_SOURCES)}")
    return name


def _moment(text: str | None) -> datetime | None:
    try:
        found = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!a} is not a time such as 2026-11-16 or 2026-11-16T08:00Z") from None
    return found if found is None or found.tzinfo else found.replace(tzinfo=UTC)


@pipeline.command(
    "replay",
    epilog=r"""
Reads messages again: from the journals of the pipeline's queues, from an archive (a table with the column
raw) or from a table of messages. They go into the tables of the pipeline, each of which takes only the
messages that it does not have; or to a queue, as new messages, once for the same options.

    tiercel pipeline replay pipeline.toml --from journal --since 2026-11-16 --until 2026-11-17
    tiercel pipeline replay pipeline.toml --from table --table parquet:lake/messages --match "priority > 5"
    tiercel pipeline replay pipeline.toml --from archive --table delta:lake/archive --to orders
""",
)
def replay(
    file: File,
    source: Annotated[
        str,
        typer.Option("--from", metavar="SOURCE", callback=_replay_source, help="journal, archive or table."),
    ],
    table: Annotated[str, typer.Option(metavar="TABLE", help=f"For archive and table: {TABLE_HELP}")] = "",
    since: Annotated[str | None, typer.Option(metavar="TIME", help="First arrival (UTC).")] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="End of the arrivals, exclusive (UTC).")
    ] = None,
    match: Match = "",
    to: Annotated[str, typer.Option(metavar="QUEUE", help="Queue to send to (default: the tables).")] = "",
    name: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="With --to: sent once under this name (default: from the options)."
        ),
    ] = "",
    via: Annotated[
        str, typer.Option(metavar="URL", help="With --to: queue manager that sends, of several in the file.")
    ] = "",
) -> None:
    """Read messages again, into the tables without doubles or to a queue."""
    moments = _moment(since), _moment(until)
    _guarded(lambda: _replay(file, source, table, moments, match, (to, name, via)))


quarantine = typer.Typer(help="List, retry and drop the messages that a pipeline set apart.")
pipeline.add_typer(quarantine, name="quarantine")


@quarantine.command("ls")
def quarantine_ls(
    file: File,
    match: Match = "",
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=10_000, help="Most lines (default: 100).")
    ] = 100,
) -> None:
    """List messages in quarantine with the reason, the latest first."""
    _guarded(lambda: _quarantine_ls(file, match, limit))


@quarantine.command("retry")
def quarantine_retry(file: File, match: Match = "") -> None:
    """Put messages that the pipeline now accepts into its tables."""
    _guarded(lambda: _quarantine_retry(file, match))


@quarantine.command("drop")
def quarantine_drop(
    file: File,
    match: Match = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Remove messages from quarantine for good."""
    what = f"messages where {match}" if match else "all messages in quarantine"
    if not yes and not typer.confirm(f"Remove {what}?"):
        raise typer.Exit(1)
    _guarded(lambda: _quarantine_drop(file, match))


@pipeline.command("capture")
def capture(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Capture files of port 1801.")],
    out: Annotated[str, typer.Option(metavar="TABLE", help=TABLE_HELP)],
    tcp_port: Annotated[
        list[int] | None, typer.Option(metavar="PORT", help="TCP port (default: 1801); repeatable.")
    ] = None,
    master: Master = "local[*]",
) -> None:
    """Load the messages in pcap and pcapng captures into a table."""
    _guarded(lambda: _capture(files, out, tcp_port, master))


def _guarded(action: Callable[[], None]) -> None:
    missing = [
        name for name in ("pyspark", "pyarrow", "deltalake", "duckdb", "psycopg") if not find_spec(name)
    ]
    if missing:
        line = f"{', '.join(missing)}: not installed; run pip install 'tiercel[pipeline]'"
        raise Failure(line, ExitCode.WRONG_USAGE)
    from tiercel.server.config import ConfigError  # noqa: PLC0415  # only when this command is used

    try:
        action()
    except ConfigError as problem:
        raise Failure(str(problem), ExitCode.WRONG_USAGE) from problem
    except (TiercelError, ValueError, RuntimeError) as problem:
        raise Failure(str(problem)) from problem


def _load(file: Path) -> "Pipeline":
    from tiercel.pipeline.config import load  # noqa: PLC0415  # needs the extra

    return load(file)


def _run(file: Path) -> None:
    from rich.console import Console  # noqa: PLC0415

    from tiercel.pipeline.batch import Batch  # noqa: PLC0415
    from tiercel.pipeline.monitoring import monitoring  # noqa: PLC0415
    from tiercel.pipeline.progress import batch_line, progress_bar, show  # noqa: PLC0415
    from tiercel.pipeline.running import run as run_pipeline  # noqa: PLC0415
    from tiercel.pipeline.spark import open_session  # noqa: PLC0415

    described = _load(file)
    is_log = described.monitoring.log == "-"
    console = Console(stderr=is_log)  # stdout is then for the lines of JSON
    signal.signal(signal.SIGTERM, _interrupt)  # like Ctrl-C: the current batch is dropped and repeated later
    spark = open_session(
        described.pipeline.name, described.pipeline.master, described.spark, described.state / "spark.log"
    )
    try:
        with monitoring(described) as tell, progress_bar(described, console) as watch:

            def report(batch: Batch) -> None:
                if not console.is_terminal and not is_log:
                    print(batch_line(batch), flush=True)
                tell(batch)

            summary = run_pipeline(described, spark, watch, report)
    finally:
        spark.stop()
    show(described, summary, console)


@contextmanager
def _session(described: "Pipeline") -> "Iterator[SparkSession]":
    """The pipeline's own Spark, for a command that is not a run."""
    from tiercel.pipeline.spark import open_session  # noqa: PLC0415

    own = described.pipeline
    spark = open_session(own.name, own.master, described.spark, described.state / "spark.log")
    try:
        yield spark
    finally:
        spark.stop()


def _replay(
    file: Path,
    source: str,
    table: str,
    moments: tuple[datetime | None, datetime | None],
    match: str,
    sending: tuple[str, str, str],
) -> None:
    from tiercel.pipeline.replay import Selection, replay, resend  # noqa: PLC0415
    from tiercel.pipeline.tables import TableOptions  # noqa: PLC0415

    described = _load(file)
    to, name, via = sending
    options = TableOptions.parse(table).under(Path.cwd()) if table else None
    selection = Selection(source=source, table=options, since=moments[0], until=moments[1], match=match)
    with _session(described) as spark:
        if to:
            sent = resend(described, spark, selection, to, name, via)
            print(f"{sent:,} messages sent to {to}, unless they had been sent before")
            return
        done = replay(described, spark, selection)
    print(f"{done.messages:,} messages selected")
    for place, rows in done.rows.items():
        print(f"{rows:,} new rows in {place}")
    if described.quarantine is not None:
        print(f"{done.quarantined:,} new rows in {described.quarantine.options} (quarantine)")


def _quarantine_ls(file: Path, match: str, limit: int) -> None:
    from tiercel.pipeline.quarantine import listed  # noqa: PLC0415

    described = _load(file)
    with _session(described) as spark:
        for row in listed(described, spark, match, limit):
            print("  ".join(clean_line(str(each or "")) for each in row))


def _quarantine_retry(file: Path, match: str) -> None:
    from tiercel.pipeline.quarantine import retry  # noqa: PLC0415

    described = _load(file)
    with _session(described) as spark:
        done = retry(described, spark, match)
    print(f"{done.landed.messages:,} messages accepted, {done.left:,} left in quarantine")
    for place, rows in done.landed.rows.items():
        print(f"{rows:,} new rows in {place}")


def _quarantine_drop(file: Path, match: str) -> None:
    from tiercel.pipeline.quarantine import drop  # noqa: PLC0415

    described = _load(file)
    with _session(described) as spark:
        print(f"{drop(described, spark, match):,} messages removed")


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _plan(file: Path) -> None:
    from tiercel.pipeline.plan import plan  # noqa: PLC0415
    from tiercel.pipeline.spark import open_session  # noqa: PLC0415

    described = _load(file)
    # The plan always runs locally.
    spark = open_session(described.pipeline.name, "local[1]", {})
    try:
        for line in plan(described, spark):
            print(line)
    finally:
        spark.stop()


def _compact(file: Path) -> None:
    from tiercel.pipeline.tables import open_table  # noqa: PLC0415

    described = _load(file)
    for section in (*described.tables, *([described.quarantine] if described.quarantine else [])):
        done = open_table(section.options).compact()
        print(
            f"{section.options}: {done.before} files merged into {done.after}, {done.removed} orphans removed"
        )


def _report(name: str, table_name: str, out: Path, master: str) -> None:
    from tiercel.pipeline.reports import make  # noqa: PLC0415
    from tiercel.pipeline.spark import open_session  # noqa: PLC0415
    from tiercel.pipeline.tables import TableOptions, open_table  # noqa: PLC0415

    table = open_table(TableOptions.parse(table_name).under(Path.cwd()))
    spark = open_session("report", master, {})
    try:
        rows = table.read(spark)
        for each in REPORTS if name == "all" else (name,):
            made = make(each, rows, out)
            print(f"{each}: {made.headline}\n  {made.png}\n  {made.html}")
    finally:
        spark.stop()


def _capture(files: list[Path], out: str, tcp_port: list[int] | None, master: str) -> None:
    from tiercel.pipeline.captures import land  # noqa: PLC0415
    from tiercel.pipeline.spark import open_session  # noqa: PLC0415
    from tiercel.pipeline.tables import TableOptions, open_table  # noqa: PLC0415
    from tiercel.wire.capture import TCP_PORT  # noqa: PLC0415

    options = TableOptions.parse(out).under(Path.cwd())
    spark = open_session("capture", master, {})
    try:
        landed = land(spark, files, open_table(options), tcp_port or (TCP_PORT,))
    finally:
        spark.stop()
    print(
        f"{options}: {landed.messages:,} rows of {landed.captures:,} captures"
        + f"; {landed.already:,} already loaded" * bool(landed.already)
    )
