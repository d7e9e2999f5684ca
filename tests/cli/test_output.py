"""What is for people: sizes, ages, and tables that fit the terminal."""

import sys

import pytest
from rich.text import Text

from tiercel.cli.clean_text import clean, one_line
from tiercel.cli.output import Column, Output, plural, seconds, size

COLUMNS = (
    Column("NAME", lambda row: row["name"]),
    Column("NOTHING", lambda _row: ""),
    Column("TEXT", lambda row: Text(row["text"]), folds=True),
)
ROWS = [{"name": "a", "text": "x" * 300}, {"name": "bb", "text": "\x1b[31m"}]


def test_a_pipe_has_whole_lines(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).table(ROWS, COLUMNS, empty="none")
    head, first, _ = capsys.readouterr().out.splitlines()
    assert head == "NAME  TEXT"
    assert first == f"a     {'x' * 300}"


def test_a_terminal_is_not_overrun(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    Output(as_json=False).table(ROWS, COLUMNS, empty="none")
    lines = [Text.from_ansi(line).plain for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= 60
    assert "…" in lines[2]
    assert r"\x1b[31m" in lines[3]


def test_nothing_is_said_beside_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).table([], COLUMNS, empty="There is none.")
    assert capsys.readouterr() == ("", "There is none.\n")
    Output(as_json=True).table([], COLUMNS, empty="There is none.")
    assert capsys.readouterr() == ("", "")


def test_words() -> None:
    assert [size(each) for each in (0, 1023, 1024, 150_000, 5 << 30, 3 << 41)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "146 KiB",
        "5.0 GiB",
        "6.0 TiB",
    ]
    assert [seconds(each) for each in (-1, 5, 119, 7200, 200_000)] == ["0 s", "5 s", "119 s", "2 h", "2 d"]
    assert (plural(1, "message"), plural(2000, "message")) == ("1 message", "2,000 messages")


def test_texts_of_strangers() -> None:
    assert clean("a\tb\nc\x1b\x00\x7f\x9b\u202e") == "a\tb\nc\\x1b\\x00\\x7f\\x9b\\u202e"
    assert one_line("  a\n\n b\x07 ", 20) == r"a b\x07"
    assert one_line("x" * 30, 10) == "x" * 9 + "…"
