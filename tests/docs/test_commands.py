"""Commands that pages name in their text exist, with their options; those in blocks are run."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from tiercel.cli import app

from .pages import ROOT

_QUOTED = re.compile(r"`tiercel ([a-z][^`\n]*)`")
_OPTION = re.compile(r"--[a-z-]+")


def quoted() -> Iterator[Any]:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for found in _QUOTED.finditer(page.read_text("utf-8")):
            yield pytest.param(found[1], id=f"{page.name}: {found[1]}")


def command(words: list[str]) -> Any:
    """The command that the words begin with: a verb, or a verb of a group."""
    group: Any = get_command(app)
    found = group.get_command(group.make_context("tiercel", [words[0]]), words[0])
    assert found is not None, f"there is no command {words[0]}"
    if len(words) > 1 and hasattr(found, "commands"):
        return found.commands.get(words[1], found)
    return found


@pytest.mark.parametrize("line", list(quoted()))
def test_commands_in_the_text_exist(line: str) -> None:
    options = {"--help"} | {name for each in command(line.split()).params for name in each.opts}
    assert set(_OPTION.findall(line)) <= options
