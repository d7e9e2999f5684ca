"""Logons with Kerberos, at a KDC of our own; skipped where that or tiercel[kerberos] is missing."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rpc.logons import KINDS, LEVELS, PRIVACY, exchange, log_on, tokens
from tiercel.model.sid import SecurityIdentifier
from tiercel.rpc.authentication import (
    Credentials,
    KerberosServer,
    NtlmServer,
    acceptors,
    initiator,
    kerberos_is_available,
    keytab,
    password,
)
from tiercel.rpc.authentication.kerberos import GssProtector
from tiercel.rpc.authentication.spnego_acceptor import SpnegoAcceptor
from tiercel.rpc.security import AuthenticationError, AuthenticationLevel, AuthenticationType, Providers
from tiercel.security.accounts import Account, Accounts, stable_sid
from tiercel.security.nt_hash import nt_hash

REALM, HOST = "EXAMPLE.ORG", "linux-host"
SID = SecurityIdentifier.parse("S-1-5-21-1-2-3-1001")
ACCOUNTS = Accounts([Account("reader", REALM, SID, nt_hash("secret"))])
KERBEROS, SPNEGO = AuthenticationType.KERBEROS, AuthenticationType.SPNEGO
SBIN = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
TOOLS = {name: shutil.which(name, path=SBIN) for name in ("krb5kdc", "kdb5_util", "kadmin.local")}

pytestmark = [
    pytest.mark.skipif(not kerberos_is_available(), reason="tiercel[kerberos] is not installed"),
    pytest.mark.skipif(None in TOOLS.values(), reason="there is no KDC: Debian has one in krb5-kdc"),
]
each_kind = pytest.mark.parametrize("kind", [KERBEROS, SPNEGO], ids=lambda kind: kind.name)


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A KDC that knows two users and this computer."""
    folder = tmp_path_factory.mktemp("realm")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "krb5.conf").write_text(
        f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n rdns = false\n"
        f" dns_canonicalize_hostname = false\n[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
        f"[domain_realm]\n {HOST} = {REALM}\n",
        "utf-8",
    )
    (folder / "kdc.conf").write_text(
        f"[realms]\n {REALM} = {{\n  database_name = {folder}/principal\n  key_stash_file = {folder}/stash\n"
        f"  kdc_listen = 127.0.0.1:{port}\n  kdc_tcp_listen = 127.0.0.1:{port}\n }}\n"
        + os.environ.get("TIERCEL_TEST_KDC", ""),
        "utf-8",
    )
    patch = pytest.MonkeyPatch()
    patch.setenv("KRB5_CONFIG", f"{folder}/krb5.conf:{folder}/kdc.conf")
    patch.setenv("KRB5_KDC_PROFILE", f"{folder}/kdc.conf")
    patch.setenv("KRB5CCNAME", f"FILE:{folder}/cache")
    run("kdb5_util", "create", "-s", "-P", "master", "-r", REALM)
    for request in (
        "addprinc -pw secret reader",
        "addprinc -pw other stranger",
        f"addprinc -randkey host/{HOST}",
        f"ktadd -k {folder}/keytab host/{HOST}",
        f"ktadd -norandkey -k {folder}/reader.keytab reader",
    ):
        run("kadmin.local", "-r", REALM, "-q", request)
    kdc = subprocess.Popen(  # noqa: S603
        [str(TOOLS["krb5kdc"]), "-n", "-r", REALM], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while kdc.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.05)
    yield folder
    kdc.terminate()
    kdc.wait()
    patch.undo()


def run(name: str, *words: str) -> None:
    subprocess.run([str(TOOLS[name]), *words], check=True, capture_output=True)  # noqa: S603


@pytest.fixture
def providers(realm: Path) -> Providers:
    return acceptors(NtlmServer(ACCOUNTS, HOST), KerberosServer(ACCOUNTS, realm / "keytab"))


def reader(realm: Path, *, by_key: bool = False) -> Credentials:
    name = f"reader@{REALM}"
    return keytab(realm / "reader.keytab", name) if by_key else password(name, "secret")


@each_kind
@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
@pytest.mark.parametrize("by_key", [False, True], ids=["password", "keytab"])
def test_every_level(
    realm: Path, providers: Providers, kind: AuthenticationType, level: AuthenticationLevel, *, by_key: bool
) -> None:
    client = initiator(reader(realm, by_key=by_key), HOST, kind, level)
    server = providers[kind](level)
    log_on(client, server)
    assert server.is_complete
    assert client.is_complete
    assert server.identity is not None
    assert (str(server.identity), server.identity.sid) == (f"{REALM}\\reader", SID)
    assert not server.signs_headers_always
    if level.is_signed:
        exchange(client, server, level)


def test_who_has_no_line_in_the_file(realm: Path, providers: Providers) -> None:
    del realm
    client = initiator(password(f"stranger@{REALM}", "other"), HOST, KERBEROS)
    server = providers[KERBEROS](PRIVACY)
    log_on(client, server)
    assert server.identity is not None
    assert server.identity.sid == stable_sid("stranger", REALM)


def test_only_the_stub_is_protected_where_headers_are_not(realm: Path, providers: Providers) -> None:
    client, server = initiator(reader(realm), HOST, KERBEROS), providers[KERBEROS](PRIVACY)
    log_on(client, server)
    sealed, signature = client.wrap(b"", b"stub", b"")
    assert server.unwrap(b"", sealed, b"", signature) == b"stub"


def test_spnego_falls_back_to_ntlm(realm: Path) -> None:
    """The client begins with Kerberos, which the server has not: the list of mechanisms is then signed."""
    server = acceptors(NtlmServer(ACCOUNTS, HOST))[SPNEGO](PRIVACY)
    client = initiator(reader(realm), HOST, SPNEGO)
    log_on(client, server)
    assert server.is_complete
    exchange(client, server, PRIVACY)
    assert isinstance(server, SpnegoAcceptor)
    assert not isinstance(server.protector, GssProtector)


@each_kind
def test_a_recorded_logon(realm: Path, providers: Providers, kind: AuthenticationType) -> None:
    recorded = list(tokens(initiator(reader(realm), HOST, kind), providers[kind](PRIVACY)))
    server = providers[kind](PRIVACY)

    def replay() -> None:
        server.step(recorded[0])
        server.step(recorded[2])

    with pytest.raises(AuthenticationError, match="the logon was refused"):
        replay()
    assert not server.is_complete


@pytest.mark.parametrize("leg", [0, 2])
def test_changed_tokens(realm: Path, providers: Providers, leg: int) -> None:
    for at in range(5, 90, 7):
        client, server = initiator(reader(realm), HOST, KERBEROS), providers[KERBEROS](PRIVACY)

        def flip(here: int, token: bytes, at: int = at) -> bytes:
            return (
                token if here != leg else token[:-at] + bytes([token[-at] ^ 4]) + token[len(token) - at + 1 :]
            )

        with pytest.raises(AuthenticationError):
            log_on(client, server, flip)
        assert not server.is_complete


@pytest.mark.parametrize("level", [AuthenticationLevel.INTEGRITY, PRIVACY])
def test_changed_fragments(realm: Path, providers: Providers, level: AuthenticationLevel) -> None:
    for part in range(4):
        client, server = initiator(reader(realm), HOST, KERBEROS, level), providers[KERBEROS](level)
        log_on(client, server)
        parts = [b"header", b"some stub", b"trailer"]
        if level.is_sealed:
            parts[1], signature = client.wrap(*parts)
        else:
            signature = client.sign(*parts)
        parts.append(signature)
        parts[part] = parts[part][:-1] + bytes([parts[part][-1] ^ 1])
        check = server.unwrap if level.is_sealed else server.verify
        with pytest.raises(AuthenticationError):
            check(*parts)
        assert not server.is_complete


def test_a_wrong_password_and_no_keytab(realm: Path, providers: Providers) -> None:
    with pytest.raises(AuthenticationError, match=f"cannot log on to {HOST}: Decrypt integrity check failed"):
        initiator(password(f"reader@{REALM}", "wrong"), HOST, KERBEROS)
    heard: list[str] = []
    server = KerberosServer(ACCOUNTS, realm / "none", heard.append)(PRIVACY)
    with pytest.raises(AuthenticationError, match="the logon was refused"):
        server.step(initiator(reader(realm), HOST, KERBEROS).step(b"") or b"")
    assert heard
    with pytest.raises(AuthenticationError, match="the logon was refused"):
        providers[KERBEROS](PRIVACY).step(b"nonsense")
    assert set(KINDS) <= set(providers)
