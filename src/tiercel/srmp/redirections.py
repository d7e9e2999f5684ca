"""Redirections of URLs: [MC-MQSRM] 3.1.1.1.7 to 3.1.1.1.10, 3.1.7.9. They are kept in the store."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Self

from tiercel.engine.engine import Engine
from tiercel.model.errors import IllegalPropertyValueError
from tiercel.srmp.queue_urls import endpoint_of, read_url

_ANY = "*"
_KEY = b"srmp_redirections"  # in Keyspace.META


class Redirection(NamedTuple):
    """URLs that match `pattern` are replaced by `to`; `*` at the end of a pattern is any rest (SRMP-173)."""

    pattern: str
    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirections:
    store_and_forward: bool = False  # TransparentStoreAndForward
    inbound: tuple[Redirection, ...] = ()
    outbound: tuple[Redirection, ...] = ()
    outbound_exceptions: tuple[str, ...] = ()
    receipts: tuple[Redirection, ...] = ()  # StreamReceiptURLReplacement
    receipts_default: str = ""

    def inbound_of(self, url: str) -> str:
        """Where a message to `url` goes: the URL itself, if nothing matches (SRMP-171)."""
        return _first(self.inbound, url) or url

    def outbound_of(self, url: str) -> str:
        """The URL whose host is to be connected for messages to `url` (SRMP-174)."""
        if any(matches(pattern, url) for pattern in self.outbound_exceptions):
            return url
        return _first(self.outbound, url) or url

    def receipts_url(self, destination: str, default: str) -> str:
        """The URL for the receipts of a stream to `destination` (SRMP-070)."""
        return _first(self.receipts, destination) or self.receipts_default or default

    def check(self) -> None:
        """Raises for a URL that cannot be used."""
        queues = [each.to for each in (*self.inbound, *self.receipts)]
        for url in filter(None, (*queues, self.receipts_default)):
            _check(read_url, url)
        for each in self.outbound:
            _check(endpoint_of, each.to)

    def encode(self) -> bytes:
        return json.dumps({name: getattr(self, name) for name in self.__slots__}).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises a ValueError or TypeError for data that `encode` did not write."""
        found = json.loads(data)
        for name in ("inbound", "outbound", "receipts"):
            found[name] = tuple(Redirection(*each) for each in found[name])
        found["outbound_exceptions"] = tuple(found["outbound_exceptions"])
        return cls(**found)


class StoredRedirections:
    """The redirections of one queue manager; used and changed in a batch. All users see a change at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._data: bytes | None = None
        self._decoded = Redirections()

    @property
    def current(self) -> Redirections:
        data = self._engine.notes.get(_KEY)
        if data is not self._data:
            self._data, self._decoded = data, self._decode(data)
        return self._decoded

    def change(self, redirections: Redirections) -> None:
        redirections.check()
        self._engine.notes.put(_KEY, redirections.encode())

    def _decode(self, data: bytes | None) -> Redirections:
        if data is None:
            return Redirections()
        try:
            return Redirections.decode(data)
        except (ValueError, TypeError, KeyError) as problem:
            self._engine.notes.set_aside(_KEY, "the redirections of SRMP", problem)
            return Redirections()


def _first(redirections: tuple[Redirection, ...], url: str) -> str:
    return next((each.to for each in redirections if matches(each.pattern, url)), "")


def matches(pattern: str, url: str) -> bool:
    """Without regard to case; a `*` that is not at the end is an ordinary character."""
    pattern, url = pattern.casefold(), url.casefold()
    return url.startswith(pattern[:-1]) if pattern.endswith(_ANY) else url == pattern


def _check(read: Callable[[str], object], url: str) -> None:
    try:
        read(url)
    except ValueError as problem:
        raise IllegalPropertyValueError("redirection", problem=str(problem)) from None
