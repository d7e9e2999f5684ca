"""Bodies: [MS-NMFMB] 3.1.1, [MC-NMF] 2.2 and 3.1."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbfx.vectors import load
from tiercel import nbfx
from tiercel.framing.body import Framed, looks_framed, read_body, write_body
from tiercel.framing.envelopes import EnvelopeReader, EnvelopeWriter
from tiercel.framing.receiver import read_envelopes
from tiercel.framing.records import Cursor, Encoding, Mode, Preamble, RecordType, read_preamble
from tiercel.model.errors import DecodeError
from tiercel.nbfx.int31 import read_int31, write_int31

VECTORS = load("nmfmb")
GOOD = [vector for vector in VECTORS if not vector.get("refused")]
BAD = [vector for vector in VECTORS if vector.get("refused")]
VIA = "net.msmq://srv/private/q1"
EXAMPLE = bytes.fromhex(  # [MS-NMFMB] 4
    "0001000104022b6e65742e6d736d713a2f2f6c6f63616c686f73742f707269766174652f7472616e73616374696f6e616c710307"
)


def name_of(vector: Any) -> str:
    return str(vector["name"])


def problem(body: bytes) -> str:
    with pytest.raises(DecodeError) as caught:
        read_body(body)
    return str(caught.value)


@pytest.mark.parametrize("vector", GOOD, ids=name_of)
@pytest.mark.conformance("NMFMB-021", "NMFMB-022", "NMFMB-024", "NMFMB-026", "NMFMB-055")
def test_bodies_are_read_and_written_byte_for_byte(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["hex"])
    framed = read_body(body)
    preamble = framed.preamble
    assert (preamble.mode, preamble.via) == (vector["mode"], vector["via"])
    assert (preamble.content_type or int(preamble.encoding)) == vector["encoding"]
    assert [envelope.hex() for envelope in framed.envelopes] == [each["hex"] for each in vector["envelopes"]]
    assert framed.encode() == body
    assert looks_framed(body)


@pytest.mark.parametrize("vector", GOOD, ids=name_of)
@pytest.mark.conformance("NMFMB-002")
def test_envelopes_of_every_encoding(vector: dict[str, Any]) -> None:
    """Binary, binary of sessions, text in UTF-8 and UTF-16, both versions of SOAP."""
    found = [nbfx.to_text(events) for events in read_envelopes(read_body(bytes.fromhex(vector["hex"])))]
    expected = [nbfx.to_text(nbfx.from_text(each["xml"])) for each in vector["envelopes"]]
    assert found == expected


@pytest.mark.parametrize("vector", BAD, ids=name_of)
@pytest.mark.conformance("NMFMB-002", "NMFMB-021", "NMFMB-022", "NMFMB-024", "NMFMB-025")
def test_refused_bodies(vector: dict[str, Any]) -> None:
    expected = {
        "0C is missing": "framing.Preamble End at byte 44: a sized envelope record stands where",
        "07 is missing": "framing.End at byte 1267: the body ends before",
        "version": "framing.Version at byte 1: the version must be 1.0, not 2.0",
        "record order": "framing.Mode at byte 3: a via record stands where a mode record must",
        "size 0": "framing.Via at byte 6: the size must not be 0",
    }
    assert problem(bytes.fromhex(vector["hex"])).startswith(expected[vector["refused"]])


@pytest.mark.conformance("NMFMB-022")
def test_the_example_of_the_specification() -> None:
    """[MS-NMFMB] 4: mode 4, net.msmq, encoding 7 (NMFMB trap 19)."""
    preamble = read_preamble(Cursor(EXAMPLE))
    via = "net.msmq://localhost/private/transactionalq"
    assert preamble == Preamble(Mode.SINGLETON_SIZED, via, Encoding.BINARY)
    assert preamble.encode() == EXAMPLE
    assert len(EXAMPLE) == 52


@pytest.mark.conformance("NMFMB-023")
def test_a_datagram_is_its_preamble_and_the_octets_of_its_envelope() -> None:
    body = write_body(Preamble(Mode.SINGLETON_SIZED, VIA, Encoding.BINARY), [b"\x06\x05AAAAA\x07"])
    assert body.hex() == "00010001040219" + VIA.encode().hex() + "0307" + "06054141414141" + "07"
    assert read_body(body).envelopes == (b"\x06\x05AAAAA\x07",)


@pytest.mark.conformance("NMFMB-010", "NMFMB-024")
def test_a_session_is_records_between_preamble_end_and_end() -> None:
    """The derived vector of the matrix."""
    framed = Framed(Preamble(Mode.SIMPLEX, VIA, Encoding.BINARY_SESSION), (b"A" * 5, b"B" * 200))
    body = framed.encode()
    assert body.hex().startswith("000100010302196e65742e6d736d713a2f2f7372762f707269766174652f713103080c0605")
    assert body[42:47] == b"\x06\xc8\x01BB"
    assert body[-1:] == b"\x07"
    assert read_body(body) == framed


def test_a_session_without_envelopes() -> None:
    body = write_body(Preamble(Mode.SIMPLEX, VIA, Encoding.BINARY_SESSION), [])
    assert read_body(body).envelopes == ()


@pytest.mark.parametrize(
    ("size", "octets"),
    [(0x7F, 1), (0x80, 2), (0x3FFF, 2), (0x4000, 3)],
)
@pytest.mark.conformance("NMFMB-025")
def test_sizes(size: int, octets: int) -> None:
    preamble = Preamble(Mode.SIMPLEX, VIA, Encoding.BINARY_SESSION)
    body = write_body(preamble, [b"x" * size])
    assert len(body) == len(preamble.encode()) + 1 + octets + size + 1
    assert read_body(body).envelopes == (b"x" * size,)


@pytest.mark.parametrize("size", [1, 0x7F, 0x80, 0x3FFF, 0x4000, 0x1FFFFF, 0x200000, 0x0FFFFFFF, 0x7FFFFFFF])
@pytest.mark.conformance("NMFMB-025")
def test_sizes_survive(size: int) -> None:
    out = bytearray()
    write_int31(out, size)
    assert len(out) <= 5
    assert read_int31(bytes(out), 0) == (size, len(out))


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ("00", "the size must not be 0"),
        ("ffffffff07", "2147483647 octets are announced, but 1 are left"),
        ("ffffffff08", "a size exceeds 2147483647"),
        ("ffffffffff01", "a size exceeds 2147483647"),
        ("80", "the body ends inside a size"),
    ],
)
@pytest.mark.conformance("NMFMB-025")
def test_bad_sizes(size: str, said: str) -> None:
    preamble = Preamble(Mode.SIMPLEX, VIA, Encoding.BINARY_SESSION).encode()
    end = b"" if size == "80" else b"\x07"
    assert said in problem(preamble + b"\x06" + bytes.fromhex(size) + end)


@pytest.mark.conformance("NMFMB-028")
def test_limits_of_via_and_content_type() -> None:
    def body(via: int, content_type: int) -> bytes:
        kind = "text/xml;" + "x" * (content_type - 9)
        preamble = Preamble(Mode.SINGLETON_SIZED, "v" * via, Encoding.SOAP11_UTF8, kind)
        return preamble.encode() + b"<a/>"

    assert read_body(body(2048, 256)).preamble.via == "v" * 2048
    assert "framing.Via at byte 6: 2049 octets exceed the limit of 2048" in problem(body(2049, 256))
    assert "257 octets exceed the limit of 256" in problem(body(2048, 257))


@pytest.mark.parametrize("record", [RecordType.UPGRADE_REQUEST, RecordType.PREAMBLE_ACK, RecordType.FAULT])
@pytest.mark.conformance("NMFMB-029")
def test_records_of_other_modes_are_errors(record: RecordType) -> None:
    session = bytearray(write_body(Preamble(Mode.SIMPLEX, VIA, Encoding.BINARY_SESSION), [b"x"]))
    at = session.index(b"\x0c\x06")
    assert "record stands where" in problem(bytes(session[:at]) + bytes((record,)) + bytes(session[at:]))
    assert "record stands where" in problem(bytes(session[: at + 1]) + bytes((record,)))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "framing.Version at byte 0: the body ends"),
        (b"<xml/>", "an unknown record 0x3C stands where a version record must"),
        (b"\x00\x01\x01", "the version must be 1.0, not 1.1"),
        (b"\x00\x01\x00\x01\x02", "the mode must be 3 (simplex) or 4 (singleton sized), not 2"),
        (b"\x00\x01\x00\x01\x04\x02\x01\xff", "not valid UTF-8"),
        (EXAMPLE[:-1] + b"\x09", "the encoding must be 0 to 8, not 9"),
        (EXAMPLE[:-2] + b"\x06", "a sized envelope record stands where an encoding must"),
        (EXAMPLE[:-2] + b"\x05", "an unsized envelope record stands where an encoding must"),
        (EXAMPLE[:-2] + b"\x04\x0aimage/jpeg", "unknown content type 'image/jpeg'"),
        (EXAMPLE, "the body ends before the envelope"),
    ],
)
@pytest.mark.conformance("NMFMB-002", "NMFMB-026")
def test_bad_preambles(body: bytes, said: str) -> None:
    assert said in problem(body)


@pytest.mark.conformance("NMFMB-021")
def test_trailing_octets() -> None:
    body = write_body(Preamble(Mode.SIMPLEX, VIA, Encoding.BINARY_SESSION), [b"x"])
    assert "1 octets follow the end record" in problem(body + b"\x00")


@pytest.mark.parametrize("vector", GOOD, ids=name_of)
def test_truncated_at_every_byte(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["hex"])
    for size in range(len(body)):
        with pytest.raises(DecodeError):
            list(read_envelopes(read_body(body[:size])))


@given(st.binary(max_size=80), st.sampled_from([b"", EXAMPLE[:5], EXAMPLE[:-1], EXAMPLE]))
def test_any_bytes_give_a_body_or_the_one_error(tail: bytes, head: bytes) -> None:
    try:
        framed = read_body(head + tail)
        list(read_envelopes(framed))
    except DecodeError:
        return
    assert read_body(framed.encode()) == framed


EVENTS: list[nbfx.Event] = [
    ("start", "", "r", "urn:r", (nbfx.declaration("", "urn:r"),)),
    ("text", "größe"),
    ("start", "", "b", "urn:r", ()),
    ("text", bytes(range(256)) * 4),
    nbfx.END,
    nbfx.END,
]


@pytest.mark.parametrize("encoding", Encoding)
@pytest.mark.conformance("NMFMB-026")
def test_every_encoding_both_ways(encoding: Encoding) -> None:
    preamble = Preamble(Mode.SINGLETON_SIZED, VIA, encoding)
    writer, reader = EnvelopeWriter(encoding), EnvelopeReader(preamble)
    for _ in range(2):
        assert nbfx.to_text(reader.read(writer.write(EVENTS))) == nbfx.to_text(EVENTS)


@pytest.mark.parametrize(
    ("content_type", "encode"),
    [
        ("application/soap+xml; charset=utf-8", lambda text: text.encode()),
        ("text/xml; charset=utf-16", lambda text: text.encode("utf-16-be")),
        ("text/xml; charset=unicodeFFFE", lambda text: b"\xfe\xff" + text.encode("utf-16-be")),
        ("application/soap+msbin1", lambda text: nbfx.encode(nbfx.from_text(text))),
    ],
)
@pytest.mark.conformance("NMFMB-026")
def test_extensible_encodings(content_type: str, encode: Any) -> None:
    preamble = Preamble(Mode.SINGLETON_SIZED, VIA, Encoding.SOAP12_UTF8, content_type)
    framed = read_body(preamble.encode() + encode("<r>ü</r>"))
    assert [nbfx.to_text(each) for each in read_envelopes(framed)] == ["<r>ü</r>"]


XOP = b"http://www.w3.org/2004/08/xop/include"
MTOM = b"""MIME-Version: 1.0
Content-Type: multipart/related;type="application/xop+xml";boundary="b";start="<root>"

--b
Content-ID: <blob%20part>
Content-Type: application/octet-stream
Content-Transfer-Encoding: binary

\x01\x02\x03
--b
Content-ID: <root>
Content-Type: application/xop+xml;charset=utf-8;type="application/soap+xml"

<r><d><x:Include href="cid:blob%2520part" xmlns:x="http://www.w3.org/2004/08/xop/include"/></d></r>
--b--
""".replace(b"\n", b"\r\n")


def mtom(data: bytes) -> str:
    preamble = Preamble(Mode.SINGLETON_SIZED, VIA, Encoding.MTOM)
    return nbfx.to_text(EnvelopeReader(preamble).read(data))


@pytest.mark.conformance("NMFMB-026")
def test_mtom() -> None:
    assert mtom(MTOM) == "<r><d>AQID</d></r>"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"cid:blob%2520part", b"cid:other", "there is no part 'cid:other'"),
        (b"cid:blob%2520part", b"http://x", "there is no part 'http://x'"),
        (b"--b--", b"", "the last part has no end"),
        (b"multipart/related", b"text/plain", "not a multipart message"),
        (b"--b\r\n", b"--c\r\n", "the message has no parts"),
        (b"Encoding: binary", b"Encoding: uuencode", "unknown transfer encoding 'uuencode'"),
        (b"Encoding: binary", b"Encoding: base64", "not valid base64"),
        (b"Content-ID: <r", b"x: " + b"y" * 20_000 + b"\r\nContent-ID: <r", "no end within 16384 bytes"),
        (b'include"/></d>', b'include">x</x:Include></d>', "xop:Include must be empty"),
        (
            b"</d></r>",
            b'</d><x:Include href="cid:blob%2520part" xmlns:x="' + XOP + b'"/></r>',
            "still to come",
        ),
        (b"--b\r\n", b"--b\r\n\r\n" * 1000, "more than 1000 parts"),
        (b";type=", b";a=" + b"b" * 1024 + b";type=", "the content type has more than 1024 characters"),
        (b";type=", b";a=b" * 5000 + b";type=", "no end within 16384 bytes"),
    ],
)
def test_bad_mtom(old: bytes, new: bytes, said: str) -> None:
    assert old in MTOM
    with pytest.raises(DecodeError, match=said):
        mtom(MTOM.replace(old, new))


@pytest.mark.parametrize(
    ("encoding", "content", "value"),
    [
        (b"binary", bytes(range(256)) * 2 + b"\r\n--c\r\n--bb\r\n\n\r", None),
        (b"8bit", b"", None),
        (b"Base64", b"AQI\r\nD\r\n", b"\1\2\3"),
        (b"quoted-printable", b"a=01=\r\nb", b"a\1b"),
    ],
)
def test_parts_of_mtom(encoding: bytes, content: bytes, value: bytes | None) -> None:
    data = MTOM.replace(b"Encoding: binary", b"Encoding: " + encoding).replace(b"\1\2\3", content)
    found = base64.b64encode(content if value is None else value).decode()
    expected = f"<r><d>{found}</d></r>"
    assert mtom(data) == expected
    quirks = data.replace(b"\r\n---b\r\n", b"\r\npreamble --b\r\n---b \t\r\n", 1) + b"epilogue\r\n--b\r\n"
    assert mtom(quirks) == expected


@pytest.mark.parametrize("nested", [b"message/rfc822", b'multipart/mixed;boundary="%d"'])
def test_mtom_in_mtom(nested: bytes) -> None:
    """What is in a part is its content: the standard library would call itself for each level."""
    parts = b""
    for level in range(2000):
        boundary = b"--%d\r\n" % (level - 1) if level and b"%d" in nested else b""
        kind = nested % level if b"%d" in nested else nested
        parts += boundary + b"Content-Type: " + kind + b"\r\n\r\n"
    with pytest.raises(DecodeError, match="syntax error"):
        mtom(b'Content-Type: multipart/related;boundary="b"\r\n\r\n--b\r\n' + parts + b"--b--\r\n")
