"""Outgoing queues and connections; pause and resume."""

from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import Response

from tiercel.admin import queue_lookup, queues
from tiercel.admin.outgoing import row
from tiercel.api.context import Api, Context, answer
from tiercel.api.models import ConnectionList, OutgoingList, QueueDetails, QueueName
from tiercel.api.routing import needs, new_router
from tiercel.binary.session import Session
from tiercel.engine.engine import Engine
from tiercel.engine.queue_state import QueueState
from tiercel.model.codes import OutgoingQueueState
from tiercel.model.identifiers import NULL_GUID
from tiercel.model.queue import OutgoingQueue
from tiercel.security.tokens import Role
from tiercel.srmp.connection_info import ConnectionInfo

router = new_router()


@router.get("/outgoing", **needs(Role.READ), response_model=OutgoingList)
async def list_outgoing(api: Context) -> Response:
    found = await api.runner.call(lambda engine: [row(engine, each) for each in engine.outgoing.queues()])
    return answer({"outgoing": found})


@router.get("/connections", **needs(Role.READ), response_model=ConnectionList)
async def list_connections(api: Context) -> Response:
    """Sessions with other queue managers, and HTTP connections. Numbers are unique in each transport."""
    daemon = api.daemon
    sessions = [] if daemon is None else daemon.protocol.sessions
    over_http = [] if daemon is None or daemon.http is None else daemon.http.protocol.connections
    return answer({"connections": [*map(_session, sessions), *map(_http_connection, over_http)]})


def _session(session: Session) -> dict[str, Any]:
    return {
        "transport": "binary",
        "connection": session.connection,
        "address": session.address,
        "peer": None if session.remote_guid == NULL_GUID else str(session.remote_guid),
        "state": session.state.name.lower(),
        "direction": "out" if session.is_initiator else "in",
        "in_flight": session.flight.size,
        "window": session.peer_window,
    }


def _http_connection(info: ConnectionInfo) -> dict[str, Any]:
    return {
        "transport": "http",
        "connection": info.number,
        "address": info.address,
        "peer": None,
        "state": "open" if info.is_open else "connecting",
        "direction": "out" if info.is_ours else "in",
        "in_flight": info.in_flight,
        "window": 1,
    }


@router.post("/queues/{queue}/pause", **needs(Role.ADMIN, audit="pause queue"), response_model=QueueDetails)
async def pause_queue(api: Context, queue: QueueName) -> Response:
    """Pauses an outgoing queue until it is resumed or the queue manager restarts."""
    return answer(await api.runner.call(lambda engine: _switch(engine, queue, engine.outgoing.pause)))


@router.post("/queues/{queue}/resume", **needs(Role.ADMIN, audit="resume queue"), response_model=QueueDetails)
async def resume_queue(api: Context, queue: QueueName) -> Response:
    """Resumes an outgoing queue. If it is not paused but cannot connect, tries again at once."""
    return answer(await api.runner.call(lambda engine: _switch(engine, queue, partial(_resume, api, engine))))


def _resume(api: Api, engine: Engine, state: QueueState) -> None:
    queue = state.queue
    if not isinstance(queue, OutgoingQueue) or queue.state is OutgoingQueueState.ON_HOLD:
        engine.outgoing.resume(state)
    if api.daemon is not None:
        api.daemon.protocol.hasten(state)


def _switch(engine: Engine, queue: str, how: Callable[[QueueState], None]) -> dict[str, Any]:
    state = queue_lookup.find(engine, queue)
    how(state)
    return queues.with_properties(engine, state)
