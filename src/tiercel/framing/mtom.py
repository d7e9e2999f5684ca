"""MTOM: an envelope as text whose long base64 values are MIME parts of their own. [SOAP-MTOM], [XOP]."""

import re
from collections.abc import Iterable, Iterator
from email import errors as mail_errors
from email import policy
from email.message import Message
from email.parser import BytesHeaderParser, BytesParser
from typing import Final
from urllib.parse import unquote

from tiercel.model.errors import DecodeError
from tiercel.nbfx import Event, from_text, to_text
from tiercel.nbfx.events import END, declaration
from tiercel.nbfx.values import Value

XOP: Final = "http://www.w3.org/2004/08/xop/include"
_PARTS_MAX: Final = 1_000
_HEADERS_MAX_BYTES: Final = 16_384
_END_OF_HEADERS: Final = re.compile(rb"\r?\n\r?\n")
_INLINE_MAX_BYTES: Final = 767  # .NET leaves shorter values in the envelope
_ROOT_ID: Final = "http://tempuri.org/0"
_BOUNDARY: Final = re.compile(rb"--[^\r\n]+--\s*\Z")


def read_mtom(data: bytes, content_type: str = "") -> list[Event]:
    """The envelope with the parts in their places; the headers stand in front, or come as `content_type`."""
    if content_type:
        data = f"Content-Type: {content_type}\r\n\r\n".encode() + data
    parts = _parts(data)
    root, *others = parts
    return list(_included(from_text(_payload(root)), {_id(part): _payload(part) for part in others}))


def _parts(data: bytes) -> list["Message[str, str]"]:
    _check(data)
    try:
        message = BytesParser(policy=policy.compat32).parsebytes(data)
    except RecursionError:
        raise DecodeError("MTOM", "part", 0, "parts are nested too deeply") from None
    except (ValueError, LookupError, mail_errors.MessageError) as problem:
        raise DecodeError("MTOM", "headers", 0, str(problem)) from None
    if not message.is_multipart():
        raise DecodeError("MTOM", "headers", 0, "the envelope is not a multipart message")
    if not _BOUNDARY.search(data):
        raise DecodeError("MTOM", "part", len(data), "the last part has no end")
    parts = [part for part in message.get_payload() if isinstance(part, Message)]
    start = str(message.get_param("start", ""))
    parts.sort(key=lambda part: bool(start) and _id(part) != start.strip("<>"))  # the root comes first
    return parts


def _check(data: bytes) -> None:
    """Refuse what the parser of the standard library would spend seconds on."""
    end = _END_OF_HEADERS.search(data, 0, _HEADERS_MAX_BYTES)
    if end is None:
        raise DecodeError("MTOM", "headers", 0, f"they have no end within {_HEADERS_MAX_BYTES} bytes")
    try:
        boundary = BytesHeaderParser(policy=policy.compat32).parsebytes(data[: end.end()]).get_boundary("")
    except (ValueError, LookupError, mail_errors.MessageError) as problem:
        raise DecodeError("MTOM", "headers", 0, str(problem)) from None
    if boundary and data.count(b"--" + boundary.encode("utf-8", "surrogateescape")) > _PARTS_MAX + 1:
        raise DecodeError("MTOM", "part", 0, f"the message has more than {_PARTS_MAX} parts")


def _id(part: "Message[str, str]") -> str:
    return str(part.get("Content-ID", "")).strip().strip("<>")


def _payload(part: "Message[str, str]") -> bytes:
    payload = part.get_payload(decode=True)
    if not isinstance(payload, bytes):
        raise DecodeError("MTOM", "part", 0, "a part contains parts")
    return payload


def _included(events: Iterable[Event], parts: dict[str, bytes]) -> Iterator[Event]:
    """The events with each xop:Include replaced by the bytes of its part."""
    is_include = False
    for event in events:
        if is_include:
            if event[0] != "end":
                raise DecodeError("MTOM", "Include", 0, "xop:Include must be empty")
            is_include = False
        elif event[0] == "start" and event[3] == XOP and event[2] == "Include":
            yield ("text", _part(event[4], parts))
            is_include = True
        else:
            yield event


def _part(attributes: Iterable[tuple[str, str, str, Value]], parts: dict[str, bytes]) -> bytes:
    reference = next(
        (str(value) for _, name, space, value in attributes if (name, space) == ("href", "")), ""
    )
    # As in .NET, a part stands in one place: a short envelope must not repeat a long one.
    content = parts.pop(unquote(reference[4:]), None) if reference.startswith("cid:") else None
    if content is None:
        raise DecodeError("MTOM", "Include", 0, f"there is no part {reference[:80]!a} that is still to come")
    return content


def write_mtom(events: Iterable[Event], soap_content_type: str = "application/soap+xml") -> bytes:
    """A message with its headers; values of 768 bytes and more become parts."""
    parts: list[bytes] = []
    text = to_text(_extracted(events, parts))
    boundary = _unused_boundary(parts)
    kind = f'multipart/related;type="application/xop+xml";boundary="{boundary}";start="<{_ROOT_ID}>"'
    head = f'MIME-Version: 1.0\r\nContent-Type: {kind};start-info="{soap_content_type}"\r\n\r\n'
    envelope = f'application/xop+xml;charset=utf-8;type="{soap_content_type}"'
    out = bytearray(head.encode())
    out += _written(boundary, _ROOT_ID, envelope, "8bit", text.encode())
    for number, content in enumerate(parts, start=1):
        out += _written(boundary, _part_id(number), "application/octet-stream", "binary", content)
    return bytes(out) + f"--{boundary}--\r\n".encode()


def _extracted(events: Iterable[Event], parts: list[bytes]) -> Iterator[Event]:
    for event in events:
        if event[0] == "text" and isinstance(event[1], bytes) and len(event[1]) > _INLINE_MAX_BYTES:
            parts.append(event[1])
            reference = ("", "href", "", f"cid:{_part_id(len(parts))}")
            yield ("start", "xop", "Include", XOP, (reference, declaration("xop", XOP)))
            yield END
        else:
            yield event


def _part_id(number: int) -> str:
    return f"http://tempuri.org/{number}"


def _unused_boundary(parts: list[bytes]) -> str:
    number = 0
    while any(f"--tiercel+{number}".encode() in part for part in parts):
        number += 1
    return f"tiercel+{number}"


def _written(boundary: str, name: str, content_type: str, transfer: str, content: bytes) -> bytes:
    head = f"--{boundary}\r\nContent-ID: <{name}>\r\nContent-Transfer-Encoding: {transfer}\r\n"
    return f"{head}Content-Type: {content_type}\r\n\r\n".encode() + content + b"\r\n"
