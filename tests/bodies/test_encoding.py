from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiercel.bodies import decode, encode
from tiercel.bodies.encoding import Form
from tiercel.model.codes import BodyType
from tiercel.model.errors import InvalidParameterError
from tiercel.model.message import Message

GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")


class TestAsDotNetWritesIt:
    def test_xml(self) -> None:
        assert encode("a < b", "xml") == (b'<?xml version="1.0"?>\r\n<string>a &lt; b</string>', 0)
        assert encode(7, "xml").body.endswith(b"<int>7</int>")
        assert encode(1 << 40, "xml").body.endswith(b"<long>1099511627776</long>")
        assert encode(Decimal("1E+2"), "xml").body.endswith(b"<decimal>100</decimal>")
        assert encode(float("-inf"), "xml").body.endswith(b"<double>-INF</double>")

    def test_a_class_as_xml(self) -> None:
        body = encode({"Id": 7, "Line": ["a", "b"], "When": None}, "xml", name="Order").body
        assert body.endswith(b'<Id>7</Id><Line>a</Line><Line>b</Line><When xsi:nil="true" /></Order>')
        assert decode(body).value == {"Id": "7", "Line": ["a", "b"], "When": None}

    @pytest.mark.parametrize(
        ("value", "body", "body_type"),
        [
            ("hi", "68006900", BodyType.BSTR),
            (True, "ffff", BodyType.BOOL),
            (-2, "feffffff", BodyType.I4),
            (1 << 31, "0000008000000000", BodyType.I8),
            ((1 << 64) - 1, "ff" * 8, BodyType.UI8),
            (1.5, "000000000000f83f", BodyType.R8),
            (Decimal("1.25"), "d430000000000000", BodyType.CY),
            (datetime(1899, 12, 29, 6), "000000000000f4bf", BodyType.DATE),  # noqa: DTZ001 - has no zone
            (GUID, "33221100554477668899aabbccddeeff", BodyType.CLSID),
            (b"\0\1", "0001", BodyType.VECTOR_UI1),
            (None, "", BodyType.NULL),
        ],
    )
    def test_activex(self, value: object, body: str, body_type: int) -> None:
        assert encode(value, "activex") == (bytes.fromhex(body), body_type)

    def test_binary(self) -> None:
        start = "0001000000ffffffff0100000000000000"
        assert encode("hello", "binary") == (bytes.fromhex(start + "06010000000568656c6c6f0b"), 0x300)
        number = "04010000000c53797374656d2e496e74333201000000076d5f76616c756500082a0000000b"
        assert encode(42, "binary").body == bytes.fromhex(start + number)

    def test_it_makes_a_message(self) -> None:
        message = Message(label="greeting", **encode("hello", "lpwstr")._asdict())
        assert (message.body, message.body_type) == ("hello".encode("utf-16-le"), BodyType.LPWSTR)


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"))
LINES = st.text(st.sampled_from("a\r\n\t <&>\"'"))
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
FLOATS = st.floats(allow_nan=False)


class TestRoundTrips:
    @given(st.one_of(TEXT, LINES, INT64, st.booleans(), FLOATS, st.binary(min_size=1)))
    def test_xml(self, value: object) -> None:
        assert decode(*encode(value, "xml")).value == value

    @given(st.one_of(TEXT.map(lambda text: "." + text), INT64, st.booleans(), FLOATS, st.binary(min_size=1)))
    def test_activex(self, value: object) -> None:
        assert decode(*encode(value, "activex")).value == value

    @given(
        st.one_of(
            st.text(st.characters(exclude_categories=["Cs"])), INT64, st.booleans(), FLOATS, st.binary()
        )
    )
    def test_binary(self, value: object) -> None:
        assert decode(*encode(value, "binary")).value == value

    @given(st.lists(TEXT, min_size=1))
    def test_lists(self, value: list[str]) -> None:
        assert decode(*encode(value, "binary")).value == value
        assert decode(*encode(value, "xml")).value == value

    @given(
        st.dictionaries(
            TEXT,
            st.one_of(TEXT, INT64, st.none(), st.lists(st.floats(allow_nan=False, allow_infinity=False))),
        )
    )
    def test_json(self, value: dict[str, Any]) -> None:
        assert decode(*encode(value, "json"), expect="json").value == value

    @given(st.datetimes(datetime(101, 1, 1), datetime(9999, 12, 30)))  # noqa: DTZ001 - VT_DATE has no zone
    def test_dates_to_the_millisecond(self, value: datetime) -> None:
        value = value.replace(microsecond=value.microsecond // 1000 * 1000)
        assert decode(*encode(value, "activex")).value == value.isoformat()

    @pytest.mark.parametrize("form", ["bstr", "lpwstr", "lpstr", "utf-8"])
    def test_text(self, form: Form) -> None:
        assert decode(*encode("hello", form)).text == "hello"


@pytest.mark.parametrize(
    ("value", "form", "problem"),
    [
        ("é", "lpstr", "ascii"),
        (7, "bstr", "takes str, not int"),
        ("\1", "xml", "XML cannot carry the character U+0001"),
        ("\ud800", "xml", "XML cannot carry the character U+D800"),
        (object(), "xml", "object has no type in XML Schema"),
        ([], "xml", "items of one type, at least one"),
        ([1, "a"], "xml", "items of one type"),
        ({"a": 1}, "xml", "a dict needs name="),
        ({"a b": 1}, "xml", "is not a valid element name"),
        (1 << 64, "activex", "more than 64 bits"),
        (1 << 63, "binary", "number out of range"),
        (Decimal("0.00001"), "activex", "four decimals"),
        (Decimal("1e30"), "activex", "number out of range"),
        (datetime(2024, 1, 1, tzinfo=UTC), "activex", "no time zone"),
        ([1], "binary", "takes str, not int"),
        (float("nan"), "json", "not JSON compliant"),
        ("x", "yaml", "unknown form"),
    ],
)
def test_what_a_form_cannot_carry(value: object, form: Any, problem: str) -> None:
    with pytest.raises(InvalidParameterError, match="MQ_ERROR_INVALID_PARAMETER") as caught:
        encode(value, form, name="Order" if problem == "is not a valid element name" else None)
    assert problem in str(caught.value)
