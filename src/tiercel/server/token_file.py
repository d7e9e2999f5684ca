"""The token file: re-read after a change, replaced atomically, refused if other users can access it."""

from collections.abc import Callable
from pathlib import Path

from tiercel.security.tokens import Bearer, TokenError, Tokens
from tiercel.server.private_file import TableFile, Watched

_FILE = TableFile(Tokens(), TokenError)
read, change = _FILE.read, _FILE.change


class TokenFile:
    """The current tokens of a file; none while it cannot be read, and the cause is reported once."""

    def __init__(self, path: Path, report: Callable[[str], None] = lambda _problem: None) -> None:
        self._file = Watched(path, read, Tokens(), report)

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def value(self) -> Tokens:
        return self._file.value

    def find(self, token: str) -> Bearer | None:
        return self._file.value.find(token)

    def find_digest(self, digest: str) -> Bearer | None:
        return next((each for each in self._file.value if each.digest == digest), None)
