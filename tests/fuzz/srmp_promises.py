"""What must hold for SRMP requests: any bytes give a message or the one error."""

from pathlib import Path

from basics import Target

from tiercel.model.errors import DecodeError
from tiercel.srmp.dump import list_request
from tiercel.srmp.envelope_reader import read_envelope
from tiercel.srmp.envelope_writer import write_envelope
from tiercel.srmp.http_request import HttpRequest, RequestParser, read_http_request
from tiercel.srmp.http_response import CONTINUE, ResponseParser, write_response
from tiercel.srmp.message import message_of, read_message
from tiercel.srmp.multipart import ContentType, read_multipart, write_multipart
from tiercel.srmp.request import read_srmp
from tiercel.srmp.usual_envelope import read_usual_envelope

VECTORS = Path(__file__).resolve().parent.parent / "vectors" / "srmp"


def check_mime(data: bytes) -> None:
    """The first line is the Content-Type."""
    line, _, body = data.partition(b"\n")
    try:
        boundary = ContentType.parse(line.decode("latin-1")).parameters.get("boundary", "")
        parts = read_multipart(body, boundary)
    except DecodeError:
        return
    for part in parts:
        if body[part.at : part.at + len(part.content)] != part.content:
            raise AssertionError("a part is not where it says")
    sized = [part._replace(headers=(("Content-Length", f"{len(part.content)}"),)) for part in parts]
    again = read_multipart(write_multipart(sized, boundary), boundary)
    if [part.content for part in again] != [part.content for part in parts]:
        raise AssertionError("what was written reads as something else")


def check_envelope(data: bytes) -> None:
    usual = read_usual_envelope(data)
    try:
        parsed = read_envelope(data)
    except DecodeError:
        if usual is not None:
            raise AssertionError("the pattern accepts what the parser refuses") from None
        return
    if usual is not None and usual != (parsed.envelope, parsed.header.raw, parsed.body.raw):
        raise AssertionError("the pattern reads something else than the parser")
    envelope = parsed.envelope
    message_of(envelope, 0).check()
    written = write_envelope(envelope)
    if write_envelope(read_envelope(written).envelope) != written:
        raise AssertionError("what was written reads as something else")


def check_http(data: bytes) -> None:
    try:
        http = read_http_request(data)
        request = read_srmp(http)
    except DecodeError:
        return
    read_message(request, 0).check()
    list_request(request)


def check_pieces(data: bytes) -> None:
    """The first byte says where a connection is cut: the same requests come out of the pieces."""
    at, data = (data[0] * len(data) >> 8, data[1:]) if data else (0, b"")
    whole, pieces = _received(data), _received(data[:at], data[at:])
    if whole[0] != pieces[0] or (whole[1] is None) != (pieces[1] is None):
        raise AssertionError("a cut changes the requests")


def _received(*pieces: bytes) -> tuple[list[HttpRequest], DecodeError | None]:
    parser, found = RequestParser(), []
    for piece in pieces:
        try:
            found += parser.receive(piece)
        except DecodeError as problem:
            return found, problem
        if parser.problem is not None:
            return found, parser.problem
    return found, None


def check_response(data: bytes) -> None:
    """Of a server that we have sent a request to."""
    parser = ResponseParser()
    try:
        responses = parser.receive(data)
    except DecodeError:
        return
    for response in (*responses, parser.end()):
        if response is not None and not 0 <= response.status < 1 << 16:
            raise AssertionError("a status that HTTP cannot have")


def _responses() -> list[bytes]:
    files = [path.read_bytes() for path in sorted(VECTORS.glob("*response*.http"))]
    redirect = (
        b"HTTP/1.1 302 Found\r\nLocation: http://a/b\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
    )
    return [*files, CONTINUE + write_response(200), write_response(503, "busy", close=True), redirect]


def _requests() -> list[bytes]:
    return [path.read_bytes() for path in sorted(VECTORS.glob("*.http")) if "response" not in path.name]


def _readable() -> list[HttpRequest]:
    return [
        read_http_request(data)
        for data in _requests()
        if not data.startswith(b"POST 2")  # an address, which only multicast has
    ]


def _bodies() -> list[bytes]:
    return [
        (request.head.header("Content-Type") or "").encode() + b"\n" + request.body for request in _readable()
    ]


def _envelopes() -> list[bytes]:
    documents = []
    for request in _readable():
        start, end = request.body.find(b"<se:Envelope"), request.body.find(b"</se:Envelope>")
        documents.append(request.body[start : end + len(b"</se:Envelope>")])
    return documents


TARGETS: dict[str, Target] = {
    "srmp_envelope": Target(check_envelope, _envelopes),
    "srmp_http": Target(check_http, _requests),
    "srmp_mime": Target(check_mime, _bodies),
    "srmp_pieces": Target(check_pieces, lambda: [b"\x80" + data for data in _requests()]),
    "srmp_response": Target(check_response, _responses),
}
