"""The site builds without a warning, and its reference has everything."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tiercel.api.metrics import METRICS
from tiercel.cli.group import PANELS

from .pages import ROOT

pytestmark = pytest.mark.xdist_group("site")  # built once


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    ended = subprocess.run(  # noqa: S603  # our own pages
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(target)],
        cwd=ROOT,
        env={"NO_MKDOCS_2_WARNING": "1", "PATH": "", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    return target


def text_of(page: Path) -> str:
    return re.sub(r"<[^>]+>", " ", page.read_text("utf-8"))


def test_nothing_comes_from_the_network(site: Path) -> None:
    loaded = re.compile(r"""<(?:script|link|img|iframe)[^>]+(?:src|href)=["']?(?:https?:)?//([^"'/ >]+)""")
    found = {host for page in site.rglob("*.html") for host in loaded.findall(page.read_text("utf-8"))}
    assert not found


def test_every_verb_is_there(site: Path) -> None:
    text = text_of(site / "reference" / "commands.html")
    for verb in (verb for verbs in PANELS.values() for verb in verbs):
        assert re.search(rf"tiercel {verb}\b", text), verb


def test_every_metric_and_error_is_there(site: Path) -> None:
    metrics, errors = (text_of(site / "reference" / f"{name}.html") for name in ("metrics", "errors"))
    assert all(each.name in metrics for each in METRICS)
    assert "MQ_ERROR_QUEUE_NOT_FOUND" in errors


def test_every_option_has_words(site: Path) -> None:
    """The words come from the example of a configuration: an option without any is an empty cell."""
    for name in ("configuration", "spark"):
        page = (site / "reference" / f"{name}.html").read_text("utf-8").partition('id="columns"')[0]
        rows = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in page.split("<tr>")]
        options = {row[0]: row[-1].strip() for row in rows if row}
        assert len(options) > 20
        assert [option for option, words in options.items() if not words] == []


def test_tables_of_conformance_count(site: Path) -> None:
    rows = re.findall(r"(\d+) of (\d+)", text_of(site / "reference" / "conformance.html"))
    assert len(rows) == 20
    assert all(int(claimed) <= int(all_of) for claimed, all_of in rows)
    assert sum(int(all_of) for _, all_of in rows[3::4]) == 923
