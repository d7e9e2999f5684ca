"""The account file: re-read after a change, replaced atomically, refused if other users can read it.

An NT hash is as good as the password, so only the owner may read the file.
"""

from collections.abc import Callable
from pathlib import Path

from tiercel.security.accounts import Account, AccountError, Accounts
from tiercel.server.private_file import TableFile, Watched

_FILE = TableFile(Accounts(), AccountError)
read, change = _FILE.read, _FILE.change


class AccountFile:
    """A `Directory` with the current accounts of a file.

    While the file cannot or must not be read, there are no accounts, and the cause is reported once.
    """

    def __init__(self, path: Path, report: Callable[[str], None] = lambda _problem: None) -> None:
        self._file = Watched(path, read, Accounts(), report)

    @property
    def all(self) -> Accounts:
        return self._file.value

    @property
    def path(self) -> Path:
        return self._file.path

    def find(self, user: str, domain: str) -> Account | None:
        return self._file.value.find(user, domain)
