"""Requests that are passed on to another computer: [MC-MQSRM] 3.1.5.1.3, SRMP-170, SRMP-171.

Two computers may pass a message to each other for ever. Each adds itself to the Via header of the request,
and refuses what it has passed on before.
"""

from dataclasses import replace
from uuid import UUID

from tiercel.model.codes import DeliveryGuarantee
from tiercel.model.format_name import DirectFormatName
from tiercel.srmp.http_request import HttpRequest
from tiercel.srmp.kinds import Kind, kind_of
from tiercel.srmp.message import read_message
from tiercel.srmp.queue_urls import read_url, write_url
from tiercel.srmp.request import SrmpRequest, read_srmp, request_to, write_srmp
from tiercel.wire.message import encode_message
from tiercel.wire.user_message import UserMessage


def was_passed_on_by(request: HttpRequest, queue_manager: UUID) -> bool:
    return str(queue_manager) in _via(request)


def forwarded(request: SrmpRequest, name: DirectFormatName, queue_manager: UUID, now: int) -> UserMessage:
    """The message for the outgoing queue to `name`, with the request that is to be sent.

    Its content stays byte for byte, unless the message was redirected: then `to` changes. A final stream
    receipt is stored, though it does not ask for it: nothing would make the receiver send another one.
    """
    to, http = request.envelope.path.to, request.http
    content, content_type = http.body, http.head.header("Content-Type") or ""
    if read_url(to) != name:
        to = write_url(name)
        written = _written_to(request, to)
        content, content_type = written.body, written.head.header("Content-Type") or ""
    via = ", ".join(filter(None, (_via(http), f"1.1 {queue_manager}")))
    sent = request_to(to, content_type, content, ("Via", via))
    message = read_message(read_srmp(sent), now)
    if kind_of(request.envelope) is Kind.FINAL_STREAM_RECEIPT:
        message.delivery = DeliveryGuarantee.RECOVERABLE
    return UserMessage(encode_message(message, over_http=True))


def _written_to(request: SrmpRequest, to: str) -> HttpRequest:
    envelope = replace(request.envelope, path=replace(request.envelope.path, to=to))
    part = request.body or request.extension
    return write_srmp(
        envelope,
        None if request.body is None else request.body.content,
        None if request.extension is None else request.extension.content,
        content_guid="" if part is None else part.content_id.partition("@")[2],
        boundary=envelope.path.id.uniquifier,
    )


def _via(request: HttpRequest) -> str:
    """All Via headers as one: a proxy may have added one of its own."""
    return ", ".join(value for name, value in request.head.headers if name.casefold() == "via")
