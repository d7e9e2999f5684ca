"""Logins of browsers: a cookie stands for a token, so that no token is kept in the browser.

A session is kept in memory as the digest of its cookie. It ends after an hour without a request, after twelve
hours, at a logout, with its token, and with the daemon. There is no clock here: `now` is an argument.
"""

import hashlib
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from tiercel.model.errors import AccessDeniedError

COOKIE: Final = "tiercel_session"
IDLE_S: Final = 3600.0
LONGEST_S: Final = 12 * 3600.0
_RANDOM_BYTES: Final = 32
_MAX_SESSIONS: Final = 1000  # more evict the one that was used least recently
_MAX_FAILURES: Final = 5  # failed logins of an address in a minute
_MAX_FAILURES_OF_ALL: Final = 100
_WINDOW_S: Final = 60.0


class TooManyAttemptsError(AccessDeniedError):
    meaning = "too many failed logins"
    fix = "wait a minute"


@dataclass(slots=True)
class _Session:
    token: str  # the digest of the token
    began: float
    used: float

    def is_over(self, now: float) -> bool:
        return now - self.used >= IDLE_S or now - self.began >= LONGEST_S


class Sessions:
    def __init__(self) -> None:
        self._sessions: OrderedDict[str, _Session] = OrderedDict()  # least recently used first

    def begin(self, token: str, now: float) -> str:
        """The cookie of a new session for the digest of a token."""
        cookie = secrets.token_urlsafe(_RANDOM_BYTES)
        self._sessions[_digest(cookie)] = _Session(token, now, now)
        while len(self._sessions) > _MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return cookie

    def find(self, cookie: str, now: float, *, is_use: bool = True) -> str | None:
        """The digest of the token; None if there is no such session. `is_use` starts the idle time anew."""
        digest = _digest(cookie)
        session = self._sessions.get(digest)
        if session is None:
            return None
        if session.is_over(now):
            del self._sessions[digest]
            return None
        if is_use:
            session.used = now
            self._sessions.move_to_end(digest)
        return session.token

    def count(self, token: str, now: float) -> int:
        """The sessions of a token that have not ended."""
        return sum(each.token == token and not each.is_over(now) for each in self._sessions.values())

    def end(self, cookie: str) -> None:
        self._sessions.pop(_digest(cookie), None)


class FailedLogins:
    """Limits failed logins: of an address, and of all of them."""

    def __init__(self) -> None:
        self._window = 0.0  # when it began
        self._failures: dict[str, int] = {}  # by address, in the window; at most as many as are let through

    def check(self, address: str, now: float) -> None:
        if now - self._window >= _WINDOW_S:
            self._window, self._failures = now, {}
        if self._failures.get(address, 0) >= _MAX_FAILURES:
            raise TooManyAttemptsError("login", present=_MAX_FAILURES, limit=f"{_MAX_FAILURES} in a minute")
        if sum(self._failures.values()) >= _MAX_FAILURES_OF_ALL:
            limit = f"{_MAX_FAILURES_OF_ALL} in a minute, of all addresses"
            raise TooManyAttemptsError("login", present=_MAX_FAILURES_OF_ALL, limit=limit)

    def add(self, address: str) -> None:
        self._failures[address] = self._failures.get(address, 0) + 1


def _digest(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "surrogateescape")).hexdigest()
