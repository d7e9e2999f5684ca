"""The file of accounts: read when it has changed, written whole, and refused when others could read it.

An NT hash is as good as the password to whoever has it, so the file is for its owner alone.
"""

from collections.abc import Callable
from pathlib import Path

from tiercel.security.accounts import Account, AccountError, Accounts
from tiercel.server import private_file
from tiercel.server.private_file import Watched

Edit = Callable[[Accounts], Accounts]


class AccountFile:
    """A `Directory` whose accounts are those of a file, as it is now.

    When the file cannot be read, or should not be, there are no accounts, and `report` hears why, once.
    """

    def __init__(self, path: Path, report: Callable[[str], None] = lambda _problem: None) -> None:
        self._file = Watched(path, read, Accounts(), report)

    def find(self, user: str, domain: str) -> Account | None:
        return self._file.value.find(user, domain)


def read(path: Path) -> Accounts:
    """The accounts of a file that is its owner's alone; raises `AccountError`."""
    text = private_file.read(path, AccountError)
    try:
        return Accounts.parse(text)
    except AccountError as problem:
        raise AccountError(f"{path}: {problem}") from problem


def change(path: Path, edit: Edit, *, create: bool = False) -> Accounts:
    """Read, edit and write as one step; with `create`, a file that is not there is an empty one."""
    with private_file.changing(path, AccountError) as write:
        after = edit(Accounts() if create and not path.exists() else read(path))
        write(after.text())
    return after
