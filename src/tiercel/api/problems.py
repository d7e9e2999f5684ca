"""Error responses: application/problem+json (RFC 9457), with the MSMQ error code and a fix."""

from http import HTTPStatus
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ExceptionHandler

from tiercel.api.sessions import TooManyAttemptsError
from tiercel.model import errors
from tiercel.model.errors import MqError

MEDIA_TYPE: Final = "application/problem+json"


class NotAuthenticatedError(errors.AccessDeniedError):
    meaning = "missing or unknown token"
    fix = "send `Authorization: Bearer TOKEN`; `tiercel token add` makes one"


class UnknownPathError(errors.InvalidParameterError):
    meaning = "no such path"
    fix = "check the path: docs/http.md and docs/data-endpoint.md list them"


class UnknownMethodError(UnknownPathError):
    meaning = "method not allowed for this path"
    fix = "check the method: docs/http.md and docs/data-endpoint.md list them"


# By the nearest base class; any other error is the client's mistake.
_STATUS: Final[dict[type[BaseException], HTTPStatus]] = {
    NotAuthenticatedError: HTTPStatus.UNAUTHORIZED,
    TooManyAttemptsError: HTTPStatus.TOO_MANY_REQUESTS,
    errors.AccessDeniedError: HTTPStatus.FORBIDDEN,
    UnknownPathError: HTTPStatus.NOT_FOUND,
    UnknownMethodError: HTTPStatus.METHOD_NOT_ALLOWED,
    errors.QueueNotFoundError: HTTPStatus.NOT_FOUND,
    errors.ConsumerNotFoundError: HTTPStatus.NOT_FOUND,
    errors.StageNotFoundError: HTTPStatus.NOT_FOUND,
    errors.OperationNotFoundError: HTTPStatus.NOT_FOUND,
    errors.MessageNotFoundError: HTTPStatus.NOT_FOUND,
    errors.TokenNotFoundError: HTTPStatus.NOT_FOUND,
    errors.QueueDeletedError: HTTPStatus.GONE,
    errors.QueueNotAvailableError: HTTPStatus.GONE,
    errors.LeaseEndedError: HTTPStatus.GONE,
    errors.LeaseNotFoundError: HTTPStatus.NOT_FOUND,
    errors.MessageTooLargeError: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.TooLargeError: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.StoreInUseError: HTTPStatus.CONFLICT,
    errors.ClaimLostError: HTTPStatus.GONE,
    errors.ConsumerFencedError: HTTPStatus.CONFLICT,
    errors.TransactionSequenceError: HTTPStatus.CONFLICT,
    errors.StageRefusedError: HTTPStatus.CONFLICT,
    errors.SharingViolationError: HTTPStatus.CONFLICT,
    errors.QueueExistsError: HTTPStatus.CONFLICT,
    errors.MessageAlreadyReceivedError: HTTPStatus.CONFLICT,
    errors.StageBusyError: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.ServiceNotAvailableError: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.OperationCancelledError: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.InsufficientResourcesError: HTTPStatus.INSUFFICIENT_STORAGE,
    errors.StoreFullError: HTTPStatus.INSUFFICIENT_STORAGE,
    errors.StoreFailedError: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.StoreDamagedError: HTTPStatus.INTERNAL_SERVER_ERROR,
    MqError: HTTPStatus.BAD_REQUEST,
}

_TITLES: Final = {HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "Request Entity Too Large"}  # Python 3.13 renamed it


def status_of(error: MqError) -> HTTPStatus:
    return next(_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)


def problem_of(error: MqError) -> dict[str, object]:
    status = status_of(error)
    return {
        "type": "about:blank",
        "title": _TITLES.get(status, status.phrase),
        "status": int(status),
        "detail": str(error),
        "code": error.name,
        "number": error.code,
        "fix": error.fix,
    }


def response_to(error: MqError) -> Response:
    status = status_of(error)
    headers = {}
    if status is HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    elif status is HTTPStatus.TOO_MANY_REQUESTS:
        headers["Retry-After"] = "60"
    elif status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = "1"
    return JSONResponse(problem_of(error), status, headers, MEDIA_TYPE)


async def _mq_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, MqError)
    return response_to(error)


async def _http_error(request: Request, error: Exception) -> Response:
    """Errors of Starlette itself: unknown path, wrong method, undecodable body."""
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.BAD_REQUEST:
        return response_to(
            errors.InvalidParameterError("body", problem="it is not valid JSON", fix="send JSON in UTF-8")
        )
    is_method = error.status_code == HTTPStatus.METHOD_NOT_ALLOWED
    kind = UnknownMethodError if is_method else UnknownPathError
    response = response_to(kind(f"{request.method} {request.url.path}"))
    response.headers.update(error.headers or {})
    return response


async def _gone(_request: Request, _error: Exception) -> Response:
    """The client hung up in the middle of its body: nothing was done, and nobody reads this."""
    return Response(status_code=HTTPStatus.BAD_REQUEST)


async def _bug(request: Request, _error: Exception) -> Response:
    """An unexpected error; the server logs it."""
    problem = "internal error"
    return response_to(errors.StoreFailedError(request.url.path, problem=problem, fix="see the log"))


HANDLERS: Final[dict[int | type[Exception], ExceptionHandler]] = {
    MqError: _mq_error,
    HTTPException: _http_error,
    ClientDisconnect: _gone,
    Exception: _bug,
}
