"""The account file: re-read after a change, replaced atomically, refused if other users can read it.

An NT hash is as good as the password, so only the owner may read the file.
"""

from collections.abc import Callable
from pathlib import Path

from tiercel.security.accounts import Account, AccountError, Accounts
from tiercel.server import private_file
from tiercel.server.private_file import Watched

Edit = Callable[[Accounts], Accounts]


class AccountFile:
    """A `Directory` with the current accounts of a file.

    While the file cannot or must not be read, there are no accounts, and the cause is reported once.
    """

    def __init__(self, path: Path, report: Callable[[str], None] = lambda _problem: None) -> None:
        self._file = Watched(path, read, Accounts(), report)

    def find(self, user: str, domain: str) -> Account | None:
        return self._file.value.find(user, domain)


def read(path: Path) -> Accounts:
    """The accounts of a private file; raises `AccountError`."""
    text = private_file.read(path, AccountError)
    try:
        return Accounts.parse(text)
    except AccountError as problem:
        raise AccountError(f"{path}: {problem}") from problem


def change(path: Path, edit: Edit, *, create: bool = False) -> Accounts:
    """Read, edit and write in one step; with `create`, a missing file counts as empty."""
    with private_file.changing(path, AccountError) as write:
        after = edit(Accounts() if create and not path.exists() else read(path))
        write(after.text())
    return after
