"""`tiercel context`: names for queue managers, kept in a file of the user."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tiercel.cli.connection import Place, url_of
from tiercel.cli.exit_codes import ExitCode
from tiercel.cli.failures import Failure
from tiercel.cli.options import Json
from tiercel.cli.output import Column, Output, Styled

verbs = typer.Typer()
context = typer.Typer(
    no_args_is_help=True,
    help="Name queue managers, and choose one by its name.",
    epilog="""
A context is a daemon, local or remote, and the file with its token. `--context NAME`, before or after a
command, chooses one; `use` makes one the default of all commands without --data, --server, TIERCEL_DATA or
TIERCEL_SERVER. Contexts are kept in $XDG_CONFIG_HOME/tiercel/contexts.json (default: ~/.config); tokens are
not.

Examples:

    tiercel context add prod --server https://queues.example:8801 --token-file ~/prod.token
    tiercel --context prod ls
    tiercel context use prod
    tiercel context ls
""",
)
verbs.add_typer(context, name="context")


@dataclass(slots=True)
class Contexts:
    """The content of the file."""

    current: str | None = None
    places: dict[str, Place] = field(default_factory=dict)

    @classmethod
    def load(cls) -> "Contexts":
        file = _file()
        try:
            found = json.loads(file.read_bytes())
            return cls(found["current"], {name: Place(**place) for name, place in found["contexts"].items()})
        except (FileNotFoundError, NotADirectoryError):
            return cls()
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            line = f"{file}: not a valid file of contexts ({problem}). Repair or delete it"
            raise Failure(line, ExitCode.WRONG_USAGE) from problem

    def save(self) -> None:
        file = _file()
        file.parent.mkdir(parents=True, exist_ok=True)
        places = {name: place._asdict() for name, place in self.places.items()}
        temporary = file.with_suffix(f".{os.getpid()}")
        temporary.write_text(
            json.dumps({"current": self.current, "contexts": places}, indent=2) + "\n", "utf-8"
        )
        temporary.replace(file)

    def find(self, name: str) -> Place:
        try:
            return self.places[name]
        except KeyError:
            line = f"context {name}: no such context. `tiercel context ls` lists them"
            raise Failure(line, ExitCode.NOT_FOUND) from None


def _file() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
    return Path(folder) / "tiercel" / "contexts.json"


def chosen(given: Place, name: str | None) -> Place:
    """The place that options, a context or the environment choose; a given token file always counts."""
    if given.data is not None or given.server is not None:
        if name is not None:
            raise typer.BadParameter("use only one of these", param_hint=["--context", "--data", "--server"])
        return given
    if name is None:
        if os.environ.get("TIERCEL_SERVER") or os.environ.get("TIERCEL_DATA"):
            return given
        contexts = Contexts.load()
        if contexts.current is None:
            return given
        name = contexts.current
    else:
        contexts = Contexts.load()
    found = contexts.find(name)
    return Place(found.data, found.server, given.token_file or found.token_file)


Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the context.")]


@context.command("add")
def add(
    name: Name,
    data: Annotated[str | None, typer.Option(metavar="DIR", help="Data directory.")] = None,
    server: Annotated[
        str | None, typer.Option(metavar="URL", help="URL of a remote daemon, http://HOST:8801.")
    ] = None,
    token_file: Annotated[
        str | None, typer.Option("--token-file", metavar="FILE", help="File with the token for URL.")
    ] = None,
) -> None:
    """Add a context, or replace the one of that name."""
    if (data is None) == (server is None):
        raise typer.BadParameter("use one of these", param_hint=["--data", "--server"])
    if not name or name.startswith("-"):
        raise typer.BadParameter(f"{name!a} is not a valid name", param_hint="NAME")
    if server is not None:
        url_of(server)
    contexts = Contexts.load()
    contexts.places[name] = Place(data and _absolute(data), server, token_file and _absolute(token_file))
    contexts.save()
    Output(as_json=False).say(f"{name}: {server or contexts.places[name].data}")


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())


_COLUMNS: Final = (
    Column("", lambda each: "*" if each["current"] else ""),
    Column("CONTEXT", lambda each: Styled(each["name"], "bold")),
    Column("QUEUE MANAGER", lambda each: each["server"] or each["data"]),
    Column("TOKEN FILE", lambda each: each["token_file"] or "", below=True),
)


@context.command("ls")
def list_contexts(as_json: Json = False) -> None:
    """List contexts; * marks the default."""
    contexts = Contexts.load()
    rows: list[dict[str, Any]] = [
        {"name": name, "current": name == contexts.current, **place._asdict()}
        for name, place in sorted(contexts.places.items())
    ]
    empty = "No contexts. Add one with `tiercel context add NAME --server URL`."
    Output(as_json=as_json).table(rows, _COLUMNS, empty=empty)


@context.command("rm")
def remove(name: Name) -> None:
    """Remove a context; its queue manager is not touched."""
    contexts = Contexts.load()
    contexts.find(name)
    del contexts.places[name]
    if contexts.current == name:
        contexts.current = None
    contexts.save()
    Output(as_json=False).say(f"{name}: removed")


@context.command("use")
def use(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Name; none: no default.")] = None,
) -> None:
    """Make a context the default; without NAME, there is none."""
    contexts = Contexts.load()
    if name is not None:
        contexts.find(name)
    contexts.current = name
    contexts.save()
    Output(as_json=False).say(f"{name}: is the default" if name else "no default context")
