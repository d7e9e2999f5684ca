"""The group of all commands: loads commands on demand and reports errors in one line."""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from inspect import cleandoc
from typing import Any, get_args, get_origin

from typer import Abort
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_group

from tiercel.cli.clean_text import clean_line
from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.failures import Failure, code_of

# Panels of `tiercel --help`, the commands in them, and the module of each command.
PANELS: Mapping[str, Mapping[str, str]] = {
    "Messages": {
        "send": "sending",
        "receive": "receiving",
        "peek": "receiving",
        "tail": "tail_grep",
        "grep": "tail_grep",
        "cp": "copy_move",
        "mv": "copy_move",
        "replay": "copy_move",
        "edit": "operations",
        "delete": "operations",
        "undo": "operations",
        "export": "exporting",
        "import": "exporting",
    },
    "Queues": {
        "ls": "queues",
        "create": "queues",
        "set": "queues",
        "count": "queues",
        "purge": "queues",
        "rm": "queues",
    },
    "Monitoring": {
        "top": "top",
        "why": "why",
        "explain": "why",
        "outgoing": "monitoring",
        "pause": "queues",
        "resume": "queues",
        "connections": "monitoring",
        "peers": "peers",
        "multicast": "multicast",
        "streams": "streams",
        "redirections": "redirections",
        "transactions": "monitoring",
        "claims": "monitoring",
        "journal": "dead_letters",
        "dead": "dead_letters",
        "discards": "dead_letters",
        "operations": "operations",
        "audit": "operations",
    },
    "Running a queue manager": {
        "serve": "serve",
        "check": "check",
        "backup": "backup",
        "user": "user",
        "token": "token",
        "key": "key",
        "trust": "trust",
        "context": "contexts",
        "bench": "bench",
    },
    "Data": {"decode": "decode", "pipeline": "pipeline"},
}


class LazyGroup(TyperGroup):
    """Imports the module of a command only when it is used: `tiercel send` does not load Spark."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._modules = {verb: module for verbs in PANELS.values() for verb, module in verbs.items()}
        self._panels = {verb: panel for panel, verbs in PANELS.items() for verb in verbs}
        self._loaded: dict[str, TyperCommand | TyperGroup] = {}
        # Only names, for suggestions after a typing error.
        self.commands.update({verb: TyperCommand(verb) for verb in self._modules})

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  # the name is typer's
        return list(self._modules)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self._modules:
            return None
        if cmd_name not in self._loaded:
            self._loaded[cmd_name] = self._load(ctx, cmd_name)
        return self._loaded[cmd_name]

    def _load(self, ctx: Any, name: str) -> TyperCommand | TyperGroup:
        module = import_module(f"tiercel.cli.{self._modules[name]}")
        command = get_group(module.verbs).commands[name]
        assert isinstance(command, TyperCommand | TyperGroup)
        command.rich_help_panel = self._panels[name]
        _polish(command, ctx)
        _convert_quickly(command, ctx)
        return command

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _convert_quickly(self, ctx)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _polish(self, ctx)
        super().format_help(ctx, formatter)

    def invoke(self, ctx: Any) -> int:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _give_output_up()
            return ExitCode.BROKEN_PIPE  # `tiercel ... | head` is not an error
        except KeyboardInterrupt:
            return ExitCode.INTERRUPTED
        except Abort:  # Ctrl-C or Ctrl-D at a question
            return _complain(ctx, "nothing was done", ExitCode.INTERRUPTED)
        except Failure as failure:
            return _complain(ctx, str(failure), failure.code)
        except UnicodeEncodeError as error:  # an argument that is not valid UTF-8
            return _complain(ctx, f"{error.object!a}: not valid UTF-8", ExitCode.WRONG_USAGE)
        except Exception as error:
            known = code_of(error)
            if known is not None:
                return _complain(ctx, str(error), known)
            if not isinstance(error, OSError):
                raise
            if error.filename is None:
                _give_output_up()
            code = ExitCode.FAILED if error.filename is None else ExitCode.WRONG_USAGE
            return _complain(ctx, f"{error.filename or 'output'}: {error.strerror or error}", code)
        return int(result or ExitCode.FINE)


def _give_output_up() -> None:
    """Discard unwritten output: otherwise the last flush fails again and Python exits with 120."""
    with suppress(OSError):  # stdout is not a file in some tests
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(ctx: Any, line: str, code: ExitCode) -> ExitCode:
    # Flush first, so that a terminal shows the error after the output.
    sys.stdout.flush()
    print(f"tiercel {ctx.invoked_subcommand}: {clean_line(line)}", file=sys.stderr)
    return code


class _Conversion:
    """Converts the value of a parameter; typer's own converter loads pydantic, so only where it is needed.

    Flags, defaults and plain texts are what they should be already.
    """

    def __init__(self, parameter: TyperArgument | TyperOption) -> None:
        self._parameter = parameter
        self._of_typer = parameter.get_runtime_param

    def get(self) -> "_Conversion":
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        kind: Any = self._parameter.type_descriptor.annotation
        is_many = param.multiple or param.nargs == -1
        if value is None:
            return () if is_many else None
        if self._parameter.type_descriptor.parameter_info.parser is None:
            if kind is str and isinstance(value, str):
                return value
            if is_many and get_origin(kind) is list and get_args(kind) == (str,):
                return list(value)
        if isinstance(value, int | float):  # a default: from the command line it would be a text
            return value
        return self._of_typer().coerce(value, param=param, ctx=ctx)


def _convert_quickly(command: TyperCommand | TyperGroup, ctx: Any) -> None:
    for parameter in command.get_params(ctx):
        if isinstance(parameter, TyperArgument | TyperOption):
            vars(parameter)["get_runtime_param"] = _Conversion(parameter).get
    if isinstance(command, TyperGroup) and not isinstance(command, LazyGroup):
        for each in command.commands.values():
            assert isinstance(each, TyperCommand | TyperGroup)
            _convert_quickly(each, ctx)


def _polish(command: TyperCommand | TyperGroup, ctx: Any) -> None:
    """Show NAME instead of NAME <str> in help, and fill paragraphs to the terminal width."""
    for parameter in command.get_params(ctx):
        if isinstance(parameter, TyperArgument):
            vars(parameter)["display_type_rich"] = lambda ctx: None  # noqa: ARG005
        elif isinstance(parameter, TyperOption) and parameter.is_flag:
            parameter.metavar = ""
    command.help, command.epilog = _flowing(command.help), _flowing(command.epilog)
    if isinstance(command, TyperGroup) and not isinstance(command, LazyGroup):
        for each in command.commands.values():
            assert isinstance(each, TyperCommand | TyperGroup)
            _polish(each, ctx)


def _flowing(text: str | None) -> str | None:
    """Join the lines of paragraphs; indented lines (examples, tables) are kept."""
    if text is None:
        return None
    paragraphs = cleandoc(text).split("\n\n")
    flowing = (each if each.startswith("  ") else " ".join(each.split()) for each in paragraphs)
    return "\n" + "\n\n".join(flowing)  # the empty first line keeps typer from dedenting
