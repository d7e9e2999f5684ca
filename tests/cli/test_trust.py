"""`tiercel trust`: certificates and keys are added, listed and removed."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from message_security.encrypting import ring
from message_security.signing import certificate
from tiercel.cli import main
from tiercel.cli.trust import _fetched
from tiercel.message_security.certificates import fingerprint
from tiercel.message_security.exchange_keys import KeyRing
from tiercel.message_security.providers import ADVANCED, ENHANCED
from tiercel.message_security.trust import TrustError
from tiercel.server import exchange_key_file
from tiercel.server.trust_file import read

from .running_verbs import Daemon

SID = "S-1-5-21-1-2-3-1001"
GUID = "00112233-4455-6677-8899-aabbccddeeff"


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


def test_groups(run: Run) -> None:
    run("add", "alice", "alice.cer", "--sid", SID, "--group", "S-1-5-32-545", "--group", "S-1-5-32-546")
    assert run("ls")[1].startswith(f"alice {SID},S-1-5-32-545,S-1-5-32-546 CN=alice until ")
    assert json.loads(run("ls", "--json")[1])["groups"] == ["S-1-5-32-545", "S-1-5-32-546"]


def test_certificates_as_the_directory_has_them(run: Run, tmp_path: Path) -> None:
    run("add", "a", "alice.cer", "--sid", SID)
    run("add", "b", "bob.cer", "--sid", SID)
    exported = str(tmp_path / "user.cer")
    assert run("export", SID, "--out", exported) == (0, "", "")
    run("rm", "a")
    run("rm", "b")
    shown = [fingerprint(certificate(name)) for name in ("alice", "bob")]
    assert run("add", "both", exported, "--sid", SID) == (0, "\n".join(shown) + "\n", "")
    assert [each.name for each in read(run.path)] == ["both", "both-2"]


def test_an_account_without_certificates_is_not_exported(run: Run, tmp_path: Path) -> None:
    run("add", "alice", "alice.cer", "--sid", SID)
    code, _, err = run("export", "S-1-5-32-545", "--out", str(tmp_path / "nothing"))
    assert code == 1
    assert "no certificate of this account" in err
    assert not (tmp_path / "nothing").exists()


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
        (["add", "bob", "missing.cer", "--sid", SID], "missing.cer: cannot be read (No such"),
        (["add", "bob", "bob.cer", "--sid", SID, "--group", "x"], "not a valid SID"),
        (["export", SID, "--out", "/"], "cannot be written"),
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


class TestKeysOfQueueManagers:
    def test_import_list_remove(self, run: Run, tmp_path: Path) -> None:
        own = ring(ADVANCED)
        path = tmp_path / "there.key"
        path.write_bytes(own.keys[0].blob)
        added = run("add-key", "there", str(path), "--guid", GUID, "--host", "There", "--host", "192.0.2.7")
        assert added == (0, f"{own.fingerprint}\n", "")
        line = f"there {GUID} there,192.0.2.7 {ADVANCED.name}\n    {own.fingerprint}\n"
        assert run("ls")[1] == line
        row = json.loads(run("ls", "--json")[1])
        assert (row["guid"], row["hosts"]) == (GUID, ["there", "192.0.2.7"])
        assert run("rm", "there") == (0, "", "")
        assert read(run.path).queue_managers == []

    def test_a_key_of_an_older_provider(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "there.key"
        path.write_bytes(ring(ENHANCED).keys[0].blob)
        assert run("add-key", "there", str(path), "--guid", GUID, "--provider", "enhanced")[0] == 0
        (found,) = read(run.path).queue_managers
        assert found.keys == ring(ENHANCED).published().keys

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["there", "alice.cer", "--guid", "guid"], "not a valid GUID"),
            (["there", "missing.cer", "--guid", GUID], "cannot be read"),
            (["there", "alice.cer", "--guid", GUID], "neither a PUBLICKEYBLOB"),
        ],
    )
    def test_refused(self, run: Run, words: list[str], message: str) -> None:
        code, out, err = run("add-key", *words)
        assert (code, out) == (1, "")
        assert message in err
        assert not run.path.exists()


class TestFetch:
    """From the API of a running daemon, once the fingerprint is confirmed."""

    @pytest.fixture
    def token(self, daemon: Daemon, tmp_path: Path) -> str:
        path = tmp_path / "token"
        path.write_text(daemon.tokens["read"])
        return str(path)

    @pytest.fixture(autouse=True)
    def keys(self, daemon: Daemon) -> KeyRing:
        """Made once for all tests, because that takes some tenths of a second."""
        return exchange_key_file.with_missing(daemon.data / "exchange.pem", legacy=False)

    def test_it_is_added_with_its_host(self, run: Run, daemon: Daemon, token: str, keys: KeyRing) -> None:
        words = ("fetch", daemon.url, "--token-file", token, "--name", "there", "--host", "there")
        code, out, err = run(*words, "--fingerprint", keys.fingerprint.replace(":", "").lower())
        assert (code, out, err) == (0, f"{keys.fingerprint}\n", "")
        (found,) = read(run.path).queue_managers
        assert (found.name, found.hosts, found.keys) == (
            "there",
            ("127.0.0.1", "there"),
            keys.published().keys,
        )
        assert run(*words, "--yes")[0] == 0  # again, as after a rotation
        assert len(read(run.path).queue_managers) == 1

    def test_another_fingerprint_is_refused(self, run: Run, daemon: Daemon, token: str) -> None:
        code, out, err = run("fetch", daemon.url, "--token-file", token, "--fingerprint", "AB:CD")
        assert (code, out) == (1, "")
        assert "not the expected one" in err
        assert not run.path.exists()

    def test_without_a_terminal_it_must_be_confirmed(self, run: Run, daemon: Daemon, token: str) -> None:
        code, out, err = run("fetch", daemon.url, "--token-file", token)
        assert (code, out) == (1, "")
        assert "compare the fingerprint" in err
        assert not run.path.exists()

    def test_without_a_token(self, run: Run, daemon: Daemon) -> None:
        code, _, err = run("fetch", daemon.url, "--yes")
        assert (code, run.path.exists()) == (4, False)
        assert "token" in err


@pytest.mark.parametrize(
    "told",
    [None, [], {}, {"keys": "?", "guid": GUID}, {"keys": "AAAA", "guid": GUID}, {"keys": "", "guid": 7}],
)
def test_an_answer_without_keys(told: Any) -> None:
    with pytest.raises(TrustError):
        _fetched(told, "there", ("there",))
