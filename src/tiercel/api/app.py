"""The FastAPI application."""

import difflib
from importlib.metadata import version
from typing import Any, Final, get_args

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tiercel.admin import message_json
from tiercel.api import models, problems
from tiercel.api.context import Api
from tiercel.api.paths import API
from tiercel.api.routes import (
    accounts,
    console,
    consumers,
    dead,
    discards,
    events,
    health,
    leases,
    me,
    messages,
    multicast,
    openapi,
    operations,
    outgoing,
    peers,
    queue_manager,
    queues,
    redirections,
    streams,
    tokens,
    transactions,
    transfers,
    why,
)
from tiercel.model.errors import InvalidParameterError

_DESCRIPTION: Final = """\
Everything that the command line does, for scripts and other languages. `x-roles` lists the roles that an
operation requires. Errors are `application/problem+json` with the MSMQ error code and a fix.
"""
_ROUTERS: Final = (
    queues,
    messages,
    leases,
    transfers,
    operations,
    outgoing,
    peers,
    multicast,
    streams,
    redirections,
    transactions,
    consumers,
    dead,
    discards,
    why,
    queue_manager,
    tokens,
    accounts,
    me,
    events,
    openapi,
)


def build(api: Api) -> ASGIApp:
    app = _routes()
    app.state.api = api
    return _Segments(app)


def description() -> dict[str, Any]:
    """The OpenAPI description of the whole API."""
    return _openapi(_routes())


def _routes() -> FastAPI:
    app = FastAPI(
        title="Tiercel",
        version=version("tiercel"),
        description=_DESCRIPTION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
        redirect_slashes=False,
    )
    for kind, handler in {**problems.HANDLERS, RequestValidationError: _invalid}.items():
        app.add_exception_handler(kind, handler)
    for module in _ROUTERS:
        name = module.__name__.rpartition(".")[2].replace("_", " ")
        app.include_router(module.router, prefix=API, tags=[name], responses=_PROBLEMS)
    app.include_router(health.router, tags=["health"], responses=_PROBLEMS)
    app.include_router(console.router)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


_PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    "default": {
        "description": "the error and its fix",
        "content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
}


class _Segments:
    """Matches paths as sent: an encoded slash in a format name does not end a segment."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = scope.get("raw_path")
        if raw:
            scope = {**scope, "path": raw.partition(b"?")[0].decode("latin-1")}
        await self._app(scope, receive, send)


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        parts = schema.setdefault("components", {}).setdefault("schemas", {})
        parts["Message"] = message_json.schema()
        parts["Problem"] = models.Problem.model_json_schema()
        for path in schema["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
        app.openapi_schema = schema
    return app.openapi_schema


async def _invalid(request: Request, error: Exception) -> Response:
    """Reports the first validation error in the form of all other errors."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = [str(each) for each in first["loc"] if each not in {"body", "query", "path"}]
    name = ".".join(place) or "body"
    problem, fix = first["msg"][:1].lower() + first["msg"][1:], "correct it"
    if first["type"] == "extra_forbidden":
        problem = "there is no such property"
        fix = _nearest(request, place[-1])
    elif first["type"] == "missing":
        problem, fix = "it is missing", f"give {name}"
    elif first["type"] == "json_invalid":
        name, problem, fix = "body", f"it is not valid JSON ({first['ctx']['error']})", "send a JSON object"
    present = None if first["type"] in {"missing", "json_invalid"} else repr(first.get("input"))[:80]
    return problems.response_to(InvalidParameterError(name[:80], problem=problem, present=present, fix=fix))


def _nearest(request: Request, name: str) -> str:
    field = getattr(request.scope.get("route"), "body_field", None)
    annotation = None if field is None else field.field_info.annotation
    kinds = get_args(annotation) or (annotation,)  # a body that may be left out is a union with None
    known = [each for kind in kinds for each in getattr(kind, "model_fields", {})]
    near = difflib.get_close_matches(name, known, 1)
    return f"perhaps {near[0]} is meant" if near else f"there are {', '.join(known)}"
