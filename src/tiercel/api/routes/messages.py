"""Messages: send, browse, receive, delete."""

from collections.abc import AsyncGenerator, Callable
from typing import Annotated, Any, Final

from fastapi import Query, Request, Response
from pydantic import AwareDatetime

from tiercel.admin import queue_lookup, sending
from tiercel.admin.browsing import MAX_PAGE, START, BrowseOptions, Order, Start, message_of
from tiercel.admin.errors import BusyError
from tiercel.admin.message_filter import MAX_FILTER
from tiercel.admin.message_filter import Query as SearchQuery
from tiercel.admin.message_json import check_names, to_json
from tiercel.admin.queues import open_to_take
from tiercel.admin.searching import MAX_PATTERN
from tiercel.api import models
from tiercel.api.context import Api, Client, Context, about, answer
from tiercel.api.models import MAX_WAIT_MS, LookupId, QueueName, SentMany
from tiercel.api.receiving import ReceiveRequest
from tiercel.api.routing import needs, new_router
from tiercel.api.streaming import StreamWithTimeout
from tiercel.engine.engine import Engine
from tiercel.model.codes import MessageSeekAction
from tiercel.model.errors import InvalidParameterError, MessageNotFoundError, TooLargeError
from tiercel.model.identifiers import lookup_id_sequence
from tiercel.model.limits import MAX_PACKET_SIZE
from tiercel.security.tokens import Role
from tiercel.wire.dump import as_json, list_packet
from tiercel.wire.user_message import UserMessage

router = new_router()

_FILTER: Final = (
    "terms that all must hold, as in "
    r'`label:"order 7" priority>=5 age>1h size>10k body:Smith json.total>100 class:nack* id:{guid}\7 -word`'
)
NDJSON: Final = "application/x-ndjson"
_MAX_LINES_BYTES: Final = 64 << 20
_MAX_MESSAGE_BYTES: Final = 2 * MAX_PACKET_SIZE  # 4 MiB in base64, and its properties
_MAX_LISTED_BYTES: Final = 1 << 20  # a listing is made in one turn
_LAST_LOOKUP_ID: Final = 2**64 - 1
_MAX_STREAMS: Final = 16

_MESSAGE: Final = {"$ref": "#/components/schemas/Message"}
_SENDS: Final = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": _MESSAGE},
            NDJSON: {"schema": {"type": "string", "description": "a message on each line"}},
        },
    }
}
_PAGE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "a page; with Accept: application/x-ndjson the whole queue, a message on each line",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["messages", "next"],
                    "properties": {
                        "messages": {"type": "array", "items": _MESSAGE},
                        "next": {"type": ["string", "null"]},
                    },
                }
            },
            NDJSON: {"schema": {"type": "string"}},
        },
    }
}
_FOUND: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "messages that match",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["messages", "looked", "matched", "skipped", "next"],
                    "properties": {
                        "messages": {"type": "array", "items": _MESSAGE},
                        "looked": {"type": "integer"},
                        "matched": {"type": "integer"},
                        "skipped": {"type": "array", "items": {"type": "string"}},
                        "next": {"type": ["string", "null"]},
                    },
                }
            }
        },
    }
}
_ONE: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "the message", "content": {"application/json": {"schema": _MESSAGE}}}
}
_PACKET: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "every structure, and every field with its offset, value and meaning",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["size", "structures"],
                    "properties": {"size": {"type": "integer"}, "structures": {"type": "array"}},
                }
            },
            "application/octet-stream": {"schema": {"type": "string", "contentEncoding": "binary"}},
        },
    }
}
_RECEIVED: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "the received messages; none if none arrived in time",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["messages"],
                    "properties": {"messages": {"type": "array", "items": _MESSAGE}},
                }
            }
        },
    }
}


@router.post(
    "/queues/{queue}/messages",
    **needs(Role.SEND, audit="send", messages=True, max_bytes=_MAX_LINES_BYTES, **_SENDS),
    status_code=201,
    response_model=models.Sent | SentMany,
)
async def send_messages(
    api: Context,
    request: Request,
    queue: QueueName,
    transactional: Annotated[bool | None, Query(description="only for queues of other computers")] = None,
    sign: Annotated[bool, Query(description="sign with the key of the queue manager")] = False,
    encrypt: Annotated[bool, Query(description="encrypt the body for the destination's computer")] = False,
) -> Response:
    """One message as JSON; or many, one per line, of which all are sent or none.

    The response is sent once recoverable messages are on disk. Messages to a queue of another computer wait
    here until they are delivered.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
    body = await request.body()
    if kind == NDJSON:
        messages = await sending.messages_of_lines(body)
    elif kind == "application/json":
        if len(body) > _MAX_MESSAGE_BYTES:
            limit = f"{MAX_PACKET_SIZE} bytes with all its properties"
            raise TooLargeError("message", present=f"{len(body)} bytes of JSON", limit=limit, fix="send less")
        messages = [sending.message_of_json(body)]
    else:
        fix = f"send Content-Type: application/json for one message, {NDJSON} for many"
        raise InvalidParameterError("body", problem="its type is unknown", present=kind or "no type", fix=fix)
    sent = await api.sender.send(queue, messages, transactional, sign=sign, encrypt=encrypt)
    ids = [str(each) for each in sent]
    about(request, count=len(ids), id=ids[0] if len(ids) == 1 else None)
    if kind == NDJSON:
        return answer({"count": len(ids), "ids": ids}, 201)
    return answer({"id": ids[0]}, 201)


@router.get("/queues/{queue}/messages", **needs(Role.READ), responses=_PAGE)
async def browse_messages(
    api: Context,
    request: Request,
    queue: QueueName,
    after: Annotated[
        str,
        Query(
            description="value of `next` in the previous response, `start`, or with order=arrival `end`",
            max_length=40,
        ),
    ] = START,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
    last: Annotated[
        int | None,
        Query(ge=1, le=MAX_PAGE, description="with order=arrival: start this many messages before the end"),
    ] = None,
    at: Annotated[
        int | None, Query(ge=0, le=2**31, description="start at this row of the order, counted from 0")
    ] = None,
    since: Annotated[
        AwareDatetime | None, Query(description="with order=arrival: start at this arrival time")
    ] = None,
    before: Annotated[
        str | None,
        Query(
            description="end before this position: a lookup id, or with order=arrival a value of `next`",
            max_length=40,
        ),
    ] = None,
    wait_ms: Annotated[
        int, Query(ge=0, le=MAX_WAIT_MS, description="how long to wait if there is no message")
    ] = 0,
    order: Annotated[Order, Query(description="queue order, or order of arrival")] = Order.QUEUE,
    bodies: Annotated[bool, Query()] = True,
    decode: Annotated[bool, Query(description="add the decoded bodies")] = False,
    available_only: Annotated[bool, Query(description="omit messages held by other readers")] = False,
    fields: Annotated[
        str | None,
        Query(description="only these properties, separated by commas: faster than all", max_length=1000),
    ] = None,
) -> Response:
    """Browses messages without removing them.

    `after`, `last`, `at`, `since` and `before` exclude each other.
    """
    options = BrowseOptions(order, bodies, decode, available_only, _names(fields))
    start = Start(after, last, at, since, before)
    if NDJSON in request.headers.get("accept", ""):
        return _stream(api, await api.messages.export(queue, options))
    page = await api.messages.page(
        queue,
        options,
        limit=limit,
        start=start,
        wait_s=wait_ms / 1000,
        caller=Client(request),
    )
    return answer(page._asdict())


@router.get("/queues/{queue}/row", **needs(Role.READ), response_model=models.Row)
async def find_row(
    api: Context,
    queue: QueueName,
    lookup_id: Annotated[str | None, Query(pattern="^[0-9]{1,20}$", description="of a message")] = None,
    since: Annotated[
        AwareDatetime | None, Query(description="of the first message that arrived at this time or later")
    ] = None,
    order: Annotated[Order, Query(description="queue order, or order of arrival")] = Order.QUEUE,
) -> Response:
    """The row of a message in the order, counted from 0, for `at`; the number of messages if it is gone."""
    if (lookup_id is None) == (since is None):
        raise InvalidParameterError("lookup_id", problem="one of lookup_id and since is required")
    if since is not None:
        place = await api.messages.first_since(queue, since, order)
    else:
        place = _number(lookup_id or "0")
        place = lookup_id_sequence(place) if order is Order.ARRIVAL else place
    return answer({"row": await api.messages.row_of(queue, place, order)})


def _names(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    check_names(names)
    return names


@router.get("/queues/{queue}/search", **needs(Role.READ), responses=_FOUND)
async def search_messages(
    api: Context,
    queue: QueueName,
    pattern: Annotated[
        str | None, Query(max_length=MAX_PATTERN, description="regular expression, as in Python")
    ] = None,
    filter_: Annotated[str | None, Query(alias="filter", max_length=MAX_FILTER, description=_FILTER)] = None,
    ignore_case: Annotated[bool, Query(description="of a pattern; a filter always does")] = False,
    after: Annotated[
        str, Query(description="value of `next` in the previous response, or `start`", max_length=40)
    ] = START,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="most messages in the response")] = 100,
) -> Response:
    """Searches labels, decoded bodies and the headers of service buses, by `pattern` or by `filter`.

    A response may have no message and still a `next`: a request looks at a bounded number of messages.
    `skipped` are messages on which the pattern or the decoder takes too long.
    """
    text = pattern if filter_ is None else filter_
    if text is None or (pattern is not None and filter_ is not None):
        raise InvalidParameterError("filter", problem="give either a pattern or a filter", fix="give one")
    query = SearchQuery(text, filter_ is not None, ignore_case)
    return answer((await api.searching.page(queue, query, after=after, limit=limit))._asdict())


def _stream(api: Api, lines: Callable[[], AsyncGenerator[bytes, None]]) -> Response:
    def ended() -> None:
        api.streams -= 1

    if api.streams >= _MAX_STREAMS:
        raise BusyError("exports", present=api.streams, limit=_MAX_STREAMS)
    api.streams += 1
    return StreamWithTimeout(lines(), NDJSON, ended)


def _number(lookup_id: str) -> int:
    number = int(lookup_id)
    if number > _LAST_LOOKUP_ID:
        raise MessageNotFoundError(f"message {lookup_id}")
    return number


@router.get("/queues/{queue}/messages/{lookup_id}", **needs(Role.READ), responses=_ONE)
async def get_message(
    api: Context,
    queue: QueueName,
    lookup_id: LookupId,
    bodies: Annotated[bool, Query()] = True,
    decode: Annotated[bool, Query()] = False,
) -> Response:
    """With `locked_by` if it is held: by a lease, a transaction, a reader, or because it is being sent."""
    options = BrowseOptions(bodies=bodies, decode=decode)
    row = await api.messages.one(queue, _number(lookup_id), options)
    if row.get("locked_by", {}).get("kind") == "reader":
        row["locked_by"] = await api.receiver.holder(queue, int(lookup_id)) or row["locked_by"]
    return answer(row)


@router.get("/queues/{queue}/messages/{lookup_id}/packet", **needs(Role.READ), responses=_PACKET)
async def get_packet(api: Context, request: Request, queue: QueueName, lookup_id: LookupId) -> Response:
    """The stored packet field by field; with `Accept: application/octet-stream`, its bytes."""
    packet = await api.messages.packet(queue, _number(lookup_id))
    if "application/octet-stream" in request.headers.get("accept", ""):
        return Response(packet, media_type="application/octet-stream")
    if len(packet) > _MAX_LISTED_BYTES:
        limit = f"{_MAX_LISTED_BYTES} bytes"
        fix = "fetch it with Accept: application/octet-stream, and use `tiercel decode`"
        raise TooLargeError("packet", present=f"{len(packet)} bytes", limit=limit, fix=fix)
    return answer({"size": len(packet), "structures": as_json(list_packet(UserMessage(packet)))})


@router.delete(
    "/queues/{queue}/messages/{lookup_id}", **needs(Role.RECEIVE, audit="delete message"), responses=_ONE
)
async def delete_message(api: Context, queue: QueueName, lookup_id: LookupId) -> Response:
    """Receives one message by its lookup id; from an outgoing queue, removes it."""
    number, read = _number(lookup_id), MessageSeekAction.SEEK_CURRENT

    def command(engine: Engine) -> dict[str, Any]:
        state = queue_lookup.find(engine, queue)
        opened = open_to_take(engine, state, api.runner.driver.token)
        try:
            found = engine.reading.read_by_lookup_id(opened, number, read, peek=False)
        finally:
            engine.opening.close(opened)
        return to_json(message_of(found.lookup_id, found.record))

    return answer(await api.runner.call(command))


@router.post(
    "/queues/{queue}/receive", **needs(Role.RECEIVE, audit="receive", messages=True), responses=_RECEIVED
)
async def receive_messages(
    api: Context, request: Request, queue: QueueName, wanted: models.Receive | None = None
) -> Response:
    """Receives messages. Each is leased: acknowledge it in time, or it returns to its place in the queue."""
    given = wanted or models.Receive()
    lookup_id = None if given.lookup_id is None else _number(given.lookup_id)
    wished = ReceiveRequest.of(given, lookup_id)
    messages = await api.receiver.receive(queue, wished, request.state.who, Client(request))
    about(request, count=len(messages))
    return answer({"messages": messages})
