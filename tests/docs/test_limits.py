"""docs/limits.md names the test that holds each bound: each of them exists."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .pages import ROOT

_QUOTED = re.compile(r"`([^`]+)`")


def rows() -> Iterator[tuple[str, str]]:
    """The first and the last cell of each row in the tables of bounds."""
    text = (ROOT / "docs" / "limits.md").read_text("utf-8").partition("## What a stranger")[2]
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[-1] not in {"test", "---"}:
            yield cells[0], cells[-1]


@pytest.mark.parametrize(("bound", "tests"), list(rows()))
def test_each_bound_names_a_test(bound: str, tests: str) -> None:
    assert tests, bound
    file = Path()
    for name in _QUOTED.findall(tests):
        if name.startswith("tests/"):
            file = ROOT / name
            assert file.exists()
        else:
            assert re.search(rf"(def|class) {name}\b", file.read_text("utf-8")), (file, name)
