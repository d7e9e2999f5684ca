"""A listing of an SRMP request for people and scripts: every header, element and part, with its place."""

from collections.abc import Iterator
from enum import IntEnum

from tiercel.model import codes
from tiercel.srmp.envelope_reader import read_envelope
from tiercel.srmp.http_request import HttpRequest
from tiercel.srmp.kinds import kind_of
from tiercel.srmp.multipart import Part
from tiercel.srmp.request import SrmpRequest, write_srmp
from tiercel.srmp.xml_tree import Element
from tiercel.wire.dump import Field, Listing, quote

_CODES: dict[str, type[IntEnum]] = {
    "Class": codes.MessageClass,
    "BodyType": codes.BodyType,
    "HashAlgorithm": codes.HashAlgorithm,
}


def list_request(request: SrmpRequest) -> list[Listing]:
    """The head, the parts, and each element of the SOAP header."""
    listings = [_head(request.http)]
    for part in sorted(filter(None, (request.envelope_part, request.body, request.extension)), key=_place):
        if part.headers:
            listings.append(_part(request.http, part, is_payload=part is not request.envelope_part))
        if part is request.envelope_part:
            listings += map(_element, read_envelope(part.content, part.at).header.children)
    return listings


def _place(part: Part) -> int:
    return part.at


def summary(request: SrmpRequest) -> str:
    """The request in one line."""
    path, size = request.envelope.path, len(request.http.encode())
    words = [f"SRMP {kind_of(request.envelope).value}", f"{size} bytes", f"to {quote(path.to)[1:-1]}"]
    words.append(quote(path.action))
    if (stream := request.envelope.stream) is not None:
        words.append(f"number {stream.current}")
    if (receipt := request.envelope.stream_receipt) is not None:
        words.append(f"up to number {receipt.last_ordinal}")
    if (commitment := request.envelope.commitment_receipt) is not None:
        words.append(commitment.decision)
    return "  ".join(words)


def rewrite(request: SrmpRequest) -> bytes:
    """The request written again from its values, as a queue manager writes it."""
    payload = request.body or request.extension
    boundary = (
        (request.http.head.header("Content-Type") or "").partition("SOAP boundary, ")[2].partition('"')[0]
    )
    return write_srmp(
        request.envelope,
        None if request.body is None else request.body.content,
        None if request.extension is None else request.extension.content,
        content_guid="" if payload is None else payload.content_id.partition("@")[2],
        boundary=int(boundary) if boundary.isascii() and boundary.isdigit() else 0,
        host=request.http.head.header("Host") or "",
    ).encode()


def _field(at: int, name: str, data: bytes, value: object, meaning: str | None = None) -> Field:
    return Field(at, name, data, value, None, meaning)


def _head(http: HttpRequest) -> Listing:
    head = http.head
    target_at = len(head.method) + 1
    fields = [
        _field(0, "method", head.method.encode("latin-1"), head.method),
        _field(target_at, "target", head.target.encode("latin-1"), head.target),
    ]
    at = len(f"{head.method} {head.target} HTTP/{head.version}\r\n")
    fields += _headers(head.headers, at)
    return Listing(0, "RequestHead", tuple(fields))


def _headers(headers: tuple[tuple[str, str], ...], at: int) -> Iterator[Field]:
    """Headers that begin at `at`, one to a line."""
    for name, value in headers:
        yield _field(at + len(name) + 2, name, value.encode("latin-1"), value)
        at += len(name) + len(value) + 4


def _part(http: HttpRequest, part: Part, *, is_payload: bool) -> Listing:
    """The headers of a part and, for the message body and the extension, its content."""
    at = part.at - sum(len(name) + len(value) + 4 for name, value in part.headers) - 2
    fields = list(_headers(part.headers, at))
    if is_payload:
        fields.append(_field(part.at, "content", part.content, part.content))
    name = part.content_id.partition("@")[0] if is_payload else "envelope"
    return Listing(max(at, len(http.head.encode())), f"Part {quote(name)}", tuple(fields))


def _element(element: Element) -> Listing:
    return Listing(element.at, element.name, tuple(_leaves(element, "")))


def _leaves(element: Element, prefix: str) -> Iterator[Field]:
    for child in element.children:
        name = f"{prefix}{child.name}"
        if child.children:
            yield from _leaves(child, f"{name}.")
        else:
            content = child.raw_content
            data = content or child.raw
            at = child.content_at if content else child.at
            yield _field(at, name, data, *_value(child))


def _value(element: Element) -> tuple[object, str | None]:
    """The text of an element; a code as a number and with its name. An empty element is there or not."""
    text = element.text
    enum = _CODES.get(element.name)
    if enum is None or not (text.isascii() and text.isdigit()) or len(text) > 20:
        return text or "present", None
    names = {member.value: member.name for member in enum}
    return int(text), names.get(int(text))
