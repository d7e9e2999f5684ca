"""Authorization of requests: by the tokens of a file, or without one only for programs of this computer."""

from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from starlette.requests import Request

from tiercel.api.problems import NotAuthenticatedError
from tiercel.model.errors import AccessDeniedError
from tiercel.security.tokens import Bearer, Role
from tiercel.server import log
from tiercel.server.config import Endpoint, is_loopback
from tiercel.server.token_file import TokenFile

ANYBODY: Final = "anybody on this computer"


class Authorization(Protocol):
    def who(self, request: Request) -> str:
        """The name for the audit log; "" if the client is unknown."""

    def check(self, request: Request, role: Role) -> None:
        """Raises an `AccessDeniedError` unless the client has the role."""

    def grants(self, request: Request, role: Role) -> bool:
        """Whether the client, which passed a `check`, has another role too."""

    def roles(self, request: Request) -> frozenset[Role]:
        """Every role of the client; raises an `AccessDeniedError` if it is unknown."""


class OwnerAuthorization:
    """For the Unix socket, which only the owner of the store can open: every role is granted."""

    def who(self, request: Request) -> str:
        return "" if request.client is None else request.client.host

    def check(self, _request: Request, _role: Role) -> None:
        """The permissions of the socket are the check."""

    def grants(self, _request: Request, _role: Role) -> bool:
        return True

    def roles(self, _request: Request) -> frozenset[Role]:
        return frozenset(Role)


class TokenAuthorization:
    """`service` is the name in error messages, `section` the part of the configuration with its tokens."""

    def __init__(self, tokens: str, service: str, section: str) -> None:
        self._tokens = TokenFile(Path(tokens), _report) if tokens else None
        self._service = service
        self._section = section

    def who(self, request: Request) -> str:
        """The token's owner, or "" if unknown."""
        if self._tokens is None:
            return ANYBODY
        bearer = self._bearer(self._tokens, request)
        return "" if bearer is None else bearer.name

    @staticmethod
    def _bearer(tokens: TokenFile, request: Request) -> Bearer | None:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        return tokens.find(token.strip()) if kind.casefold() == "bearer" else None

    def check(self, request: Request, role: Role) -> None:
        if self._tokens is None:
            self._check_host(request)
            return
        bearer = self._bearer(self._tokens, request)
        if bearer is None:
            raise NotAuthenticatedError(self._service)
        if role not in bearer.grants:
            raise AccessDeniedError(
                f"token {bearer.name}",
                problem=f"it lacks the role {role}",
                present=",".join(sorted(bearer.roles)),
                fix=f"use a token that has the role {role}",
            )

    def grants(self, request: Request, role: Role) -> bool:
        if self._tokens is None:
            return True
        bearer = self._bearer(self._tokens, request)
        return bearer is not None and role in bearer.grants

    def roles(self, request: Request) -> frozenset[Role]:
        if self._tokens is None:
            self._check_host(request)
            return frozenset(Role)
        bearer = self._bearer(self._tokens, request)
        if bearer is None:
            raise NotAuthenticatedError(self._service)
        return bearer.grants

    def _check_host(self, request: Request) -> None:
        """Rejects requests that a browser sends for a foreign page: under a rebound DNS name, or across
        origins (the page could not read the answer, but the request would take effect).
        """
        host = request.headers.get("host", "localhost")
        origin = request.headers.get("origin")
        if not _is_local(host) or (origin is not None and not _is_local(urlsplit(origin).netloc)):
            problem = "without tokens it answers to names of this computer only"
            fix = f"use 127.0.0.1 or localhost, or set tokens in [{self._section}]"
            present = (host if origin is None else origin)[:80]
            raise AccessDeniedError(self._service, problem=problem, present=present, fix=fix)


def _is_local(host: str) -> bool:
    try:
        return is_loopback(Endpoint.parse(host).host)
    except ValueError:
        return False


def _report(problem: str) -> None:
    log.error("tokens_unusable", reason=problem)
