"""The usual request to send one message, without the framework: its layers cost more than the send.

The short way has no rules of its own. It serves requests in which nothing is unusual, with the functions that
the route calls too. All other requests go to the routes, and those that are refused go there again from their
start: an error means that nothing was sent, and every error is reported in one way.
"""

import asyncio
import re
from collections.abc import Callable
from typing import Final
from urllib.parse import unquote

from starlette.requests import Request
from starlette.types import Scope

from tiercel.admin.message_json import dumps
from tiercel.admin.sending import message_of_json
from tiercel.api.audited_runner import ACTOR
from tiercel.api.authorization import Authorization
from tiercel.api.context import Api
from tiercel.api.parameters import declared_size
from tiercel.api.paths import API
from tiercel.model.errors import MqError
from tiercel.model.identifiers import MessageId
from tiercel.security.tokens import Role

_PATH: Final = re.compile(rf"{API}/queues/([^/]{{1,500}})/messages".encode("ascii"))
_MAX_BYTES: Final = 64 << 10  # what is larger takes longer to parse than to route


class ShortWay:
    """`is_alone`: whether the API has no other connection."""

    def __init__(self, api: Api, authorization: Authorization, is_alone: Callable[[], bool]) -> None:
        self._api = api
        self._authorization = authorization
        self._is_alone = is_alone

    def begin(self, scope: Scope) -> "ShortSend | None":
        queue = _queue_of(scope)
        if queue is None or self._api.audit.covers_messages:
            return None
        request = Request(scope)
        size = declared_size(request)
        if not size or size > _MAX_BYTES or request.headers.get("content-type") != "application/json":
            return None
        try:
            self._authorization.check(request, Role.SEND)
            who = self._authorization.who(request)
            self._api.intake.take(size)
        except MqError:
            return None
        return ShortSend(self._api, self._is_alone, who, queue, size)


class ShortSend:
    def __init__(self, api: Api, is_alone: Callable[[], bool], who: str, queue: str, size: int) -> None:
        self._api = api
        self._is_alone = is_alone
        self._who = who
        self._queue = queue
        self._size = size

    def start(self, body: bytes) -> "asyncio.Future[list[MessageId]] | None":
        actor = ACTOR.set(self._who)
        try:
            message = message_of_json(body)
            return self._api.sender.start(self._queue, message, is_last=self._is_alone())
        except MqError:
            return None
        finally:
            ACTOR.reset(actor)

    def answer(self, sent: list[MessageId]) -> bytes:
        return dumps({"id": str(sent[0])})

    def end(self) -> None:
        self._api.intake.give_back(self._size)


def _queue_of(scope: Scope) -> str | None:
    if scope["method"] != "POST" or scope["query_string"]:
        return None
    found = _PATH.fullmatch(scope["raw_path"])
    return None if found is None else unquote(found[1].decode("ascii"))
