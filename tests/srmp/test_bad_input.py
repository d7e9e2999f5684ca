"""Requests with one fault: each is refused with its place, and none with anything but a DecodeError."""

import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.model.errors import DecodeError
from tiercel.srmp.envelope_reader import read_envelope
from tiercel.srmp.http_request import HttpRequest, read_http_request
from tiercel.srmp.limits import ATTRIBUTES_MAX, DEPTH_MAX, ELEMENTS_MAX, ENVELOPE_MAX_BYTES
from tiercel.srmp.message import read_message
from tiercel.srmp.request import read_srmp

from .vectors import VALID, changed, document, http, load

USER, STREAM = "02_msmq_element", "04a_stream_msg1"


def with_envelope(name: str, envelope: bytes) -> HttpRequest:
    """The request of a vector with another envelope, and the lengths that it needs."""
    request = http(name)
    old = document(name)
    length, new_length = f"Content-Length: {len(old)}\r\n\r\n<", f"Content-Length: {len(envelope)}\r\n\r\n<"
    body = request.body.replace(old, envelope, 1).replace(length.encode(), new_length.encode(), 1)
    headers = tuple(
        (name, f"{len(body)}" if name == "Content-Length" else value) for name, value in request.head.headers
    )
    return HttpRequest(request.head._replace(headers=headers), body)


# One fault each, in the envelopes of vectors 02 and 04a.
MUTANTS = [
    (USER, "<action>MSMQ:</action>", ""),
    (USER, "<to>http://machine2/msmq/private$/simpleQ</to>", ""),
    (USER, "<to>http", "<to>gopher"),
    (USER, "/msmq/private$/simpleQ</to>", "</to>"),
    (USER, "</to>", "</to><to>http://machine2/msmq/q</to>"),
    (USER, "uuid:20503@", "20503@"),
    (USER, "uuid:20503@", "uuid:-1@"),
    (USER, "uuid:20503@", "uuid:4294967296@"),
    (USER, "uuid:20503@caf195ea", "uuid:20503@{caf195ea"),
    (USER, "<expiresAt>20380119T031407</expiresAt>", ""),
    (USER, "<expiresAt>20380119T031407", "<expiresAt>2038-01-19T03:14:07"),
    (USER, "<sentAt>20070719T031140", "<sentAt>20071319T031140"),
    (USER, "<sentAt>20070719T031140", "<sentAt>20070719T031140Z"),
    (USER, "<Class>0</Class>", ""),
    (USER, "<Class>0", "<Class>-1"),
    (USER, "<Class>0", "<Class>99999999999999999999999"),
    (USER, "<Priority>3</Priority>", ""),
    (USER, "<Priority>3", "<Priority>8"),
    (USER, "<Priority>3", "<Priority>"),
    (USER, "<BodyType>0</BodyType>", ""),
    (USER, "<BodyType>0", "<BodyType>1e3"),
    (USER, "<App>0", "<App>4294967296"),
    (USER, "<HashAlgorithm>32772", "<HashAlgorithm>SHA1"),
    (USER, "AAAAAAAAAAAAAAAAAAAAAAAAAAA=", "AAAAAAAAAAAAAAAAAAAAAAAAAA=="),
    (USER, "AAAAAAAAAAAAAAAAAAAAAAAAAAA=", "AAAAAAAAAAAAAAAAAAAAAAAAAAA"),
    (USER, "<SourceQmGuid>caf195ea-615c", "<SourceQmGuid>caf195ea615c"),
    (USER, "<TTrq>20070723T031140</TTrq>", ""),
    (USER, "<TTrq>20070723T031140", "<TTrq>tomorrow"),
    (USER, "<se:Body></se:Body>", ""),
    (USER, "<se:Header>", '<se:Header><x xmlns="y" se:mustUnderstand="1"/>'),
    (USER, "soap/envelope/", "soap/envelope"),
    (USER, "</properties>", ""),
    (USER, "</se:Envelope>", "</se:Envelope><se:Envelope/>"),
    (USER, "<se:Envelope ", "<!DOCTYPE e><se:Envelope "),
    (USER, "<se:Envelope ", "<?php echo 1?><se:Envelope "),
    (USER, "MSMQ:<", "MSMQ:&unknown;<"),
    (USER, "MSMQ:<", "MSMQ:&#0;<"),
    (USER, "MSMQ:<", "MSMQ:\x01<"),
    (USER, "MSMQ:<", f"MSMQ:{'x' * 250}<"),
    (STREAM, "<streamId>uid:", "<streamId>uuid:"),
    (STREAM, "\\4839986701558349830", "/4839986701558349830"),
    (STREAM, "\\4839986701558349830", "\\18446744073709551616"),
    (STREAM, "<current>1</current>", ""),
    (STREAM, "<current>1", "<current>0"),
    (STREAM, "<current>1", "<current>one"),
    (STREAM, "<current>1", "<current>4294967296"),
    (STREAM, "<current>1</current>", "<current>1</current><previous>2</previous>"),
    (STREAM, "http://machine1/MSMQ/private$/receipts?SenderStream=XRntV", ""),
    (STREAM, "http://machine1/MSMQ/private$/receipts?SenderStream=XRntV", "MSMQ:DIRECT=OS:machine1\\q"),
    (STREAM, '<Msmq xmlns="msmq.namespace.xml">', '<Msmq xmlns="other">'),
    (STREAM, "</Stream>", "</stream>"),
]


@pytest.mark.parametrize(
    ("name", "old", "new"), MUTANTS, ids=[f"{new[:30]} for {old[:30]}" for _, old, new in MUTANTS]
)
def test_a_mutant_is_refused(name: str, old: str, new: str) -> None:
    request = with_envelope(name, changed(name, old, new))
    with pytest.raises(DecodeError) as caught:
        read_srmp(request)
    assert 0 < caught.value.offset <= len(request.encode())
    assert len(str(caught.value)) < 400


def test_the_mutants_are_made_from_requests_that_are_read() -> None:
    for name in (USER, STREAM):
        assert with_envelope(name, document(name)).encode() == load(name)
        read_srmp(with_envelope(name, document(name)))


@pytest.mark.parametrize("name", [name for name in VALID if name != "05_pgm"])
def test_a_request_cut_anywhere_is_refused(name: str) -> None:
    data = load(name)
    for size in range(len(data)):
        with pytest.raises(DecodeError):
            read_srmp(read_http_request(data[:size]))


@pytest.mark.parametrize("name", VALID)
def test_a_body_cut_anywhere_is_refused(name: str) -> None:
    """The sender's lengths are right, but bytes are missing."""
    request = http(name)
    is_read = []
    for size in range(len(request.body)):
        try:
            read_srmp(request._replace(body=request.body[:size]), over_multicast=name == "05_pgm")
        except DecodeError:
            continue
        is_read.append(size)
    # Only the line break after the closing delimiter may be missing.
    complete = len(request.body.rstrip(b"\r\n"))
    assert is_read == ([complete, complete + 1] if request.body.endswith(b"\r\n") else [])


@pytest.mark.parametrize("name", [USER, "06_all_properties", "07_rfc2387_framing", STREAM, "12_signed_body"])
@given(data=st.data())
def test_a_changed_request_gives_a_message_or_the_one_error(name: str, data: st.DataObject) -> None:
    original = load(name)
    at = data.draw(st.integers(0, len(original)))
    end = data.draw(st.integers(at, min(len(original), at + 4)))
    broken = original[:at] + data.draw(st.binary(max_size=4)) + original[end:]
    try:
        request = read_srmp(read_http_request(broken))
    except DecodeError:
        return
    read_message(request, 0).check()


class TestXml:
    """Documents that would cost more than they weigh."""

    def refused(self, document: bytes, problem: str) -> None:
        with pytest.raises(DecodeError, match=problem):
            read_envelope(document)

    @pytest.mark.conformance("SRMP-034")
    def test_external_entities(self) -> None:
        bomb = '<!DOCTYPE e [<!ENTITY x SYSTEM "file:///etc/passwd">]><se:Envelope '
        self.refused(changed(USER, "<se:Envelope ", bomb), "document types")

    @pytest.mark.conformance("SRMP-034")
    def test_expanding_entities(self) -> None:
        tracemalloc.start()
        with pytest.raises(DecodeError, match="document types"):
            read_srmp(http("16_BAD_entity_bomb"))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1_000_000

    @pytest.mark.conformance("SRMP-034")
    def test_depth_elements_attributes_and_size(self) -> None:
        content = "<se:Body></se:Body>"
        deep = DEPTH_MAX - 2
        fine = changed(USER, content, f"<se:Body>{'<a>' * deep}{'</a>' * deep}</se:Body>")
        assert read_envelope(fine).envelope == read_envelope(document(USER)).envelope
        self.refused(fine.replace(b"<a></a>", b"<a><a/></a>"), f"deeper than {DEPTH_MAX}")
        self.refused(
            changed(USER, content, f"<se:Body>{'<a/>' * ELEMENTS_MAX}</se:Body>"), f"more than {ELEMENTS_MAX}"
        )
        attributes = " ".join(f'a{number}=""' for number in range(ATTRIBUTES_MAX + 1))
        self.refused(
            changed(USER, content, f"<se:Body {attributes}/>"), f"more than {ATTRIBUTES_MAX} attributes"
        )
        self.refused(changed(USER, content, f"<se:Body>{' ' * ENVELOPE_MAX_BYTES}</se:Body>"), "the limit is")

    def test_a_long_namespace(self) -> None:
        self.refused(
            changed(USER, "<se:Body>", f'<se:Body xmlns="{"x" * 1001}">'), "more than 1000 characters"
        )

    @pytest.mark.parametrize("encoding", ["utf-16", "iso-8859-1", "x" * 100])
    def test_other_encodings(self, encoding: str) -> None:
        declaration = f'<?xml version="1.0" encoding="{encoding}"?>'
        self.refused(declaration.encode() + document(USER), "must be UTF-8")

    @pytest.mark.parametrize(
        "prefix", [b"\xef\xbb\xbf", b'<?xml version="1.0" encoding="UTF-8"?>\r\n', b"<!-- a -->"]
    )
    def test_what_may_stand_before_the_envelope(self, prefix: bytes) -> None:
        assert read_envelope(prefix + document(USER)).envelope == read_envelope(document(USER)).envelope

    @pytest.mark.parametrize("data", [b"", b" ", b"<", document(USER)[:-1]])
    def test_what_is_not_xml(self, data: bytes) -> None:
        self.refused(data, "not well-formed XML")

    @pytest.mark.parametrize(
        "data",
        [b"\xff", *(document(USER).decode().encode(form) for form in ("utf-16", "utf-16-le", "utf-16-be"))],
    )
    def test_what_is_not_utf_8(self, data: bytes) -> None:
        self.refused(data, "not valid UTF-8")

    def test_the_place_of_an_error_counts_from_the_start_of_the_request(self) -> None:
        request = with_envelope(USER, changed(USER, "<Priority>3", "<Priority>9"))
        with pytest.raises(DecodeError) as caught:
            read_srmp(request)
        assert request.encode()[caught.value.offset :].startswith(b"<Priority>9")
        assert re.fullmatch(r"Envelope\.Priority at byte \d+: is 9, the limit is 7", str(caught.value))
