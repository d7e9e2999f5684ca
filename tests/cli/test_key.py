"""`tiercel key`: shown, exported and replaced; the private key never leaves its file."""

import json
import stat
from pathlib import Path

import pytest

from tiercel.cli import main
from tiercel.message_security.certificates import load_certificate, pem_to_der
from tiercel.server.signing_key import read


class Run:
    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory, self._capsys = directory, capsys

    def __call__(self, action: str, *words: str) -> tuple[int, str, str]:
        code = main(["key", action, "--data", str(self.directory), *words])
        return code, *self._capsys.readouterr()


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    (tmp_path / "data").mkdir()
    return Run(tmp_path / "data", capsys)


def test_it_is_made_once(run: Run) -> None:
    code, first, err = run("show")
    assert (code, err) == (0, "")
    assert run("show")[1] == first
    path = run.directory / "signing.pem"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read(path).certificate.fingerprint in first


def test_the_certificate_is_exported_and_nothing_else(run: Run, tmp_path: Path) -> None:
    fingerprint = json.loads(run("show", "--json")[1])["fingerprint"]
    assert run("export", "--out", str(tmp_path / "own.cer")) == (0, f"{fingerprint}\n", "")
    text = (tmp_path / "own.cer").read_text()
    assert text == run("export")[1]
    assert "PRIVATE" not in text
    assert load_certificate(pem_to_der(text.encode())).fingerprint == fingerprint


def test_a_new_key(run: Run) -> None:
    before = run("show")[1]
    after = run("rotate")[1]
    assert after != before
    assert run("show")[1] == after


def test_a_missing_directory(run: Run) -> None:
    run.directory.rmdir()
    code, out, err = run("show")
    assert (code, out) == (1, "")
    assert "no such data directory" in err


def test_a_file_that_others_can_read_is_refused(run: Run) -> None:
    run("show")
    (run.directory / "signing.pem").chmod(0o640)
    code, out, err = run("show")
    assert (code, out) == (1, "")
    assert "chmod 600" in err
