"""The token file: re-read after a change, replaced atomically, refused if other users can access it."""

from collections.abc import Callable
from pathlib import Path

from tiercel.security.tokens import Bearer, TokenError, Tokens
from tiercel.server import private_file
from tiercel.server.private_file import Watched

Edit = Callable[[Tokens], Tokens]


class TokenFile:
    """The current tokens of a file; none while it cannot be read, and the cause is reported once."""

    def __init__(self, path: Path, report: Callable[[str], None] = lambda _problem: None) -> None:
        self._file = Watched(path, read, Tokens(), report)

    def find(self, token: str) -> Bearer | None:
        return self._file.value.find(token)


def read(path: Path) -> Tokens:
    """The tokens of a private file; raises `TokenError`."""
    text = private_file.read(path, TokenError)
    try:
        return Tokens.parse(text)
    except TokenError as problem:
        raise TokenError(f"{path}: {problem}") from problem


def change(path: Path, edit: Edit, *, create: bool = False) -> Tokens:
    """Read, edit and write in one step; with `create`, a missing file counts as empty."""
    with private_file.changing(path, TokenError) as write:
        after = edit(Tokens() if create and not path.exists() else read(path))
        write(after.text())
    return after
