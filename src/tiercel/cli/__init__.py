"""The command line: `app` is the typer program; each module has a family of commands.

To add a command, write a function in a module, register it with that module's `verbs`, and add a line to
`group.PANELS`. Commands that need a queue manager use the decorator `context.connected`.
"""

import io
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from typing import Annotated, Any

import typer
from typer.main import get_command

from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.group import LazyGroup

__all__ = ["BROKEN_PIPE", "app", "main"]

_COMPLETE = "_TIERCEL_COMPLETE"  # set by the shell for completions
BROKEN_PIPE = ExitCode.BROKEN_PIPE

app = typer.Typer(
    name="tiercel",
    cls=LazyGroup,
    help="A queue manager that speaks Microsoft Message Queuing (MSMQ) natively on Linux.",
    epilog="""\
First steps:

    tiercel serve --data data &        start a queue manager on ./data
    tiercel create orders
    tiercel send orders hello
    tiercel tail -f orders
    tiercel receive orders

`tiercel COMMAND --help` shows the options of a command, with examples. docs/command-line.md describes exit
codes, remote daemons and everything else.
""",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version  # noqa: PLC0415  # slow to load

        print(f"tiercel {version('tiercel')}")
        sys.exit(ExitCode.FINE)


@app.callback()
def _options(
    ctx: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
    context: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Context that names the queue manager (see `tiercel context`)."),
    ] = None,
) -> None:
    ctx.obj = context


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code; invalid usage and `--version` raise `SystemExit`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # labels and file names may not fit its encoding
            stream.reconfigure(errors="backslashreplace")
    words = sys.argv[1:] if arguments is None else arguments
    try:
        with nullcontext() if words or _COMPLETE in os.environ else redirect_stdout(sys.stderr):  # the help
            code = get_command(app).main(args=words, prog_name="tiercel", standalone_mode=False)
    except typer.TyperException as error:
        _explain(error)
        sys.exit(ExitCode.WRONG_USAGE)
    return int(code or ExitCode.FINE)


def _explain(error: typer.TyperException) -> None:
    context: Any = getattr(error, "ctx", None)
    if context is None:
        print(f"tiercel: {error.format_message()}", file=sys.stderr)
        return
    problem = error.format_message() or "missing COMMAND"
    if isinstance(context.command, LazyGroup) and "option" in problem:
        problem += "; options follow the command, as in `tiercel ls --data DIR`"
    usage = " ".join(context.get_usage().split())
    print(f"u{usage[1:]}\n{context.command_path}: {problem}", file=sys.stderr)
