"""Output of commands: tables for people, one JSON object per line for programs."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple

from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from tiercel.cli.clean_text import clean_json, clean_line

Record = dict[str, Any]

_NARROWEST = 8  # minimum width of a truncated column
_WIDE = 10_000  # for output that is not a terminal: nothing is truncated or wrapped


class Column(NamedTuple):
    title: str
    cell: Callable[[Record], RenderableType]
    justify: Any = "left"
    style: str = ""
    folds: bool = False  # truncated if the terminal is narrow


class Output:
    """Uses colours and lines only on a terminal."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    @cached_property
    def console(self) -> Console:
        if sys.stdout.isatty():
            return Console(highlight=False)
        return Console(highlight=False, width=_WIDE, no_color=True)

    def record(self, record: Any) -> None:
        print(clean_json(json.dumps(record, ensure_ascii=False)))

    def say(self, line: str) -> None:
        """Print what was done, unless the output is JSON."""
        if not self.as_json:
            self.console.print(Text(clean_line(line)))

    def table(self, records: Iterable[Record], columns: Sequence[Column], *, empty: str) -> None:
        if self.as_json:
            for record in records:
                self.record(record)
            return
        rows = list(records)
        if not rows:
            note(empty)
            return
        self.show(_table(rows, _telling(columns, rows), self.console.width))

    def show(self, what: RenderableType) -> None:
        if sys.stdout.isatty():
            self.console.print(what)
            return
        with self.console.capture() as capture:
            self.console.print(what)
        for line in capture.get().splitlines():
            print(line.rstrip())

    def line(self, text: Text) -> None:
        """Print one line, truncated to the terminal width."""
        self.console.print(text, no_wrap=True, overflow="ellipsis", crop=True)


def facts(pairs: Iterable[tuple[str, str]]) -> Table:
    """Names and values, one per line; long values wrap."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        grid.add_row(clean_line(name), Text(clean_line(value)))
    return grid


def note(line: str) -> None:
    """Print a note to stderr."""
    sys.stdout.flush()
    Console(stderr=True, highlight=False).print(Text(clean_line(line), style="dim"), soft_wrap=True)


def _telling(columns: Sequence[Column], rows: Sequence[Record]) -> list[Column]:
    """Omit columns that are empty in every row."""
    return [each for each in columns if any(str(each.cell(row)) for row in rows)]


def _table(rows: Sequence[Record], columns: Sequence[Column], width: int) -> Table:
    is_terminal = sys.stdout.isatty()
    table = Table(
        box=box.SIMPLE_HEAD if is_terminal else None,
        show_edge=False,
        pad_edge=False,
        header_style="bold",
        padding=(0, 2, 0, 0),
    )
    cells = [[_cell(column.cell(row)) for row in rows] for column in columns]
    natural = [
        max(cell_len(str(cell)) for cell in (column.title, *values))
        for column, values in zip(columns, cells, strict=True)
    ]
    for column, wide in zip(columns, _widths(columns, natural, width - 3 * len(columns)), strict=True):
        table.add_column(
            column.title, justify=column.justify, style=column.style, no_wrap=True, width=wide, max_width=wide
        )
    for row in zip(*cells, strict=True):
        table.add_row(*row)
    return table


def _widths(columns: Sequence[Column], natural: Sequence[int], room: int) -> list[int]:
    """Natural widths, except that folding columns share the remaining room."""
    left = room - sum(wide for column, wide in zip(columns, natural, strict=True) if not column.folds)
    folding = sum(column.folds for column in columns)
    widths = []
    for column, wide in zip(columns, natural, strict=True):
        given = wide
        if column.folds:
            given = min(wide, max(left // folding, _NARROWEST))
            left, folding = left - given, folding - 1
        widths.append(given)
    return widths


def _cell(value: RenderableType) -> RenderableType:
    if isinstance(value, Text) and clean_line(value.plain) == value.plain:
        return value
    return Text(clean_line(str(value)), style=value.style if isinstance(value, Text) else "")


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
