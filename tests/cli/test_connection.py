"""With whom the verbs speak: a daemon that runs, one elsewhere, a store at rest, and nobody."""

import os
import resource
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Thread

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import tiercel
from tiercel.store import MIN_MAX_BYTES

from .running_verbs import Daemon, Run


@contextmanager
def a_stranger(folder: Path) -> Iterator[str]:
    """A server with a certificate of its own making."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "stranger")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "pem").write_bytes(secret + certificate.public_bytes(Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "pem")

    def answer() -> None:
        connection, _ = listener.accept()
        with suppress(OSError), context.wrap_socket(connection, server_side=True):
            pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=answer, daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


@contextmanager
def a_server(answer: bytes, asked: list[bytes] | None = None) -> Iterator[str]:
    """A server that gives every connection the same answer, and hangs up."""

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    request = connection.recv(65536)
                    if asked is not None:
                        asked.append(request)
                    connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


class TestNobody:
    def test_no_daemon(self, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("TIERCEL_DATA")
        line = run.refused(69, "ls")
        assert "data: no daemon runs here" in line
        assert "tiercel serve --data data" in line
        assert "--server" in line

    def test_a_store_at_rest_that_nobody_named(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        with tiercel.open(tmp_path / "data"):
            pass
        monkeypatch.setenv("TIERCEL_DATA", str(tmp_path / "data"))
        line = run.refused(69, "ls")
        assert "no daemon runs on this store" in line
        assert f"--data {tmp_path}/data" in line

    def test_no_daemon_elsewhere(self, run: Run) -> None:
        line = run.refused(69, "ls", "--server", "http://127.0.0.1:9")
        assert "http://127.0.0.1:9: cannot connect (Connection refused). Check the address" in line

    def test_a_certificate_that_nobody_knows(self, run: Run, tmp_path: Path) -> None:
        with a_stranger(tmp_path) as url:
            line = run.refused(69, "ls", "--server", url)
        assert "CERTIFICATE_VERIFY_FAILED" in line
        assert "SSL_CERT_FILE" in line

    def test_no_address(self, run: Run) -> None:
        assert "write it as http://HOST:8801" in run.refused(2, "ls", "--server", "ftp://host")
        for wrong in ("host:port", "http://127.0.0.1:99999", "http://[::1", "http://"):
            assert "HOST:8801" in run.refused(2, "ls", "--server", wrong)
        assert "127.0.0.1:9: cannot connect" in run.refused(69, "ls", "--server", "127.0.0.1:9")

    def test_a_server_that_answers_in_another_way(self, run: Run) -> None:
        with a_server(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 5\r\n\r\nsorry") as url:
            line = run.refused(1, "ls", "--server", url)
        assert f"GET {url}/api/v1/queues: HTTP status 502, not from a queue manager" in line

    def test_a_server_that_hangs_up(self, run: Run) -> None:
        with a_server(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{") as url:
            assert "connection lost" in run.refused(69, "ls", "--server", url)

    def test_through_a_proxy(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        answer = b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"queues": []}'
        asked: list[bytes] = []
        with a_server(answer.replace(b"13", b"14"), asked) as url:
            monkeypatch.setenv("http_proxy", url.replace("http://", "http://me:secret@"))
            run("ls", "--server", "http://far.example:8801")
            assert asked[0].startswith(b"GET http://far.example:8801/api/v1/queues HTTP/1.1\r\n")
            assert b"Proxy-Authorization: Basic bWU6c2VjcmV0\r\n" in asked[0]
            monkeypatch.setenv("no_proxy", "127.0.0.1")
            assert "127.0.0.1:9: cannot connect" in run.refused(69, "ls", "--server", "127.0.0.1:9")

    def test_something_else_answers(self, run: Run, daemon: Daemon) -> None:
        line = run.refused(5, "ls", "--server", f"{daemon.url}/other")
        assert "MQ_ERROR" in line

    def test_both(self, run: Run, tmp_path: Path) -> None:
        result = run("ls", "--server", "http://h", "--data", tmp_path)
        assert result.code == 2
        assert "use only one of these" in result.err


class TestElsewhere:
    def test_a_token_from_a_file_and_from_the_environment(
        self, run: Run, daemon: Daemon, queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "token").write_text(f"{daemon.tokens['read']}\n")
        where = ["--server", daemon.url, "--token-file", tmp_path / "token"]
        assert run.fine("count", queue, *where).out == "0\n"
        monkeypatch.setenv("TIERCEL_SERVER", daemon.url)
        monkeypatch.setenv("TIERCEL_TOKEN", daemon.tokens["send"])
        run.fine("send", queue, "hello")
        assert "No such file" in run.refused(2, "count", queue, "--token-file", tmp_path / "none")
        (tmp_path / "token").write_bytes(b"\xff two words")
        assert "not a valid token" in run.refused(2, "count", queue, "--token-file", tmp_path / "token")

    def test_a_token_without_the_role(
        self, run: Run, daemon: Daemon, queue: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TIERCEL_SERVER", daemon.url)
        monkeypatch.setenv("TIERCEL_TOKEN", daemon.tokens["read"])
        for words in ("send --text x", "receive", "purge --yes", "rm --yes"):
            line = run.refused(4, *words.split(), queue)
            assert "MQ_ERROR_ACCESS_DENIED" in line
            assert "read" in line  # what the token may do
        assert run.fine("count", queue).out == "0\n"

    def test_no_token_and_a_wrong_one(
        self, run: Run, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TIERCEL_SERVER", daemon.url)
        line = run.refused(4, "ls")
        assert "missing or unknown token" in line
        assert "--token-file FILE or TIERCEL_TOKEN" in line
        monkeypatch.setenv("TIERCEL_TOKEN", "tiercel_wrong")
        assert "missing or unknown token" in run.refused(4, "ls")


class TestStoreAtRest:
    @pytest.fixture
    def data(self, tmp_path: Path) -> Path:
        with tiercel.open(tmp_path / "data") as qm:
            orders = qm.create_queue(r".\private$\orders")
            orders.send(tiercel.Message(b"hello", label="order 7", delivery=1))
            qm.create_queue(r".\private$\paid", transactional=True)
        return tmp_path / "data"

    def test_is_looked_at_and_changed(self, run: Run, data: Path) -> None:
        assert run.fine("count", "orders", "--data", data).out == "1\n"
        assert run.fine("peek", "orders", "--data", data).lines[0] == "order 7"
        run.fine("create", "new", "--data", data)
        run.fine("receive", "orders", "--data", data)
        run.fine("send", "new", "x", "--recoverable", "--data", data)
        run.fine("send", "paid", "x", "--data", data)
        assert sorted(each.name for each in data.iterdir() if "sock" in each.name) == []
        with tiercel.open(data) as qm:
            counts = {queue.path_name.rpartition("\\")[2]: queue.count for queue in qm.queues()}
        assert counts == {"orders": 0, "paid": 1, "new": 1}

    def test_takes_no_message_that_would_end_with_the_program(
        self, run: Run, data: Path, tmp_path: Path
    ) -> None:
        line = run.refused(1, "send", "orders", "x", "--data", data)
        assert "no daemon is running to keep an express message in memory" in line
        assert "Add --recoverable" in line
        (tmp_path / "f").write_text('{"text": "x"}\n{"text": "y", "delivery": "recoverable"}\n')
        line = run.refused(1, "import", "orders", tmp_path / "f", "--data", data)
        assert "1 message would be express" in line
        run.fine("import", "orders", tmp_path / "f", "--recoverable", "--data", data)
        run.fine("import", "paid", tmp_path / "f", "--data", data)
        assert run.fine("count", "orders", "--data", data).out == "3\n"

    def test_without_room_says_so_once(self, tmp_path: Path) -> None:
        with tiercel.open(tmp_path / "data", max_bytes=MIN_MAX_BYTES):
            pass
        command = [sys.executable, "-m", "tiercel", "create", "orders", "--data", str(tmp_path / "data")]
        full = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (MIN_MAX_BYTES, resource.RLIM_INFINITY))
        done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=full)  # noqa: S603
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert "the disk has no more space" in line

    def test_that_another_process_has(self, run: Run, data: Path) -> None:
        with tiercel.open(data):
            line = run.refused(73, "ls", "--data", data)
        assert f"process {os.getpid()}" in line

    def test_no_store(self, run: Run, tmp_path: Path) -> None:
        assert "there is no store" in run.refused(69, "ls", "--data", tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_a_path_that_is_longer_than_a_socket_may_be(self, run: Run, data: Path, tmp_path: Path) -> None:
        long = tmp_path / ("x" * 100) / ("y" * 100)
        long.parent.mkdir()
        data.rename(long)
        assert run.fine("count", "orders", "--data", long).out == "1\n"
