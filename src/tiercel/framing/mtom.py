"""MTOM: an envelope as text whose long base64 values are MIME parts of their own. [SOAP-MTOM], [XOP]."""

import binascii
import quopri
import re
from collections.abc import Callable, Iterable, Iterator
from email import errors as mail_errors
from email import policy
from email.message import Message
from email.parser import BytesHeaderParser
from typing import Final, NamedTuple
from urllib.parse import unquote

from tiercel.model.errors import DecodeError
from tiercel.nbfx import Event, from_text, to_text
from tiercel.nbfx.events import END, declaration
from tiercel.nbfx.values import Value

XOP: Final = "http://www.w3.org/2004/08/xop/include"
_PARTS_MAX: Final = 1_000
_HEADERS_MAX_BYTES: Final = 16_384
_CONTENT_TYPE_MAX: Final = 1_024
_END_OF_HEADERS: Final = re.compile(rb"\r?\n\r?\n")
_INLINE_MAX_BYTES: Final = 767  # .NET leaves shorter values in the envelope
_ROOT_ID: Final = "http://tempuri.org/0"


def _base64(content: bytes) -> bytes:
    return binascii.a2b_base64(b"".join(content.split()), strict_mode=True)


_TRANSFER: Final[dict[str, Callable[[bytes], bytes]]] = {
    **dict.fromkeys(("7bit", "8bit", "binary"), bytes),
    "base64": _base64,
    "quoted-printable": quopri.decodestring,
}


def read_mtom(data: bytes, content_type: str = "") -> list[Event]:
    """The envelope with the parts in their places; the headers stand in front, or come as `content_type`."""
    if content_type:
        data = f"Content-Type: {content_type}\r\n\r\n".encode() + data
    root, *others = _parts(data)
    return list(_included(from_text(_payload(root)), {_id(part): _payload(part) for part in others}))


class _Part(NamedTuple):
    headers: "Message[str, str]"
    content: bytes


def _parts(data: bytes) -> list[_Part]:
    """The parts, the root first.

    The parser of the standard library would also take apart what is in them, and spend minutes on it.
    """
    package = _part(data, 0, len(data))
    if len(str(package.headers.get("Content-Type", ""))) > _CONTENT_TYPE_MAX:  # it is read in quadratic time
        raise _error("headers", f"the content type has more than {_CONTENT_TYPE_MAX} characters")
    boundary = _parameter(package, "boundary")
    if package.headers.get_content_maintype() != "multipart" or not boundary:
        raise _error("headers", "the envelope is not a multipart message")
    line = rb"(?:\A|\r?\n)--%b(--)?[ \t]*(?=\r?\n|\Z)" % re.escape(
        boundary.encode("utf-8", "surrogateescape")
    )
    parts, start = list[_Part](), -1
    for delimiter in re.finditer(line, package.content):
        if start >= 0:
            parts.append(_part(package.content, start, delimiter.start()))
        if delimiter[1]:
            break
        if len(parts) == _PARTS_MAX:
            raise _error("part", f"the message has more than {_PARTS_MAX} parts")
        start = delimiter.end()
    else:
        raise _error("part", "the last part has no end", len(data))
    if not parts:
        raise _error("part", "the message has no parts")
    first = _parameter(package, "start").strip("<>")
    parts.sort(key=lambda part: bool(first) and _id(part) != first)
    return parts


def _part(data: bytes, start: int, end: int) -> _Part:
    """What stands from `start` to `end`: headers, a blank line, the content."""
    blank = _END_OF_HEADERS.search(data, start, min(end, start + _HEADERS_MAX_BYTES))
    if blank is None and end - start > _HEADERS_MAX_BYTES:
        raise _error("headers", f"they have no end within {_HEADERS_MAX_BYTES} bytes", start)
    at = end if blank is None else blank.end()
    try:
        headers = BytesHeaderParser(policy=policy.compat32).parsebytes(data[start:at].lstrip())
    except (ValueError, LookupError, mail_errors.MessageError) as problem:
        raise _error("headers", str(problem), start) from None
    return _Part(headers, data[at:end])


def _parameter(part: _Part, name: str) -> str:
    """A parameter of the content type; one that RFC 2231 splits or encodes is none."""
    value = part.headers.get_param(name, "")
    return value if isinstance(value, str) else ""


def _id(part: _Part) -> str:
    return str(part.headers.get("Content-ID", "")).strip().strip("<>")


def _payload(part: _Part) -> bytes:
    encoding = str(part.headers.get("Content-Transfer-Encoding", "binary")).strip().lower()
    try:
        return _TRANSFER[encoding](part.content)
    except KeyError:
        raise _error("part", f"unknown transfer encoding {encoding[:40]!a}") from None
    except binascii.Error as problem:
        raise _error("part", f"not valid base64: {problem}") from None


def _error(field: str, problem: str, at: int = 0) -> DecodeError:
    return DecodeError("MTOM", field, at, problem)


def _included(events: Iterable[Event], parts: dict[str, bytes]) -> Iterator[Event]:
    """The events with each xop:Include replaced by the bytes of its part."""
    is_include = False
    for event in events:
        if is_include:
            if event[0] != "end":
                raise _error("Include", "xop:Include must be empty")
            is_include = False
        elif event[0] == "start" and event[3] == XOP and event[2] == "Include":
            yield ("text", _part_for(event[4], parts))
            is_include = True
        else:
            yield event


def _part_for(attributes: Iterable[tuple[str, str, str, Value]], parts: dict[str, bytes]) -> bytes:
    reference = next(
        (str(value) for _, name, space, value in attributes if (name, space) == ("href", "")), ""
    )
    # As in .NET, a part stands in one place: a short envelope must not repeat a long one.
    content = parts.pop(unquote(reference[4:]), None) if reference.startswith("cid:") else None
    if content is None:
        raise _error("Include", f"there is no part {reference[:80]!a} that is still to come")
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
