"""A connection that another computer opened: HTTP requests in, their answers out."""

from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple

from tiercel.engine.partial_input import SMALL
from tiercel.model.errors import DecodeError
from tiercel.srmp.client_address import client_address
from tiercel.srmp.connection_info import ConnectionInfo
from tiercel.srmp.context import Context
from tiercel.srmp.http_request import HttpRequest, RequestHead, RequestParser
from tiercel.srmp.http_response import CONTINUE, write_response
from tiercel.srmp.queue_urls import is_url, request_target

_PATH = "/msmq/"
_BAD_REQUEST, _METHOD_NOT_ALLOWED = 400, 405  # of HTTPStatus, whose members are slow to look up


class Answer(NamedTuple):
    status: int
    reason: str = ""


Receive = Callable[[HttpRequest, str], Answer]


class IncomingConnection:
    """The requests of a connection are answered in their order; all answers leave after the commit."""

    def __init__(
        self, context: Context, connection: int, address: str, receive: Receive, closed: Callable[[int], None]
    ) -> None:
        self._context = context
        self._connection = connection
        self._address = address
        self._receive = receive
        self._closed = closed
        self._parser = RequestParser()
        self._is_closed = False
        self._is_continued = False  # whether the request under way got its 100 Continue
        context.after(self.expire, context.settings.idle_ms)

    @property
    def info(self) -> ConnectionInfo:
        in_flight = 0 if self._parser.is_idle else 1
        return ConnectionInfo(self._connection, self._address, False, True, in_flight)

    def receive(self, data: bytes) -> None:
        was_idle = self._parser.is_idle
        try:
            requests = self._parser.receive(data)
        except DecodeError as problem:
            self._respond(Answer(HTTPStatus.BAD_REQUEST, str(problem)), close=True)
            return
        for request in requests:
            self._is_continued = False
            self._respond(self._answer(request), close=not _keeps_alive(request.head), to=request.head.method)
            if self._is_closed:
                return
        if self._parser.problem is not None:
            self._respond(Answer(HTTPStatus.BAD_REQUEST, str(self._parser.problem)), close=True)
            return
        if self._parser.expects_continue and not self._is_continued:
            self._continue()
        # The time of a request does not begin anew with each of its bytes, nor with blank lines before it.
        if requests or (was_idle and not self._parser.is_idle):
            self._start_timer()
        self._hold(is_another=bool(requests))

    def _hold(self, *, is_another: bool) -> None:
        """Count the bytes of an incomplete request; `is_another`: the one that was counted is complete."""
        partial, size = self._context.partial_requests, self._parser.held_bytes
        if is_another:
            partial.release(self.give_up)
        if size > SMALL:
            partial.hold(self.give_up, size, self._context.settings.partial_request_bytes)

    def give_up(self, reason: str) -> None:
        """Incomplete requests take too much memory."""
        self._respond(Answer(HTTPStatus.SERVICE_UNAVAILABLE, reason), close=True)

    def _start_timer(self) -> None:
        settings = self._context.settings
        is_idle = self._parser.is_idle
        self._context.after(self.expire, settings.idle_ms if is_idle else settings.request_timeout_ms)

    def _continue(self) -> None:
        assert self._parser.head is not None
        refusal = _refusal(self._parser.head)
        if refusal is not None:
            self._respond(refusal, close=True, to=self._parser.head.method)
        else:
            self._is_continued = True
            self._context.write(self._connection, CONTINUE)

    def _answer(self, request: HttpRequest) -> Answer:
        proxies = self._context.settings.trusted_proxies
        address = client_address(request.head, self._address, proxies)
        return _refusal(request.head) or self._receive(request, address)

    def _respond(self, answer: Answer, *, close: bool, to: str = "POST") -> None:
        self._context.statuses[answer.status] += 1
        if answer.status >= _BAD_REQUEST:
            self._context.tell("refused", self._address, reason=f"{answer.status}: {answer.reason}")
        allow = "POST" if answer.status == _METHOD_NOT_ALLOWED else ""
        response = write_response(
            answer.status, answer.reason, close=close, allow=allow, to_head=to == "HEAD"
        )
        self._context.write(self._connection, response)
        if close:
            self.close()

    def expire(self) -> None:
        """Close a connection that brings nothing; one with half a request is told why."""
        if self._parser.is_idle:
            self.close()
        else:
            self._respond(Answer(HTTPStatus.REQUEST_TIMEOUT, "the request is not complete"), close=True)

    def close(self) -> None:
        self._context.close(self._connection)
        self.disconnected()

    def disconnected(self) -> None:
        self._is_closed = True
        self._context.partial_requests.release(self.give_up)
        self._context.timers.cancel(self.expire)
        self._closed(self._connection)


def _refusal(head: RequestHead) -> Answer | None:
    """The answer to a request that cannot be for a queue, whatever its body is."""
    target = request_target(head.target) if is_url(head.target) else head.target
    if not target.casefold().startswith(_PATH):
        return Answer(HTTPStatus.NOT_FOUND, "queues are under /msmq/")
    if head.method != "POST":
        return Answer(HTTPStatus.METHOD_NOT_ALLOWED, "messages come by POST")
    encoding = head.header("Content-Encoding")
    if encoding is not None and encoding.casefold() != "identity":
        return Answer(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "compressed requests are not supported")
    return None


def _keeps_alive(head: RequestHead) -> bool:
    connection = (head.header("Connection") or "").casefold()
    return "close" not in connection if head.version == "1.1" else "keep-alive" in connection
