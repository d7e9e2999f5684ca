"""The file of accounts: read when it has changed, written whole, and refused when others could read it.

An NT hash is as good as the password to whoever has it, so the file is for its owner alone.
"""

import fcntl
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tiercel.security.accounts import Account, AccountError, Accounts

MODE: Final = 0o600
MAX_SIZE: Final = 16 << 20

Edit = Callable[[Accounts], Accounts]
_Stamp = tuple[int, int, int, int, int]


class AccountFile:
    """A `Directory` whose accounts are those of a file, as it is now.

    When the file cannot be read, or should not be, there are no accounts, and `report` hears why, once.
    """

    def __init__(self, path: Path, report: Callable[[str], None] = lambda _problem: None) -> None:
        self.path = path
        self._report = report
        self._stamp: _Stamp | None = None
        self._accounts = Accounts()
        self._problem = ""

    def find(self, user: str, domain: str) -> Account | None:
        self._refresh()
        return self._accounts.find(user, domain)

    def _refresh(self) -> None:
        problem = ""
        try:
            stamp = _stamp(self.path.stat())
            if stamp != self._stamp:
                self._accounts, self._stamp = read(self.path), stamp
        except (AccountError, OSError) as error:
            problem = str(error)
            self._accounts, self._stamp = Accounts(), None
        if problem and problem != self._problem:
            self._report(problem)
        self._problem = problem


def _stamp(status: os.stat_result) -> _Stamp:
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_mode


def read(path: Path) -> Accounts:
    """The accounts of a file that is its owner's alone; raises `AccountError`."""
    try:
        with path.open("rb") as file:
            _check(path, os.fstat(file.fileno()))
            data = file.read(MAX_SIZE + 1)
    except OSError as problem:
        raise AccountError(f"{path}: it cannot be read ({problem.strerror})") from problem
    if len(data) > MAX_SIZE:
        raise AccountError(f"{path}: it is larger than {MAX_SIZE} bytes")
    try:
        return Accounts.parse(data.decode("utf-8"))
    except UnicodeDecodeError as problem:
        raise AccountError(f"{path}: it is no UTF-8 text") from problem
    except AccountError as problem:
        raise AccountError(f"{path}: {problem}") from problem


def _check(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise AccountError(f"{path}: it is no file")
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        raise AccountError(
            f"{path}: others than its owner may use it (mode {mode:04o}); say chmod 600 {path}"
        )


def change(path: Path, edit: Edit, *, create: bool = False) -> Accounts:
    """Read, edit and write as one step; with `create`, a file that is not there is an empty one."""
    try:
        with _locked(path.parent):
            before = Accounts() if create and not path.exists() else read(path)
            after = edit(before)
            _write(path, after.text())
    except OSError as problem:
        raise AccountError(f"{path}: it cannot be written ({problem.strerror})") from problem
    return after


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(path: Path, text: str) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # for the owner alone
    try:
        with os.fdopen(descriptor, "wb") as file:
            if path.exists():  # root may change the file of the daemon's user, and it stays that user's
                status = path.stat()
                os.fchown(descriptor, status.st_uid, status.st_gid)
            os.fchmod(descriptor, MODE)
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(descriptor)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
