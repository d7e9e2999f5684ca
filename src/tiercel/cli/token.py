"""`tiercel token`: who may use the data endpoint and the API."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from tiercel.cli.failures import Failure
from tiercel.cli.named_file import named_file
from tiercel.cli.options import Json
from tiercel.security.tokens import Bearer, Role, TokenError, Tokens, digest_of, new_token, roles_of
from tiercel.server import token_file
from tiercel.server.config import Config, ConfigError

verbs = typer.Typer()
token = typer.Typer(
    help="Keep the tokens of the data endpoint and of the API.",
    epilog="""\
A client sends its token in a header, `Authorization: Bearer TOKEN`; a running daemon sees a change at the
next request. The roles: read looks at queues and messages, send sends messages, receive takes messages (and
reads), admin does everything.

`add` prints the token, this once: the file keeps its SHA-256 digest only. The file is for its owner alone
(mode 0600), and is refused otherwise.

    tiercel token add --file tokens spark --role send,receive
    tiercel token ls --file tokens
""",
)
verbs.add_typer(token, name="token")

File = Annotated[Path | None, typer.Option(metavar="FILE", help="The file of tokens.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="A configuration that names the file in \\[data] or \\[api]."
    ),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Whose it is.")]


@token.command("add")
def add(
    name: Name,
    role: Annotated[str, typer.Option(metavar="ROLES", help=f"One or more of {','.join(Role)}.")],
    file: File = None,
    config: ConfigFile = None,
) -> None:
    """Make a token and print it; makes the file, if there is none."""
    path, new = _path(file, config), new_token()
    with _refusals():
        bearer = Bearer(name, roles_of(role), digest_of(new))

        def edit(tokens: Tokens) -> Tokens:
            if tokens.get(name) is not None:
                raise TokenError(f"{name}: there is such a token; remove it first, or choose another name")
            return tokens.with_bearer(bearer)

        token_file.change(path, edit, create=True)
    print(new)


@token.command("rm")
def remove(name: Name, file: File = None, config: ConfigFile = None) -> None:
    """Remove a token."""

    def edit(tokens: Tokens) -> Tokens:
        bearer = tokens.get(name)
        if bearer is None:
            raise TokenError(f"{name}: there is no such token")
        return tokens.without(bearer)

    path = _path(file, config)
    with _refusals():
        token_file.change(path, edit)


@token.command("ls")
def list_all(file: File = None, config: ConfigFile = None, as_json: Json = False) -> None:
    """Print the names of all tokens and their roles."""
    path = _path(file, config)
    with _refusals():
        for bearer in token_file.read(path):
            name, roles = bearer.name, sorted(bearer.roles)
            print(json.dumps({"name": name, "roles": roles}) if as_json else f"{name} {','.join(roles)}")


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except TokenError as problem:
        raise Failure(str(problem)) from problem


def _path(file: Path | None, config: Path | None) -> Path:
    return named_file(file, config, _tokens_of)


def _tokens_of(config: Config) -> str:
    named = {face.tokens for face in (config.data, config.api) if face.tokens}
    if len(named) > 1:
        raise ConfigError("[data] and [api] have tokens of their own; say which with --file")
    if not named:
        raise ConfigError("[data] names no tokens, and neither does [api]")
    return named.pop()
