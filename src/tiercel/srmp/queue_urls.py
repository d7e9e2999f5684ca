"""Queues as SRMP writes them: http(s) URLs, and `MSMQ:` before any other format name.

`read_...` raises a ValueError that says what is wrong with the text.
"""

import re
from typing import NamedTuple
from urllib.parse import quote

from tiercel.model.errors import IllegalFormatNameError
from tiercel.model.format_name import (
    DirectFormatName,
    FormatName,
    MulticastFormatName,
    UnreadableFormatName,
)
from tiercel.srmp.limits import URL_MAX_CHARACTERS

_URL = re.compile(r"https?://", re.IGNORECASE)
# The library's own parser refuses names that a format name may have.
_AUTHORITY = re.compile(
    r"(https?)://(?:[^/?#@]*@)?(\[[^\]/]+\]|[^/?#@:]+)(?::([0-9]{0,6}))?(?=[/?#]|$)", re.IGNORECASE
)
_PORT_MAX = 65_535
_DNS_NAME = re.compile(r"[A-Za-z0-9._-]+")
_MSMQ = "MSMQ:"
_DIRECT = re.compile(r"DIRECT=(.*)", re.IGNORECASE | re.DOTALL)


def is_url(text: str) -> bool:
    return _URL.match(text) is not None


def read_url(text: str) -> DirectFormatName:
    """The queue of a URL: `to`, `sendTo` and `sendReceiptsTo` ([MC-MQSRM] 2.2.4.2)."""
    if not is_url(text):
        raise ValueError(f"{text[:80]!a} is not an http or https URL")
    _check_length(text)
    try:
        return DirectFormatName.from_wire(text)
    except IllegalFormatNameError as error:
        raise ValueError(f"{text[:80]!a} is not the URL of a queue: {error.problem}") from None


def read_destination(text: str) -> DirectFormatName | MulticastFormatName:
    """The queue of a `to` element: [MC-MQSRM] 2.2.4.2."""
    if not text.startswith(f"{_MSMQ}MULTICAST="):
        return read_url(text)
    try:
        return MulticastFormatName.from_value(text.removeprefix(f"{_MSMQ}MULTICAST="))
    except IllegalFormatNameError as error:
        raise ValueError(f"{text[:80]!a} is not a multicast address: {error.problem}") from None


def read_queue(text: str) -> FormatName:
    """The queue of a `via` element or of a list: a URL or a format name ([MC-MQSRM] 2.2.4.4, 2.2.6.14).

    A direct name that cannot be read is kept as it is, as in packets: only opening it is an error.
    """
    _check_length(text)
    if is_url(text):
        text = f"DIRECT={text}"
    text = text.removeprefix(_MSMQ)
    try:
        return FormatName.parse(text)
    except IllegalFormatNameError as error:
        if direct := _DIRECT.fullmatch(text):
            return UnreadableFormatName(direct[1])
        raise ValueError(f"{text[:80]!a} is not a format name: {error.problem}") from None


def _check_length(text: str) -> None:
    if len(text) > URL_MAX_CHARACTERS:
        raise ValueError(f"has {len(text)} characters, the limit is {URL_MAX_CHARACTERS}")


def write_queue(name: FormatName) -> str:
    """A URL for an HTTP name, with its scheme in lower case; any other name after `MSMQ:` (trap 21)."""
    if isinstance(name, DirectFormatName) and name.is_http:
        return write_url(name)
    if isinstance(name, DirectFormatName | UnreadableFormatName):
        if is_url(name.wire_name):
            return name.wire_name
        return f"{_MSMQ}DIRECT={name.wire_name}"
    return f"{_MSMQ}{name}"


def write_url(name: DirectFormatName) -> str:
    """The URL of an HTTP name as the sender spelled it, with slashes."""
    scheme, colon, rest = name.wire_name.replace("\\", "/").partition(":")
    return scheme.lower() + colon + rest


def write_in_list(name: FormatName) -> str:
    """A name for a list, where white space separates names; no name has any but blanks."""
    return write_queue(name).replace(" ", "%20")


def request_target(url: str) -> str:
    """Path and query of a URL in lower case, as queue managers put them into the request line (SRMP-003)."""
    path = url.partition("://")[2].partition("/")[2]
    return "/" + quote(path.lower(), safe="/?=&$!'()*+,;:@~.-_%#", errors="replace")  # surrogates, in a query


class Endpoint(NamedTuple):
    host: str
    port: int
    is_tls: bool


def endpoint_of(url: str) -> Endpoint:
    """What to connect for a URL, with or without a path."""
    _check_length(url)
    found = _AUTHORITY.match(url)
    if found is None:
        raise ValueError(f"{url[:80]!a} is not an http or https URL with a host")
    scheme, host, port = found.groups()
    if port and int(port) > _PORT_MAX:
        raise ValueError(f"{url[:80]!a} is not a URL: the port must be at most {_PORT_MAX}")
    is_tls = scheme.lower() == "https"
    host = ascii_host(host.removeprefix("[").removesuffix("]")).lower()
    return Endpoint(host, int(port or 0) or (443 if is_tls else 80), is_tls)


def host_of(url: str) -> str:
    """The Host header for a URL."""
    host, colon, port = url.partition("://")[2].partition("/")[0].rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()):
        host, colon, port = host + colon + port, "", ""
    return ascii_host(host) + colon + port


def ascii_host(host: str) -> str:
    """A name in other letters as DNS and the Host header have it; one that DNS cannot have is escaped."""
    if host.isascii():
        return host
    try:
        name = host.encode("idna").decode("ascii")
    except UnicodeError:
        name = ""
    return name if _DNS_NAME.fullmatch(name) else quote(host)  # some letters stand for "/" or "?"
