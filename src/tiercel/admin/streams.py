"""Streams of transactional messages, incoming and outgoing: how far each has come, and the repair of one."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from tiercel.admin import queue_lookup
from tiercel.admin.message_json import time_text
from tiercel.admin.sources import name_of
from tiercel.engine.engine import Engine
from tiercel.engine.incoming_streams import IncomingStream
from tiercel.engine.queue_state import QueueState
from tiercel.engine.stream import UNIDENTIFIED, Stream
from tiercel.model.errors import InvalidParameterError, MessageNotFoundError
from tiercel.model.identifiers import NULL_GUID
from tiercel.model.queue_name import short_queue_name

Json = dict[str, Any]


def all_streams(engine: Engine) -> Json:
    return {"streams": [*_incoming(engine), *_outgoing(engine)]}


def _incoming(engine: Engine) -> Iterator[Json]:
    queues = {queue.slot: queue for queue in engine.queues.all()}
    for stream in engine.arrivals.streams.all():
        queue = queues.get(stream.slot)
        if queue is not None and (stream.sequence or stream.refused):
            yield {
                "direction": "in",
                "queue": _name(engine, queue),
                "peer": str(stream.sender),
                "name": stream.name,
                **_place(stream.sequence, stream.number),
                "sent": None,
                "acknowledged": None,
                "unread": None,
                "last_change": time_text(stream.last_access),
                "rejected": stream.reject_count,
                "problem": _problem(stream),
            }


def _name(engine: Engine, queue: QueueState) -> str:
    if queue.is_outgoing:
        return name_of(engine, queue)
    return short_queue_name(str(queue.queue.pathname))


def _problem(stream: IncomingStream) -> str | None:
    if not stream.refused:
        return None
    begins = time_text(stream.refused >> 32)
    return f"refused: its sequence begins {begins}, more than a day ahead of this computer's clock"


def _outgoing(engine: Engine) -> Iterator[Json]:
    for queue in engine.outgoing.queues():
        stream = engine.outgoing.stream(queue)
        if stream.sequence:
            yield _outgoing_row(engine, queue, stream)


def _outgoing_row(engine: Engine, queue: QueueState, stream: Stream) -> Json:
    name = name_of(engine, queue)
    return {
        "direction": "out",
        "queue": name,
        "peer": None if stream.receiver in {NULL_GUID, UNIDENTIFIED} else str(stream.receiver),
        "name": name,
        **_place(stream.sequence, stream.number),
        "sent": stream.sent,
        "acknowledged": stream.acked,
        "unread": stream.unread,
        "last_change": time_text(stream.ack_time),
        "rejected": 0,
        "problem": None,
    }


def _place(sequence: int, number: int) -> Json:
    return {"sequence": f"{sequence >> 32}.{sequence & 0xFFFF_FFFF}", "number": number}


def reset(engine: Engine, queue: str, sender: str) -> Json:
    """Forget how far a sender has come with its messages to a queue; it goes on with what it sends next."""
    state = queue_lookup.find(engine, queue)
    try:
        peer = UUID(sender)
    except ValueError as error:
        problem = "not the GUID of a queue manager"
        raise InvalidParameterError(sender[:80], problem=problem, fix="take it from the list") from error
    count = engine.arrivals.streams.reset(state, peer)
    if not count:
        problem = f"{peer} has no stream into this queue"
        raise MessageNotFoundError(f"queue {_name(engine, state)}", problem=problem, fix="check the list")
    return {"queue": _name(engine, state), "peer": str(peer), "reset": count}
