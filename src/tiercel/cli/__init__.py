"""The command line. Each command is a file with NAME, HELP, DESCRIPTION, EPILOG, `configure(parser)` and
`run(arguments)`; here they are only listed and called.

Exit codes of every command: 0 fine, 1 the command says what went wrong, 2 wrong usage or a missing file; what
else there is, its EPILOG says.
"""

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version

from tiercel.cli import check, decode, pipeline, serve, token, user

COMMANDS = (check, decode, pipeline, serve, token, user)

# What a shell reports of a program that SIGINT or SIGPIPE has ended: 128 and the signal's number.
INTERRUPTED = 130
BROKEN_PIPE = 141


def main(arguments: Sequence[str] | None = None) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):  # a label or file name may not fit the terminal's encoding
        sys.stdout.reconfigure(errors="backslashreplace")
    parsed = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = parsed.run
    try:
        code = run(parsed)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # `tiercel ... | head` is no error. Nobody reads any more, so the last flush must go elsewhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tiercel", description="A queue manager that speaks Microsoft Message Queuing natively on Linux."
    )
    parser.add_argument("--version", action="version", version=f"tiercel {version('tiercel')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        subparser = commands.add_parser(
            command.NAME,
            help=command.HELP,
            description=command.DESCRIPTION,
            epilog=command.EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.configure(subparser)
        subparser.set_defaults(run=command.run)
    return parser
