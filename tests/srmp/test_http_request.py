import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model.errors import DecodeError
from tiercel.srmp.http_request import (
    HttpRequest,
    RequestHead,
    RequestParser,
    read_http_request,
    read_multicast,
)

from .vectors import VALID, load

POST = b"POST /msmq/q HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"
CHUNKED = b"POST /msmq/q HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("name", [name for name in VALID if name != "05_pgm"])
def test_a_request_is_kept_as_sent(name: str) -> None:
    assert read_http_request(load(name)).encode() == load(name)


def test_a_multicast_request_has_an_address_as_its_target() -> None:
    request = read_multicast(load("05_pgm"))
    assert request.head.target == "234.1.1.1:8001"
    assert request.encode() == load("05_pgm")


@pytest.mark.parametrize(
    "line", [b"", b"POST", b"GET 234.1.1.1:8001 HTTP/1.1", b"POST a b HTTP/1.1", b"POST a SIP/2.0"]
)
def test_a_multicast_request_without_a_request_line_is_refused(line: bytes) -> None:
    with pytest.raises(DecodeError, match="request line"):
        read_multicast(line + b"\r\nContent-Length: 0\r\n\r\n")


def test_headers_are_found_in_any_case() -> None:
    head = read_http_request(POST).head
    assert head == RequestHead("POST", "/msmq/q", (("Host", "h"), ("Content-Length", "3")))
    assert (head.header("content-LENGTH"), head.header("X")) == ("3", None)


@given(st.lists(st.integers(1, len(2 * POST)), max_size=6))
def test_requests_arrive_in_any_pieces(cuts: list[int]) -> None:
    data = 2 * POST
    parser, found = RequestParser(), []
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True):
        found += parser.receive(data[start:end])
    assert found == [read_http_request(POST)] * 2
    assert parser.is_idle


@pytest.mark.parametrize("size", range(1, len(POST)))
def test_a_request_that_has_begun_is_not_idle(size: int) -> None:
    parser = RequestParser()
    assert len(parser.receive(POST + POST[:size])) == 1
    assert not parser.is_idle
    assert len(parser.receive(POST[size:])) == 1
    assert parser.is_idle


def test_a_chunked_body_is_joined() -> None:
    request = RequestParser().receive(CHUNKED + b"1\r\na\r\n2\r\nbc\r\n0\r\nTrailer: x\r\n\r\n")[0]
    assert request == HttpRequest(RequestHead("POST", "/msmq/q", (("Transfer-Encoding", "chunked"),)), b"abc")


def test_a_request_says_whether_the_sender_waits_to_continue() -> None:
    parser = RequestParser()
    assert parser.receive(POST[:-5].replace(b"Host: h", b"Expect: 100-Continue") + b"\r\n") == []
    assert parser.expects_continue
    assert not parser.is_idle
    assert parser.receive(b"\r\nabc"[2:])[0].body == b"abc"
    assert not parser.expects_continue


@pytest.mark.parametrize(
    "data",
    [
        POST.replace(b"Host: h", b"Connection: upgrade\r\nUpgrade: h2c"),
        b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n",
    ],
)
def test_another_protocol_is_refused_before_the_body(data: bytes) -> None:
    """The parser takes the body for that protocol: the request would seem complete without it."""
    with pytest.raises(DecodeError, match="Upgrade at byte 0: is not supported"):
        RequestParser().receive(data)


BROKEN = {
    "two lengths": POST.replace(b"Host: h", b"Content-Length: 3"),
    "length and chunks": POST.replace(b"Host: h", b"Transfer-Encoding: chunked"),
    "negative length": POST.replace(b": 3", b": -3"),
    "no number": POST.replace(b": 3", b": 0x3"),
    "length of 2**64": POST.replace(b": 3", b": 18446744073709551616"),
    "blank in the target": POST.replace(b"/q", b"/ q"),
    "no method": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "no colon": POST.replace(b"Host: h", b"Host"),
    "line break in a header": POST.replace(b"Host: h", b"Host: a\nb"),
    "chunks in HTTP/1.0": CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0") + b"0\r\n\r\n",
    "two hosts": POST.replace(b"Host: h", b"Host: h\r\nhost: h"),
    "two types": POST.replace(b"Host: h", b"Content-Type: text/xml\r\nCONTENT-TYPE: text/plain"),
    "HTTP/2.0": POST.replace(b"HTTP/1.1", b"HTTP/2.0"),
    "HTTP/0.9": POST.replace(b"HTTP/1.1", b"HTTP/0.9"),
    "NUL": POST.replace(b": h", b": \0"),
    "cut short": POST[:-1],
    "nothing": b"",
    "one more byte": POST + b"G",
    "two requests": 2 * POST,
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_a_broken_request_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError, match="HttpRequest"):
        read_http_request(data)


class TestLimits:
    def test_a_large_body_is_refused_by_its_length(self) -> None:
        parser = RequestParser(body_max=2)
        with pytest.raises(DecodeError, match="Content-Length at byte 0: is 3, the limit is 2"):
            parser.receive(POST[:-3])

    def test_chunks_without_end_are_refused(self) -> None:
        parser = RequestParser(body_max=1000)
        parser.receive(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(100):
            assert parser.receive(b"a\r\n0123456789\r\n") == []
        with pytest.raises(DecodeError, match="body at byte 0: has more than 1000 bytes"):
            parser.receive(b"a\r\n0123456789\r\n")

    def test_a_header_without_end_is_refused(self) -> None:
        parser = RequestParser(head_max=1000)
        parser.receive(b"POST / HTTP/1.1\r\nX: ")
        for _ in range(9):
            assert parser.receive(b"x" * 100) == []
        with pytest.raises(DecodeError, match="has more than 1000 bytes"):
            parser.receive(b"x" * 100)

    @pytest.mark.parametrize("endless", [b"0\r\nX: ", b"0\r\nX: y\r\n", b"1;x="])
    def test_a_trailer_without_end_is_refused(self, endless: bytes) -> None:
        """Nor one after the size of a chunk: the parser would keep it, or read it for ever."""
        parser = RequestParser(head_max=1000)
        parser.receive(CHUNKED + b"1\r\na\r\n" + endless)
        for _ in range(10):
            assert parser.receive(b"x" * 100) == []
        with pytest.raises(DecodeError, match="trailer at byte 0: has more than 1000 bytes"):
            parser.receive(b"x" * 100)

    def test_small_pieces_of_a_body_cost_no_more_than_large_ones(self) -> None:
        parser = RequestParser()
        chunks = CHUNKED + b"2\r\nxy\r\n" * 50_000
        tracemalloc.start()
        try:
            parser.receive(chunks)
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert parser.held_bytes >= 100_000
        assert held < 2 * parser.held_bytes

    def test_a_large_head_in_one_piece_is_refused(self) -> None:
        with pytest.raises(DecodeError, match="has more than 1000 bytes"):
            RequestParser(head_max=1000).receive(POST.replace(b"h\r", b"h" * 1000 + b"\r"))

    def test_many_headers_are_refused(self) -> None:
        with pytest.raises(DecodeError, match="has more than 100 headers"):
            RequestParser().receive(POST.replace(b"Host: h", b"\r\n".join([b"a: b"] * 101)))

    def test_a_long_target_is_refused(self) -> None:
        with pytest.raises(DecodeError, match="has more than 1000 bytes"):
            RequestParser(head_max=1000).receive(b"POST /" + b"x" * 1000)


@given(st.binary(max_size=300))
def test_any_bytes_give_requests_or_the_one_error(data: bytes) -> None:
    try:
        RequestParser().receive(data)
        read_http_request(data)
    except DecodeError:
        pass
