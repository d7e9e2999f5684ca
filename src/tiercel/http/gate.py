"""Who may come in: the tokens of a file, or without one the programs of this computer."""

from pathlib import Path

from starlette.requests import Request

from tiercel.http.problems import NotAuthenticatedError
from tiercel.model.errors import AccessDeniedError
from tiercel.security.tokens import Role
from tiercel.server import log
from tiercel.server.config import DataOptions, Endpoint, is_loopback
from tiercel.server.token_file import TokenFile


class Gate:
    def __init__(self, options: DataOptions) -> None:
        self._tokens = TokenFile(Path(options.tokens), _report) if options.tokens else None

    def check(self, request: Request, role: Role) -> None:
        """Raises an `AccessDeniedError` unless the request may do what takes this role."""
        if self._tokens is None:
            _check_host(request)
            return
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        bearer = self._tokens.find(token.strip()) if kind.casefold() == "bearer" else None
        if bearer is None:
            raise NotAuthenticatedError("data endpoint")
        if role not in bearer.grants:
            raise AccessDeniedError(
                f"token {bearer.name}",
                problem=f"it lacks the role {role}",
                present=",".join(sorted(bearer.roles)),
                fix=f"use a token that has the role {role}",
            )


def _check_host(request: Request) -> None:
    """Refuses what a browser sends for a page whose name was made to lead here (DNS rebinding)."""
    given = request.headers.get("host", "localhost")
    try:
        is_ours = is_loopback(Endpoint.parse(given).host)
    except ValueError:
        is_ours = False
    if not is_ours:
        problem = "without tokens it answers to names of this computer only"
        fix = "use 127.0.0.1 or localhost, or set tokens in [data]"
        raise AccessDeniedError("data endpoint", problem=problem, present=given[:80], fix=fix)


def _report(problem: str) -> None:
    log.error("tokens_unusable", reason=problem)
