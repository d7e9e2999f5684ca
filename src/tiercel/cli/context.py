"""Commands that need a queue manager: their common options, and the context they get."""

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from tiercel.cli.connection import Api, Place, connect
from tiercel.cli.contexts import chosen
from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.failures import Failure
from tiercel.cli.options import Json
from tiercel.cli.output import Output

P = ParamSpec("P")
_PANEL = "Queue manager"

Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="DIR",
        rich_help_panel=_PANEL,
        help="Data directory (default: $TIERCEL_DATA, else ./data).",
    ),
]
Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        rich_help_panel=_PANEL,
        help="URL of a remote daemon, http://HOST:8801 (default: $TIERCEL_SERVER).",
    ),
]
TokenFile = Annotated[
    str | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        rich_help_panel=_PANEL,
        help="File with the token for URL (default: $TIERCEL_TOKEN).",
    ),
]
ContextName = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        rich_help_panel=_PANEL,
        help="Context that names the queue manager (see `tiercel context`).",
    ),
]


@dataclass(frozen=True, slots=True)
class Context:
    api: Api
    out: Output

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask for confirmation; without a terminal, `--yes` is required."""
        if yes:
            return
        if not sys.stdin.isatty():
            raise Failure(f"{question} Nothing was done: add --yes to confirm without a terminal")
        if not typer.confirm(question, err=True):
            raise Failure("nothing was done")


def connected(verb: Callable[Concatenate[Context, P], ExitCode | None]) -> Callable[..., ExitCode | None]:
    """Give a command its context, and add the options that choose the queue manager."""

    @functools.wraps(verb)
    def run(ctx: typer.Context, **arguments: Any) -> ExitCode | None:
        data, server = arguments.pop("data"), arguments.pop("server")
        token_file, as_json = arguments.pop("token_file"), arguments.pop("as_json")
        context = arguments.pop("context") or ctx.obj
        if data is not None and server is not None:
            raise typer.BadParameter("use only one of these", param_hint=["--data", "--server"])
        with connect(chosen(Place(data, server, token_file), context)) as api:
            return verb(Context(api, Output(as_json=as_json)), **arguments)  # type: ignore[call-arg]

    own = inspect.signature(verb, eval_str=True)
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, kind, default in (
            ("as_json", Json, False),
            ("data", Data, None),
            ("server", Server, None),
            ("token_file", TokenFile, None),
            ("context", ContextName, None),
        )
    ]
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own.parameters.values()]
    ctx = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    vars(run)["__signature__"] = own.replace(parameters=[ctx, *parameters[1:], *common])
    return run


def shown_alone(group: typer.Typer) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run the command when the group is called without a subcommand."""

    def decorate(show: Callable[..., Any]) -> Callable[..., Any]:
        def show_if_alone(ctx: typer.Context, **options: Any) -> None:
            if ctx.invoked_subcommand is None:
                show(ctx=ctx, **options)

        vars(show_if_alone)["__signature__"] = inspect.signature(show)
        group.callback(invoke_without_command=True)(show_if_alone)
        return show

    return decorate
