"""What the configuration lets callers prove themselves with."""

import logging
from pathlib import Path

import pytest

from tiercel.rpc.authentication import initiator, password
from tiercel.rpc.security import AuthenticationError, AuthenticationLevel, AuthenticationType
from tiercel.security.accounts import Account
from tiercel.security.nt_hash import nt_hash
from tiercel.server import logons
from tiercel.server.account_file import change
from tiercel.server.config import AccountOptions, ConfigError

NTLM, SPNEGO, KERBEROS = AuthenticationType.NTLM, AuthenticationType.SPNEGO, AuthenticationType.KERBEROS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    account = Account("reader", "", None, nt_hash("secret"))
    change(tmp_path / "accounts", lambda old: old.with_account(account), create=True)
    return tmp_path / "accounts"


def log_on(path: Path, user: str, secret: str) -> str:
    server = logons.providers(AccountOptions(file=str(path)), "HOST")[NTLM](AuthenticationLevel.PRIVACY)
    client = initiator(password(user, secret), "host")
    challenge = server.step(client.step(b"") or b"")
    server.step(client.step(challenge or b"") or b"")
    return str(server.identity)


def test_nothing_is_configured() -> None:
    assert logons.providers(AccountOptions(), "HOST") == {}


def test_a_file_of_accounts(path: Path) -> None:
    assert set(logons.providers(AccountOptions(file=str(path)), "HOST")) == {NTLM, SPNEGO}
    assert log_on(path, "ANY\\reader", "secret") == "reader"


def test_the_log_hears_why(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tiercel")
    with pytest.raises(AuthenticationError):
        log_on(path, "D\\read\ner" + "x" * 500, "secret")
    with pytest.raises(AuthenticationError):
        log_on(path.with_name("none"), "reader", "secret")
    assert [record.message for record in caplog.records] == [
        "logon_refused",
        "accounts_unusable",
        "logon_refused",
    ]
    first = str(vars(caplog.records[0])["tiercel_fields"]["reason"])
    assert first.startswith("'D\\\\read\\ner")
    assert first.endswith("': there is no such account")
    assert len(first) < 200


def test_a_keytab(monkeypatch: pytest.MonkeyPatch) -> None:
    options = AccountOptions(keytab="/etc/krb5.keytab")
    monkeypatch.setattr(logons, "kerberos_is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"pip install tiercel\[kerberos\]"):
        logons.providers(options, "HOST")
    monkeypatch.setattr(logons, "kerberos_is_available", lambda: True)
    assert set(logons.providers(options, "HOST")) == {KERBEROS, SPNEGO}
