"""Who may come in: tokens and their roles, names of this computer, TLS."""

import datetime as dt
import ipaddress
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import tiercel
from data.served import Client, Served, arrow, serving
from tiercel.cli import main
from tiercel.security.tokens import Role

QUEUE = r".\private$\orders"


def prepare(manager: tiercel.EmbeddedQueueManager) -> None:
    manager.create_queue(QUEUE)


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tiercel test")])
    now = dt.datetime.now(dt.UTC)
    built = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(built.public_bytes(serialization.Encoding.PEM))
    files[1].touch(0o600)
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return files


def add_token(file: Path, name: str, roles: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["token", "add", "--file", str(file), name, "--role", roles]) == 0
    return capsys.readouterr().out.strip()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path]]:
    """A daemon with tokens and TLS, and the file of its tokens."""
    folder = tmp_path_factory.mktemp("authorization")
    cert, key = certificate(folder)
    tokens = folder / "tokens"
    options = f'port = 0\ntokens = "{tokens}"\ntls_certificate = "{cert}"\ntls_key = "{key}"'
    with serving(folder, prepare, options, ca=cert) as served:
        yield served, tokens


class TestTokens:
    def test_none_and_a_wrong_one(
        self, guarded: tuple[Served, Path], capsys: pytest.CaptureFixture[str]
    ) -> None:
        served, file = guarded
        add_token(file, "somebody", "admin", capsys)
        ca = file.parent / "certificate.pem"
        for token in ("", "tiercel_wrong", "\xff"):
            answer = served.client(token, ca).get("/queues")
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert "tiercel token add" in answer["fix"]
        assert served.get("/queues").status == 401
        assert served.ask("GET", "/queues", None, {"Authorization": "Basic eDp5"}).status == 401

    @pytest.mark.parametrize("role", list(Role))
    def test_roles(
        self, guarded: tuple[Served, Path], role: Role, capsys: pytest.CaptureFixture[str]
    ) -> None:
        served, file = guarded
        client = served.client(add_token(file, f"only-{role}", role, capsys), file.parent / "certificate.pem")
        allowed = {
            Role.READ: client.get("/queues").status,
            Role.RECEIVE: client.post("/consumers/c/attach", queues=[QUEUE]).status,
            Role.SEND: client.put(f"/stages/{role}/1/0/a", arrow([{"body": b""}])).status,
        }
        assert allowed == {each: 200 if each in role.grants else 403 for each in allowed}
        if role is Role.SEND:
            answer = client.get("/head", queue=QUEUE)
            assert "lacks the role read" in answer["detail"]
            assert answer["code"] == "MQ_ERROR_ACCESS_DENIED"

    def test_a_change_counts_at_once(
        self, guarded: tuple[Served, Path], capsys: pytest.CaptureFixture[str]
    ) -> None:
        served, file = guarded
        ca = file.parent / "certificate.pem"
        one = served.client(add_token(file, "one", "read", capsys), ca)
        other = served.client(add_token(file, "other", "read", capsys), ca)
        assert (one.get("/queues").status, other.get("/queues").status) == (200, 200)
        assert main(["token", "rm", "--file", str(file), "one"]) == 0
        assert (one.get("/queues").status, other.get("/queues").status) == (401, 200)
        file.chmod(0o644)
        assert other.get("/queues").status == 401
        assert "chmod 600" in served.event("tokens_unusable")["reason"]
        file.chmod(0o600)
        assert other.get("/queues").status == 200


class TestTls:
    def test_is_spoken(self, guarded: tuple[Served, Path], capsys: pytest.CaptureFixture[str]) -> None:
        served, file = guarded
        assert served.start["data_endpoint"].startswith("https://127.0.0.1:")
        client = served.client(add_token(file, "tls", "read", capsys), file.parent / "certificate.pem")
        assert client.read(queue=QUEUE, lo=0, hi=5).num_rows == 0

    def test_and_nothing_else(self, guarded: tuple[Served, Path]) -> None:
        url = guarded[0].start["data_endpoint"]
        with pytest.raises(OSError, match=r"."):
            Client(url.replace("https", "http")).get("/queues")
        stranger = Client(url)
        stranger._tls = ssl.create_default_context()
        with pytest.raises(ssl.SSLCertVerificationError):
            stranger.get("/queues")


@pytest.fixture(scope="module")
def open_to_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("open"), prepare) as served:
        yield served


class TestWithoutTokens:
    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1", "[::1]:9", "127.9.9.9"])
    def test_names_of_this_computer(self, open_to_all: Served, host: str) -> None:
        assert open_to_all.ask("GET", "/queues", None, {"Host": host}).status == 200

    @pytest.mark.parametrize("host", ["evil.example", "evil.example:8802", "192.0.2.1", "a b"])
    def test_other_names_are_refused(self, open_to_all: Served, host: str) -> None:
        answer = open_to_all.ask("GET", "/queues", None, {"Host": host})
        assert answer.status == 403
        assert "set tokens in [data]" in answer["fix"]
