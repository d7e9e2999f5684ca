"""Usual requests to send, receive and acknowledge, without the framework: its layers cost more than they do.

The short way has no rules of its own. It serves requests in which nothing is unusual, with the functions that
the routes call too. All other requests go to the routes, and those that are refused go there again from their
start: an error means that nothing was done, and every error is reported in one way.
"""

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Final
from urllib.parse import unquote

from starlette.requests import Request
from starlette.types import Scope

from tiercel.admin.leases import SLICE
from tiercel.admin.message_json import Json, dumps
from tiercel.admin.sending import message_of_json, parsed
from tiercel.api import models
from tiercel.api.audited_runner import ACTOR
from tiercel.api.authorization import Authorization
from tiercel.api.context import Api
from tiercel.api.parameters import declared_size
from tiercel.api.paths import API
from tiercel.api.receiving import ReceiveRequest
from tiercel.model.errors import MqError
from tiercel.model.identifiers import MessageId
from tiercel.security.tokens import Role

_MAX_BYTES: Final = 64 << 10  # what is larger takes longer to parse than to route


class ShortWay:
    """`is_alone`: whether the API has no other connection."""

    def __init__(self, api: Api, authorization: Authorization, is_alone: Callable[[], bool]) -> None:
        self._api = api
        self._authorization = authorization
        self._is_alone = is_alone

    def begin(self, scope: Scope) -> "UsualRequest | None":
        found = _found(scope)
        if found is None or self._api.audit.covers_messages:
            return None
        kind, subject = found
        request = Request(scope)
        size = _usual_size(request, kind)
        if size is None:
            return None
        try:
            self._authorization.check(request, kind.role)
            short = kind(self._api, self._is_alone, self._authorization, request, subject, size)
            self._api.intake.take(size)
        except MqError:
            return None
        return short


class UsualRequest(ABC):
    role: ClassVar[Role]
    has_body: ClassVar[bool] = True  # otherwise it has none
    needs_body: ClassVar[bool] = False
    status: ClassVar[int] = 200

    def __init__(
        self,
        api: Api,
        is_alone: Callable[[], bool],
        authorization: Authorization,
        request: Request,
        subject: str,
        size: int,
    ) -> None:
        self._api = api
        self._is_alone = is_alone
        self._who = authorization.who(request)
        self._is_admin = authorization.grants(request, Role.ADMIN)
        self._subject = subject
        self._size = size

    def start(self, body: bytes, is_gone: Callable[[], bool]) -> "asyncio.Future[Any] | None":
        actor = ACTOR.set(self._who)
        try:
            return self._start(body, is_gone)
        except (MqError, ValueError):  # the latter: the body breaks its model
            return None
        finally:
            ACTOR.reset(actor)

    @abstractmethod
    def _start(self, body: bytes, is_gone: Callable[[], bool]) -> "asyncio.Future[Any] | None": ...

    @abstractmethod
    def answer(self, result: Any) -> bytes: ...

    def end(self) -> None:
        self._api.intake.give_back(self._size)


class ShortSend(UsualRequest):
    role, needs_body, status = Role.SEND, True, 201

    def _start(self, body: bytes, _is_gone: Callable[[], bool]) -> "asyncio.Future[list[MessageId]]":
        message = message_of_json(body)
        return self._api.sender.start(self._subject, message, is_last=self._is_alone())

    def answer(self, result: list[MessageId]) -> bytes:
        return dumps({"id": str(result[0])})


class ShortReceive(UsualRequest):
    """Messages that are there, with leases or without."""

    role = Role.RECEIVE

    def _start(self, body: bytes, is_gone: Callable[[], bool]) -> "asyncio.Future[list[Json]] | None":
        given = models.Receive.model_validate(parsed(body, "body")) if body else models.Receive()
        if given.lookup_id is not None or given.decode or given.limit > SLICE:
            return None
        receiver, wanted = self._api.receiver, ReceiveRequest.of(given)
        return receiver.start(self._subject, wanted, self._who, is_gone, is_last=self._is_alone())

    def answer(self, result: list[Json]) -> bytes:
        return dumps({"messages": result})


class ShortAcknowledge(UsualRequest):
    role, has_body = Role.RECEIVE, False

    def _start(self, _body: bytes, _is_gone: Callable[[], bool]) -> "asyncio.Future[Json]":
        who = None if self._is_admin else self._who
        return self._api.receiver.start_acknowledge(self._subject, who, is_last=self._is_alone())

    def answer(self, result: Json) -> bytes:
        return dumps(result)


_KINDS: Final[tuple[tuple[re.Pattern[bytes], type[UsualRequest]], ...]] = (
    (re.compile(rf"{API}/queues/([^/]{{1,500}})/messages".encode("ascii")), ShortSend),
    (re.compile(rf"{API}/queues/([^/]{{1,500}})/receive".encode("ascii")), ShortReceive),
    (re.compile(rf"{API}/leases/([0-9a-f]{{1,100}})/acknowledge".encode("ascii")), ShortAcknowledge),
)


def _found(scope: Scope) -> tuple[type[UsualRequest], str] | None:
    """The kind of a request, and the queue or lease that it names."""
    if scope["method"] != "POST" or scope["query_string"]:
        return None
    for path, kind in _KINDS:
        found = path.fullmatch(scope["raw_path"])
        if found is not None:
            return kind, unquote(found[1].decode("ascii"))
    return None


def _usual_size(request: Request, kind: type[UsualRequest]) -> int | None:
    """The size of the body; None if that is unusual for the kind."""
    headers = request.headers
    size = 0 if "content-length" not in headers else declared_size(request)
    if "transfer-encoding" in headers or size is None or size > _MAX_BYTES:
        return None
    if not size:
        return None if kind.needs_body else 0
    return size if kind.has_body and headers.get("content-type") == "application/json" else None
