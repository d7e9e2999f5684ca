"""The file of bearer tokens: read when it has changed, written whole, refused when others could write it."""

from collections.abc import Callable
from pathlib import Path

from tiercel.security.tokens import Bearer, TokenError, Tokens
from tiercel.server import private_file
from tiercel.server.private_file import Watched

Edit = Callable[[Tokens], Tokens]


class TokenFile:
    """The tokens of a file, as it is now; none while it cannot be read, and `report` hears why, once."""

    def __init__(self, path: Path, report: Callable[[str], None] = lambda _problem: None) -> None:
        self._file = Watched(path, read, Tokens(), report)

    def find(self, token: str) -> Bearer | None:
        return self._file.value.find(token)


def read(path: Path) -> Tokens:
    """The tokens of a file that is its owner's alone; raises `TokenError`."""
    text = private_file.read(path, TokenError)
    try:
        return Tokens.parse(text)
    except TokenError as problem:
        raise TokenError(f"{path}: {problem}") from problem


def change(path: Path, edit: Edit, *, create: bool = False) -> Tokens:
    """Read, edit and write as one step; with `create`, a file that is not there is an empty one."""
    with private_file.changing(path, TokenError) as write:
        after = edit(Tokens() if create and not path.exists() else read(path))
        write(after.text())
    return after
