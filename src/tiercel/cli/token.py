"""`tiercel token`: who may use the data endpoint."""

import argparse
import sys
from pathlib import Path

from tiercel.security.tokens import Bearer, Role, TokenError, Tokens, digest_of, new_token, roles_of
from tiercel.server import token_file
from tiercel.server.config import ConfigError, load

NAME = "token"
HELP = "add, remove and list the tokens of the data endpoint"
DESCRIPTION = """\
Keeps the file of tokens that the data endpoint asks. A client sends its token in a header,
`Authorization: Bearer TOKEN`; a running daemon sees a change at the next request.

The roles: read looks at queues and messages, send publishes messages, receive claims and acknowledges (and
reads), admin does everything.
"""
EPILOG = """\
`add` prints the token, this once: the file keeps its SHA-256 digest only. The file is for its owner alone
(mode 0600), and is refused otherwise.
"""

FINE, FAILED, WRONG_USAGE = 0, 1, 2


def configure(parser: argparse.ArgumentParser) -> None:
    where = argparse.ArgumentParser(add_help=False)
    either = where.add_mutually_exclusive_group(required=True)
    either.add_argument("--file", metavar="FILE", type=Path, help="the file of tokens")
    either.add_argument(
        "--config", metavar="FILE", type=Path, help="a configuration that names the file in [data]"
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    add = actions.add_parser(
        "add", help="make a token and print it; makes the file, if there is none", parents=[where]
    )
    add.add_argument("name", metavar="NAME", help="whose it is")
    add.add_argument("--role", metavar="ROLES", required=True, help=f"one or more of {','.join(Role)}")
    add.set_defaults(action=_add)
    remove = actions.add_parser("rm", help="remove a token", parents=[where])
    remove.add_argument("name", metavar="NAME")
    remove.set_defaults(action=_remove)
    listing = actions.add_parser("ls", help="print the names of all tokens and their roles", parents=[where])
    listing.set_defaults(action=_list)


def run(arguments: argparse.Namespace) -> int:
    try:
        path = _path(arguments)
    except ConfigError as problem:
        print(f"tiercel token: {problem}", file=sys.stderr)
        return WRONG_USAGE
    try:
        arguments.action(path, arguments)
    except TokenError as problem:
        print(f"tiercel token: {problem}", file=sys.stderr)
        return FAILED
    return FINE


def _path(arguments: argparse.Namespace) -> Path:
    if arguments.config is None:
        path: Path = arguments.file
        return path
    named = load(arguments.config).data.tokens
    if not named:
        raise ConfigError(f"{arguments.config}: [data] names no tokens")
    return Path(named)


def _add(path: Path, arguments: argparse.Namespace) -> None:
    token = new_token()
    bearer = Bearer(arguments.name, roles_of(arguments.role), digest_of(token))

    def edit(tokens: Tokens) -> Tokens:
        if tokens.get(bearer.name) is not None:
            raise TokenError(f"{bearer.name}: there is such a token; remove it first, or choose another name")
        return tokens.with_bearer(bearer)

    token_file.change(path, edit, create=True)
    print(token)


def _remove(path: Path, arguments: argparse.Namespace) -> None:
    def edit(tokens: Tokens) -> Tokens:
        bearer = tokens.get(arguments.name)
        if bearer is None:
            raise TokenError(f"{arguments.name}: there is no such token")
        return tokens.without(bearer)

    token_file.change(path, edit)


def _list(path: Path, _arguments: argparse.Namespace) -> None:
    for bearer in token_file.read(path):
        print(f"{bearer.name} {','.join(sorted(bearer.roles))}")
