"""`tiercel pipeline`: loads queues and captures into tables with Spark, and makes reports."""

import signal
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.failures import Failure
from tiercel.model.errors import TiercelError

if TYPE_CHECKING:
    from tiercel.pipeline.config import Pipeline

TABLE_HELP = "FORMAT:PLACE#NAME, such as parquet:lake/raw, delta:lake/orders or duckdb:shop.db#orders."
REPORTS = ("traffic", "dead-letters", "age", "senders", "end-to-end")

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

    from tiercel.pipeline.progress import show, watching  # noqa: PLC0415
    from tiercel.pipeline.running import run as run_pipeline  # noqa: PLC0415
    from tiercel.pipeline.spark import open_session  # noqa: PLC0415

    described = _load(file)
    console = Console()
    signal.signal(signal.SIGTERM, _interrupt)  # like Ctrl-C: the current batch is dropped and repeated later
    spark = open_session(
        described.pipeline.name, described.pipeline.master, described.spark, described.state / "spark.log"
    )
    try:
        with watching(described, console) as watch:
            summary = run_pipeline(described, spark, watch)
    finally:
        spark.stop()
    show(described, summary, console)


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
