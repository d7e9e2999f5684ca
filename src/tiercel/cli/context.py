"""A verb that speaks to a queue manager: the options that all of them have, and what they get."""

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from tiercel.cli.connection import Api, connect
from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.failures import Failure
from tiercel.cli.options import Json
from tiercel.cli.output import Output

P = ParamSpec("P")
_PANEL = "Which queue manager"

Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="DIR",
        rich_help_panel=_PANEL,
        help="That of this directory, running or not; TIERCEL_DATA or data, if left out.",
    ),
]
Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        rich_help_panel=_PANEL,
        help="That of http://HOST:8801, a daemon with the API; TIERCEL_SERVER, if left out.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        rich_help_panel=_PANEL,
        help="The token for URL; TIERCEL_TOKEN, if left out.",
    ),
]


@dataclass(frozen=True, slots=True)
class Context:
    api: Api
    out: Output

    def confirm(self, question: str, *, yes: bool) -> None:
        """Asks before something is lost; without a terminal only `--yes` will do."""
        if yes:
            return
        if not sys.stdin.isatty():
            raise Failure(f"{question} Say --yes, for there is no terminal to ask at; nothing was done")
        if not typer.confirm(question, err=True):
            raise Failure("nothing was done")


def connected(verb: Callable[Concatenate[Context, P], ExitCode | None]) -> Callable[..., ExitCode | None]:
    """Gives a verb its context, and the options that say with whom."""

    @functools.wraps(verb)
    def run(**arguments: Any) -> ExitCode | None:
        data, server = arguments.pop("data"), arguments.pop("server")
        token_file, as_json = arguments.pop("token_file"), arguments.pop("as_json")
        if data is not None and server is not None:
            raise typer.BadParameter("give one of the two", param_hint=["--data", "--server"])
        with connect(data, server, token_file) as api:
            return verb(Context(api, Output(as_json=as_json)), **arguments)  # type: ignore[call-arg]

    own = inspect.signature(verb, eval_str=True)
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, kind, default in (
            ("as_json", Json, False),
            ("data", Data, None),
            ("server", Server, None),
            ("token_file", TokenFile, None),
        )
    ]
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own.parameters.values()]
    vars(run)["__signature__"] = own.replace(parameters=[*parameters[1:], *common])
    return run
