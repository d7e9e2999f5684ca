"""`tiercel user`: accounts are added, listed, changed and removed, and no password is ever an argument."""

import getpass
import io
import stat
import sys
from pathlib import Path

import pytest

from tiercel.cli import main
from tiercel.security.accounts import stable_sid
from tiercel.security.nt_hash import nt_hash
from tiercel.server.account_file import read


class Run:
    def __init__(self, path: Path, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.path = path
        self._patch, self._capsys = patch, capsys

    def __call__(self, action: str, *words: str, stdin: str = "") -> tuple[int, str, str]:
        self._patch.setattr(sys, "stdin", io.StringIO(stdin))
        code = main(["user", action, "--file", str(self.path), *words])
        return code, *self._capsys.readouterr()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(tmp_path / "accounts", monkeypatch, capsys)


def test_add_list_change_remove(run: Run) -> None:
    sid = str(stable_sid("reader", "EXAMPLE"))
    assert run("add", "EXAMPLE\\reader", stdin="secret\n") == (0, f"EXAMPLE\\reader {sid}\n", "")
    assert stat.S_IMODE(run.path.stat().st_mode) == 0o600
    assert run("add", "w", "--sid", "S-1-5-21-1-2-3-4", stdin="other\r\n")[0] == 0
    assert run("add", "R.ORG\\kim", "--no-password")[0] == 0
    assert run("list")[1].splitlines() == [
        f"EXAMPLE\\reader {sid}",
        "w S-1-5-21-1-2-3-4",
        f"R.ORG\\kim {stable_sid('kim', 'R.ORG')} (no password)",
    ]
    assert run("list", "--json")[1].count('"has_password": true') == 2
    assert run("passwd", "example\\READER", stdin="new\n") == (0, "", "")
    assert [each.nt_hash for each in read(run.path)] == [nt_hash("new"), nt_hash("other"), None]
    assert run("remove", "w") == (0, "", "")
    assert [str(each) for each in read(run.path)] == ["EXAMPLE\\reader", "R.ORG\\kim"]


@pytest.mark.parametrize(
    ("words", "stdin", "message"),
    [
        (["add", "a"], "x\n", "account exists"),
        (["add", "b"], "", "missing password; nothing was changed"),
        (["add", "b"], "\n", "missing password"),
        (["add", "b", "--sid", "S-1"], "x\n", "--sid: "),
        (["add", "b:c"], "x\n", "is not a valid account or domain name"),
        (["remove", "b"], "", "no such account"),
        (["passwd", "b"], "x\n", "no such account"),
    ],
)
def test_refused(run: Run, words: list[str], stdin: str, message: str) -> None:
    run("add", "a", stdin="secret\n")
    before = run.path.read_bytes()
    code, out, err = run(*words, stdin=stdin)
    assert (code, out) == (1, "")
    assert err.startswith("tiercel user: ")
    assert message in err
    assert run.path.read_bytes() == before


def test_a_file_that_others_can_read(run: Run) -> None:
    run("add", "a", stdin="secret\n")
    run.path.chmod(0o644)
    for words in (["list"], ["add", "b"], ["passwd", "a"], ["remove", "a"]):
        code, _, err = run(*words, stdin="x\n")
        assert code == 1
        assert "chmod 600" in err


def test_the_configuration_names_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], run: Run
) -> None:
    run("add", "a", stdin="secret\n")
    config = tmp_path / "tiercel.toml"
    config.write_text(f'[accounts]\nfile = "{run.path}"\n', "utf-8")
    assert main(["user", "list", "--config", str(config)]) == 0
    assert capsys.readouterr().out.startswith("a S-1-5-21-")
    config.write_text("", "utf-8")
    assert main(["user", "list", "--config", str(config)]) == 2
    assert "[accounts] has no file" in capsys.readouterr().err


def test_a_terminal_asks_twice(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    answers = iter(["one", "two", "three", "three"])
    monkeypatch.setattr(getpass, "getpass", lambda _prompt: next(answers))
    monkeypatch.setattr(io, "StringIO", Terminal)
    assert "passwords differ" in run("add", "a")[2]
    assert run("add", "a")[0] == 0
    assert next(iter(read(run.path))).nt_hash == nt_hash("three")
