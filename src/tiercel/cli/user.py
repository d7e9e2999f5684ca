"""`tiercel user`: the accounts that may log on from afar."""

import getpass
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from tiercel.cli.failures import Failure
from tiercel.cli.named_file import named_file
from tiercel.cli.options import Json
from tiercel.model.errors import DecodeError
from tiercel.model.sid import SecurityIdentifier
from tiercel.security.accounts import Account, AccountError, Accounts
from tiercel.security.nt_hash import nt_hash
from tiercel.server import account_file
from tiercel.server.config import Config, ConfigError

verbs = typer.Typer()
user = typer.Typer(
    help="Keep the accounts that may log on from afar.",
    epilog=r"""
The daemon asks this file when somebody logs on with NTLM to read queues from afar, and sees a change at the
next logon. NAME is DOMAIN\user, or user alone for an account that answers to every domain a client may name.
Passwords are asked for, or read as one line from the standard input; they are no argument, for those show in
`ps`.

The file has a line DOMAIN\user:SID:NT-hash for each account. A hash is as good as the password: the file is
for its owner alone (mode 0600), and is refused otherwise.

    tiercel user add --file accounts 'EXAMPLE\reader'
    tiercel user list --file accounts
""",
)
verbs.add_typer(user, name="user")

File = Annotated[Path | None, typer.Option(metavar="FILE", help="The file of accounts.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help=r"A configuration that names the file in \[accounts]."),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help=r"DOMAIN\user, or user.")]


@user.command("add")
def add(
    name: Name,
    sid: Annotated[
        str | None,
        typer.Option(metavar="SID", help="Who this is in security descriptors; made from the name."),
    ] = None,
    no_password: Annotated[
        bool, typer.Option("--no-password", help="Kerberos alone can prove this account.")
    ] = False,
    file: File = None,
    config: ConfigFile = None,
) -> None:
    """Add an account; makes the file, if there is none."""

    def add_to(path: Path) -> None:
        account = Account.named(name)
        if path.exists():
            _check_new(account_file.read(path), account)  # before a password is asked for
        if sid is not None:
            account = replace(account, given_sid=_sid(sid))
        if not no_password:
            account = replace(account, nt_hash=nt_hash(_ask(account)))

        def edit(accounts: Accounts) -> Accounts:
            _check_new(accounts, account)
            return accounts.with_account(account)

        account_file.change(path, edit, create=True)
        print(f"{account} {account.sid}")

    _run(add_to, file, config)


@user.command("remove")
def remove(name: Name, file: File = None, config: ConfigFile = None) -> None:
    """Remove an account."""

    def remove_from(path: Path) -> None:
        account = Account.named(name)
        account_file.change(path, lambda accounts: accounts.without(_existing(accounts, account)))

    _run(remove_from, file, config)


@user.command("passwd")
def change_password(name: Name, file: File = None, config: ConfigFile = None) -> None:
    """Change the password of an account."""

    def change_in(path: Path) -> None:
        account = Account.named(name)
        _existing(account_file.read(path), account)
        new_hash = nt_hash(_ask(account))

        def edit(accounts: Accounts) -> Accounts:
            return accounts.with_account(replace(_existing(accounts, account), nt_hash=new_hash))

        account_file.change(path, edit)

    _run(change_in, file, config)


@user.command("list")
def list_all(file: File = None, config: ConfigFile = None, as_json: Json = False) -> None:
    """Print all accounts with their SIDs."""

    def list_of(path: Path) -> None:
        for account in account_file.read(path):
            has_password = account.nt_hash is not None
            record = {"name": str(account), "sid": str(account.sid), "has_password": has_password}
            line = f"{account} {account.sid}{'' if has_password else ' (no password)'}"
            print(json.dumps(record) if as_json else line)

    _run(list_of, file, config)


def _run(action: Callable[[Path], None], file: Path | None, config: Path | None) -> None:
    path = named_file(file, config, _accounts_of)
    try:
        action(path)
    except AccountError as problem:
        raise Failure(str(problem)) from problem


def _accounts_of(config: Config) -> str:
    if not config.accounts.file:
        raise ConfigError("[accounts] names no file")
    return config.accounts.file


def _sid(text: str) -> SecurityIdentifier:
    try:
        return SecurityIdentifier.parse(text)
    except DecodeError as problem:
        raise AccountError(f"--sid: {problem.problem}") from problem


def _check_new(accounts: Accounts, account: Account) -> None:
    if accounts.get(account) is not None:
        raise AccountError(f"{account}: there is such an account; `tiercel user passwd` changes its password")


def _existing(accounts: Accounts, account: Account) -> Account:
    found = accounts.get(account)
    if found is None:
        raise AccountError(f"{account}: there is no such account")
    return found


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
