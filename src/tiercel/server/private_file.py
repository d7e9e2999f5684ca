"""Private text files: refused if others may read them, replaced atomically, re-read after a change."""

import fcntl
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, Generic, Protocol, Self, TypeVar

from tiercel.model.errors import TiercelError

MODE: Final = 0o600
MAX_SIZE: Final = 16 << 20


class Table(Protocol):
    """The content of a file: accounts, tokens, trusted certificates."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises an error with a text of one line."""

    def text(self) -> str: ...


T = TypeVar("T")
TableT = TypeVar("TableT", bound=Table)
_Stamp = tuple[int, int, int, int, int]


class Keeps(Enum):
    """Whether the last content of a file counts while it cannot or must not be read."""

    NEVER = "never"
    IF_IT_EXISTS = "if it exists"
    ALWAYS = "always"


class Watched(Generic[T]):
    """The current content of a file.

    While the file cannot or must not be read, the content is `nothing`, or what it last was if `keeps` says
    so. The cause is reported once.
    """

    def __init__(
        self,
        path: Path,
        read: Callable[[Path], T],
        nothing: T,
        report: Callable[[str], None],
        *,
        keeps: Keeps = Keeps.NEVER,
    ) -> None:
        self.path = path
        self._read = read
        self._nothing = self._value = nothing
        self._report = report
        self._keeps = keeps
        self._stamp: _Stamp | None = None
        self._problem = ""

    @property
    def value(self) -> T:
        problem = ""
        try:
            stamp = _stamp(self.path.stat())
            if stamp != self._stamp:
                self._value, self._stamp = self._read(self.path), stamp
        except (TiercelError, OSError) as error:
            problem = str(error)
            self._stamp = None
            if self._keeps is Keeps.NEVER or (self._keeps is Keeps.IF_IT_EXISTS and not self.path.exists()):
                self._value = self._nothing
        if problem and problem != self._problem:
            self._report(problem)
        self._problem = problem
        return self._value


@dataclass(frozen=True, slots=True)
class TableFile(Generic[TableT]):
    """Reads and changes files of one kind; every failure is an `error` with a text of one line."""

    empty: TableT
    error: type[TiercelError]

    def read(self, path: Path) -> TableT:
        text = read(path, self.error)
        try:
            return self.empty.parse(text)
        except self.error as problem:
            raise self.error(f"{path}: {problem}") from problem

    def change(self, path: Path, edit: Callable[[TableT], TableT], *, create: bool = False) -> TableT:
        """Read, edit and write in one step; with `create`, a missing file counts as empty."""
        with changing(path, self.error) as write:
            after = edit(self.empty if create and not path.exists() else self.read(path))
            write(after.text())
        return after


def _stamp(status: os.stat_result) -> _Stamp:
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_mode


def read(path: Path, error: type[TiercelError]) -> str:
    """The text of a file that only its owner can use; every failure is an `error` with a text of one line."""
    try:
        with path.open("rb") as file:
            _check(path, os.fstat(file.fileno()), error)
            data = file.read(MAX_SIZE + 1)
    except OSError as problem:
        raise error(f"{path}: cannot be read ({problem.strerror})") from problem
    if len(data) > MAX_SIZE:
        raise error(f"{path}: larger than {MAX_SIZE} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise error(f"{path}: not UTF-8 text") from problem


def check(path: Path, error: type[TiercelError]) -> None:
    """Raises an `error` unless it is a file that only its owner can use."""
    try:
        _check(path, path.stat(), error)
    except OSError as problem:
        raise error(f"{path}: cannot be read ({problem.strerror})") from problem


def check_for_group(path: Path, error: type[TiercelError]) -> None:
    """`check` for a file of other programs: its group may read it, as ssl-cert in Debian may read keys."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:  # whoever reads it tells
        return
    if mode & 0o027:
        raise error(f"{path}: other users may access it (mode {mode:04o}); run chmod 640 {path}")


def _check(path: Path, status: os.stat_result, error: type[TiercelError]) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise error(f"{path}: not a regular file")
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        raise error(f"{path}: other users may access it (mode {mode:04o}); run chmod 600 {path}")


@contextmanager
def changing(path: Path, error: type[TiercelError]) -> Iterator[Callable[[str], None]]:
    """Lock the file against other editors; the block gets a function that replaces the text atomically."""
    try:
        with _locked(path.parent):
            yield lambda text: _write(path, text)
    except OSError as problem:
        raise error(f"{path}: cannot be written ({problem.strerror})") from problem


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
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            if path.exists():  # edited by root, it keeps its owner
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
