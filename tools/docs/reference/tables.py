"""Markdown tables, and those that stand in docs/ already."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def code(value: object) -> str:
    return f"`{value}`" if str(value) else ""


def meanings(page: str) -> dict[str, str]:
    """What the tables of a page say of each name: the last cell of the row whose first cell names it."""
    found: dict[str, str] = {}
    for line in (DOCS / page).read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for name in re.findall(r"`([^`]+)`", cells[0]) if len(cells) > 1 else ():
            found.setdefault(name, cells[-1].replace("](#", f"](../{page}#"))
    return found
