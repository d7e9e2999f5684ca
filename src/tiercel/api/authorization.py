"""Authorization of requests: by the tokens of a file, or without one only for programs of this computer."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from starlette.requests import Request

from tiercel.api.paths import API
from tiercel.api.problems import NotAuthenticatedError
from tiercel.api.sessions import COOKIE, FailedLogins, Sessions
from tiercel.model.errors import AccessDeniedError
from tiercel.security.tokens import Bearer, Role
from tiercel.server import log
from tiercel.server.config import Endpoint, is_loopback
from tiercel.server.token_file import TokenFile

ADMITTED: Final = "admitted"  # in the state of a request: its client has a role that it needs
ANYBODY: Final = "anybody on this computer"


class BrowserLogins:
    """Cookies of the console, taken from the console's own pages only.

    A page of another site can make a browser send a request, but neither the header `Sec-Fetch-Site:
    same-origin`, nor `X-Tiercel`, nor our `Origin`. `origins` are ours beside Host, which a proxy may change.
    """

    def __init__(self, origins: Iterable[str] = (), clock: Callable[[], float] = time.monotonic) -> None:
        self._origins = frozenset(each.rstrip("/").casefold() for each in origins)
        self._clock = clock
        self._sessions = Sessions()
        self._failures = FailedLogins()

    def token_of(self, request: Request) -> str | None:
        """The digest of the token that the cookie stands for; None without a valid one."""
        cookie = request.cookies.get(COOKIE)
        if cookie is None or not self._is_own_page(request):
            return None
        # Automatic requests of an open page are not a use: the session of an empty chair ends.
        is_use = request.headers.get("x-tiercel-refresh") is None and request.scope["path"] != f"{API}/events"
        return self._sessions.find(cookie, self._clock(), is_use=is_use)

    def _is_own_page(self, request: Request) -> bool:
        if request.headers.get("sec-fetch-site") != "same-origin":
            return False
        if request.method in {"GET", "HEAD"}:
            return True
        return request.headers.get("x-tiercel") == "1" and self._is_own_origin(request)

    def _is_own_origin(self, request: Request) -> bool:
        origin = request.headers.get("origin", "").casefold()
        host = request.headers.get("host", "").casefold()
        return origin in self._origins or bool(host and urlsplit(origin).netloc == host)

    def check_attempt(self, request: Request) -> None:
        if not self._is_own_page(request):
            problem = "a login comes from the page of the console only"
            fix = "open /console/ by HTTPS or on this computer; behind a proxy, set [api] trusted_origins"
            raise AccessDeniedError("login", problem=problem, fix=fix)
        self._failures.check(_address(request), self._clock())

    def failed(self, request: Request) -> None:
        self._failures.add(_address(request))

    def begin(self, token: str) -> str:
        return self._sessions.begin(token, self._clock())

    def count(self, token: str) -> int:
        return self._sessions.count(token, self._clock())

    def end(self, request: Request) -> None:
        if self._is_own_page(request):
            self._sessions.end(request.cookies.get(COOKIE, ""))


def _address(request: Request) -> str:
    return "" if request.client is None else request.client.host


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


class TokenUse(NamedTuple):
    bearer: Bearer
    last_used: float | None
    logins: int


class TokenAuthorization:
    """`service` is the name in error messages, `section` the part of the configuration with its tokens."""

    def __init__(self, tokens: str, service: str, section: str, logins: BrowserLogins | None = None) -> None:
        """With `logins`, the cookie of a login is as good as its token."""
        self._tokens = TokenFile(Path(tokens), _report) if tokens else None
        self._service = service
        self._section = section
        self._logins = logins
        self._used: dict[str, float] = {}  # by the digest of a known token: when

    def who(self, request: Request) -> str:
        """The token's owner, or "" if unknown."""
        if self._tokens is None:
            return ANYBODY
        bearer = self._bearer(self._tokens, request)
        return "" if bearer is None else bearer.name

    def _bearer(self, tokens: TokenFile, request: Request) -> Bearer | None:
        found = self._find(tokens, request)
        if found is not None:
            self._used[found.digest] = time.time()
        return found

    def _find(self, tokens: TokenFile, request: Request) -> Bearer | None:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.casefold() == "bearer":
            return tokens.find(token.strip())
        digest = None if self._logins is None else self._logins.token_of(request)
        return None if digest is None else tokens.find_digest(digest)

    def check(self, request: Request, role: Role) -> None:
        self._check(request, role)
        setattr(request.state, ADMITTED, True)

    def _check(self, request: Request, role: Role) -> None:
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

    # The tokens themselves.

    @property
    def file(self) -> Path | None:
        return None if self._tokens is None else self._tokens.path

    def uses(self) -> list[TokenUse]:
        """Every token, and how it was used since the start."""
        bearers = () if self._tokens is None else tuple(self._tokens.value)
        known = {each.digest for each in bearers}
        self._used = {digest: used for digest, used in self._used.items() if digest in known}
        logins = self._logins
        return [
            TokenUse(each, self._used.get(each.digest), 0 if logins is None else logins.count(each.digest))
            for each in bearers
        ]

    # Logins of browsers.

    @property
    def has_logins(self) -> bool:
        return self._logins is not None and self._tokens is not None

    def is_login(self, request: Request) -> bool:
        """Whether the client, which is known, has logged in with a browser."""
        return self.has_logins and COOKIE in request.cookies and "authorization" not in request.headers

    def log_in(self, request: Request, token: str) -> tuple[str, str]:
        """The cookie of a new session, and the name of the token."""
        assert self._logins is not None
        assert self._tokens is not None
        self._logins.check_attempt(request)
        bearer = self._tokens.find(token)
        if bearer is None:
            self._logins.failed(request)
            raise NotAuthenticatedError(self._service, fix="paste a token; `tiercel token add` makes one")
        return self._logins.begin(bearer.digest), bearer.name

    def log_out(self, request: Request) -> None:
        assert self._logins is not None
        self._logins.end(request)

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
