"""The blocks of code in README and docs/, and the words that say how each is to be run.

A page is a session: its blocks run one after the other in one folder, shell and Python alike, as somebody
would type them. A line of its own before a block, or before the first heading of a page, changes that:

    <!-- run: alone -->            each block of the page is a program of its own, in a folder of its own
    <!-- run: with Spark -->       the same in one program, with the Spark session of the tests
    <!-- run: on a cluster -->     the page is a session that only `make shipping` runs (tests/spark_shipping)
    <!-- run: slow, and why -->    only `make docs-test` runs it
    <!-- not run: why -->          nobody runs it
    <!-- prints -->                what the block before it prints; `...` stands for anything
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = frozenset({"sh", "console", "python"})  # console: what is typed has "$ " before it
READ = frozenset({"toml", "json"})  # by the program that they are for
SHOWN = frozenset({"text", "ini", "csharp", "xml"})  # output, layouts, and the Windows side

_FENCE = re.compile(r"^( *)(`{3,})(.*)$")
_NOTE = re.compile(r"^<!-- (not run: .*|run: .*|prints) -->$")


@dataclass(frozen=True)
class Block:
    page: Path
    line: int  # of its first line of code
    kind: str
    code: str
    note: str = ""  # the words of the line before it

    @property
    def is_run(self) -> bool:
        return self.kind in RUN and not self.note.startswith("not run")

    @property
    def is_slow(self) -> bool:
        return self.note.startswith("run: slow")

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    note, opened, lines = "", None, list[str]()
    for number, line in enumerate(page.read_text("utf-8").splitlines(), start=1):
        fence = _FENCE.match(line)
        if opened is not None:
            if fence and fence[2] == opened[2] and not fence[3]:
                code = "".join(f"{each.removeprefix(opened[1])}\n" for each in lines)
                found.append(Block(page, number - len(lines), opened[3].strip(), code, note))
                note, opened = "", None
            else:
                lines.append(line)
        elif fence:
            opened, lines = fence, []
        elif match := _NOTE.match(line):
            note = match[1]
        elif line.strip():
            note = ""
    assert opened is None, f"{page}: a block does not end"
    return found


def manner(page: Path) -> str:
    """How all blocks of a page are run: `alone`, `with Spark`, `on a cluster`, or as a session."""
    found = re.match(r"<!-- run: (.*) -->", page.read_text("utf-8"))
    return found[1] if found else "session"


def indented_blocks(page: Path) -> list[int]:
    """Lines that Markdown takes for code because they are indented: nobody could tell what they are."""
    text = re.sub(
        r"(?ms)^( *)(`{3,}).*?^\1\2$", lambda match: "\n" * match[0].count("\n"), page.read_text("utf-8")
    )
    lines = text.splitlines()
    return [
        number
        for number, (before, line) in enumerate(zip(["", *lines], lines, strict=False), start=1)
        if line.startswith("    ") and not before.strip()
    ]
