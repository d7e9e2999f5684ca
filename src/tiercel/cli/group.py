"""The group of all verbs: it loads a verb when it is asked for, and tells what went wrong in one line."""

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.failures import Failure, code_of
from tiercel.model.errors import MqError

# Every verb by the panel of `tiercel --help` that shows it, and the module that has it as one of its `verbs`.
PANELS: Mapping[str, Mapping[str, str]] = {
    "Running a queue manager": {"serve": "serve", "check": "check", "user": "user", "token": "token"},
    "Data": {"decode": "decode", "pipeline": "pipeline"},
}


class LazyGroup(TyperGroup):
    """Verbs are modules that are imported when they are used: `tiercel send` needs no Spark."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._modules = {verb: module for verbs in PANELS.values() for verb, module in verbs.items()}
        self._panels = {verb: panel for panel, verbs in PANELS.items() for verb in verbs}

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  # the name is typer's
        return list(self._modules)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in self._modules:
            return None
        if cmd_name not in self.commands:
            self.commands[cmd_name] = self._loaded(cmd_name)
        return self.commands[cmd_name]

    def _loaded(self, name: str) -> TyperCommand | TyperGroup:
        module = import_module(f"tiercel.cli.{self._modules[name]}")
        command = get_group(module.verbs).commands[name]
        assert isinstance(command, TyperCommand | TyperGroup)
        command.rich_help_panel = self._panels[name]
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self._modules:
            for name in self._modules:  # so that it can say which verb was meant
                self.commands.setdefault(name, TyperCommand(name))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> int:
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # `tiercel ... | head` is no error. Nobody reads any more, so the last flush must go elsewhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return ExitCode.BROKEN_PIPE
        except KeyboardInterrupt:
            return ExitCode.INTERRUPTED
        except Failure as failure:
            return _complain(ctx, str(failure), failure.code)
        except MqError as error:
            return _complain(ctx, str(error), code_of(error))
        except OSError as error:
            if error.filename is None:
                raise
            return _complain(ctx, f"{error.filename}: {error.strerror}", ExitCode.WRONG_USAGE)
        return int(code or ExitCode.FINE)


def _complain(ctx: Any, line: str, code: ExitCode) -> ExitCode:
    # Without the flush a terminal shows the complaint before the output that it follows.
    sys.stdout.flush()
    print(f"tiercel {ctx.invoked_subcommand}: {line}", file=sys.stderr)
    return code
