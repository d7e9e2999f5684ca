"""The client of the data endpoint: refusals, losses, certificates and tokens."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pyarrow as pa
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pyspark_msmq.data_client import DataClient, EndpointError, EndpointLostError
from pyspark_msmq.options import read_batch_options
from pyspark_msmq.partitions import Piece
from pyspark_msmq.reading import read_piece
from spark.served import Served
from tiercel.security.tokens import Bearer, Role, digest_of, new_token
from tiercel.server import token_file

QUEUE = r".\private$\orders"
Client = Callable[..., DataClient]


@pytest.fixture
def endpoint() -> Iterator[Callable[..., DataClient]]:
    """Clients that do not wait long."""
    made: list[DataClient] = []

    def make(url: str, patience_s: float = 0.3, **options: str) -> DataClient:
        read = read_batch_options({"url": url, "queue": QUEUE, **options})
        made.append(DataClient(read.endpoint, patience_s=patience_s))
        return made[-1]

    yield make
    for each in made:
        each.close()


class TestRefusals:
    def test_the_words_of_the_queue_manager(self, endpoint: Client, daemon: Served) -> None:
        with pytest.raises(EndpointError, match="nowhere") as refused:
            endpoint(daemon.url).head(r".\private$\nowhere")
        assert (refused.value.status, refused.value.code) == (404, "MQ_ERROR_QUEUE_NOT_FOUND")

    def test_nobody_is_there(self, endpoint: Client) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{probe.getsockname()[1]}"
            with pytest.raises(EndpointLostError, match=r"cannot reach .*refused.* option url"):
                endpoint(url).queues()


@contextmanager
def answering(*answers: bytes, requests: list[bytes] | None = None) -> Iterator[str]:
    """A server that gives these bytes, one after the other, and hangs up: no real one can be made to."""
    heard = [] if requests is None else requests

    def serve() -> None:
        for answer in answers:
            connection, _ = listener.accept()
            with connection:
                heard.append(connection.recv(65536))
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def http(status: str, body: bytes, *headers: str) -> bytes:
    return (
        "\r\n".join([f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", ""]).encode() + body
    )


def chunked(*chunks: bytes, whole: bool = True) -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + body + (b"0\r\n\r\n" if whole else b"")


def stream_of(*numbers: int) -> bytes:
    sink = pa.BufferOutputStream()
    schema = pa.schema([("lookup_id", pa.int64()), ("claim_seq", pa.int64())])
    with pa.ipc.new_stream(sink, schema) as writer:
        for number in numbers:
            writer.write_batch(pa.record_batch([[number], [number]], schema))
    return bytes(sink.getvalue())


def ids(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [number for batch in batches for number in batch["lookup_id"].to_pylist()]


class TestLosses:
    def test_a_request_is_made_again(self, endpoint: Client) -> None:
        busy = http("503 Service Unavailable", b'{"detail": "it restarts"}')
        with answering(b"", busy, http("200 OK", b'{"qm": "x"}')) as url:
            assert endpoint(url, patience_s=30).queues() == {"qm": "x"}

    def test_a_stream_that_breaks_off(self, endpoint: Client) -> None:
        whole = stream_of(1, 2, 3)
        for answer in (
            chunked(whole[:-100], whole=False),
            chunked(whole[:-100]),
            chunked(whole, whole=False),
        ):
            with answering(answer) as url, pytest.raises(EndpointLostError):
                ids(endpoint(url).range({}))

    def test_a_stream_with_a_problem_behind_it(self, endpoint: Client) -> None:
        with answering(chunked(stream_of(1), b'{"detail": "a bad message", "status": 500}')) as url:
            found = endpoint(url).range({})
            assert next(found).num_rows == 1
            with pytest.raises(EndpointError, match="a bad message"):
                next(found)

    def test_a_claim_is_read_on_from_where_it_broke(self) -> None:
        broken = chunked(stream_of(1)[:-8], whole=False)  # without the mark of the end
        with answering(broken, chunked(stream_of(2, 3))) as url:
            options = read_batch_options({"url": url, "queue": QUEUE})
            found = read_piece(options, ["lookup_id"], Piece(options.endpoint, QUEUE, 0, 3, 3), "consumer")
            assert ids(found) == [1, 2, 3]

    def test_a_number_that_is_missing_moves_no_other(self) -> None:
        """A damaged record is set aside, and its number with it."""
        requests: list[bytes] = []
        broken = chunked(stream_of(1, 3)[:-8], whole=False)
        with answering(broken, chunked(stream_of(4)), requests=requests) as url:
            options = read_batch_options({"url": url, "queue": QUEUE})
            assert ids(
                read_piece(options, ["lookup_id"], Piece(options.endpoint, QUEUE, 0, 4, 3), "consumer")
            ) == [1, 3, 4]
        assert [b"lo=0&" in requests[0], b"lo=3&" in requests[1]] == [True, True]

    def test_a_browse_is_not(self) -> None:
        """What was there may have changed meanwhile."""
        with answering(chunked(stream_of(1)[:-8], whole=False)) as url:
            options = read_batch_options({"url": url, "queue": QUEUE})
            with pytest.raises(EndpointLostError):
                ids(read_piece(options, ["lookup_id"], Piece(options.endpoint, QUEUE, 0, 3, 3)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secrets")


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    certify(folder)
    token = new_token()
    bearer = Bearer("spark", frozenset({Role.RECEIVE}), digest_of(token))
    token_file.change(folder / "tokens", lambda tokens: tokens.with_bearer(bearer), create=True)
    (folder / "token").write_text(f"{token}\n", "utf-8")
    options = {"tls_certificate": "cert.pem", "tls_key": "key.pem", "tokens": "tokens"}
    text = "\n".join(f'{name} = "{folder / file}"' for name, file in options.items())
    served = Served(folder / "served", text, host="127.0.0.1").start()
    yield served
    served.stop()


class TestSecrets:
    def test_trusted_and_known(self, endpoint: Client, served: Served, folder: Path) -> None:
        served.make_queue("orders")
        both = {"tlsCa": str(folder / "cert.pem"), "tokenFile": str(folder / "token")}
        assert endpoint(served.url, **both).head(QUEUE)["count"] == 0

    def test_without_a_token(self, endpoint: Client, served: Served, folder: Path) -> None:
        with pytest.raises(EndpointError) as refused:
            endpoint(served.url, tlsCa=str(folder / "cert.pem")).queues()
        assert refused.value.status == 401

    def test_a_stranger_is_not_trusted(self, endpoint: Client, served: Served) -> None:
        with pytest.raises(EndpointError, match="certificate is not trusted"):
            endpoint(served.url).queues()

    @pytest.mark.parametrize("option", ["tlsCa", "tokenFile"])
    def test_files_that_are_not_there(
        self, endpoint: Client, served: Served, folder: Path, option: str
    ) -> None:
        both = {"tlsCa": str(folder / "cert.pem"), "tokenFile": str(folder / "token")}
        with pytest.raises(EndpointError, match=f"{option}=.*nowhere"):
            endpoint(served.url, **{**both, option: str(folder / "nowhere")}).queues()


def certify(folder: Path) -> None:
    """A key and a certificate for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    certificate = builder.add_extension(address, critical=False).sign(key, hashes.SHA256())
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").touch(0o600)
    (folder / "key.pem").write_bytes(private)
