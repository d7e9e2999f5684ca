"""Changes as they happen: server-sent events."""

from typing import Any, Final

from fastapi import Request, Response

from tiercel.api.context import Context
from tiercel.api.routing import AUTHORIZATION, needs, new_router
from tiercel.api.streaming import StreamWithTimeout
from tiercel.security.tokens import Role

router = new_router()

_EVENTS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "an endless stream", "content": {"text/event-stream": {}}}
}


@router.get("/events", **needs(Role.READ), responses=_EVENTS)
async def watch_events(api: Context, request: Request) -> Response:
    """Server-sent events, at most one a second of each kind.

    `queues` has the queues that changed, at first all of them: a client that reconnects misses nothing.
    `outgoing`, `operations` and `audit` say that something of that kind changed. The stream ends when the
    client's token or login does.
    """
    authorization = request.scope[AUTHORIZATION]

    def is_allowed() -> bool:
        return bool(authorization.grants(request, Role.READ))

    listener = api.events.listen()
    response = StreamWithTimeout(
        api.events.stream(listener, is_allowed), "text/event-stream", lambda: api.events.leave(listener)
    )
    response.headers.update({"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})  # the latter for nginx
    return response
