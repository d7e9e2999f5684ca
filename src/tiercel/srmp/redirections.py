"""Redirections of URLs: [MC-MQSRM] 3.1.1.1.7 to 3.1.1.1.10, 3.1.7.9."""

from dataclasses import dataclass
from typing import NamedTuple

_ANY = "*"


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


def _first(redirections: tuple[Redirection, ...], url: str) -> str:
    return next((each.to for each in redirections if matches(each.pattern, url)), "")


def matches(pattern: str, url: str) -> bool:
    """Without regard to case; a `*` that is not at the end is an ordinary character."""
    pattern, url = pattern.casefold(), url.casefold()
    return url.startswith(pattern[:-1]) if pattern.endswith(_ANY) else url == pattern
