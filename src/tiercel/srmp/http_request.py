"""HTTP requests as values. httptools parses them; nothing else here knows it.

A request is kept as `head.encode() + body`: the bytes that were sent, apart from optional white space around
header values and the framing of a chunked body.
"""

from typing import NamedTuple

import httptools

from tiercel.model.errors import DecodeError
from tiercel.srmp.limits import BODY_MAX_BYTES, HEAD_MAX_BYTES, HEADERS_MAX

_ONCE = frozenset({b"host", b"content-type", b"content-encoding"})
_ONCE_SIZES = frozenset(map(len, _ONCE))


class RequestHead(NamedTuple):
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    version: str = "1.1"

    def header(self, name: str) -> str | None:
        """The first header of that name, in any case."""
        return find_header(self.headers, name)

    def encode(self) -> bytes:
        lines = [f"{self.method} {self.target} HTTP/{self.version}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


def find_header(headers: tuple[tuple[str, str], ...], name: str) -> str | None:
    """The first header of that name, in any case."""
    size = len(name)  # few names are as long: a comparison without regard to case is slow
    for each, value in headers:
        if len(each) == size and (each == name or each.casefold() == name.casefold()):
            return value
    return None


_VERSIONS = frozenset({"1.0", "1.1"})


class HttpRequest(NamedTuple):
    head: RequestHead
    body: bytes

    def encode(self) -> bytes:
        return self.head.encode() + self.body


class RequestParser:
    """Takes the bytes of one connection as they arrive, and gives the requests that are complete."""

    def __init__(self, *, head_max: int = HEAD_MAX_BYTES, body_max: int = BODY_MAX_BYTES) -> None:
        self.head: RequestHead | None = None  # of the request whose body is still arriving
        self.expects_continue = False
        self._parser = httptools.HttpRequestParser(self)
        self._head_max = head_max
        self._body_max = body_max
        self.problem: DecodeError | None = None  # of what follows the requests that were given
        self._refusal: DecodeError | None = None
        self._complete: list[HttpRequest] = []
        self._fed = 0  # bytes since the last head or piece of a body: of a head or a trailer without end
        self._clear()
        self.is_idle = True  # whether no request has begun to arrive

    def receive(self, data: bytes) -> list[HttpRequest]:
        """The requests that these bytes complete.

        After a DecodeError, or with a `problem`, the connection must be closed.
        """
        self._fed += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as problem:
            self.problem = self._refusal or _malformed("head", str(problem))
        else:
            if self._fed > self._head_max:
                field = "head" if self.head is None else "trailer"
                self.problem = _malformed(field, f"has more than {self._head_max} bytes")
        complete, self._complete = self._complete, []
        if self.problem is not None and not complete:
            raise self.problem
        return complete

    @property
    def held_bytes(self) -> int:
        """The memory of a request that is not complete."""
        return 0 if self.is_idle else self._fed if self.head is None else self._head_size + len(self._body)

    def _clear(self) -> None:
        self._target = b""
        self._headers: list[tuple[str, str]] = []
        self._head_size = 0
        self._seen: set[bytes] = set()  # the headers of `_ONCE` that were there
        self._body = bytearray()  # one block: a client may send it in millions of pieces

    # Called by httptools.

    def on_message_begin(self) -> None:
        self._clear()
        self.is_idle = False

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.head is not None:
            return  # a trailer after a chunked body
        self._head_size += len(name) + len(value) + 4
        if self._head_size > self._head_max:
            self._refuse("head", f"has more than {self._head_max} bytes")
        if len(self._headers) == HEADERS_MAX:
            self._refuse("head", f"has more than {HEADERS_MAX} headers")
        if len(name) in _ONCE_SIZES and (once := name.lower()) in _ONCE:
            if once in self._seen:
                self._refuse(once.decode(), "appears twice")  # a proxy may go by the other one
            self._seen.add(once)
        self._headers.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        method = self._parser.get_method().decode("latin-1")
        version = self._parser.get_http_version()
        head = RequestHead(method, self._target.decode("latin-1"), tuple(self._headers), version)
        length = head.header("Content-Length") or "0"
        if int(length) > self._body_max:
            self._refuse("Content-Length", f"is {length}, the limit is {self._body_max}")
        if self._parser.should_upgrade():  # the parser would take what follows for another protocol
            self._refuse("Upgrade", "is not supported, and CONNECT neither; this is HTTP/1.1")
        if version not in _VERSIONS:
            self._refuse("version", f"{version} is not supported; this is HTTP/1.1")
        if version == "1.0" and head.header("Transfer-Encoding") is not None:
            self._refuse("Transfer-Encoding", "is not known in HTTP/1.0")  # proxies disagree: RFC 9112, 6.1
        self.head = head
        self._fed = 0
        self.expects_continue = (head.header("Expect") or "").casefold() == "100-continue"

    def on_body(self, body: bytes) -> None:
        self._body += body
        if len(self._body) > self._body_max:
            self._refuse("body", f"has more than {self._body_max} bytes")
        self._fed = 0

    def on_message_complete(self) -> None:
        assert self.head is not None
        self._complete.append(HttpRequest(self.head, bytes(self._body)))
        self.head = None
        self.expects_continue = False
        self.is_idle = True
        self._fed = 0

    def _refuse(self, field: str, problem: str) -> None:
        """Keep the error: httptools reports only that a callback failed."""
        self._refusal = _malformed(field, problem)
        raise self._refusal


def read_http_request(data: bytes) -> HttpRequest:
    """The one request that `data` holds."""
    parser = RequestParser()
    requests = parser.receive(data)
    if parser.problem is not None:
        raise parser.problem
    if len(requests) != 1:
        problem = f"{len(requests)} requests instead of one" if requests else "the request is cut short"
        raise DecodeError("HttpRequest", "body", len(data), problem)
    if (request := requests[0]).head.header("Content-Length") and len(request.encode()) < len(
        data.lstrip(b"\r\n")
    ):
        raise DecodeError("HttpRequest", "body", len(request.encode()), "bytes follow the request")
    return request


def read_multicast(data: bytes) -> HttpRequest:
    """The request in a multicast message: the target is an address and not for HTTP parsers (2.1.2)."""
    line, _, rest = data.partition(b"\r\n")
    words = line.split(b" ")
    if len(words) != 3 or words[0] != b"POST" or not words[2].startswith(b"HTTP/1."):
        raise _malformed("head", "does not begin with a request line")
    request = read_http_request(b"POST / HTTP/1.1\r\n" + rest)
    return request._replace(head=request.head._replace(target=words[1].decode("latin-1")))


def _malformed(field: str, problem: str) -> DecodeError:
    return DecodeError("HttpRequest", field, 0, problem)
