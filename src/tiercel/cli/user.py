"""`tiercel user`: the accounts that may log on from afar."""

import argparse
import getpass
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tiercel.model.errors import DecodeError
from tiercel.model.sid import SecurityIdentifier
from tiercel.security.accounts import Account, AccountError, Accounts
from tiercel.security.nt_hash import nt_hash
from tiercel.server import account_file
from tiercel.server.config import ConfigError, load

NAME = "user"
HELP = "add, remove, list accounts and change their passwords"
DESCRIPTION = """\
Keeps the file of accounts that the daemon asks when somebody logs on with NTLM to read queues from afar. A
running daemon sees a change at the next logon.

NAME is DOMAIN\\user, or user alone for an account that answers to every domain a client may name. Passwords
are asked for, or read as one line from the standard input; they are no argument, for those show in `ps`.
"""
EPILOG = """\
The file has a line DOMAIN\\user:SID:NT-hash for each account. A hash is as good as the password: the file is
for its owner alone (mode 0600), and is refused otherwise.
"""

FINE, FAILED, WRONG_USAGE = 0, 1, 2


def configure(parser: argparse.ArgumentParser) -> None:
    where = argparse.ArgumentParser(add_help=False)
    either = where.add_mutually_exclusive_group(required=True)
    either.add_argument("--file", metavar="FILE", type=Path, help="the file of accounts")
    either.add_argument(
        "--config", metavar="FILE", type=Path, help="a configuration that names the file in [accounts]"
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    add = _action(actions, "add", "add an account; makes the file, if there is none", where, _add)
    add.add_argument("--sid", metavar="SID", help="who this is in security descriptors; made from the name")
    add.add_argument("--no-password", action="store_true", help="Kerberos alone can prove this account")
    _action(actions, "remove", "remove an account", where, _remove)
    _action(actions, "passwd", "change the password of an account", where, _change_password)
    listing = actions.add_parser("list", help="print all accounts with their SIDs", parents=[where])
    listing.set_defaults(action=_list)


def _action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    words: str,
    where: argparse.ArgumentParser,
    action: Callable[[Path, argparse.Namespace], None],
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=words, parents=[where])
    parser.add_argument("name", metavar="NAME", help="DOMAIN\\user, or user")
    parser.set_defaults(action=action)
    return parser


def run(arguments: argparse.Namespace) -> int:
    try:
        path = _path(arguments)
    except ConfigError as problem:
        print(f"tiercel user: {problem}", file=sys.stderr)
        return WRONG_USAGE
    try:
        arguments.action(path, arguments)
    except AccountError as problem:
        print(f"tiercel user: {problem}", file=sys.stderr)
        return FAILED
    return FINE


def _path(arguments: argparse.Namespace) -> Path:
    if arguments.config is None:
        path: Path = arguments.file
        return path
    named = load(arguments.config).accounts.file
    if not named:
        raise ConfigError(f"{arguments.config}: [accounts] names no file")
    return Path(named)


def _add(path: Path, arguments: argparse.Namespace) -> None:
    account = Account.named(arguments.name)
    if path.exists():
        _check_new(account_file.read(path), account)  # before a password is asked for
    if arguments.sid is not None:
        try:
            account = replace(account, given_sid=SecurityIdentifier.parse(arguments.sid))
        except DecodeError as problem:
            raise AccountError(f"--sid: {problem.problem}") from problem
    if not arguments.no_password:
        account = replace(account, nt_hash=nt_hash(_ask(account)))

    def edit(accounts: Accounts) -> Accounts:
        _check_new(accounts, account)
        return accounts.with_account(account)

    account_file.change(path, edit, create=True)
    print(f"{account} {account.sid}")


def _check_new(accounts: Accounts, account: Account) -> None:
    if accounts.get(account) is not None:
        raise AccountError(f"{account}: there is such an account; `tiercel user passwd` changes its password")


def _remove(path: Path, arguments: argparse.Namespace) -> None:
    account = Account.named(arguments.name)

    def edit(accounts: Accounts) -> Accounts:
        return accounts.without(_existing(accounts, account))

    account_file.change(path, edit)


def _change_password(path: Path, arguments: argparse.Namespace) -> None:
    account = Account.named(arguments.name)
    _existing(account_file.read(path), account)
    new_hash = nt_hash(_ask(account))

    def edit(accounts: Accounts) -> Accounts:
        return accounts.with_account(replace(_existing(accounts, account), nt_hash=new_hash))

    account_file.change(path, edit)


def _existing(accounts: Accounts, account: Account) -> Account:
    found = accounts.get(account)
    if found is None:
        raise AccountError(f"{account}: there is no such account")
    return found


def _list(path: Path, _arguments: argparse.Namespace) -> None:
    for account in account_file.read(path):
        print(f"{account} {account.sid}{'' if account.nt_hash else ' (no password)'}")


def _ask(account: Account) -> str:
    """The new password; one that was mistyped or is empty is refused."""
    if sys.stdin.isatty():
        password = getpass.getpass(f"New password for {account}: ")
        if getpass.getpass("Again: ") != password:
            raise AccountError("the passwords are not the same; nothing was changed")
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise AccountError("a password is wanted; nothing was changed")
    return password
