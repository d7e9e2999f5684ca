"""The drawn pictures are those that the script draws, and every picture that a page shows exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from .pages import PAGES, ROOT

_SHOWN = re.compile(r'(?:!\[[^\]]*\]\(|src="|srcset=")([^)"]+\.(?:png|svg))')


def test_drawn_pictures_are_up_to_date(tmp_path: Path) -> None:
    script = str(ROOT / "tools" / "pictures")
    subprocess.run([sys.executable, script, "--drawn", "--to", str(tmp_path)], check=True)  # noqa: S603
    drawn = sorted(tmp_path.iterdir())
    assert len(drawn) == 2
    for each in drawn:
        assert (ROOT / "docs" / "pictures" / each.name).read_text("utf-8") == each.read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pictures_exist(page: Path) -> None:
    for name in _SHOWN.findall(page.read_text("utf-8")):
        assert (page.parent / name).is_file(), name
