"""Bodies of NetMsmqBinding as values, and what service buses write around theirs."""

import json

import pytest

from nbfx.vectors import load
from tiercel.bodies import Decoded, Kind, bus_headers, decode
from tiercel.framing.body import write_body
from tiercel.framing.records import Encoding, Mode, Preamble
from tiercel.nbfx import from_text, to_text

VECTORS = {vector["name"]: vector for vector in load("nmfmb")}
ADDRESS = "net.msmq://localhost/private/orders"
VT_VECTOR_UI1 = 0x1011


def decoded(name: str, body_type: int = VT_VECTOR_UI1) -> Decoded:
    return decode(bytes.fromhex(VECTORS[name]["hex"]), body_type)


@pytest.mark.parametrize("body_type", [0, VT_VECTOR_UI1])
def test_a_datagram(body_type: int) -> None:
    found = decoded("02_datagram_order", body_type)
    assert (found.kind, found.error) == (Kind.WCF, None)
    assert found.headers == {
        "action": "http://example.org/orders/IOrder/Submit",
        "to": ADDRESS,
        "message_id": "urn:uuid:d1c2b3a4-0011-2233-4455-66778899aabb",
    }
    assert found.text is not None
    assert found.text.startswith('<Submit xmlns="http://example.org/orders"><order xmlns:b=')
    assert found.json is not None
    order = json.loads(found.json)["order"]
    assert (order["Id"], order["Name"], order["Prices"]) == (1, "würfel 1", [1.5, 2.25, -1e300])
    assert (order["Paid"], order["Total"], order["Next"], order["Blob"]) == (False, "12.30", None, "AQIDBAU=")


def test_a_session_is_a_list() -> None:
    found = decoded("04_session_three")
    assert found.kind is Kind.WCF
    assert isinstance(found.value, list)
    assert len(found.value) == 3
    assert found.text is not None
    assert found.text.count("\n") == 2


@pytest.mark.parametrize("name", [name for name, vector in VECTORS.items() if not vector.get("refused")])
def test_the_body_is_a_document_of_its_own(name: str) -> None:
    """With every prefix declared that it uses, those of a fault too."""
    found = decoded(name)
    assert (found.kind, found.error) == (Kind.WCF, None)
    for text in (found.text or "").splitlines():
        assert to_text(from_text(text)) == text


@pytest.mark.parametrize("name", [name for name, vector in VECTORS.items() if vector.get("refused")])
def test_bodies_that_are_refused(name: str) -> None:
    found = decoded(name)
    if name == "14_BAD_version_2" or name.startswith("15_BAD"):  # they do not begin as framed bodies do
        assert found.kind is Kind.BYTES
    else:
        assert found.kind is Kind.WCF
        assert (found.error or "").startswith("framing.")


def test_an_empty_soap_body() -> None:
    found = decoded("01_datagram_minimal")
    assert (found.text, found.value, found.headers["to"]) == ("", None, ADDRESS)


def test_a_document_that_is_not_an_envelope() -> None:
    preamble = Preamble(Mode.SINGLETON_SIZED, ADDRESS, Encoding.SOAP12_UTF8)
    found = decode(write_body(preamble, [b"<order/>"]))
    assert found.error == "SOAP.Envelope at byte 0: the root is 'order'"


def test_other_body_types_are_what_they_say() -> None:
    assert decoded("02_datagram_order", 8).kind is Kind.TEXT


def test_expected() -> None:
    assert decode(b"<a/>", expect="wcf").error is not None
    assert decode(bytes.fromhex(VECTORS["02_datagram_order"]["hex"]), expect="wcf").error is None


# Service buses.

NSERVICEBUS = """<?xml version="1.0"?>
<ArrayOfHeaderInfo xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
  <HeaderInfo><Key>NServiceBus.MessageId</Key><Value>7c9e</Value></HeaderInfo>
  <HeaderInfo><Key>NServiceBus.EnclosedMessageTypes</Key><Value>Orders.Submit, Orders</Value></HeaderInfo>
</ArrayOfHeaderInfo>"""
ENVELOPE = {
    "messageId": "00010000",
    "destinationAddress": "msmq://localhost/orders",
    "messageType": ["urn:message:Orders:Submit", "urn:message:Orders:ISubmit"],
    "message": {"id": 7},
}


@pytest.mark.parametrize("codec", ["utf-8", "utf-16"])
def test_nservicebus(codec: str) -> None:
    assert bus_headers(NSERVICEBUS.encode(codec), decode(b"{}")) == {
        "NServiceBus.MessageId": "7c9e",
        "NServiceBus.EnclosedMessageTypes": "Orders.Submit, Orders",
    }


def test_one_header_of_nservicebus() -> None:
    text = "<ArrayOfHeaderInfo><HeaderInfo><Key>a</Key><Value>b</Value></HeaderInfo></ArrayOfHeaderInfo>"
    assert bus_headers(text.encode(), decode(b"")) == {"a": "b"}


def test_masstransit() -> None:
    found = bus_headers(b"", decode(json.dumps(ENVELOPE).encode()))
    assert found["messageType"] == "urn:message:Orders:Submit, urn:message:Orders:ISubmit"
    assert found["destinationAddress"] == "msmq://localhost/orders"
    text = "<e><messageId>1</messageId><messageType>urn:a</messageType><message><id>7</id></message></e>"
    assert bus_headers(b"", decode(text.encode())) == {"messageType": "urn:a", "messageId": "1"}


@pytest.mark.parametrize(
    ("extension", "body"),
    [
        (b"", b""),
        (b"ArrayOfHeaderInfo", b"{}"),
        (b"<ArrayOfHeaderInfo><HeaderInfo>", b"{}"),
        (b"<ArrayOfHeaderInfo/>", b"[]"),
        (b"\xff\xfe", b'{"messageType": "x"}'),
    ],
)
def test_messages_of_nobody(extension: bytes, body: bytes) -> None:
    assert bus_headers(extension, decode(body)) == {}


def test_objects_that_refer_to_each_other() -> None:
    """As a serializer with preserveObjectReferences writes them; an object may contain itself."""
    envelope = (
        '<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" '
        'xmlns:z="http://schemas.microsoft.com/2003/10/Serialization/" '
        'xmlns:i="http://www.w3.org/2001/XMLSchema-instance"><s:Body><r><A z:Id="1"><Name z:Id="2">n</Name>'
        '<Next z:Ref="1" i:nil="true"/></A><B z:Ref="1"/><C z:Ref="2" i:nil="true"/><D z:Ref="9"/>'
        '<L z:Id="4" xmlns:l="http://schemas.microsoft.com/2003/10/Serialization/Arrays"><l:int>1</l:int></L>'
        '<M z:Ref="4"/>'
        f'<E z:Id="3">{"e" * 300}</E><F z:Ref="3"/></r></s:Body></s:Envelope>'
    )
    body = Preamble(Mode.SINGLETON_SIZED, ADDRESS, Encoding.SOAP12_UTF8).encode() + envelope.encode()
    found = decode(body, VT_VECTOR_UI1)
    assert found.json is not None
    assert json.loads(found.json) == {
        "A": {"$id": "1", "Name": "n", "Next": {"$ref": "1"}},
        "B": {"$ref": "1"},
        "C": "n",
        "D": {"$ref": "9"},
        "E": "e" * 300,
        "F": {"$ref": "3"},
        "L": {"$id": "4", "$values": ["1"]},
        "M": {"$ref": "4"},
    }
