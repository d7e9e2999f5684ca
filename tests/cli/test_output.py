"""What is for people: sizes, ages, and tables that fit the terminal."""

import base64
import json
import sys

import pytest
from rich.text import Text

from tiercel.cli import main
from tiercel.cli.clean_text import clean, clean_json, clean_line, one_line
from tiercel.cli.message_text import whole
from tiercel.cli.output import Column, Output, Styled, plural, seconds, size

COLUMNS = (
    Column("NAME", lambda row: row["name"]),
    Column("NOTHING", lambda _row: ""),
    Column("TEXT", lambda row: Styled(row["text"], "bold"), folds=True),
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
    assert clean_line("a\tb\r\nc\u2028\x85") == r"a\tb\r\nc\u2028\x85"
    assert one_line("  a\n\n b\x07 ", 20) == r"a b\x07"
    assert one_line("x" * 30, 10) == "x" * 9 + "…"


FORGED = "paid\n2026-11-17 12:00:00  fake  row\x1b[2J\x9b2J\u2028more\x85end"


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    out = capsys.readouterr().out
    assert not set(out) & set("\x1b\x9b\u2028\x85\r")
    return out.splitlines()


def test_a_line_break_makes_no_row_of_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).table([{"name": FORGED, "text": FORGED}], COLUMNS, empty="none")
    assert len(lines_of(capsys)) == 2


def test_a_line_break_makes_no_line_of_what_was_done(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).say(FORGED)
    assert len(lines_of(capsys)) == 1


def test_json_is_one_line_with_the_same_value(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True).record({"label": FORGED})
    (line,) = lines_of(capsys)
    assert json.loads(line) == {"label": FORGED}
    assert clean_json('{"a": "é"}') == '{"a": "é"}'


@pytest.mark.parametrize("body", [FORGED, json.dumps({"a": FORGED})], ids=["text", "JSON"])
def test_neither_label_nor_body_passes_for_another_message(
    capsys: pytest.CaptureFixture[str], body: str
) -> None:
    data = body.encode()
    message = {
        "label": FORGED,
        "lookup_id": "7",
        "body": base64.b64encode(data).decode(),
        "body_size": len(data),
    }
    Output(as_json=False).show(whole(message, is_full=True))
    heading, *rest = lines_of(capsys)
    assert heading == r"paid\n2026-11-17 12:00:00  fake  row\x1b[2J\x9b2J\u2028more\x85end"
    assert all(line.startswith("  ") for line in rest)
    body_at = next(number for number, line in enumerate(rest) if line.split()[0] == "body")
    assert all(line.startswith("    ") for line in rest[body_at + 1 :])


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["peek", FORGED, "--data", "/nowhere"]) != 0
    assert len(capsys.readouterr().err.splitlines()) == 1
