"""The configuration: what is right is taken, what is wrong is said in one line."""

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from uuid import UUID

import pytest

from tiercel.binary.settings import Peer, Settings
from tiercel.server.config import Config, ConfigError, Endpoint, load, parse

DOCS = Path(__file__).parents[2] / "docs" / "operating.md"
GUID = "40d7c85b-be11-4984-a852-4488ea85537c"
TLS = '[tls]\ntls_certificate = "c"\ntls_key = "k"\ntls_ca = "a"\n'


def example() -> str:
    found = re.search(r"```toml\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def whole_example() -> str:
    """With the options that are commented out."""
    return re.sub(r"(?m)^# (?=\S+ = |\[\[)", "", example())


class TestTheExample:
    def test_is_what_holds_without_a_file(self) -> None:
        config = parse(example())
        assert config.node.data == "/var/lib/tiercel"
        for section in fields(Config):
            if section.name != "node":
                assert getattr(config, section.name) == getattr(Config(), section.name), section.name
        assert config.settings == Settings()

    def test_is_still_right_with_what_is_commented_out(self) -> None:
        config = parse(whole_example())
        assert [(peer.name, peer.guid) for peer in config.peers] == [("server-a", UUID(GUID))]
        assert config.hosts["server-b"] == Endpoint("192.0.2.8", 2801)
        assert config.settings.machines[UUID(GUID)] == ("server-a", "192.0.2.9")

    def test_names_every_option(self) -> None:
        shown = tomllib.loads(whole_example())
        assert set(shown.pop("peers")[0]) == {each.name for each in fields(Peer)}
        elsewhere = {"machines", "peers", "only_peers", "out_routing_servers", "in_routing_servers"}
        elsewhere |= {"routing_server", "partial_packet_bytes"}
        for section in fields(Config):
            kind = type(getattr(Config(), section.name))
            if kind not in {dict, tuple}:
                names = {each.name for each in fields(kind)} - (elsewhere if kind is Settings else set())
                assert set(shown[section.name]) == names, section.name


def test_the_protocol_gets_machines_and_routes() -> None:
    config = parse(
        f'[machines]\n"{GUID}" = "a"\n[routing]\nout_routing_servers = ["r1", "r2"]\nrouting_server = true\n'
        "[binary]\nwindow_size = 128\nresend_table_s = [1, 2]\ncleanup_ms = 7\n"
    )
    settings = config.settings
    assert settings.machines == {UUID(GUID): ("a",)}
    assert settings.out_routing_servers == ("r1", "r2")
    assert settings.routing_server
    assert (settings.window_size, settings.resend_table_s, settings.cleanup_ms) == (128, (1, 2), 7)


def test_the_protocol_gets_peers_and_routers() -> None:
    config = parse(
        f'[[peers]]\nname = "a"\nguid = "{GUID}"\naddresses = ["server-a", "192.0.2.0/24"]\n'
        '[[peers]]\nname = "b"\naddresses = ["2001:db8::/32"]\n'
        '[routing]\nin_routing_servers = ["r1", "192.0.2.0/28"]\n[access]\nonly_peers = true\n'
    )
    settings = config.settings
    assert settings.peers == (
        Peer(name="a", guid=UUID(GUID), addresses=("server-a", "192.0.2.0/24")),
        Peer(name="b", addresses=("2001:db8::/32",)),
    )
    assert settings.in_routing_servers == ("r1", "192.0.2.0/28")
    assert settings.only_peers


def test_a_peer_with_tls() -> None:
    (peer,) = parse(
        f'{TLS}[[peers]]\nname = "a"\nguid = "{GUID}"\ntls = "server-a:1812"\nfingerprint = "{"ab" * 32}"\n'
    ).peers
    assert (peer.tls, peer.fingerprint) == (("server-a", 1812), ":".join(["AB"] * 32))


def test_messages_over_http_get_the_signers_of_peers() -> None:
    peer = f'[[peers]]\nname = "a"\nguid = "{GUID}"\n'
    settings = parse(f'[srmp]\nxml_signatures = true\n{peer}signers = ["alice", "bob"]\n').srmp_settings()
    assert settings.xml_signatures
    assert settings.signers == {UUID(GUID): ("alice", "bob")}
    settings = parse(peer).srmp_settings()
    assert (settings.xml_signatures, settings.signers) == (False, {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[peers]\nname = 'a'", r"peers: must be a section, written \[\[peers\]\]"),
        ("peers = [1]", r"peers: must be a section, written \[\[peers\]\]"),
        ("[[peers]]\nguid = 'x'", "must be the GUID of a queue manager"),
        (f"[[peers]]\nguid = '{GUID}'", "name: required"),
        ("[[peers]]\nname = 'a'", "set guid, addresses, or both"),
        ("[[peers]]\nname = 'a'\naddresses = ['x']\nsigners = ['b']", "signers needs guid"),
        ("[[peers]]\nname = 'a'\naddresses = ['a b']", "must be a name or an address"),
        (
            "[[peers]]\nname = 'a'\ncolour = 1",
            "unknown option; valid are addresses, fingerprint, guid",
        ),
        ("[[peers]]\nname = 'a'\naddresses = ['x']\n" * 2, r"\[\[peers\]\] name = 'a': is used twice"),
        ("[routing]\nin_routing_servers = ['a b']", "must be a name or an address"),
        ("[limit]", r"\[limit\]: unknown section; valid are access, accounts, api, binary"),
        ("[limits]\nconnection = 3", r"\[limits\] connection: unknown option; valid are batch_bytes"),
        ('[limits]\nconnections = "3"', r"\[limits\] connections = '3': must be a whole number"),
        ("[limits]\nconnections = true", "must be a whole number"),
        ("[limits]\nconnections = 0", "must be 1 to 1000000"),
        ("[limits]\nconnections = 1.5", "must be a whole number"),
        ("[listen]\nport = 65536", "must be 0 to 65535"),
        ('[listen]\nhost = "a b"', "must be a name or an address"),
        ("[binary]\nping = 1", "must be true or false"),
        ("[binary]\nwindow_size = 0", "must be 1 to 65535"),
        ("[binary]\nmachines = {}", "unknown option"),
        ("[binary]\nresend_table_s = 30", "must be a list"),
        ("[binary]\nresend_table_s = [30, 0]", "1 to"),
        ("[binary]\nresend_table_s = []", r"resend_table_s = \[\]: must have at least one number"),
        ("[srmp]\nresend_table_s = []", "must have at least one number"),
        ("enabled = true", "^enabled: options stand in a section; valid are access, accounts, api"),
        ("[binary]\nretry_ms = 9\nretry_max_ms = 8", "retry_max_ms = 8: must be at least retry_ms"),
        ('[node]\ncomputer_name = "a\\\\b"', r"\[node\] computer_name"),
        ('[node]\ndata = ""', "must be the name of a file or directory"),
        ("[hosts]\na = 1", r"\[hosts\] a = 1: must be an address"),
        ('[hosts]\na = "1.2.3.4:99999"', "is not a valid port"),
        ('[hosts]\na = "[::1"', "bracket"),
        ('[machines]\na = "b"', "GUID"),
        (f'[machines]\n"{GUID}" = []', "must be a name or a list of names"),
        ('[accounts]\nkeytab = ""', "must be the name of a file or directory"),
        ('[data]\nenabled = true\nhost = "0.0.0.0"', "without tokens it must be a loopback"),
        ('[data]\nenabled = true\nhost = "host"', "without tokens it must be a loopback"),
        ('[data]\ntls_key = "k"', "set both, or neither"),
        ("[data]\nport = 65536", "must be 0 to 65535"),
        ("[data]\nprocesses = 0", "must be 1 to 64"),
        ('[api]\nenabled = true\nhost = "0.0.0.0"', r"\[api\] host.*without tokens it must be a loopback"),
        ('[api]\ntls_certificate = "c"', r"\[api\] tls_certificate, tls_key: set both"),
        ('[api]\naudit = ""', "must be the name of a file or directory"),
        ("[api]\nconnections = 0", "must be 1 to 100000"),
        ('[srmp]\ntls_certificate = "c"', r"\[srmp\] tls_certificate, tls_key: set both, or neither"),
        ('[srmp]\ntls_client_ca = "c"', "needs tls_certificate and tls_key"),
        ('[srmp]\nhttp_url = "mq.example"', "must be http://HOST or http://HOST:PORT, without a path"),
        ('[srmp]\nhttps_url = "http://mq.example"', "must be https://HOST or https://HOST:PORT"),
        ('[srmp]\nhttp_url = "http://mq.example/msmq"', "without a path"),
        ('[srmp]\nproxy = "proxy"', "the port is missing; write HOST:PORT"),
        ('[srmp]\nproxy = "http://proxy:3128"', "write HOST:PORT"),
        ('[srmp]\nreceipt_token = "never"', "must be required or optional"),
        ('[srmp]\ntrusted_proxies = ["x"]', "must be an address or a network"),
        ('[srmp]\naliases = ["a b"]', "must be a name or an address"),
        ('[tls]\ntls_certificate = "c"', r"\[tls\] tls_certificate, tls_key, tls_ca: set all, or none"),
        ('[tls]\nlisten = "0.0.0.0:1812"', r"\[tls\] listen.*needs tls_certificate, tls_key and tls_ca"),
        (f'{TLS}listen = "0.0.0.0"', "the port is missing; write HOST:PORT"),
        (f'{TLS}listen = "a b:1"', "write HOST:PORT"),
        ('[[peers]]\nname = "a"\naddresses = ["b"]\ntls = "b:1812"', "a: tls needs guid"),
        (
            f'[[peers]]\nname = "a"\nguid = "{GUID}"\ntls = "b:1812"',
            "needs tls_certificate, tls_key and tls_ca",
        ),
        (f'[[peers]]\nname = "a"\nguid = "{GUID}"\ntls = "b"', "the port is missing"),
        (f'[[peers]]\nname = "a"\nguid = "{GUID}"\nfingerprint = "{"AB" * 32}"', "fingerprint needs tls"),
        (f'[[peers]]\nname = "a"\nguid = "{GUID}"\nfingerprint = "AB"', "must be the SHA-256 of a cert"),
        ('[accounts]\nfile = ""', "must be the name of a file or directory"),
        ('[security]\ntrust = ""', "must be the name of a file or directory"),
        ('[security]\nunknown_certificates = "no"', "must be auto or accept or refuse"),
        ('[log]\nlevel = "loud"', "must be debug or info or warning or error"),
        ("limits = 3", r"limits: must be a section, written \[limits\]"),
        ("[limits", "not valid TOML"),
        ("[limits]\nconnections = 1\nconnections = 2", "not valid TOML"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"# \xe4")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(tmp_path / "latin.toml")
    (tmp_path / "bad.toml").write_text("[x]", "utf-8")
    with pytest.raises(ConfigError, match=r"bad\.toml: \[x\]"):
        load(tmp_path / "bad.toml")


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("10.0.0.1:1900", "10.0.0.1", 1900),
        ("10.0.0.1", "10.0.0.1", 1801),
        (":1900", "127.0.0.1", 1900),
        ("[::1]:1900", "::1", 1900),
        ("[::1]", "::1", 1801),
        ("::1", "::1", 1801),
        ("server-a.example:0", "server-a.example", 0),
    ],
)
def test_listen(text: str, host: str, port: int) -> None:
    listen = Config().with_listen(text).listen
    assert (listen.host, listen.port) == (host, port)


@pytest.mark.parametrize("text", ["", "a:b", "a b:1", "1.2.3.4:", "[x]:1", "a:-1"])
def test_listen_that_makes_no_sense(text: str) -> None:
    with pytest.raises(ConfigError, match="--listen"):
        Config().with_listen(text)
