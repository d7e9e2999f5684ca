"""Outgoing queues and connections; pause and resume."""

from collections.abc import Callable
from typing import Any

from fastapi import Response

from tiercel.admin import queue_lookup, queues
from tiercel.admin.message_json import time_text
from tiercel.api.context import Context, answer
from tiercel.api.models import ConnectionList, OutgoingList, QueueDetails, QueueName
from tiercel.api.routing import needs, new_router
from tiercel.engine.engine import Engine
from tiercel.engine.queue_state import QueueState
from tiercel.model.identifiers import NULL_GUID
from tiercel.model.queue import ConnectionHistoryEntry, OutgoingQueue
from tiercel.security.tokens import Role

router = new_router()


@router.get("/outgoing", **needs(Role.READ), response_model=OutgoingList)
async def list_outgoing(api: Context) -> Response:
    found = await api.runner.call(lambda engine: [_row(engine, each) for each in engine.outgoing.queues()])
    return answer({"outgoing": found})


def _row(engine: Engine, state: QueueState) -> dict[str, Any]:
    queue = state.queue
    assert isinstance(queue, OutgoingQueue)
    return {
        "format_name": str(queue.destination_format_name),
        "state": queue.state.name.lower(),
        "paused": queues.is_paused(state),
        "count": state.count,
        "bytes": state.size_bytes,
        "locked": len(state.locks),
        "oldest_arrival": time_text(engine.browsing.oldest_arrival(state)),
        "next_hops": queue.next_hops or [],
        "reason": queue.reason,
        "next_try": time_text(queue.next_try or None),
        "unacknowledged": queue.transfer_info.eod_no_ack_count,
        "history": [_entry(each) for each in queue.connection_history],
    }


def _entry(entry: ConnectionHistoryEntry) -> dict[str, Any]:
    return {
        "time": time_text(entry.connection_history_time),
        "status": entry.status.name.lower(),
        "error": entry.error,
        "addresses": list(entry.address_list),
    }


@router.get("/connections", **needs(Role.READ), response_model=ConnectionList)
async def list_connections(api: Context) -> Response:
    """Sessions with other queue managers."""
    sessions = [] if api.daemon is None else api.daemon.protocol.sessions
    rows = [
        {
            "connection": each.connection,
            "address": each.address,
            "peer": None if each.remote_guid == NULL_GUID else str(each.remote_guid),
            "state": each.state.name.lower(),
            "direction": "out" if each.is_initiator else "in",
            "in_flight": each.flight.size,
            "window": each.peer_window,
        }
        for each in sessions
    ]
    return answer({"connections": rows})


@router.post("/queues/{queue}/pause", **needs(Role.ADMIN, audit="pause queue"), response_model=QueueDetails)
async def pause_queue(api: Context, queue: QueueName) -> Response:
    """Pauses an outgoing queue until it is resumed or the queue manager restarts."""
    return answer(await api.runner.call(lambda engine: _switch(engine, queue, engine.outgoing.pause)))


@router.post("/queues/{queue}/resume", **needs(Role.ADMIN, audit="resume queue"), response_model=QueueDetails)
async def resume_queue(api: Context, queue: QueueName) -> Response:
    return answer(await api.runner.call(lambda engine: _switch(engine, queue, engine.outgoing.resume)))


def _switch(engine: Engine, queue: str, how: Callable[[QueueState], None]) -> dict[str, Any]:
    state = queue_lookup.find(engine, queue)
    how(state)
    return queues.with_properties(engine, state)
