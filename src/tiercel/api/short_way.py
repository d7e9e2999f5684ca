"""The usual request to send one message, without the framework: its layers cost more than the send.

The short way has no rules of its own. It serves requests in which nothing is unusual, with the functions that
the route calls too. All other requests go to the routes, and those that are refused go there again from their
start: an error means that nothing was sent, and every error is reported in one way.
"""

import re
from typing import Final
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from tiercel.admin.sending import message_of_json
from tiercel.api.audited_runner import ACTOR
from tiercel.api.context import Api, answer
from tiercel.api.parameters import declared_size, read_body, replay
from tiercel.api.paths import API
from tiercel.api.routing import AUTHORIZATION
from tiercel.model.errors import MqError
from tiercel.security.tokens import Role

_PATH: Final = re.compile(rf"{API}/queues/([^/]{{1,500}})/messages".encode("ascii"))
_MAX_BYTES: Final = 64 << 10  # what is larger takes longer to parse than to route


class ShortWay:
    """`routes` serve all other requests."""

    def __init__(self, routes: ASGIApp, api: Api) -> None:
        self._routes = routes
        self._api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        queue, size = _queue_of(scope), declared_size(request)
        if queue is None or not size or size > _MAX_BYTES or not self._is_usual(request):
            await self._routes(scope, receive, send)
            return
        body = b""
        try:
            scope[AUTHORIZATION].check(request, Role.SEND)
            ACTOR.set(scope[AUTHORIZATION].who(request))
            with self._api.intake.hold(size):
                body = await read_body(request, size)
                [sent] = await self._api.sender.send(queue, [message_of_json(body)], None)
        except (MqError, ClientDisconnect):
            await self._routes(scope, replay(body, receive) if body else receive, send)
        else:
            await answer({"id": str(sent)}, 201)(scope, receive, send)

    def _is_usual(self, request: Request) -> bool:
        return (
            request.headers.get("content-type") == "application/json" and not self._api.audit.covers_messages
        )


def _queue_of(scope: Scope) -> str | None:
    if scope["method"] != "POST" or scope["query_string"]:
        return None
    found = _PATH.fullmatch(scope["raw_path"])
    return None if found is None else unquote(found[1].decode("ascii"))
