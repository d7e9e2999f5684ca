"""One SRMP message in one HTTP request: [MC-MQSRM] 2.2.2, section 4."""

from functools import lru_cache
from typing import NamedTuple

from tiercel.model.errors import DecodeError
from tiercel.srmp.envelope import Envelope
from tiercel.srmp.envelope_reader import read_envelope
from tiercel.srmp.envelope_writer import write_envelope
from tiercel.srmp.http_request import HttpRequest, RequestHead
from tiercel.srmp.multipart import ContentType, Part, choose_boundary, read_multipart, write_multipart
from tiercel.srmp.queue_urls import host_of, is_url, request_target
from tiercel.srmp.usual_envelope import read_usual_envelope

_ENVELOPE_TYPES = frozenset({"text/xml", "application/xml"})
_USUAL_ENVELOPE_TYPE = "text/xml; charset=UTF-8"
_BODY, _EXTENSION = "body@", "extension@"
_MULTICAST = "MSMQ:MULTICAST="


class SrmpRequest(NamedTuple):
    """A request and what it contains."""

    http: HttpRequest
    raw: bytes  # the whole request
    envelope_part: Part
    envelope: Envelope
    soap_header: bytes  # as it was sent
    soap_body: bytes
    is_usual: bool = False  # the envelope is one that queue managers write: its parts are shared
    body: Part | None = None
    extension: Part | None = None


def read_srmp(http: HttpRequest, *, over_multicast: bool = False) -> SrmpRequest:
    """The message in a request; places in errors count from the start of the request.

    `to` must fit the transport. http and https are not told apart: a proxy may have ended the encryption.
    """
    request = _read(http)
    if request.envelope.path.to.startswith(_MULTICAST) is not over_multicast:
        problem = f"{request.envelope.path.to[:80]!a} does not fit the transport"
        raise DecodeError("Envelope", "to", request.envelope_part.at, problem)
    return request


def _read(http: HttpRequest) -> SrmpRequest:
    raw = http.encode()
    at = len(raw) - len(http.body)
    content_type = http.head.header("Content-Type")
    if content_type is None:
        raise DecodeError("HttpRequest", "Content-Type", 0, "is missing")
    media_type, parameters = ContentType.parse(content_type)
    if media_type in _ENVELOPE_TYPES:
        _check_charset(parameters)
        part = Part((), http.body, at)
        return SrmpRequest(http, raw, part, *_read_envelope(part))
    if media_type != "multipart/related":
        problem = f"must be multipart/related or text/xml, not {media_type[:80]!a}"
        raise DecodeError("HttpRequest", "Content-Type", 0, problem)
    parts = read_multipart(http.body, parameters.get("boundary", ""), at)
    return _of_parts(http, raw, parts, parameters.get("start", ""))


def _of_parts(http: HttpRequest, raw: bytes, parts: list[Part], start: str) -> SrmpRequest:
    """Parts are told apart by their Content-Id; the envelope is the first, or the one that `start` names."""
    envelope = _root(parts, start.strip("<>"))
    _check_envelope_part(envelope)
    payload: dict[str, Part] = {}
    for part in parts:
        if part is envelope:
            continue
        kind = _kind(part)
        if kind in payload:
            raise DecodeError("Multipart", "Content-Id", part.at, f"a second part is named {kind}")
        payload[kind] = part
    contents = _read_envelope(envelope)
    return SrmpRequest(http, raw, envelope, *contents, payload.get(_BODY), payload.get(_EXTENSION))


def _read_envelope(part: Part) -> tuple[Envelope, bytes, bytes, bool]:
    """The envelope, its header and body as sent, and whether it is usual."""
    if (usual := read_usual_envelope(part.content)) is not None:
        return (*usual, True)
    parsed = read_envelope(part.content, part.at)
    return parsed.envelope, parsed.header.raw, parsed.body.raw, False


def _check_envelope_part(envelope: Part) -> None:
    content_type = envelope.header("Content-Type") or "text/xml"
    if content_type == _USUAL_ENVELOPE_TYPE:
        return
    media_type, parameters = ContentType.parse(content_type)
    if media_type not in _ENVELOPE_TYPES:
        problem = f"of the envelope must be text/xml, not {media_type[:80]!a}"
        raise DecodeError("Multipart", "Content-Type", envelope.at, problem)
    _check_charset(parameters)


def _root(parts: list[Part], start: str) -> Part:
    if not start:
        return parts[0]
    roots = [part for part in parts if part.content_id == start]
    if len(roots) != 1:
        raise DecodeError("Multipart", "start", 0, f"{len(roots)} parts have the Content-Id that start names")
    return roots[0]


def _kind(part: Part) -> str:
    """SRMP-010. An unknown part is refused: to skip it would lose data."""
    for kind in (_BODY, _EXTENSION):
        if part.content_id[: len(kind)].casefold() == kind:
            return kind
    problem = f"must begin with body@ or extension@, not {part.content_id[:80]!a}"
    raise DecodeError("Multipart", "Content-Id", part.at, problem)


def _check_charset(parameters: dict[str, str]) -> None:
    charset = parameters.get("charset", "utf-8")
    if charset.casefold() not in {"utf-8", "us-ascii"}:
        problem = f"the charset of the envelope must be UTF-8, not {charset[:40]!a}"
        raise DecodeError("HttpRequest", "Content-Type", 0, problem)


def write_srmp(
    envelope: Envelope,
    body: bytes | None = None,
    extension: bytes | None = None,
    *,
    content_guid: object = "",
    boundary: int = 0,
    host: str = "",
) -> HttpRequest:
    """The request for a message, as queue managers write it (SRMP-003 to 012).

    `content_guid` is that of the sending queue manager, `boundary` a number for the boundary. `host` is the
    host of `to` by default.
    """
    document = write_envelope(envelope)
    payload = [(_BODY, body), (_EXTENSION, extension)]
    parts = [
        _payload_part(f"{kind}{content_guid}", content) for kind, content in payload if content is not None
    ]
    if parts:
        mark = choose_boundary((document, *(part.content for part in parts)), boundary)
        content = write_multipart([_envelope_part(document), *parts], mark)
        content_type = f'multipart/related; boundary="{mark}"; type=text/xml'
    else:
        content, content_type = document, "text/xml"
    return HttpRequest(_head(envelope.path.to, host, content_type, len(content)), content)


def _envelope_part(document: bytes) -> Part:
    headers = ("Content-Type", _USUAL_ENVELOPE_TYPE), ("Content-Length", f"{len(document)}")
    return Part(headers, document)


def _payload_part(content_id: str, content: bytes) -> Part:
    headers = (
        ("Content-Type", "application/octet-stream"),
        ("Content-Length", f"{len(content)}"),
        ("Content-Id", content_id),
    )
    return Part(headers, content)


def request_to(to: str, content_type: str, content: bytes, *headers: tuple[str, str]) -> HttpRequest:
    """A request with content that was written elsewhere, for a message that is passed on."""
    head = _head(to, "", content_type, len(content))
    return HttpRequest(head._replace(headers=(*head.headers, *headers)), content)


@lru_cache(256)  # few queues, many messages
def _target_and_host(url: str) -> tuple[str, str]:
    return request_target(url), host_of(url)


def _head(to: str, host: str, content_type: str, size: int) -> RequestHead:
    address = to.removeprefix(_MULTICAST)
    target, default = _target_and_host(to) if is_url(to) else (address, address)
    headers = (
        ("Host", host or default),
        ("Content-Type", content_type),
        ("Content-Length", f"{size}"),
        ("SOAPAction", '"MSMQMessage"'),
        ("Proxy-Accept", "NonInteractiveClient"),
    )
    return RequestHead("POST", target, headers)
