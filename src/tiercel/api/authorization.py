"""Who may come in: the tokens of a file, or without one the programs of this computer."""

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from tiercel.api.problems import NotAuthenticatedError
from tiercel.model.errors import AccessDeniedError
from tiercel.security.tokens import Bearer, Role
from tiercel.server import log
from tiercel.server.config import Endpoint, is_loopback
from tiercel.server.token_file import TokenFile

ANYBODY: Final = "anybody on this computer"


class Gate:
    """`name` is what it is a gate to, `section` where the configuration has its tokens."""

    def __init__(self, tokens: str, name: str, section: str) -> None:
        self._tokens = TokenFile(Path(tokens), _report) if tokens else None
        self._name = name
        self._section = section

    def who(self, request: Request) -> str:
        """Whom the token names; nobody, if there is none that is known."""
        if self._tokens is None:
            return ANYBODY
        bearer = self._bearer(self._tokens, request)
        return "" if bearer is None else bearer.name

    @staticmethod
    def _bearer(tokens: TokenFile, request: Request) -> Bearer | None:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        return tokens.find(token.strip()) if kind.casefold() == "bearer" else None

    def check(self, request: Request, role: Role) -> None:
        """Raises an `AccessDeniedError` unless the request may do what takes this role."""
        if self._tokens is None:
            self._check_host(request)
            return
        bearer = self._bearer(self._tokens, request)
        if bearer is None:
            raise NotAuthenticatedError(self._name)
        if role not in bearer.grants:
            raise AccessDeniedError(
                f"token {bearer.name}",
                problem=f"it lacks the role {role}",
                present=",".join(sorted(bearer.roles)),
                fix=f"use a token that has the role {role}",
            )

    def _check_host(self, request: Request) -> None:
        """Refuses what a browser sends for the page of a stranger: under a name that was made to lead here
        (DNS rebinding), or straight across (the page cannot read the answer, but what it asks would be done).
        """
        host = request.headers.get("host", "localhost")
        origin = request.headers.get("origin")
        if not _is_ours(host) or (origin is not None and not _is_ours(urlsplit(origin).netloc)):
            problem = "without tokens it answers to names of this computer only"
            fix = f"use 127.0.0.1 or localhost, or set tokens in [{self._section}]"
            present = (host if origin is None else origin)[:80]
            raise AccessDeniedError(self._name, problem=problem, present=present, fix=fix)


def _is_ours(host: str) -> bool:
    try:
        return is_loopback(Endpoint.parse(host).host)
    except ValueError:
        return False


def _report(problem: str) -> None:
    log.error("tokens_unusable", reason=problem)
