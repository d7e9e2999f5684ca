"""HTTP responses: those that we write, and those that the other side sends. httptools parses them."""

from http import HTTPStatus
from typing import NamedTuple

import httptools

from tiercel.model.errors import DecodeError
from tiercel.srmp.limits import HEAD_MAX_BYTES

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_ACCEPTED = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_TEXT_MAX = 500
_OK = 200  # of HTTPStatus, whose members are slow to look up


def write_response(
    status: int, text: str = "", *, close: bool = False, allow: str = "", to_head: bool = False
) -> bytes:
    """A response; a 200 has no body, others may say why (SRMP-013).

    The answer to HEAD has the length of a body but no body: a client would take it for the next response.
    """
    if status == _OK and not close:
        return _ACCEPTED
    body = b"" if status == _OK else text[:_TEXT_MAX].encode(errors="replace")
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"Content-Length: {len(body)}"]
    if body:
        lines.append("Content-Type: text/plain; charset=utf-8")
    if allow:
        lines.append(f"Allow: {allow}")
    if close:
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode() + (b"" if to_head else body)


class Response(NamedTuple):
    status: int
    keeps_alive: bool


class ResponseParser:
    """Takes the bytes of one connection as they arrive; bodies are skipped."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._complete: list[Response] = []
        self._status: int | None = None
        self._head_size = 0
        self.has_begun = False  # whether anything of the next response has arrived

    def receive(self, data: bytes) -> list[Response]:
        """The final responses that these bytes complete; after a DecodeError nothing can follow."""
        self.has_begun = True
        self._head_size += len(data) if self._status is None else 0
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise DecodeError("HttpResponse", "head", 0, "changes to a protocol that is not known") from None
        except httptools.HttpParserError as problem:
            raise DecodeError("HttpResponse", "head", 0, str(problem)) from None
        if self._status is None and self._head_size > HEAD_MAX_BYTES:
            raise DecodeError("HttpResponse", "head", 0, f"has more than {HEAD_MAX_BYTES} bytes")
        complete, self._complete = self._complete, []
        return complete

    def end(self) -> Response | None:
        """The response that the end of the connection completes: one without a length."""
        return None if self._status is None else Response(self._status, keeps_alive=False)

    # Called by httptools.

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()

    def on_message_complete(self) -> None:
        status, self._status, self._head_size = self._status, None, 0
        if status is None or status < HTTPStatus.OK:  # 100 Continue and the like: the answer follows
            return
        self.has_begun = False
        self._complete.append(Response(status, bool(self._parser.should_keep_alive())))
