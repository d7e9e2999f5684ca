"""Remote readers that log on with Kerberos, at a KDC on loopback, to a `tiercel serve` process."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import spnego

import tiercel
from rpc.logons import PRIVACY
from rpc.test_kerberos import ACCOUNTS, HOST, KERBEROS, REALM, SPNEGO, pytestmark, reader, realm, run
from tiercel.rpc.authentication import KerberosServer, initiator
from tiercel.rpc.security import AuthenticationError, AuthenticationType

from .conftest import Serve
from .served import Served

__all__ = ["pytestmark", "realm"]  # of theirs

KNOWN, OTHER = "localhost", "127.0.0.1"  # names of this computer: the keytab has a key for the first only
SKEW_S = 1


@pytest.fixture
def served(realm: Path, serve: Serve, tmp_path: Path) -> Served:
    """A daemon with the keys of one of its names, which takes encrypted calls only."""
    del realm  # has to be there
    keytab = tmp_path / "keytab"
    for request in (
        f"addprinc -randkey host/{KNOWN}",
        f"addprinc -randkey host/{OTHER}",
        f"ktadd -k {keytab} host/{KNOWN}",
    ):
        run("kadmin.local", "-r", REALM, "-q", request)
    options: dict[str, Any] = {"more": f'[accounts]\nkeytab = "{keytab}"\n', "least_level_local": "privacy"}
    return serve(b"first", b"second", **options)


@pytest.mark.conformance("MQRR-014")
@pytest.mark.parametrize("by_key", [False, True], ids=["password", "keytab"])
def test_a_ticket_lets_a_reader_in(
    realm: Path, served: Served, transcript: Callable[[str], None], *, by_key: bool
) -> None:
    secret: dict[str, Any] = {"keytab": realm / "reader.keytab"} if by_key else {"password": "secret"}
    with tiercel.connect(KNOWN, port=served.port, user=f"reader@{REALM}", **secret) as remote:
        assert remote.queue("private$\\q").receive(0).body == b"first"
    assert served.left() == [b"second"]
    transcript(
        "\n".join(line for line in served.log.read_text("utf-8").splitlines() if "event=reader_" in line)
    )


def test_a_ticket_of_another_service_does_not(served: Served) -> None:
    """The KDC knows the name, but the daemon has no key for it."""
    user: dict[str, Any] = {"user": f"reader@{REALM}", "password": "secret"}
    with (
        pytest.raises(tiercel.AccessDeniedError),
        tiercel.connect(OTHER, port=served.port, **user) as remote,
    ):
        remote.queue("private$\\q").receive(0)
    assert served.left() == [b"first", b"second"]
    assert "logon_refused" in served.log.read_text("utf-8")


def test_a_name_that_the_kdc_does_not_know(realm: Path) -> None:
    client = initiator(reader(realm), "unknown-host", KERBEROS)
    with pytest.raises(AuthenticationError, match=r"cannot log on to unknown-host: .*not found"):
        client.step(b"")


@pytest.mark.parametrize("kind", [KERBEROS, SPNEGO], ids=lambda kind: kind.name)
def test_an_expired_ticket(realm: Path, tmp_path: Path, kind: AuthenticationType) -> None:
    cache = f"FILE:{tmp_path}/cache"
    subprocess.run(  # noqa: S603
        ["kinit", "-l", "1s", "-c", cache, "-k", "-t", f"{realm}/reader.keytab", "reader"],  # noqa: S607
        check=True,
    )
    time.sleep(2)
    with pytest.raises(AuthenticationError, match=rf"cannot log on to {HOST}: .*[Ee]xpired"):
        initiator([spnego.KerberosCCache(cache)], HOST, kind).step(b"")


def test_clocks_that_differ(realm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the server, a ticket that comes late looks like that of a client whose clock is behind."""
    token = initiator(reader(realm), HOST, KERBEROS).step(b"") or b""
    strict = tmp_path / "strict.conf"
    strict.write_text(f"[libdefaults]\n clockskew = {SKEW_S}\n", "utf-8")
    monkeypatch.setenv("KRB5_CONFIG", f"{strict}:{realm}/krb5.conf")
    time.sleep(SKEW_S + 2)
    heard: list[str] = []
    server = KerberosServer(ACCOUNTS, realm / "keytab", heard.append)(PRIVACY)
    with pytest.raises(AuthenticationError, match="the logon was refused"):
        server.step(token)
    assert "Clock skew too great" in heard[0]
    assert not server.is_complete
