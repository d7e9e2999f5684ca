"""The derived vectors of conformance/MS-MQRR.md, read from there: what is printed is what is tested."""

import re
from pathlib import Path

MATRIX = Path(__file__).resolve().parents[2] / "conformance" / "MS-MQRR.md"
_TITLE = re.compile(r"^(\S.*?)  \((\d+) bytes\)$")
_LINE = re.compile(r"^    [0-9a-f]{4}  ((?:[0-9a-f]{2} ?)+)$")


def _read() -> dict[str, bytes]:
    block = MATRIX.read_text("utf-8").partition("### Derived vectors")[2].split("```")[1]
    found: dict[str, bytes] = {}
    title, size = "", 0
    for line in block.splitlines():
        if match := _TITLE.match(line):
            assert len(found.get(title, b"")) == size
            title, size = match[1], int(match[2])
            found[title] = b""
        elif match := _LINE.match(line):
            found[title] += bytes.fromhex(match[1])
    assert len(found[title]) == size
    return found


VECTORS = _read()
