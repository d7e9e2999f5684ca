"""`tiercel pipeline`: queues and captures into tables on Spark, and reports of what is in them."""

import argparse
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from tiercel.model.errors import TiercelError

if TYPE_CHECKING:
    from tiercel.pipeline.config import Pipeline

NAME = "pipeline"
HELP = "land queues in tables with Spark, exactly once"
DESCRIPTION = """\
Runs what a pipeline.toml describes: messages of queues, decoded, through SQL or a function, into tables.
Whatever is killed, each message is in each table once. docs/pipeline.md has every option.

It needs `pip install 'tiercel[pipeline]'`. Java comes with it if there is none.
"""
EPILOG = """\
exit codes: 0 done, 1 it failed and says why, 2 wrong usage or a wrong pipeline.toml
"""

FINE, FAILED, WRONG_USAGE = 0, 1, 2
TABLE_HELP = "FORMAT:PLACE[#NAME], such as parquet:lake/raw, delta:lake/orders or duckdb:shop.db#orders"
REPORTS = ("traffic", "dead-letters", "age", "senders", "end-to-end")


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, action, words in (
        ("run", _run, "run the pipeline until the queues are empty, or for ever if it says so"),
        ("plan", _plan, "say what it would do, and change nothing"),
        ("compact", _compact, "join small files of its tables, and remove what failed attempts left"),
    ):
        each = actions.add_parser(name, help=words)
        each.add_argument("file", metavar="FILE", type=Path, help="the pipeline.toml")
        each.set_defaults(action=action)
    report = actions.add_parser("report", help="draw what a table of messages tells: a PNG and an HTML page")
    report.add_argument(
        "name", metavar="NAME", choices=(*REPORTS, "all"), help=f"{', '.join(REPORTS)} or all"
    )
    report.add_argument("--table", metavar="TABLE", required=True, help=TABLE_HELP)
    report.add_argument("--out", metavar="DIR", type=Path, default=Path(), help="where to write (here)")
    report.add_argument("--master", metavar="URL", default="local[*]", help="where Spark runs (local[*])")
    report.set_defaults(action=_report)
    capture = actions.add_parser("capture", help="land the messages of pcap and pcapng captures in a table")
    capture.add_argument("files", nargs="+", metavar="FILE", type=Path, help="a capture of port 1801")
    capture.add_argument("--out", metavar="TABLE", required=True, help=TABLE_HELP)
    capture.add_argument(
        "--tcp-port", type=int, action="append", metavar="PORT", help="other than 1801; may be repeated"
    )
    capture.add_argument("--master", metavar="URL", default="local[*]", help="where Spark runs (local[*])")
    capture.set_defaults(action=_capture)


def run(arguments: argparse.Namespace) -> int:
    missing = [
        name for name in ("pyspark", "pyarrow", "deltalake", "duckdb", "psycopg") if not find_spec(name)
    ]
    if missing:
        _complain(
            f"{', '.join(missing)}: not installed; pip install 'tiercel[pipeline]' brings all that is needed"
        )
        return WRONG_USAGE
    from tiercel.server.config import ConfigError  # noqa: PLC0415  # only when this command is used

    try:
        arguments.action(arguments)
    except ConfigError as problem:
        _complain(str(problem))
        return WRONG_USAGE
    except (TiercelError, ValueError, RuntimeError) as problem:
        _complain(str(problem))
        return FAILED
    return FINE


def _complain(text: str) -> None:
    sys.stdout.flush()
    print(f"tiercel pipeline: {text}", file=sys.stderr)


def _load(arguments: argparse.Namespace) -> "Pipeline":
    from tiercel.pipeline.config import load  # noqa: PLC0415  # needs the extra

    return load(arguments.file)


def _run(arguments: argparse.Namespace) -> None:
    from rich.console import Console  # noqa: PLC0415

    from tiercel.pipeline.progress import show, watching  # noqa: PLC0415
    from tiercel.pipeline.running import run as run_pipeline  # noqa: PLC0415
    from tiercel.pipeline.session import open_session  # noqa: PLC0415

    pipeline = _load(arguments)
    console = Console()
    signal.signal(signal.SIGTERM, _interrupt)  # as Ctrl-C does: the batch at hand is dropped and comes again
    spark = open_session(
        pipeline.pipeline.name, pipeline.pipeline.master, pipeline.spark, pipeline.state / "spark.log"
    )
    try:
        with watching(pipeline, console) as watch:
            summary = run_pipeline(pipeline, spark, watch)
    finally:
        spark.stop()
    show(pipeline, summary, console)


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _plan(arguments: argparse.Namespace) -> None:
    from tiercel.pipeline.plan import plan  # noqa: PLC0415
    from tiercel.pipeline.session import open_session  # noqa: PLC0415

    pipeline = _load(arguments)
    # Wherever the pipeline runs, its plan is made here.
    spark = open_session(pipeline.pipeline.name, "local[1]", {})
    try:
        for line in plan(pipeline, spark):
            print(line)
    finally:
        spark.stop()


def _compact(arguments: argparse.Namespace) -> None:
    from tiercel.pipeline.tables import open_table  # noqa: PLC0415

    pipeline = _load(arguments)
    for section in (*pipeline.tables, *([pipeline.quarantine] if pipeline.quarantine else [])):
        done = open_table(section.options).compact()
        print(
            f"{section.options}: {done.before} files joined to {done.after}, {done.removed} orphans removed"
        )


def _report(arguments: argparse.Namespace) -> None:
    from tiercel.pipeline.reports import make  # noqa: PLC0415
    from tiercel.pipeline.session import open_session  # noqa: PLC0415
    from tiercel.pipeline.tables import TableOptions, open_table  # noqa: PLC0415

    table = open_table(TableOptions.parse(arguments.table).under(Path.cwd()))
    spark = open_session("report", arguments.master, {})
    try:
        rows = table.read(spark)
        for name in REPORTS if arguments.name == "all" else (arguments.name,):
            made = make(name, rows, arguments.out)
            print(f"{name}: {made.headline}\n  {made.png}\n  {made.html}")
    finally:
        spark.stop()


def _capture(arguments: argparse.Namespace) -> None:
    from tiercel.pipeline.captures import land  # noqa: PLC0415
    from tiercel.pipeline.session import open_session  # noqa: PLC0415
    from tiercel.pipeline.tables import TableOptions, open_table  # noqa: PLC0415
    from tiercel.wire.capture import TCP_PORT  # noqa: PLC0415

    options = TableOptions.parse(arguments.out).under(Path.cwd())
    spark = open_session("capture", arguments.master, {})
    try:
        landed = land(spark, arguments.files, open_table(options), arguments.tcp_port or (TCP_PORT,))
    finally:
        spark.stop()
    print(
        f"{options}: {landed.messages:,} rows of {landed.captures:,} captures"
        + f"; {landed.already:,} were there already" * bool(landed.already)
    )
