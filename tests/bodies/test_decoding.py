import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tiercel.bodies import Decoded, Kind, decode
from tiercel.model.codes import BodyType

from .streams import stream, string


class TestByLooks:
    """Type 0 says nothing, nor does a number that is no type."""

    @pytest.mark.parametrize("body_type", [0, 9999, 0xFFFFFFFF, 12, BodyType.BSTR | 0x1000])
    def test_json(self, body_type: int) -> None:
        decoded = decode(b' {"a": 1.10}', body_type)
        assert (decoded.kind, decoded.value, decoded.json) == (Kind.JSON, {"a": 1.1}, ' {"a": 1.10}')

    @pytest.mark.parametrize("body", [b"42", b'"text"', b"null", b"[1, 2", b"{hello}", b"[NaN]", b"[] []"])
    def test_what_is_no_json_document_is_text(self, body: bytes) -> None:
        decoded = decode(body)
        assert (decoded.kind, decoded.text, decoded.error) == (Kind.TEXT, body.decode(), None)

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
    def test_text(self, encoding: str) -> None:
        decoded = decode("Grüße\tan\r\nalle".encode(encoding))
        assert (decoded.kind, decoded.text) == (Kind.TEXT, "Grüße\tan\r\nalle")

    @pytest.mark.parametrize("body", [b"\0\1\2", b"text\0", b"\xff\xfe\0", b"caf\xe9", b"\x12\x34\x56\x78"])
    def test_anything_else_is_binary(self, body: bytes) -> None:
        assert decode(body) == Decoded(Kind.BINARY, body)

    @pytest.mark.parametrize("body_type", [0, 3, 8, 0x300])
    def test_nothing(self, body_type: int) -> None:
        assert decode(b"", body_type) == Decoded(Kind.EMPTY)

    def test_unpaired_surrogates_of_escapes(self) -> None:
        decoded = decode(rb'{"\ud800": "\udfff"}')
        assert decoded.value == {"\ufffd": "\ufffd"}


class TestTypedText:
    def test_a_document_in_it_is_read_and_the_text_stays_whole(self) -> None:
        decoded = decode("<?xml version='1.0'?><string>hi</string>".encode("utf-16-le"), BodyType.BSTR)
        assert (decoded.kind, decoded.value) == (Kind.XML, "hi")
        assert decoded.text == "<?xml version='1.0'?><string>hi</string>"
        assert decode(b"[1]", BodyType.LPSTR).value == [1]


class TestExpectation:
    def test_json(self) -> None:
        assert decode(b"42", expect="json").value == 42
        broken = decode(b'{"a": ', expect="json")
        assert (broken.kind, broken.value, broken.text) == (Kind.JSON, None, '{"a": ')
        assert broken.error == "JSON.document at byte 6: Expecting value"

    def test_xml(self) -> None:
        assert "syntax error" in str(decode(b"hello", expect="xml").error)
        assert "no element found" in str(decode(b"", expect="xml").error)

    def test_text(self) -> None:
        assert decode(b"[1]", expect="text") == Decoded(Kind.TEXT, "[1]", "[1]")
        assert decode(b"\0", expect="text").error == "body.text at byte 0: is neither UTF-8 nor UTF-16 text"

    def test_dotnet(self) -> None:
        assert decode(stream(string(1, "x")), expect="dotnet").value == "x"
        assert decode(b"hello", expect="dotnet").error is not None


TYPES = st.one_of(st.sampled_from(BodyType), st.integers(0, 0x3FFF), st.integers(0, 0xFFFFFFFF))
HEADER = stream()[:-1]
BEGINNINGS = st.sampled_from(
    [b"", b"<?xml version='1.0'?><a>", b"{", b"[", HEADER, HEADER + b"\x10\1\0\0\0\3\0\0\0"]
)
EXPECTED = st.sampled_from([None, "text", "xml", "json", "dotnet"])


class TestAnyBytes:
    @given(st.builds(bytes.__add__, BEGINNINGS, st.binary(max_size=300)), TYPES, EXPECTED)
    @example(b'"\\ud800"', 0, "json")
    @example(b"[" * 100_000, 0, "json")
    @example(b"9" * 5000, 0, "json")
    @example(b"[1e999]", 0, "json")
    def test_give_a_row(self, body: bytes, body_type: int, expect: None) -> None:
        assert_row(decode(body, body_type, expect=expect))

    @given(st.text(max_size=100), st.sampled_from([8, 31, 0]))
    def test_text_comes_back(self, text: str, body_type: int) -> None:
        decoded = decode(text.encode("utf-16-le"), body_type)
        assert_row(decoded)
        if body_type and decoded.kind is Kind.TEXT and text:
            assert decoded.text == text.removesuffix("\0")


def assert_row(decoded: Decoded) -> None:
    """What goes into columns: UTF-8 and JSON that others can read, or an error."""
    assert decoded.kind in set(Kind)
    for text in decoded.text, decoded.json, decoded.error:
        assert text is None or isinstance(text, str)
        (text or "").encode()
    if decoded.error is not None:
        assert decoded.value is decoded.json is None
    elif decoded.json is not None:
        json.loads(decoded.json, parse_constant=pytest.fail)
