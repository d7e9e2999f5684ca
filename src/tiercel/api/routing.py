"""The route class of the API: required roles, strict parameters, body limits, audit lines."""

import difflib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final
from urllib.parse import unquote

from fastapi import APIRouter
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from tiercel.api.audited_runner import ACTOR, CURRENT, AuditEntry
from tiercel.api.context import Api
from tiercel.api.parameters import declared_size, read_body, replay
from tiercel.api.problems import status_of
from tiercel.model.errors import InvalidParameterError, MqError
from tiercel.security.tokens import Role

Handler = Callable[[Request], Coroutine[Any, Any, Response]]

AUTHORIZATION: Final = "tiercel.authorization"  # in the ASGI scope: the authorization of the socket
MAX_JSON_BYTES: Final = 1 << 20
_ROLES, _AUDIT, _MESSAGES, _BODY = "x-roles", "x-audit", "x-audit-messages", "x-max-bytes"


def needs(
    *roles: Role,
    audit: str | None = None,
    messages: bool = False,
    max_bytes: int = MAX_JSON_BYTES,
    **extra: Any,
) -> dict[str, Any]:
    """Options for a route's decorator: the required roles, and the action for the audit log.

    With `messages` it is audited only if sends and receives are.
    """
    known = {_ROLES: [str(role) for role in roles], _AUDIT: audit, _MESSAGES: messages, _BODY: max_bytes}
    return {"openapi_extra": {**known, **extra}}


class ApiRoute(APIRoute):
    def get_route_handler(self) -> Handler:
        handler = super().get_route_handler()
        extra = self.openapi_extra or {}
        roles, known = [Role(each) for each in extra.get(_ROLES, ())], self._query_names()

        async def guarded(request: Request) -> Response:
            authorization = request.scope[AUTHORIZATION]
            request.state.who = authorization.who(request) if roles else ""
            ACTOR.set(request.state.who)
            for role in roles:
                authorization.check(request, role)
            request.state.is_admin = bool(roles) and authorization.grants(request, Role.ADMIN)
            _refuse_unknown(request, known)
            if request.method not in {"POST", "PATCH"}:
                return await handler(request)
            api: Api = request.app.state.api
            limit = extra[_BODY]
            with api.intake.hold(min(declared_size(request) or limit, limit)):
                return await handler(await _with_body(request, limit))

        return _audited(guarded, extra) if extra.get(_AUDIT) else guarded

    def _query_names(self) -> list[str]:
        return [str(each.alias) for each in self.dependant.query_params]


def new_router() -> APIRouter:
    return APIRouter(route_class=ApiRoute)


def _refuse_unknown(request: Request, known: list[str]) -> None:
    for name in request.query_params:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            there = ", ".join(sorted(known)) or "none"
            fix = f"perhaps {near[0]} is meant" if near else f"there are {there}"
            raise InvalidParameterError(name[:80], problem="there is no such parameter", fix=fix)


async def _with_body(request: Request, max_bytes: int) -> Request:
    """The request with its body, which is checked against the limit."""
    body = await read_body(request, max_bytes)
    return Request(request.scope, replay(body, request.receive))


def _audited(handler: Callable[[Request], Awaitable[Response]], extra: dict[str, Any]) -> Handler:
    async def audited(request: Request) -> Response:
        api: Api = request.app.state.api
        request.state.audited = {}
        if extra[_MESSAGES] and not api.audit.covers_messages:
            return await handler(request)
        entry = AuditEntry(lambda: _line(request, extra[_AUDIT]))
        CURRENT.set(entry)
        try:
            response = await handler(request)
        except MqError as problem:
            _write(api, request, extra[_AUDIT], f"{int(status_of(problem))} {problem.name}")
            if entry.is_written:
                await entry.failed(api.runner, problem.name)
            raise
        except RequestValidationError:
            _write(api, request, extra[_AUDIT], "400")
            raise
        finally:
            CURRENT.set(None)
        _write(api, request, extra[_AUDIT], str(response.status_code))
        return response

    return audited


def _line(request: Request, what: str) -> dict[str, object]:
    subject = " ".join(unquote(str(each)) for each in request.path_params.values())
    more = dict(request.state.audited)
    return {
        "who": getattr(request.state, "who", "") or "unknown",
        "what": what,
        "subject": str(more.pop("subject", subject)),
        "address": None if request.client is None else request.client.host,
        **more,
    }


def _write(api: Api, request: Request, what: str, result: str) -> None:
    api.audit.write({**_line(request, what), "result": result})
