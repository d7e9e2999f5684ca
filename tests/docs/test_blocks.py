"""Each block of code in README and docs/ is run; what cannot be run says why."""

import os
import runpy
import shutil
from pathlib import Path

import pytest

from pyspark_msmq.endpoints import read_endpoints
from tiercel.pipeline import config as pipelines
from tiercel.server import config as daemons

from .page_session import Session, own_network, ports_in_use
from .pages import PAGES, READ, ROOT, RUN, SHOWN, Block, blocks, indented_blocks, manner

ALL = [block for page in PAGES for block in blocks(page)]
ALONE = [block for block in ALL if manner(block.page) == "alone" and block.is_run]
SESSIONS = [
    page for page in PAGES if manner(page) == "session" and any(block.is_run for block in blocks(page))
]
SLOW = bool(os.environ.get("TIERCEL_SLOW_DOCS"))
NOT_RUN_AT_MOST = 8


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def apart(page: Path) -> list[pytest.MarkDecorator]:
    """What must not run beside others: one JVM at a time, and one session where all have the same network."""
    if any("pyspark" in block.code for block in blocks(page)):
        return [pytest.mark.xdist_group("spark")]
    return [] if own_network() else [pytest.mark.xdist_group("ports")]


class TestForm:
    @pytest.mark.parametrize("page", PAGES, ids=name)
    def test_blocks_are_fenced_and_of_a_known_kind(self, page: Path) -> None:
        assert indented_blocks(page) == []
        assert {
            block.kind for block in blocks(page) if not block.note.startswith("not run")
        } <= RUN | READ | SHOWN

    def test_few_are_not_run(self) -> None:
        kept = [block for block in ALL if block.note.startswith("not run")]
        assert all(len(block.note) > len("not run: needs") for block in kept)
        assert len(kept) <= NOT_RUN_AT_MOST, list(map(str, kept))

    @pytest.mark.parametrize("block", [each for each in ALL if each.kind == "toml"], ids=str)
    def test_configurations_are_right(self, block: Block, tmp_path: Path) -> None:
        if "[pipeline]" in block.code:
            pipelines.parse(block.code, tmp_path)
        elif "[[manager]]" in block.code:
            (tmp_path / "managers.toml").write_text(block.code, "utf-8")
            assert read_endpoints(f"@{tmp_path}/managers.toml")
        else:
            daemons.parse(block.code)


@pytest.mark.parametrize("block", ALONE, ids=str)
def test_block(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "test_program.py"
    program.write_text(block.code, "utf-8")
    if "def test_" in block.code:
        assert (
            pytest.main(["-p", "no:cacheprovider", "-p", "tiercel.testing", "-q", str(program)])
            == pytest.ExitCode.OK
        )
    else:
        runpy.run_path(str(program), run_name="__main__")


@pytest.mark.parametrize("page", [pytest.param(each, marks=apart(each)) for each in SESSIONS], ids=name)
def test_session(page: Path, tmp_path: Path) -> None:
    if not own_network() and (taken := ports_in_use()):
        pytest.skip(f"the system makes no network namespace, and {', '.join(taken)} are in use")
    chosen = [block for block in blocks(page) if SLOW or not block.is_slow]
    code = "".join(block.code for block in chosen if block.is_run)
    if missing := [tool for tool in ("curl", "jq") if f"{tool} " in code and shutil.which(tool) is None]:
        pytest.skip(f"missing programs (Debian: apt install {' '.join(missing)})")
    if any(block.is_run for block in chosen):
        Session(chosen, tmp_path).run(without={"java"} if "pyspark" in code else set())
