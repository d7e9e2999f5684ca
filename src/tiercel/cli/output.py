"""Output of commands: tables for people, one JSON object per line for programs."""

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tiercel.cli.clean_text import clean_json, clean_line
from tiercel.cli.table import Column, Line, Record, Styled, layout

if TYPE_CHECKING:  # loaded for a terminal only: scripts do without
    from rich.console import Console, RenderableType

__all__ = ["Column", "Record", "Styled"]  # from `table`, for the commands

_WIDE = 10_000  # for output that is not a terminal: nothing is shortened or wrapped


class Output:
    """Uses colours and lines only on a terminal."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    @cached_property
    def console(self) -> "Console":
        from rich.console import Console  # noqa: PLC0415

        if sys.stdout.isatty():
            return Console(highlight=False)
        return Console(highlight=False, width=_WIDE, no_color=True)

    def record(self, record: Any) -> None:
        print(clean_json(json.dumps(record, ensure_ascii=False)))

    def say(self, line: str) -> None:
        """Print what was done, unless the output is JSON."""
        if not self.as_json:
            print(clean_line(line))

    def table(self, records: Iterable[Record], columns: Sequence[Column], *, empty: str) -> None:
        if self.as_json:
            for record in records:
                self.record(record)
            return
        rows = list(records)
        if not rows:
            note(empty)
            return
        is_terminal = sys.stdout.isatty()
        width = self.console.width if is_terminal else _WIDE
        for line in layout(rows, columns, width, rule=is_terminal):
            self._print(line)

    def facts(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Print names and values, one per line."""
        found = list(pairs)
        wide = max((len(name) for name, _ in found), default=0)
        for name, value in found:
            self._print([Styled(f"{clean_line(name):{wide}}  ", "dim"), Styled(clean_line(value))])

    def show(self, what: "RenderableType") -> None:
        if sys.stdout.isatty():
            self.console.print(what)
            return
        with self.console.capture() as capture:
            self.console.print(what)
        for line in capture.get().splitlines():
            print(line.rstrip())

    def line(self, *parts: str) -> None:
        """Print one line, shortened to the terminal width."""
        self._print([each if isinstance(each, Styled) else Styled(each) for each in parts], crop=True)

    def _print(self, line: Line, *, crop: bool = False) -> None:
        if not sys.stdout.isatty():
            print("".join(line).rstrip())
            return
        from rich.text import Text  # noqa: PLC0415

        text = Text.assemble(*((str(part), part.style) for part in line))
        if crop:
            self.console.print(text, no_wrap=True, overflow="ellipsis", crop=True)
        else:
            self.console.print(text, soft_wrap=True)


def note(line: str) -> None:
    """Print a note to stderr."""
    sys.stdout.flush()
    if not sys.stderr.isatty():
        print(clean_line(line), file=sys.stderr)
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    Console(stderr=True, highlight=False).print(Text(clean_line(line), style="dim"), soft_wrap=True)


# Cells.


def number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def plural(value: int, noun: str) -> str:
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def size(value: float | None) -> str:
    """A size in bytes for people: 4 KiB = 4096."""
    if value is None:
        return ""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def when(text: str | None) -> str:
    """A time from the API in local time."""
    if not text:
        return ""
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def moment(text: str | None) -> str:
    """The same, shortened on a terminal: without the date if it is today."""
    if not text or not sys.stdout.isatty():
        return when(text)
    then, today = datetime.fromisoformat(text).astimezone(), datetime.now().astimezone()
    return then.strftime("%H:%M:%S" if then.date() == today.date() else "%Y-%m-%d %H:%M")


def age(text: str | None) -> str:
    if not text:
        return ""
    return seconds((datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds())


def until(text: str | None) -> str:
    """The time until then; empty if it is over."""
    left = (datetime.fromisoformat(text) - datetime.now(UTC)).total_seconds() if text else 0
    return seconds(left) if left > 0 else ""


def seconds(value: float | None) -> str:
    if value is None:
        return ""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if value >= 2 * length:
            return f"{value / length:.0f} {unit}"
    return f"{max(value, 0):.0f} s"
