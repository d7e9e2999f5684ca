"""Tables that fit the terminal and still show their answer.

A table that is too wide for one line per row first shortens the columns that fold (labels, bodies). If that
is not enough, the columns that go below (reasons, long names) get lines of their own under their row. Then
the first column gets what the others leave, and a name that is longer stands on a line above its values. If
the rest is still too wide, each row becomes a list of names and values. Nothing else is ever shortened.
"""

import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, Self

from rich.cells import cell_len, set_cell_size

from tiercel.cli.clean_text import clean_line

Record = dict[str, Any]

_GAP: Final = 2
_INDENT: Final = 4
_COMFORTABLE: Final = 16  # least width of a folding column before others go below
_NARROWEST: Final = 8


class Styled(str):
    """A text with the style that a terminal shows it in."""

    __slots__ = ("style",)
    style: str

    def __new__(cls, text: str, style: str = "") -> Self:
        self = super().__new__(cls, text)
        self.style = style
        return self


Line = list[Styled]


class Column(NamedTuple):
    title: str
    cell: Callable[[Record], str]
    justify: str = "left"
    style: str = ""
    folds: bool = False  # shortened if the terminal is narrow
    below: bool = False  # on a line of its own if the terminal is narrow
    wraps: bool = True  # such a line; a command is left to the terminal, so that it can be copied


class _Cells(NamedTuple):
    """A column with its texts."""

    column: Column
    texts: list[Styled]
    width: int

    @property
    def title(self) -> Styled:
        return Styled(self.column.title, "bold")


def layout(rows: Sequence[Record], columns: Sequence[Column], width: int, *, rule: bool) -> list[Line]:
    """The lines of a table; columns that are empty in every row are omitted."""
    filled = [each for each in (_cells(column, rows) for column in columns) if any(each.texts)]
    short = [each for each in filled if not each.column.below]
    for least, inline, overhangs in (
        (_COMFORTABLE, filled, False),
        (_NARROWEST, short, False),
        (_COMFORTABLE, short, True),
    ):
        widths = _widths(inline, width, least, overhangs=overhangs)
        if widths is not None:
            below = [each for each in filled if each not in inline]
            return _lines(inline, widths, below, width, rule=rule)
    return [line for row in range(len(rows)) for line in _block(filled, row, width)]


def _cells(column: Column, rows: Iterable[Record]) -> _Cells:
    texts = []
    for row in rows:
        text = column.cell(row)
        texts.append(Styled(clean_line(text), getattr(text, "style", "") or column.style))
    return _Cells(column, texts, max(map(cell_len, (column.title, *texts)), default=0))


def _widths(cells: Sequence[_Cells], width: int, least: int, *, overhangs: bool) -> list[int] | None:
    """Natural widths, except that folding columns share what is left; None if that is too little.

    A first column that `overhangs` has a share of it, too.
    """
    shares = [each.column.folds or (overhangs and number == 0) for number, each in enumerate(cells)]
    fixed = sum(each.width for each, has_share in zip(cells, shares, strict=True) if not has_share)
    room = width - _GAP * (len(cells) - 1) - fixed
    folding = sorted((each.width, number) for number, each in enumerate(cells) if shares[number])
    widths = [each.width for each in cells]
    if room < sum(min(wide, least) for wide, _ in folding):
        return None
    for done, (wide, number) in enumerate(folding):  # the narrowest first: what it leaves goes to the others
        widths[number] = min(wide, room // (len(folding) - done))
        room -= widths[number]
    return widths


def _lines(
    cells: Sequence[_Cells], widths: Sequence[int], below: Sequence[_Cells], width: int, *, rule: bool
) -> list[Line]:
    lines = [_line([each.title for each in cells], cells, widths)]
    titles = max((len(each.column.title) for each in below), default=0)
    if rule:
        lines.append([Styled("─" * (sum(widths) + _GAP * (len(widths) - 1)), "dim")])
    for row in range(len(cells[0].texts) if cells else 0):
        texts = [each.texts[row] for each in cells]
        if cell_len(texts[0]) > widths[0] and not cells[0].column.folds:
            lines.append([texts[0]])
            texts[0] = Styled("")
        lines.append(_line(texts, cells, widths))
        for each in below:
            lines += _wrapped(each, row, width, titles)
    return lines


def _line(texts: Sequence[Styled], cells: Sequence[_Cells], widths: Sequence[int]) -> Line:
    line: Line = []
    for text, each, wide in zip(texts, cells, widths, strict=True):
        shown = text if cell_len(text) <= wide else set_cell_size(text, wide - 1) + "…"
        padding = " " * (wide - cell_len(shown))
        before, after = (padding, "") if each.column.justify == "right" else ("", padding)
        line += [Styled(before), Styled(shown, text.style), Styled(after + " " * _GAP)]
    return _without_end(line)


def _without_end(line: Line) -> Line:
    while line and not line[-1].strip():
        line.pop()
    if line and line[-1] != line[-1].rstrip():
        line[-1] = Styled(line[-1].rstrip(), line[-1].style)
    return line


def _block(cells: Sequence[_Cells], row: int, width: int) -> Iterable[Line]:
    """A row as a list: the first column, and below it the others by name."""
    first, *others = cells
    yield [first.texts[row]]
    titles = max((len(each.column.title) for each in others), default=0)
    for each in others:
        yield from _wrapped(each, row, width, titles)


def _wrapped(cells: _Cells, row: int, width: int, titles: int) -> Iterable[Line]:
    """The name of a column and the whole text, on as many lines as it takes."""
    text = cells.texts[row]
    if not text:
        return
    indent = _INDENT + titles + _GAP
    wide = max(width - indent, _NARROWEST)
    pieces = (cells.column.wraps and textwrap.wrap(text, wide, break_on_hyphens=False)) or [text]
    for number, piece in enumerate(pieces):
        title = cells.column.title.lower() if number == 0 else ""
        yield [Styled(f"{' ' * _INDENT}{title:{titles}}{' ' * _GAP}", "dim"), Styled(piece, text.style)]
