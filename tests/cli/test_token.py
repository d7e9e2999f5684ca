"""`tiercel token`: made, listed and removed; the file never has the token itself."""

import stat
from pathlib import Path

import pytest

from tiercel.cli import main
from tiercel.server.token_file import TokenFile, read


class Run:
    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path, self._capsys = path, capsys

    def __call__(self, action: str, *words: str) -> tuple[int, str, str]:
        code = main(["token", action, "--file", str(self.path), *words])
        return code, *self._capsys.readouterr()


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(tmp_path / "tokens", capsys)


def test_add_list_remove(run: Run) -> None:
    code, token, err = run("add", "spark", "--role", "send,receive")
    assert (code, err) == (0, "")
    assert stat.S_IMODE(run.path.stat().st_mode) == 0o600
    assert token.strip() not in run.path.read_text()
    assert run("add", "other", "--role", "admin")[0] == 0
    assert run("ls") == (0, "spark receive,send\nother admin\n", "")
    assert run("ls", "--json")[1].startswith('{"name": "spark", "roles": ["receive", "send"]}\n')
    bearer = TokenFile(run.path).find(token.strip())
    assert bearer is not None
    assert bearer.name == "spark"
    assert run("rm", "spark") == (0, "", "")
    assert [each.name for each in read(run.path)] == ["other"]
    assert TokenFile(run.path).find(token.strip()) is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["add", "a", "--role", "read"], "token exists"),
        (["add", "b", "--role", "write"], "the roles are read, send, receive, admin"),
        (["add", "b", "--role", ""], "at least one role is required"),
        (["add", "b c", "--role", "read"], "is not a valid name"),
        (["rm", "b"], "no such token"),
    ],
)
def test_refused(run: Run, words: list[str], message: str) -> None:
    run("add", "a", "--role", "read")
    before = run.path.read_bytes()
    code, out, err = run(*words)
    assert (code, out) == (1, "")
    assert err.startswith("tiercel token: ")
    assert message in err
    assert run.path.read_bytes() == before


def test_the_token_goes_to_a_private_file_of_its_own(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "spark.token"
    assert run("add", "spark", "--role", "read", "--out", str(out)) == (0, "", "")
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert TokenFile(run.path).find(out.read_text().strip()) is not None
    token = out.read_text()
    code, _, err = run("add", "other", "--role", "read", "--out", str(out))
    assert (code, "File exists" in err, out.read_text()) == (1, True, token)
    assert [each.name for each in read(run.path)] == ["spark"]
    code, _, err = run("add", "spark", "--role", "read", "--out", str(tmp_path / "second"))
    assert (code, (tmp_path / "second").exists()) == (1, False)


def test_a_file_that_others_can_read(run: Run) -> None:
    run("add", "a", "--role", "read")
    run.path.chmod(0o640)
    heard: list[str] = []
    assert TokenFile(run.path, heard.append).find("x") is None
    assert "chmod 600" in heard[0]
    for words in (["ls"], ["add", "b", "--role", "read"], ["rm", "a"]):
        code, _, err = run(*words)
        assert (code, "chmod 600" in err) == (1, True)


def test_the_file_that_a_configuration_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "tiercel.toml"
    config.write_text(f'[data]\ntokens = "{tmp_path}/t"\n')
    assert main(["token", "add", "--config", str(config), "a", "--role", "read"]) == 0
    assert [each.name for each in read(tmp_path / "t")] == ["a"]
    config.write_text("")
    assert main(["token", "ls", "--config", str(config)]) == 2
    assert "neither [data] nor [api] has a token file" in capsys.readouterr().err
