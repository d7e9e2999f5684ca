"""`tiercel user`: manages accounts for remote readers."""

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
    help="Manage accounts for remote readers.",
    epilog=r"""
Remote readers that log in with NTLM are checked against this file; changes take effect at the next login.
NAME is DOMAIN\user, or user alone for an account that matches every domain. Passwords are prompted for, or
read as one line from stdin; they are not arguments, because `ps` would show them.

Each line of the file is DOMAIN\user:SID:NT-hash. A hash is as good as a password, so the file must be
accessible to its owner only (mode 0600).

    tiercel user add --file accounts 'EXAMPLE\reader'
    tiercel user list --file accounts
""",
)
verbs.add_typer(user, name="user")

File = Annotated[Path | None, typer.Option(metavar="FILE", help="Accounts file.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help=r"Configuration with the accounts file in \[accounts]."),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help=r"Account: DOMAIN\user, or user.")]


@user.command("add")
def add(
    name: Name,
    sid: Annotated[
        str | None,
        typer.Option(metavar="SID", help="SID in security descriptors (default: derived from the name)."),
    ] = None,
    no_password: Annotated[bool, typer.Option("--no-password", help="For Kerberos only.")] = False,
    file: File = None,
    config: ConfigFile = None,
) -> None:
    """Add an account; create the file if necessary."""

    def add_to(path: Path) -> None:
        account = Account.named(name)
        if path.exists():
            _check_new(account_file.read(path), account)  # before asking for a password
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
    """List accounts with their SIDs."""

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
        raise ConfigError("[accounts] has no file")
    return config.accounts.file


def _sid(text: str) -> SecurityIdentifier:
    try:
        return SecurityIdentifier.parse(text)
    except DecodeError as problem:
        raise AccountError(f"--sid: {problem.problem}") from problem


def _check_new(accounts: Accounts, account: Account) -> None:
    if accounts.get(account) is not None:
        raise AccountError(f"{account}: account exists; `tiercel user passwd` changes its password")


def _existing(accounts: Accounts, account: Account) -> Account:
    found = accounts.get(account)
    if found is None:
        raise AccountError(f"{account}: no such account")
    return found


def _ask(account: Account) -> str:
    """Ask for the new password; refuse a mistyped or empty one."""
    if sys.stdin.isatty():
        password = getpass.getpass(f"New password for {account}: ")
        if getpass.getpass("Again: ") != password:
            raise AccountError("the passwords differ; nothing was changed")
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise AccountError("missing password; nothing was changed")
    return password
