"""`tiercel trust`: certificates are added, listed and removed."""

import json
import stat
from pathlib import Path

import pytest

from message_security.signing import certificate
from tiercel.cli import main
from tiercel.message_security.certificates import fingerprint
from tiercel.server.trust_file import read

SID = "S-1-5-21-1-2-3-1001"


class Run:
    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path, self._capsys = path, capsys
        for name in ("alice", "bob"):
            (path.parent / f"{name}.cer").write_bytes(certificate(name))

    def __call__(self, action: str, *words: str) -> tuple[int, str, str]:
        words = tuple(str(self.path.parent / word) if word.endswith(".cer") else word for word in words)
        code = main(["trust", action, "--file", str(self.path), *words])
        return code, *self._capsys.readouterr()


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(tmp_path / "trust", capsys)


def test_add_list_remove(run: Run) -> None:
    shown = fingerprint(certificate("alice"))
    assert run("add", "alice", "alice.cer", "--sid", SID) == (0, f"{shown}\n", "")
    assert stat.S_IMODE(run.path.stat().st_mode) == 0o600
    assert run("ls")[1] == f"alice {SID} CN=alice until 2035-12-30\n    {shown}\n"
    row = json.loads(run("ls", "--json")[1])
    assert (row["name"], row["sid"], row["fingerprint"], row["expired"]) == ("alice", SID, shown, False)
    assert run("rm", "alice") == (0, "", "")
    assert len(read(run.path)) == 0


def test_expired_certificates_are_marked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("add", "alice", "alice.cer", "--sid", SID)
    monkeypatch.setattr("tiercel.cli.trust.time.time", lambda: 4e9)
    assert "until 2035-12-30 (expired)" in run("ls")[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["add", "alice", "bob.cer", "--sid", SID], "entry exists"),
        (["add", "bob", "alice.cer", "--sid", SID], "known already, as alice"),
        (["add", "bob", "bob.cer", "--sid", "bob"], "not a valid SID"),
        (["add", "b c", "bob.cer", "--sid", SID], "not a valid name"),
        (["add", "bob", "missing.cer", "--sid", SID], "cannot be read"),
        (["rm", "bob"], "no such entry"),
    ],
)
def test_refused(run: Run, words: list[str], message: str) -> None:
    run("add", "alice", "alice.cer", "--sid", SID)
    before = run.path.read_bytes()
    code, out, err = run(*words)
    assert (code, out) == (1, "")
    assert err.startswith("tiercel trust: ")
    assert message in err
    assert run.path.read_bytes() == before


def test_what_is_not_a_certificate(run: Run, tmp_path: Path) -> None:
    (tmp_path / "noise.cer").write_bytes(b"noise")
    assert "not a certificate with an RSA key" in run("add", "x", "noise.cer", "--sid", SID)[2]
