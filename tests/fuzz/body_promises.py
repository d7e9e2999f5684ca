"""What must hold for bodies: any bytes give a row of texts that UTF-8 and JSON can carry, or an error."""

import json
import struct
from pathlib import Path

from basics import Target

from tiercel.bodies import bus_headers, decode, encode
from tiercel.bodies.limits import characters_limit
from tiercel.model.codes import BodyType

VECTORS = Path(__file__).resolve().parent.parent / "vectors"


def check_body(data: bytes) -> None:
    """The first two bytes are the body type."""
    kind, body = int.from_bytes(data[:2], "little"), data[2:]
    _check(body, kind)


def check_dotnet(data: bytes) -> None:
    _check(data, BodyType.BINARY_OBJECT)


def check_xml(data: bytes) -> None:
    _check(b"<?xml version='1.0'?>" + data, 0)


def _check(body: bytes, body_type: int) -> None:
    decoded = decode(body, body_type)
    for text in decoded.text, decoded.json, decoded.error:
        if len((text or "").encode()) > 10 * characters_limit(len(body)):
            raise AssertionError(f"{len(body)} bytes became {len(text or '')} characters")
    if decoded.json is not None:
        json.loads(decoded.json)


def check_bus_headers(data: bytes) -> None:
    """An extension of NServiceBus and, behind the first NUL, a body of MassTransit."""
    extension, _, body = data.partition(b"\0")
    headers = bus_headers(extension, decode(body, 0))
    json.dumps(headers).encode()


def _headers() -> list[bytes]:
    info = b"<HeaderInfo><Key>NServiceBus.MessageId</Key><Value>1</Value></HeaderInfo>"
    envelope = b'{"messageId": "1", "messageType": ["urn:message:a:b"], "headers": {"x": 1}, "message": {}}'
    return [b"<ArrayOfHeaderInfo>" + info + b"</ArrayOfHeaderInfo>\0", b"\0" + envelope]


def _dotnet() -> list[bytes]:
    written = [encode(value, "binary").body for value in ("text", 42, True, 1.5, b"bytes", ["a", "b"])]
    return [path.read_bytes() for path in sorted(VECTORS.glob("nrbf/*.bin"))] + written


def _xml() -> list[bytes]:
    xsi = b' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    return [
        b"<string>a</string>",
        b"<ArrayOfInt" + xsi + b'><int>1</int><int xsi:nil="true"/></ArrayOfInt>',
        b"<a" + xsi + b' x="1"><b>c</b><b xsi:type="xsd:base64Binary">AA==</b>&#233;</a>',
    ]


def _bodies() -> list[bytes]:
    values = "text", 42, True, 1.5, b"bytes"
    encoded = [encode(value, "activex") for value in values]
    typed = [struct.pack("<H", body_type) + body for body, body_type in encoded]
    return [*typed, b"\0\0" + b'{"a": [1.5, "\\ud800", null]}', b"\0\0" + "é".encode("utf-16")]


TARGETS: dict[str, Target] = {
    "body": Target(check_body, _bodies),
    "body_dotnet": Target(check_dotnet, _dotnet),
    "body_xml": Target(check_xml, _xml),
    "bus_headers": Target(check_bus_headers, _headers),
}
