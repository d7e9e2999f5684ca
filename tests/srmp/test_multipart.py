import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model.errors import DecodeError
from tiercel.srmp.multipart import ContentType, Part, choose_boundary, read_multipart, write_multipart

from .vectors import CANONICAL, read

LENGTH = "Content-Length"


def part(content: bytes, **headers: str) -> Part:
    return Part(((LENGTH, f"{len(content)}"), *headers.items()), content)


def contents(body: bytes, boundary: str = "b") -> list[bytes]:
    return [each.content for each in read_multipart(body, boundary)]


contents_and_delimiters = st.lists(
    st.lists(st.binary(max_size=20) | st.sampled_from([b"--b", b"\r\n--b\r\n", b"--b--\r\n", b"\r\n"])).map(
        b"".join
    ),
    min_size=1,
    max_size=3,
)


@pytest.mark.conformance("SRMP-009")
@given(contents_and_delimiters)
def test_a_content_may_contain_the_delimiter(parts: list[bytes]) -> None:
    assert contents(write_multipart([part(each) for each in parts], "b")) == parts


@pytest.mark.conformance("SRMP-009")
@given(contents_and_delimiters)
def test_mime_writers_put_a_line_break_before_the_delimiter(parts: list[bytes]) -> None:
    body = b"".join(b"--b\r\nContent-Length: %d\r\n\r\n%b\r\n" % (len(each), each) for each in parts)
    assert contents(body + b"--b--\r\n") == parts


@pytest.mark.conformance("SRMP-009")
@given(st.lists(st.binary(max_size=20).filter(lambda data: b"--b" not in data), min_size=1, max_size=3))
def test_without_lengths_the_delimiter_is_searched(parts: list[bytes]) -> None:
    body = b"".join(b"--b\r\nA: b\r\n\r\n%b\r\n" % each for each in parts)
    assert contents(body + b"--b--") == parts


def test_without_lengths_and_line_breaks_the_delimiter_is_searched_too() -> None:
    assert contents(b"--b\r\n\r\none--b\r\n\r\ntwo--b--\r\n") == [b"one", b"two"]


def test_a_delimiter_inside_a_line_is_content_where_lines_begin_with_delimiters() -> None:
    assert contents(b"--b\r\n\r\na--b\r\nc\r\n--b--") == [b"a--b\r\nc"]


def test_a_longer_boundary_is_not_the_delimiter() -> None:
    assert contents(b"--b\r\n\r\n--bc\r\n\r\n--b--") == [b"--bc\r\n"]


def test_preamble_epilogue_and_white_space_are_allowed() -> None:
    assert contents(b"This is MIME.\r\n--b \t\r\n\r\none\r\n--b--\r\nThe end") == [b"one"]


def test_folded_headers_are_one() -> None:
    found = read_multipart(b"--b\r\nContent-Type: text/xml;\r\n\tcharset=UTF-8\r\n\r\n\r\n--b--", "b")
    assert found[0].headers == (("Content-Type", "text/xml; charset=UTF-8"),)


def test_the_place_of_a_content_counts_from_the_start_of_the_request() -> None:
    assert read_multipart(b"--b\r\n\r\none--b--", "b", 100)[0].at == 107


@pytest.mark.conformance("SRMP-006", "SRMP-007", "SRMP-008")
@pytest.mark.parametrize("name", [name for name in CANONICAL if "receipt" not in name])
def test_parts_as_queue_managers_write_them(name: str) -> None:
    request = read(name)
    boundary = ContentType.parse(request.http.head.header("Content-Type") or "").parameters["boundary"]
    assert (
        request.http.head.header("Content-Type") == f'multipart/related; boundary="{boundary}"; type=text/xml'
    )
    parts = read_multipart(request.http.body, boundary)
    assert [[header for header, _ in each.headers] for each in parts] == [
        ["Content-Type", LENGTH],
        ["Content-Type", LENGTH, "Content-Id"],
    ]
    assert write_multipart(parts, boundary) == request.http.body
    assert request.http.body.endswith(f"--{boundary}--\r\n".encode())
    assert request.http.body.count(f"\r\n--{boundary}".encode()) == 0


BROKEN = {
    "nothing": b"",
    "no delimiter": b"abc",
    "no line break after the delimiter": b"--bA: b\r\n\r\n--b--",
    "closing delimiter missing": b"--b\r\nContent-Length: 3\r\n\r\none",
    "closing delimiter missing, no length": b"--b\r\n\r\none",
    "closing delimiter cut": b"--b\r\nContent-Length: 3\r\n\r\none--b-",
    "length too small": b"--b\r\nContent-Length: 2\r\n\r\none--b--",
    "length too large": b"--b\r\nContent-Length: 4\r\n\r\none--b--",
    "length beyond the end": b"--b\r\nContent-Length: 4000000000\r\n\r\none--b--",
    "length of 100 digits": b"--b\r\nContent-Length: " + b"1" * 100 + b"\r\n\r\none--b--",
    "negative length": b"--b\r\nContent-Length: -1\r\n\r\none--b--",
    "length not ASCII": b"--b\r\nContent-Length: \xb2\r\n\r\none--b--",
    "headers do not end": b"--b\r\nA: b\r\n",
    "header without colon": b"--b\r\nA\r\n\r\none--b--",
    "header without name": b"--b\r\n: b\r\n\r\none--b--",
    "blank in a name": b"--b\r\nA b: c\r\n\r\none--b--",
    "bare line feeds": b"--b\nA: b\n\none\n--b--",
    "large headers": b"--b\r\nA: " + b"x" * 10_000 + b"\r\n\r\none--b--",
    "base64": b"--b\r\nContent-Transfer-Encoding: base64\r\n\r\nAAAA\r\n--b--",
    "nine parts": b"--b\r\n\r\n" * 9 + b"--b--",
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
def test_a_broken_body_is_refused(body: bytes) -> None:
    with pytest.raises(DecodeError, match="Multipart"):
        read_multipart(body, "b")


@pytest.mark.parametrize("boundary", ["", "\xe4", "x" * 201])
def test_a_broken_boundary_is_refused(boundary: str) -> None:
    with pytest.raises(DecodeError, match=r"Multipart\.boundary"):
        read_multipart(b"--\r\n\r\n----", boundary)


def test_a_boundary_is_chosen_that_no_content_has() -> None:
    body = b"MSMQ - SOAP boundary, 7" + b"MSMQ - SOAP boundary, 8"
    assert choose_boundary([b"", body], 7) == "MSMQ - SOAP boundary, 9"
    assert choose_boundary([body], 3) == "MSMQ - SOAP boundary, 3"


class TestContentType:
    def test_parameters(self) -> None:
        text = 'Multipart/Related; boundary="a b, c" ; TYPE=text/xml;charset=UTF-8;'
        expected = {"boundary": "a b, c", "type": "text/xml", "charset": "UTF-8"}
        assert ContentType.parse(text) == ("multipart/related", expected)

    @pytest.mark.parametrize(
        "text",
        ["", "text", "text/", "text/xml charset=UTF-8", "a/b; c", 'a/b; c="d', "a/b; c=d; C=e", "a/b; c=d e"],
    )
    def test_a_broken_one_is_refused(self, text: str) -> None:
        with pytest.raises(DecodeError, match="Content-Type"):
            ContentType.parse(text)

    @given(st.text())
    def test_any_text_gives_a_type_or_the_one_error(self, text: str) -> None:
        try:
            ContentType.parse(text)
            ContentType.parse("a/b;" + text)
        except DecodeError:
            pass


@given(
    st.lists(st.sampled_from([b"--b", b"\r\n", b"--", b"A: b", b"Content-Length: 3", b"one", b" "])).map(
        b"".join
    )
)
def test_any_body_gives_parts_or_the_one_error(body: bytes) -> None:
    try:
        parts = read_multipart(body, "b")
    except DecodeError:
        return
    for each in parts:
        assert body[each.at : each.at + len(each.content)] == each.content
