"""Texts with one entry per line: accounts, tokens, the trust store.

Lines that are empty or begin with # stay as they are.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeVar

from tiercel.model.errors import TiercelError

_NAME: Final = re.compile(r"[A-Za-z0-9._@-]{1,64}")


class Entry(Protocol):
    def line(self) -> str: ...


EntryT = TypeVar("EntryT", bound=Entry)


def read_lines(
    text: str, read: Callable[[str], EntryT], error: type[TiercelError]
) -> tuple[str | EntryT, ...]:
    """The entries of a text, with its other lines; an `error` of `read` gets the number of the line."""
    lines: list[str | EntryT] = []
    for number, line in enumerate(text.split("\n"), 1):
        try:
            is_other = not line.strip() or line.startswith("#")
            lines.append(line if is_other else read(line.rstrip("\r")))
        except error as problem:
            raise error(f"line {number}: {problem}") from problem
    if not lines[-1]:  # after the last line break
        lines.pop()
    return tuple(lines)


def write_lines(lines: Iterable[str | Entry]) -> str:
    return "".join(f"{line if isinstance(line, str) else line.line()}\n" for line in lines)


def check_name(name: str, error: type[TiercelError]) -> None:
    if not _NAME.fullmatch(name):
        raise error(f"{name[:70]!a} is not a valid name: use 1 to 64 of A-Z a-z 0-9 . _ @ -")


def doubled(values: Iterable[str]) -> str | None:
    """The first value that is there twice."""
    return next((value for value, count in Counter(values).items() if count > 1), None)
