"""Bodies by their VARTYPE. [MS-MQMQ] 2.2.12"""

import struct
from pathlib import Path

import pytest

from tiercel.bodies import Kind, decode
from tiercel.model.codes import BodyType
from tiercel.wire.user_message import UserMessage

VECTORS = Path(__file__).resolve().parent.parent / "vectors"
VECTOR, ARRAY = 0x1000, 0x2000


@pytest.mark.parametrize(
    ("body_type", "body", "kind", "value", "text"),
    [
        (BodyType.I1, "ff", Kind.NUMBER, -1, "-1"),
        (BodyType.UI1, "ff", Kind.NUMBER, 255, "255"),
        (BodyType.I2, "feff", Kind.NUMBER, -2, "-2"),
        (BodyType.UI2, "feff", Kind.NUMBER, 65534, "65534"),
        (BodyType.I4, "2a000000", Kind.NUMBER, 42, "42"),
        (BodyType.INT, "2a000000", Kind.NUMBER, 42, "42"),
        (BodyType.UI4, "ffffffff", Kind.NUMBER, 4294967295, "4294967295"),
        (BodyType.UINT, "ffffffff", Kind.NUMBER, 4294967295, "4294967295"),
        (BodyType.ERROR, "05400080", Kind.NUMBER, 0x80004005, "2147500037"),
        (BodyType.I8, "ff" * 8, Kind.NUMBER, -1, "-1"),
        (BodyType.UI8, "ff" * 8, Kind.NUMBER, 18446744073709551615, "18446744073709551615"),
        (BodyType.R4, "cdcccc3d", Kind.NUMBER, 0.1, "0.1"),
        (BodyType.R4, "ffff7f7f", Kind.NUMBER, 3.40282347e38, "3.40282347e+38"),
        (BodyType.R8, "000000000000f83f", Kind.NUMBER, 1.5, "1.5"),
        (BodyType.BOOL, "ffff", Kind.BOOLEAN, True, "true"),
        (BodyType.BOOL, "00", Kind.BOOLEAN, False, "false"),
        (BodyType.CY, "d430000000000000", Kind.NUMBER, "1.2500", "1.2500"),
        (BodyType.DATE, "0000000000c0e240", Kind.DATE, "2005-02-17T00:00:00", "2005-02-17T00:00:00"),
        (BodyType.DATE, "000000000000f4bf", Kind.DATE, "1899-12-29T06:00:00", "1899-12-29T06:00:00"),
        (BodyType.FILETIME, "00803ed5deb19d01", Kind.DATE, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),
        (BodyType.FILETIME, "01803ed5deb19d01", Kind.DATE, "1970-01-01T00:00:00.0000001Z", None),
        (BodyType.DECIMAL, "0000 02 80 00000000 3930000000000000", Kind.NUMBER, "-123.45", "-123.45"),
        (
            BodyType.CLSID,
            "33221100554477668899aabbccddeeff",
            Kind.GUID,
            "00112233-4455-6677-8899-aabbccddeeff",
            None,
        ),
        (BodyType.BSTR, "68006900", Kind.TEXT, "hi", "hi"),
        (BodyType.LPWSTR, "680069000000", Kind.TEXT, "hi", "hi"),
        (BodyType.LPWSTR, "00d8", Kind.TEXT, "\ufffd", "\ufffd"),
        (BodyType.LPSTR, "68690a00", Kind.TEXT, "hi\n", "hi\n"),
        (BodyType.LPSTR, "4dc3bc6c6c6572", Kind.TEXT, "Müller", "Müller"),
        (BodyType.LPSTR, "4dfc6c6c6572", Kind.TEXT, "Müller", "Müller"),
    ],
)
def test_one_value(body_type: int, body: str, kind: Kind, value: object, text: str | None) -> None:
    decoded = decode(bytes.fromhex(body), body_type)
    assert (decoded.kind, decoded.value, decoded.error) == (kind, value, None)
    assert decoded.text == (value if text is None else text)


@pytest.mark.parametrize(
    ("body_type", "body", "value"),
    [
        (ARRAY | BodyType.I2, "0100feff", [1, -2]),
        (VECTOR | BodyType.UI4, "01000000", [1]),
        (ARRAY | BodyType.BOOL, "ffff0000", [True, False]),
        (VECTOR | BodyType.CLSID, "00" * 16, ["00000000-0000-0000-0000-000000000000"]),
    ],
)
def test_arrays(body_type: int, body: str, value: object) -> None:
    decoded = decode(bytes.fromhex(body), body_type)
    assert (decoded.kind, decoded.value, decoded.error) == (Kind.ARRAY, value, None)


@pytest.mark.parametrize("body_type", [VECTOR | BodyType.UI1, ARRAY | BodyType.UI1, BodyType.BLOB])
def test_bytes_are_not_looked_at(body_type: int) -> None:
    decoded = decode(b'{"a":1}', body_type)
    assert (decoded.kind, decoded.value, decoded.text, decoded.json) == (Kind.BYTES, b'{"a":1}', None, None)


def test_a_saved_object() -> None:
    decoded = decode(bytes(16) + b"state", BodyType.STREAMED_OBJECT)
    assert decoded.kind is Kind.OBJECT
    assert decoded.json == '{"$clsid":"00000000-0000-0000-0000-000000000000","$stream":"c3RhdGU="}'


@pytest.mark.parametrize("body_type", [BodyType.STORED_OBJECT, BodyType.STREAMED_OBJECT])
def test_a_stored_object(body_type: int) -> None:
    storage = bytes.fromhex("D0CF11E0A1B11AE1") + bytes(8)
    assert decode(storage, body_type).value == {"$storage": storage}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_has_not(number: float) -> None:
    names = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    decoded = decode(struct.pack("<d", number), BodyType.R8)
    assert decoded.text == names[str(number)]
    assert decoded.json == f'"{names[str(number)]}"'
    assert (
        decode(struct.pack("<2d", 1.5, number), ARRAY | BodyType.R8).json == f'[1.5,"{names[str(number)]}"]'
    )


@pytest.mark.parametrize(
    ("body_type", "body", "problem"),
    [
        (BodyType.I4, "2a", "VT_I4 at byte 0: has 4 bytes, not 1"),
        (BodyType.BOOL, "000000", "has 1 or 2 or 4 bytes, not 3"),
        (BodyType.BSTR, "680069", "even number of bytes, not 3"),
        (BodyType.NULL, "00", "has 0 bytes, not 1"),
        (BodyType.DATE, "000000000000f87f", "nan days are no date"),
        (BodyType.FILETIME, "ff" * 8, "no moment from the year 1 to 9999"),
        (BodyType.DECIMAL, "0000 1d 00 00000000 0000000000000000", "scale 29"),
        (BodyType.STREAMED_OBJECT, "00", "begins with its CLSID"),
        (ARRAY | BodyType.I4, "2a00000000", "5 bytes are no array of 4-byte elements"),
    ],
)
def test_what_is_not_what_its_type_says(body_type: int, body: str, problem: str) -> None:
    decoded = decode(bytes.fromhex(body), body_type)
    assert decoded.value is decoded.json is None
    assert problem in str(decoded.error)


def test_what_windows_sent() -> None:
    """The body of the user message in [MS-MQQB] 4.1, a VT_BSTR."""
    message = UserMessage((VECTORS / "mqqb" / "frame7_user_message.bin").read_bytes())
    decoded = decode(message.body, message.properties.body_type)
    assert (decoded.kind, set(decoded.text or ""), len(decoded.text or "")) == (Kind.TEXT, {"a"}, 1000)
