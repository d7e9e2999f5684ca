"""What `tiercel pipeline` says without starting Spark: usage and mistakes."""

from pathlib import Path

import pytest

from tiercel.cli import main, pipeline
from tiercel.pipeline.reports import REPORTS


def test_a_missing_file_and_a_wrong_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "run", str(tmp_path / "none.toml")]) == 2
    (tmp_path / "p.toml").write_text('[pipeline]\nnam = "x"\n')
    assert main(["pipeline", "plan", str(tmp_path / "p.toml")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].endswith("none.toml: cannot read the file (No such file or directory)")
    assert "[pipeline] nam: unknown option; did you mean name?" in lines[1]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("nowhere", "no such table; for a new one use FORMAT:PLACE"),
        ("duckdb:shop.db", "missing #NAME at the end"),
        ("delta:", "missing place after delta:"),
    ],
)
def test_a_table_that_cannot_be_meant(table: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "report", "traffic", "--table", table]) == 1
    assert words in capsys.readouterr().err


def test_the_reports_are_all_named() -> None:
    assert tuple(REPORTS) == pipeline.REPORTS


def test_compacting_what_is_not_there_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.toml").write_text(
        '[pipeline]\nname = "x"\n[source]\nqueues = ["q"]\n[[table]]\nformat = "delta"\npath = "t"\n'
    )
    assert main(["pipeline", "compact", str(tmp_path / "p.toml")]) == 0
    assert "0 files merged into 0, 0 orphans removed" in capsys.readouterr().out
    assert sorted(each.name for each in tmp_path.iterdir()) == ["p.toml"]
