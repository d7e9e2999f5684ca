"""`tiercel key`: shown, exported and replaced; the private key never leaves its file."""

import json
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

import tiercel
from tiercel.cli import main
from tiercel.message_security import exchange_keys
from tiercel.message_security.certificates import load_certificate, pem_to_der
from tiercel.message_security.providers import ADVANCED
from tiercel.message_security.trust import import_keys
from tiercel.server import exchange_key_file
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


class TestExchangeKeys:
    @pytest.fixture(autouse=True)
    def quick(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(exchange_keys, "_BITS", {ADVANCED: 1024})

    def test_they_are_made_once(self, run: Run) -> None:
        code, first, err = run("show", "--exchange")
        assert (code, err) == (0, "")
        assert run("show", "--exchange")[1] == first
        path = run.directory / "exchange.pem"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert exchange_key_file.read(path).fingerprint in first
        assert not (run.directory / "signing.pem").exists()

    def test_only_the_public_half_is_exported(self, run: Run, tmp_path: Path) -> None:
        out = tmp_path / "own.keys"
        code, fingerprint, _ = run("export", "--exchange", "--out", str(out))
        own = exchange_key_file.read(run.directory / "exchange.pem")
        assert (code, fingerprint) == (0, f"{own.fingerprint}\n")
        assert import_keys(out.read_bytes(), ADVANCED) == own.published().keys
        with pytest.raises(SystemExit):
            run("export", "--exchange")

    def test_the_old_key_stays_until_it_is_forgotten(self, run: Run) -> None:
        run("show", "--exchange")
        rows = [json.loads(line) for line in run("rotate", "--exchange", "--json")[1].splitlines()]
        assert [row["retired"] is None for row in rows] == [True, False]
        assert rows[0]["fingerprint"] != rows[1]["fingerprint"]
        assert len(run("rotate", "--exchange", "--forget-old")[1].splitlines()) == 2
        with pytest.raises(SystemExit):
            run("rotate", "--forget-old")

    def test_a_file_that_others_can_read_is_refused(self, run: Run) -> None:
        run("show", "--exchange")
        (run.directory / "exchange.pem").chmod(0o640)
        for words in (("show", "--exchange"), ("rotate", "--exchange")):
            code, out, err = run(*words)
            assert (code, out) == (1, "")
            assert "chmod 600" in err


def test_a_certificate_for_tls_names_the_queue_manager(run: Run, tmp_path: Path) -> None:
    with tiercel.open(run.directory) as qm:
        guid = qm.driver.engine.queue_manager.identifier
    code, out, err = run("certificate", "--out", str(tmp_path / "orders"), "--json")
    assert (code, err) == (0, "")
    made = x509.load_pem_x509_certificate((tmp_path / "orders.pem").read_bytes())
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == [guid.urn]
    fingerprint = made.fingerprint(hashes.SHA256()).hex(":").upper()
    assert json.loads(out) == {"guid": str(guid), "fingerprint": fingerprint}
    assert stat.S_IMODE((tmp_path / "orders.key").stat().st_mode) == 0o600
    lines = run("certificate", "--out", str(tmp_path / "again"))[1].splitlines()
    assert lines[0] == str(guid)
    assert len(lines) == 2
    code, _, err = run("certificate", "--out", str(tmp_path / "orders"))
    assert (code, "orders.key: cannot be created (File exists)" in err) == (1, True)
