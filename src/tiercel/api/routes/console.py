"""The console: its files, login and logout. Everything else that it does goes through the API."""

import json
from typing import Final

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from tiercel.api import console_files
from tiercel.api.authorization import TokenAuthorization
from tiercel.api.context import answer
from tiercel.api.paths import CONSOLE
from tiercel.api.problems import UnknownPathError
from tiercel.api.routing import AUTHORIZATION, needs, new_router
from tiercel.api.sessions import COOKIE, LONGEST_S
from tiercel.model.errors import InvalidParameterError

router = new_router()

_MAX_LOGIN_BYTES: Final = 4096
# No inline scripts or styles, nothing from elsewhere, no HTML from text.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


@router.get(CONSOLE, include_in_schema=False)
async def redirect_to_console() -> Response:
    return RedirectResponse(f"{CONSOLE}/", 308)


@router.get("/", include_in_schema=False)
async def redirect_from_the_root() -> Response:
    return RedirectResponse(
        f"{CONSOLE}/", 307
    )  # browsers keep a permanent one, and the port may change hands


@router.post(f"{CONSOLE}/login", **needs(audit="log in", max_bytes=_MAX_LOGIN_BYTES), include_in_schema=False)
async def log_in(request: Request) -> Response:
    """Exchanges a token for a cookie."""
    authorization = _authorization(request)
    cookie, request.state.who = authorization.log_in(request, _token(await request.body()))
    response = answer({"name": request.state.who})
    response.set_cookie(
        COOKIE,
        cookie,
        max_age=int(LONGEST_S),
        path="/",
        secure=_is_encrypted(request),
        httponly=True,
        samesite="strict",
    )
    return response


@router.post(f"{CONSOLE}/logout", **needs(audit="log out"), include_in_schema=False)
async def log_out(request: Request) -> Response:
    authorization = _authorization(request)
    request.state.who = authorization.who(request)
    authorization.log_out(request)
    response = answer({})
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return response


@router.get(f"{CONSOLE}/{{path:path}}", include_in_schema=False)
async def get_file(request: Request, path: str) -> Response:
    file = console_files.find(path)
    if file is None:
        raise UnknownPathError(f"GET {CONSOLE}/{path[:80]}")
    headers = {**_HEADERS, "ETag": file.etag}
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers, media_type=file.media_type)


def _authorization(request: Request) -> TokenAuthorization:
    authorization = request.scope[AUTHORIZATION]
    if not isinstance(authorization, TokenAuthorization) or not authorization.has_logins:
        problem = "without [api] tokens every program of this computer has access"
        raise InvalidParameterError("login", problem=problem, fix="use the console without a login")
    return authorization


def _is_encrypted(request: Request) -> bool:
    """Whether the browser uses HTTPS; a proxy may not."""
    return request.url.scheme == "https" or request.headers.get("origin", "").startswith("https:")


def _token(body: bytes) -> str:
    try:
        token = json.loads(body)["token"]
    except (ValueError, KeyError, TypeError) as problem:
        raise InvalidParameterError(
            "token", problem="it is missing", fix='send {"token": "..."}'
        ) from problem
    if not isinstance(token, str):
        raise InvalidParameterError("token", problem="it must be a string", fix='send {"token": "..."}')
    return token.strip()
