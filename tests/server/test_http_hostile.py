"""HTTP clients that send garbage, too much or too little, to a daemon in a process of its own.

Each gets a clear answer and costs little memory; nothing of it is stored, and others are served meanwhile.
"""

import contextlib
import re
import socket
from collections.abc import Iterable, Iterator
from itertools import repeat
from pathlib import Path

import pytest

from api.asked import Asked, asked
from srmp.vectors import load
from tiercel.srmp.envelope import FOREIGN_ID
from tiercel.srmp.http_request import read_http_request
from tiercel.srmp.limits import BODY_MAX_BYTES, HEAD_MAX_BYTES
from tiercel.srmp.request import read_srmp, write_srmp

from .scripted import PATIENCE_S

MIB = 1 << 20
ROOM = 48 * MIB  # for whatever one client sends
MESSAGE = load("01_simple")  # without an id, so that none is a duplicate
HEAD, _, BODY = MESSAGE.partition(b"\r\n\r\n")
POST = b"POST /msmq/private$/simpleq HTTP/1.1\r\nHost: x\r\nContent-Type: text/xml\r\n"
START = POST + b"Content-Length: %d\r\n\r\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    options = '[srmp]\nenabled = true\nport = 0\naliases = ["machine2"]\nrequest_s = 1\n'
    with asked(tmp_path_factory.mktemp("hostile"), options) as served:
        served.create("simpleq")
        yield served


def connect(served: Asked) -> socket.socket:
    host, _, port = served.start["address"].split(",")[-1].rpartition(":")
    connection = socket.create_connection((host, int(port)))
    connection.settimeout(PATIENCE_S)
    return connection


def peak(served: Asked) -> int:
    """The most memory that the daemon has ever had."""
    status = Path(f"/proc/{served.process.pid}/status").read_text("ascii")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def send_all(connection: socket.socket, pieces: Iterable[bytes]) -> None:
    """Until the other side has had enough."""
    with contextlib.suppress(ConnectionError):
        for piece in pieces:
            connection.sendall(piece)


def answers(connection: socket.socket) -> list[int]:
    """The status of every answer until the end."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while received := connection.recv(65536):
            data += received
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", data)]


def post(served: Asked, *pieces: bytes) -> list[int]:
    """What a client gets that sends these pieces and then ends its side."""
    with connect(served) as connection:
        send_all(connection, pieces)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        return answers(connection)


@pytest.fixture(autouse=True)
def _disturbs_nobody(served: Asked) -> Iterator[None]:
    """A client that was connected before, and the memory and the queue afterwards."""
    before, stored = peak(served), served.count("simpleq")
    with connect(served) as other:
        other.sendall(MESSAGE)
        assert other.recv(12) == b"HTTP/1.1 200"
        yield
        other.sendall(HEAD + b"\r\nConnection: close\r\n\r\n" + BODY)
        assert answers(other)[-1] == 200
    assert served.count("simpleq") == stored + 2
    assert peak(served) - before < ROOM


def envelope(document: bytes) -> bytes:
    return START % len(document) + document


def changed(old: bytes, new: bytes) -> bytes:
    """The message with another envelope, and lengths that are right."""
    request = read_srmp(read_http_request(MESSAGE))
    document = request.envelope_part.content
    assert old in document
    return envelope(document.replace(old, new, 1))


ENTITIES = b'<!DOCTYPE e [<!ENTITY a0 "ha">' + b"".join(
    b'<!ENTITY a%d "%b">' % (each, b"&a%d;" % (each - 1) * 10) for each in range(1, 12)
)


class TestXml:
    @pytest.mark.parametrize(
        "data",
        [
            changed(b"<se:Envelope", b'<!DOCTYPE e [<!ENTITY x SYSTEM "file:///etc/passwd">]><se:Envelope'),
            changed(b"<se:Envelope", b'<!DOCTYPE e SYSTEM "http://127.0.0.1:9/x.dtd"><se:Envelope'),
            changed(b"<se:Envelope", ENTITIES + b"]><se:Envelope"),
            load("16_BAD_entity_bomb"),
            changed(b"<se:Envelope", b"<se:Envelope " + b" ".join(b"a%d=''" % n for n in range(80_000))),
            envelope(b"<a>" * 200_000),
            envelope(b"<a xmlns='" + b"x" * 500_000 + b"'>" + b"<b/>" * 100_000 + b"</a>"),
            envelope(b"<a>" + b"<b/>" * 200_000 + b"</a>"),
            envelope(b"\xff\xfe<\0a\0/\0>\0"),
            envelope(b"\0" * 1000),
            changed(b"<expiresAt>", b"<expiresAt>20300101T000000</expiresAt><expiresAt>"),
            changed(b"<expiresAt>20", b"<expiresAt>99999999920"),
            changed(b"</properties>", b"<sentAt>21070101T000000</sentAt></properties>"),
        ],
        ids=[
            "external_entity",
            "external_document_type",
            "a_billion_laughs",
            "entity_bomb",
            "attributes",
            "depth",
            "namespace",
            "elements",
            "utf_16",
            "zeros",
            "twice",
            "date",
            "after_2106",
        ],
    )
    def test_is_refused(self, served: Asked, data: bytes) -> None:
        assert post(served, data) == [400]

    def test_a_million_attributes(self, served: Asked) -> None:
        """More than a message can have: refused before it is read."""
        document = b"<a " + b" ".join(b"a%d=''" % each for each in range(1_000_000)) + b"/>"
        assert len(document) > BODY_MAX_BYTES
        assert post(served, envelope(document)) == [400]


class TestHead:
    def test_a_hundred_megabytes_of_headers(self, served: Asked) -> None:
        """It is read to its end, because the answer would be lost otherwise, and none of it is kept."""
        header = b"X-%d: " + b"x" * 1000 + b"\r\n"
        with connect(served) as connection:
            send_all(connection, (POST, *(header % each for each in range(100_000))))
            assert answers(connection) == [400]

    def test_headers_of_the_size_that_is_too_much(self, served: Asked) -> None:
        assert post(served, POST + b"X: " + b"x" * HEAD_MAX_BYTES + b"\r\n\r\n") == [400]
        assert post(served, POST + b"X: y\r\n" * 101 + b"\r\n") == [400]

    def test_a_line_that_never_ends(self, served: Asked) -> None:
        with connect(served) as connection:
            send_all(connection, repeat(b"POST /msmq/" + b"x" * 65536, 1000))
            assert answers(connection) == [400]

    @pytest.mark.parametrize(
        "data",
        [
            HEAD + b"\r\nContent-Length: 5\r\n\r\n" + BODY,
            HEAD + b"\r\nTransfer-Encoding: chunked\r\n\r\n" + BODY,
            POST + b"Content-Length: -1\r\n\r\n",
            POST + b"Content-Length: 1e3\r\n\r\n",
            POST + b"Content-Length: 99999999999999999999\r\n\r\n",
            POST + b"Content-Length: %d\r\n\r\n" % (BODY_MAX_BYTES + 1),
            POST + b"Transfer-Encoding: gzip, chunked, chunked\r\n\r\n0\r\n\r\n",
            POST + b"X\0Y: 1\r\n\r\n",
            POST + b"X : 1\r\n\r\n",
            POST + b" folded\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
            b"\xff" * 1000,
        ],
        ids=[
            "two_lengths",
            "length_and_chunks",
            "negative_length",
            "length_in_letters",
            "length_beyond_64_bits",
            "too_long",
            "encodings",
            "nul",
            "blank",
            "folded",
            "http_2",
            "tls",
            "noise",
        ],
    )
    def test_is_refused(self, served: Asked, data: bytes) -> None:
        assert post(served, data)[:1] == [400]


class TestBody:
    def test_chunks_that_never_end(self, served: Asked) -> None:
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        with connect(served) as connection:
            head = POST + b"Transfer-Encoding: chunked\r\n\r\n"
            send_all(connection, (head, *repeat(chunk, 1600)))
            assert answers(connection) == [400]

    def test_one_byte_in_each_chunk(self, served: Asked) -> None:
        """As many pieces as bytes, and the same message."""
        head = HEAD.replace(b"Content-Length: %d" % len(BODY), b"Transfer-Encoding: chunked")
        assert head != HEAD
        chunks = b"".join(b"1\r\n%b\r\n" % BODY[at : at + 1] for at in range(len(BODY)))
        stored = served.count("simpleq")
        assert post(served, head + b"\r\n\r\n" + chunks + b"0\r\n\r\n") == [200]
        assert served.count("simpleq") == stored + 1
        served.receive("simpleq", acknowledge="now")

    @pytest.mark.parametrize("size", [b"FFFFFFFFFFFFFFFFF", b"-1", b"xyz", b"1" * 100_000])
    def test_the_size_of_a_chunk_that_cannot_be(self, served: Asked, size: bytes) -> None:
        head = POST + b"Transfer-Encoding: chunked\r\n\r\n"
        assert post(served, head + size + b"\r\nx\r\n")[:1] == [400]

    def test_a_length_that_promises_more(self, served: Asked) -> None:
        """Its time is over, and it is told."""
        head = HEAD.replace(b"Content-Length: %d" % len(BODY), b"Content-Length: %d" % (len(BODY) + 1))
        assert head != HEAD
        with connect(served) as connection:
            connection.sendall(head + b"\r\n\r\n" + BODY)
            assert answers(connection) == [408]

    def test_a_length_that_promises_less(self, served: Asked) -> None:
        head = HEAD.replace(b"Content-Length: %d" % len(BODY), b"Content-Length: %d" % (len(BODY) - 10))
        assert head != HEAD
        assert post(served, head + b"\r\n\r\n" + BODY) == [400, 400]

    def test_a_body_that_contains_the_boundary(self, served: Asked) -> None:
        """It is the body, byte for byte."""
        request = read_srmp(read_http_request(load("02_msmq_element")))
        body = b"--MSMQ - SOAP boundary, 7--\r\n" * 3
        assert request.envelope.path.id != FOREIGN_ID
        data = write_srmp(request.envelope, body, content_guid="x", boundary=7).encode()
        data = data.replace(b"boundary, 8", b"boundary, 7")
        stored = served.count("simpleq")
        assert post(served, data) == [200]
        assert served.count("simpleq") == stored + 1
        assert len(served.receive("simpleq", acknowledge="now", limit=1000)) == stored + 1
        for _ in range(stored):
            post(served, MESSAGE)

    @pytest.mark.parametrize("ending", [b"garbage\r\n\r\n", b"POST /msmq/x HTTP/9.9\r\n\r\n"])
    def test_a_message_before_garbage_is_a_message(self, served: Asked, ending: bytes) -> None:
        stored = served.count("simpleq")
        assert post(served, MESSAGE + ending) == [200, 400]
        assert served.count("simpleq") == stored + 1
        served.receive("simpleq", acknowledge="now")

    def test_a_last_message_with_a_line_break_too_many_is_a_message(self, served: Asked) -> None:
        stored = served.count("simpleq")
        assert post(served, HEAD + b"\r\nConnection: close\r\n\r\n" + BODY + b"\r\n") == [200]
        assert served.count("simpleq") == stored + 1
        served.receive("simpleq", acknowledge="now")

    def test_many_requests_at_once_are_answered_in_their_order(self, served: Asked) -> None:
        requests = [MESSAGE, b"GET /msmq/ HTTP/1.1\r\nHost: x\r\n\r\n"] * 200
        stored = served.count("simpleq")
        assert post(served, b"".join(requests)) == [200, 405] * 200
        assert served.count("simpleq") == stored + 200
        assert len(served.receive("simpleq", acknowledge="now", limit=200)) == 200
