"""Bodies of System.Messaging's XmlMessageFormatter, and other XML."""

import pytest

from tiercel.bodies import Decoded, Kind, decode

DECLARATION = '<?xml version="1.0"?>\r\n'
XSI = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
XSD = 'xmlns:xsd="http://www.w3.org/2001/XMLSchema"'


def decode_xml(document: str) -> Decoded:
    decoded = decode((DECLARATION + document).encode())
    assert decoded.kind is Kind.XML
    return decoded


def value(document: str) -> object:
    decoded = decode_xml(document)
    assert decoded.error is None
    return decoded.value


@pytest.mark.parametrize(
    ("document", "expected", "text"),
    [
        ("<string>hello &amp; goodbye</string>", "hello & goodbye", "hello & goodbye"),
        ("<string />", "", ""),
        ("<string>  spaces stay </string>", "  spaces stay ", "  spaces stay "),
        ("<int>-42</int>", -42, "-42"),
        ("<unsignedLong>18446744073709551615</unsignedLong>", (1 << 64) - 1, "18446744073709551615"),
        ("<boolean>true</boolean>", True, "true"),
        ("<double>1.5E-3</double>", 0.0015, "0.0015"),
        ("<float>INF</float>", float("inf"), "Infinity"),
        ("<decimal>1.10</decimal>", "1.10", "1.10"),
        ("<char>233</char>", "é", "é"),
        ("<dateTime>2024-05-06T07:08:09.1234567+02:00</dateTime>", "2024-05-06T07:08:09.1234567+02:00", None),
        ("<guid>00112233-4455-6677-8899-aabbccddeeff</guid>", "00112233-4455-6677-8899-aabbccddeeff", None),
    ],
)
def test_one_value(document: str, expected: object, text: str | None) -> None:
    decoded = decode_xml(document)
    assert (decoded.value, decoded.error) == (expected, None)
    assert decoded.text == (expected if text is None else text)


def test_bytes() -> None:
    assert value("<base64Binary>AAEC\n/w==</base64Binary>") == b"\0\1\2\xff"
    assert decode_xml("<a><b>x</b></a>").json == '{"b":"x"}'


class TestArrays:
    def test_of_one_type(self) -> None:
        assert value(f"<ArrayOfInt {XSI}>\r\n  <int>1</int>\r\n  <int>2</int>\r\n</ArrayOfInt>") == [1, 2]

    def test_empty(self) -> None:
        assert value("<ArrayOfString />") == []

    def test_of_classes(self) -> None:
        assert value("<ArrayOfOrder><Order><Id>1</Id></Order></ArrayOfOrder>") == [{"Id": "1"}]

    def test_of_anything(self) -> None:
        items = '<anyType xsi:type="xsd:int">5</anyType><anyType xsi:type="xsd:string">x</anyType>'
        items += '<anyType xsi:nil="true" />'
        assert value(f"<ArrayOfAnyType {XSI} {XSD}>{items}</ArrayOfAnyType>") == [5, "x", None]


class TestClasses:
    def test_members_are_texts(self) -> None:
        document = f"<Order {XSI} {XSD}>\r\n  <Id>7</Id>\r\n  <Customer>Müller</Customer>\r\n</Order>"
        assert value(document) == {"Id": "7", "Customer": "Müller"}

    def test_a_repeated_member_is_a_list(self) -> None:
        assert value("<Order><Line>a</Line><x/><Line>b</Line><Line>c</Line></Order>") == {
            "Line": ["a", "b", "c"],
            "x": "",
        }

    def test_nil(self) -> None:
        assert value(f'<Order {XSI}><When xsi:nil="true" /></Order>') == {"When": None}

    def test_a_derived_class(self) -> None:
        document = f'<Vehicle {XSI} xsi:type="Car"><Doors>4</Doors></Vehicle>'
        assert value(document) == {"$type": "Car", "Doors": "4"}

    def test_attributes_and_mixed_text(self) -> None:
        assert value('<a id="1">text<b/></a>') == {"@id": "1", "b": "", "#text": "text"}

    def test_namespaces_are_dropped(self) -> None:
        assert value('<p:a xmlns:p="urn:x" p:id="1"><p:b>c</p:b></p:a>') == {"@id": "1", "b": "c"}

    def test_the_text_is_the_document(self) -> None:
        assert decode_xml("<a><b/></a>").text == DECLARATION + "<a><b/></a>"


class TestEncodings:
    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
    def test_unicode(self, encoding: str) -> None:
        assert decode('<?xml version="1.0"?><string>é</string>'.encode(encoding)).value == "é"

    def test_big_endian(self) -> None:
        body = '\ufeff<?xml version="1.0" encoding="utf-16"?><string>é</string>'.encode("utf-16-be")
        assert decode(body).value == "é"

    def test_declared(self) -> None:
        body = '<?xml version="1.0" encoding="windows-1252"?><string>€</string>'.encode("cp1252")
        assert decode(body).value == "€"

    @pytest.mark.parametrize("encoding", ["rot13", "unicode_escape", "iso-8859-99", "punycode"])
    def test_no_other_is_used(self, encoding: str) -> None:
        body = f'<?xml version="1.0" encoding="{encoding}"?><string>'.encode() + b"\xff</string>"
        assert decode(body).kind is Kind.BINARY

    def test_text_of_com_says_another_encoding_than_it_has(self) -> None:
        decoded = decode('<?xml version="1.0" encoding="utf-8"?><a><b>é</b></a>'.encode("utf-16-le"), 8)
        assert decoded.value == {"b": "é"}


class TestBadDocuments:
    @pytest.mark.parametrize(
        ("document", "problem"),
        [
            ("<a>", "no element found"),
            ("<a></b>", "mismatched tag"),
            ("<a/><b/>", "junk after document element"),
            ("<int>x</int>", "'x' is not a valid integer"),
            ("<int>1_000</int>", "is not a valid integer"),
            ("<int>" + "9" * 5000 + "</int>", "is not a valid integer"),
            ("<double>1_0</double>", "is not a valid number"),
            ("<boolean>yes</boolean>", "'yes' is not a valid boolean"),
            ("<char>65536</char>", "65536 is not a valid character"),
            ("<base64Binary>?</base64Binary>", "is no base64"),
            ("<hexBinary>0g</hexBinary>", "non-hexadecimal"),
            ("<a>&b;</a>", "undefined entity"),
            ("<!DOCTYPE a><a/>", "document types are not read"),
            ('<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', "document types are not read"),
        ],
    )
    def test_error(self, document: str, problem: str) -> None:
        decoded = decode_xml(document)
        assert problem in str(decoded.error)
        assert decoded.value is decoded.json is None
        assert decoded.text == DECLARATION + document

    def test_what_only_begins_like_xml_is_text(self) -> None:
        assert decode(b"<hello").kind is Kind.TEXT
