"""`tiercel token`: manages tokens for the data endpoint and the API."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from tiercel.cli.failures import Failure
from tiercel.cli.named_file import named_file
from tiercel.cli.options import Json
from tiercel.security.tokens import Bearer, Role, TokenError, Tokens, digest_of, new_token, roles_of
from tiercel.server import private_file, token_file
from tiercel.server.config import Config, ConfigError

verbs = typer.Typer()
token = typer.Typer(
    help="Manage tokens for the data endpoint and the API.",
    epilog="""\
Clients send the token in the header `Authorization: Bearer TOKEN`. A running daemon picks up changes with the
next request. Roles: read (browse queues and messages), send, receive (includes read), admin (everything).

`add` prints the token once, or writes it to a new file (--out) for --token-file; the file of tokens stores
only its SHA-256 digest. Both files are created with mode 0600.

    tiercel token add --file tokens spark --role send,receive --out spark.token
    tiercel token ls --file tokens
""",
)
verbs.add_typer(token, name="token")

File = Annotated[Path | None, typer.Option(metavar="FILE", help="Token file.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="Configuration with the token file in \\[data] or \\[api]."
    ),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token.")]


@token.command("add")
def add(
    name: Name,
    role: Annotated[str, typer.Option(metavar="ROLES", help=f"Roles, comma-separated: {','.join(Role)}.")],
    file: File = None,
    config: ConfigFile = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="New file for the token, accessible to its owner only (default: print the token).",
        ),
    ] = None,
) -> None:
    """Create a token and print it; create the file if necessary."""
    path, new = _path(file, config), new_token()
    with _refusals(), _written(out, new):
        bearer = Bearer(name, roles_of(role), digest_of(new))

        def edit(tokens: Tokens) -> Tokens:
            if tokens.get(name) is not None:
                raise TokenError(f"{name}: token exists; remove it first, or choose another name")
            return tokens.with_bearer(bearer)

        token_file.change(path, edit, create=True)
    if out is None:
        print(new)


@token.command("rm")
def remove(name: Name, file: File = None, config: ConfigFile = None) -> None:
    """Remove a token."""

    def edit(tokens: Tokens) -> Tokens:
        bearer = tokens.get(name)
        if bearer is None:
            raise TokenError(f"{name}: no such token")
        return tokens.without(bearer)

    path = _path(file, config)
    with _refusals():
        token_file.change(path, edit)


@token.command("ls")
def list_all(file: File = None, config: ConfigFile = None, as_json: Json = False) -> None:
    """List tokens and their roles."""
    path = _path(file, config)
    with _refusals():
        for bearer in token_file.read(path):
            name, roles = bearer.name, sorted(bearer.roles)
            print(json.dumps({"name": name, "roles": roles}) if as_json else f"{name} {','.join(roles)}")


@contextmanager
def _written(out: Path | None, token: str) -> Iterator[None]:
    """Write the token to a new private file, and remove it again if the block fails."""
    if out is None:
        yield
        return
    try:
        descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, private_file.MODE)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{token}\n")
    except OSError as problem:
        raise TokenError(f"{out}: cannot be created ({problem.strerror})") from problem
    try:
        yield
    except BaseException:
        out.unlink(missing_ok=True)
        raise


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
        raise ConfigError("[data] and [api] have different token files; choose one with --file")
    if not named:
        raise ConfigError("neither [data] nor [api] has a token file")
    return named.pop()
