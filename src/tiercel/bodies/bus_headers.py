"""Headers that service buses put around their messages: NServiceBus into the extension, MassTransit into the
body.
"""

from collections.abc import Mapping
from typing import Final

from tiercel.bodies.decoded import Decoded, Kind
from tiercel.bodies.xml_documents import read_xml
from tiercel.model.errors import DecodeError

_NSERVICEBUS: Final = (b"ArrayOfHeaderInfo", b"A\0r\0r\0a\0y\0O\0f\0H\0e\0a\0d\0e\0r\0I\0n\0f\0o")
_MASSTRANSIT: Final = (
    "messageType",
    "messageId",
    "requestId",
    "conversationId",
    "correlationId",
    "sourceAddress",
    "destinationAddress",
    "responseAddress",
    "faultAddress",
    "expirationTime",
)
_EXTENSION_MAX_BYTES: Final = 1_000_000


def bus_headers(extension: bytes, decoded: Decoded) -> dict[str, str]:
    """The headers of a message by their names, and {} if neither bus has written it; never raises."""
    return nservicebus_headers(extension) or masstransit_headers(decoded)


def nservicebus_headers(extension: bytes) -> dict[str, str]:
    """The list of HeaderInfo that NServiceBus's MSMQ transport writes with XmlSerializer."""
    if not any(mark in extension[:300] for mark in _NSERVICEBUS) or len(extension) > _EXTENSION_MAX_BYTES:
        return {}
    encoding = "utf-16-le" if extension[1:2] == b"\0" or extension[:2] == b"\xff\xfe" else "utf-8"
    text = extension.decode(encoding, "replace").strip("\0\ufeff \r\n")
    try:
        items = read_xml(text)
    except DecodeError:
        return {}
    if isinstance(items, Mapping):  # a single header is not told from a member
        items = [items.get("HeaderInfo")]
    found = {}
    for item in items if isinstance(items, list) else []:
        if isinstance(item, Mapping) and isinstance(item.get("Key"), str):
            found[str(item["Key"])] = str(item.get("Value") or "")
    return found


def masstransit_headers(decoded: Decoded) -> dict[str, str]:
    """The envelope of MassTransit, as JSON or XML: everything around the message."""
    envelope = decoded.value
    if decoded.kind not in {Kind.JSON, Kind.XML} or not isinstance(envelope, Mapping):
        return {}
    if not {"messageType", "message"} <= envelope.keys():
        return {}
    return {name: _text(envelope[name]) for name in _MASSTRANSIT if envelope.get(name)}


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)
