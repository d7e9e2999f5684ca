r"""Format names: how messages and open calls name queues ([MS-MQMQ] 2.1.2 to 2.1.7).

A format name is `KEYWORD=value`; several with commas between them make a multiple-element name. No value can
hold a comma, so a list is split before anything else is looked at. The printed grammar forgets `;JOURNAL` on
public names, the suffixes of machine and connector names, subqueues, and most multicast ports.

`FormatName.parse` takes format names only; `tiercel.model.queue_name` reads whatever users write. Packets and
RPC calls carry the parts of a name, and of a direct name the value without its `DIRECT=`: see
`DirectFormatName.from_wire`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv4Address, ip_address
from typing import Self
from urllib.parse import unquote
from uuid import UUID

from tiercel.model.errors import IllegalFormatNameError, IllegalQueuePathNameError
from tiercel.model.limits import DOMAIN_NAME_MAX_CHARACTERS
from tiercel.model.path_name import (
    NOT_IN_COMPUTER,
    CaselessName,
    PathKind,
    PathName,
    SystemQueue,
    shown,
    utf16_length,
)

MAX_ELEMENTS = 1024  # ours: the specification has no limit

_GUID = r"([0-9A-F]{8}-(?:[0-9A-F]{4}-){3}[0-9A-F]{12})"
_IPX_ADDRESS = re.compile(r"[0-9A-Fa-f]{8}[.:][0-9A-Fa-f]{12}")
_HTTP_HOST = re.compile(r"(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<name>[^:@?#%\[\]]+))(?::(?P<port>[0-9]{0,5}))?")
_HTTP_VALUE = re.compile(r"//([^/]*)/msmq/((?:private\$/)?[^/]*)", re.IGNORECASE)
_NOT_IN_URL = re.compile("[/?]")  # ends a name there
_ENCODED = re.compile("%[0-9A-Fa-f]{2}")
_SYSTEM_QUEUES = {queue.casefold() for queue in SystemQueue}


@dataclass(frozen=True, slots=True, eq=False)
class FormatName(CaselessName):
    """The base of the kinds below; each but the unreadable one prints as text that `parse` reads back."""

    @staticmethod
    def parse(text: str) -> "FormatName":
        if "," not in text:
            return _parse_element(text)
        _check_element_count(text.count(",") + 1)
        return MultipleElementFormatName(tuple(map(_parse_element, text.split(","))))

    @property
    def is_read_only(self) -> bool:
        """Whether only the queue manager writes to this queue: a journal or a dead-letter queue."""
        return False

    @property
    def is_multiple_element(self) -> bool:
        return False


@dataclass(frozen=True, slots=True, eq=False)
class PublicFormatName(FormatName):
    """A queue of the directory (2.1.3)."""

    queue: UUID
    journal: bool = False

    @classmethod
    def from_value(cls, value: str) -> Self:
        guid, journal = _match(rf"{_GUID}(;JOURNAL)?", value, "PUBLIC=guid or PUBLIC=guid;JOURNAL")
        return cls(UUID(guid), journal=journal is not None)

    def __str__(self) -> str:
        return f"PUBLIC={self.queue}{';JOURNAL' if self.journal else ''}"

    @property
    def is_read_only(self) -> bool:
        return self.journal


@dataclass(frozen=True, slots=True, eq=False)
class PrivateFormatName(FormatName):
    """A private queue, by its queue manager and its number there (2.1.4)."""

    queue_manager: UUID
    number: int
    journal: bool = False

    @classmethod
    def from_value(cls, value: str) -> Self:
        form = "PRIVATE=guid\\number or PRIVATE=guid\\number;JOURNAL, the number in 1 to 8 hexadecimal digits"
        guid, number, journal = _match(rf"{_GUID}\\([0-9A-F]{{1,8}})(;JOURNAL)?", value, form)
        return cls(UUID(guid), int(number, 16), journal=journal is not None)

    def __str__(self) -> str:
        return f"PRIVATE={self.queue_manager}\\{self.number:08x}{';JOURNAL' if self.journal else ''}"

    @property
    def is_read_only(self) -> bool:
        return self.journal

    def _check(self) -> None:
        _check_range(self, "queue number", self.number, 0xFFFFFFFF)


class DirectProtocol(StrEnum):
    OS = "OS"
    TCP = "TCP"
    HTTP = "HTTP"
    HTTPS = "HTTPS"
    IPX = "IPX"
    SPX = "SPX"  # not in the grammar of 2.1.2; [MS-MQQB] 2.2.4 addresses order queues so

    @property
    def is_http(self) -> bool:
        return self in {DirectProtocol.HTTP, DirectProtocol.HTTPS}


@dataclass(frozen=True, slots=True, eq=False)
class DirectFormatName(FormatName):
    r"""A queue by the address of its computer (2.1.2): `OS:` and the like, and then a path name.

    HTTP names are URLs, `HTTP://host:port/msmq/private$/queue`; the computer of their path is `host:port`.
    They may have a query, which only `wire_name` keeps, and characters may be percent-encoded, such as
    `%24` for `$` (SRMP-004).
    """

    protocol: DirectProtocol
    path: PathName
    wire_name: str = ""
    """The value without `DIRECT=`, spelled as the sender spelled it; by default in the canonical way."""

    @classmethod
    def from_wire(cls, text: str) -> "DirectFormatName":
        """The name that a packet or an RPC call carries as `text`; cached: every message has one."""
        return _parse_direct(text)

    def __str__(self) -> str:
        return f"DIRECT={self._canonical_value()}"

    @property
    def is_read_only(self) -> bool:
        return self.path.is_read_only

    @property
    def is_http(self) -> bool:
        return self.protocol.is_http

    @property
    def is_private(self) -> bool:
        return self.path.kind is PathKind.PRIVATE

    @property
    def host(self) -> str:
        """The name or address of the computer, without a port or brackets."""
        if self.is_http and (match := _HTTP_HOST.fullmatch(self.path.computer)):
            return match["ipv6"] or match["name"]
        return self.path.computer

    @property
    def port(self) -> int | None:
        """The port of an HTTP name, by default its protocol's; other names have none."""
        if self.is_http and (match := _HTTP_HOST.fullmatch(self.path.computer)):
            return int(match["port"] or (80 if self.protocol is DirectProtocol.HTTP else 443))
        return None

    @property
    def queue_name(self) -> str:
        return self.path.queue

    @property
    def subqueue(self) -> str | None:
        return self.path.subqueue

    @property
    def path_name(self) -> str:
        """The path that Get Queue Path gives ([MS-MQDMPR] 3.1.7.1.26); HTTP names have none."""
        return "" if self.is_http else str(self.path)

    def _canonical_value(self) -> str:
        if self.is_http:
            url_path = self.path.local_name.replace("\\", "/")
            return f"{self.protocol}://{self.path.computer}/msmq/{url_path}"
        return f"{self.protocol}:{self.path}"

    def _check(self) -> None:
        if not _is_address(self.protocol, self.path.computer):
            problem = f"{shown(self.path.computer)} is not a valid {self.protocol} address"
            raise _illegal(self, problem, fix=_ADDRESS_FORMS[self.protocol])
        if self.path.kind is PathKind.SYSTEM and self.path.queue.casefold() not in _SYSTEM_QUEUES:
            problem = f"there is no system queue {shown(self.path.queue)}"
            raise _illegal(self, problem, fix=f"use one of {', '.join(SystemQueue)}")
        if self.is_http and (bad := _not_in_url(f"{self.path.queue}{self.path.subqueue}")):
            problem = f"the queue name contains {bad[0]}, which a URL cannot have in a name"
            raise _illegal(self, problem, fix="use DIRECT=OS:")
        object.__setattr__(self, "wire_name", self.wire_name or self._canonical_value())


@dataclass(frozen=True, slots=True, eq=False)
class MachineFormatName(FormatName):
    """A system queue of a queue manager (2.1.6); the suffix is required."""

    queue_manager: UUID
    queue: SystemQueue

    @classmethod
    def from_value(cls, value: str) -> Self:
        form = " or ".join(f"MACHINE=guid;{queue}" for queue in SystemQueue)
        guid, queue = _match(rf"{_GUID};({'|'.join(SystemQueue)})", value, form)
        return cls(UUID(guid), SystemQueue(queue.upper()))

    def __str__(self) -> str:
        return f"MACHINE={self.queue_manager};{self.queue}"

    @property
    def is_read_only(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, eq=False)
class ConnectorFormatName(FormatName):
    """The queue of a connector server to a foreign network (2.1.6), or its transactional twin."""

    network: UUID
    transactional: bool = False

    @classmethod
    def from_value(cls, value: str) -> Self:
        guid, transactional = _match(
            rf"{_GUID}(;XACTONLY)?", value, "CONNECTOR=guid or CONNECTOR=guid;XACTONLY"
        )
        return cls(UUID(guid), transactional=transactional is not None)

    def __str__(self) -> str:
        return f"CONNECTOR={self.network}{';XACTONLY' if self.transactional else ''}"


@dataclass(frozen=True, slots=True, eq=False)
class DistributionListFormatName(FormatName):
    """A group of queues in the directory (2.1.5)."""

    list_id: UUID
    domain: str = ""

    @classmethod
    def from_value(cls, value: str) -> Self:
        guid, domain = _match(rf"{_GUID}(?:@(.+))?", value, "DL=guid or DL=guid@domain")
        return cls(UUID(guid), domain or "")

    def __str__(self) -> str:
        return f"DL={self.list_id}{'@' if self.domain else ''}{self.domain}"

    def _check(self) -> None:
        if (length := utf16_length(self.domain)) > DOMAIN_NAME_MAX_CHARACTERS:
            fix = f"use at most {DOMAIN_NAME_MAX_CHARACTERS} characters"
            raise _illegal(
                self, "the domain is too long", fix, limit=DOMAIN_NAME_MAX_CHARACTERS, present=length
            )
        if bad := NOT_IN_COMPUTER.search(self.domain):
            raise _illegal(self, f"the domain holds the character {bad[0]!a}", "leave that character out")


@dataclass(frozen=True, slots=True, eq=False)
class MulticastFormatName(FormatName):
    """All queues that listen to an IPv4 multicast address (2.1.6)."""

    address: IPv4Address
    port: int

    @classmethod
    def from_value(cls, value: str) -> "MulticastFormatName":
        return _parse_multicast(value)

    def __str__(self) -> str:
        return f"MULTICAST={self.address}:{self.port}"

    def _check(self) -> None:
        _check_range(self, "port", self.port, 0xFFFF)
        if not self.address.is_multicast:
            problem = "the address is not a multicast address"
            limit = "224.0.0.0 to 239.255.255.255"
            raise _illegal(self, problem, f"use one of {limit}", limit=limit, present=self.address)


@dataclass(frozen=True, slots=True, eq=False)
class MultipleElementFormatName(FormatName):
    """Several destinations in one name (2.1.7)."""

    elements: tuple[FormatName, ...]

    def __str__(self) -> str:
        return ",".join(map(str, self.elements))

    @property
    def is_multiple_element(self) -> bool:
        return True

    def _check(self) -> None:
        _check_element_count(len(self.elements))
        for element in self.elements:
            if element.is_multiple_element:
                raise _illegal(
                    element, "a list cannot be an element of a list", "name its elements one by one"
                )
            if element.is_read_only:
                problem = "a journal or dead-letter queue cannot be an element of a list"
                raise _illegal(element, problem, "leave it out: only the queue manager writes to it")


@dataclass(frozen=True, slots=True, eq=False)
class UnreadableFormatName(FormatName):
    """A direct name from a peer that does not follow the grammar: kept as it came, refused when opened."""

    wire_name: str

    def __str__(self) -> str:
        return f"DIRECT={self.wire_name}"


# The text after the keyword, read by kind.
_READERS: dict[str, Callable[[str], FormatName]] = {
    "direct": DirectFormatName.from_wire,
    "public": PublicFormatName.from_value,
    "private": PrivateFormatName.from_value,
    "machine": MachineFormatName.from_value,
    "connector": ConnectorFormatName.from_value,
    "dl": DistributionListFormatName.from_value,
    "multicast": MulticastFormatName.from_value,
}
_PROTOCOLS = {protocol.casefold(): protocol for protocol in DirectProtocol}
_ADDRESS_FORMS = {
    DirectProtocol.OS: "write DIRECT=OS:computer\\queue",
    DirectProtocol.TCP: "write DIRECT=TCP: and an IP address, or a computer name without a port",
    DirectProtocol.HTTP: "write DIRECT=HTTP://host/msmq/queue or DIRECT=HTTP://host:port/msmq/private$/queue",
    DirectProtocol.HTTPS: "write DIRECT=HTTPS://host/msmq/queue or DIRECT=HTTPS://host:port/msmq/private$/queue",
    DirectProtocol.IPX: "write DIRECT=IPX: and 8 hexadecimal digits, a colon and 12 more",
    DirectProtocol.SPX: "write DIRECT=SPX: and 8 hexadecimal digits, a dot and 12 more",
}


def _parse_element(text: str) -> FormatName:
    keyword, equals, value = text.partition("=")
    reader = _READERS.get(keyword.casefold())
    if reader is None or not equals:
        keywords = ", ".join(f"{known.upper()}=" for known in _READERS)
        fix = f"begin it with one of {keywords}, or write private$\\name for a queue with = in its name"
        raise _illegal(text, "it does not begin with a keyword of a format name", fix)
    return reader(value)


@lru_cache(maxsize=1024)
def _parse_multicast(value: str) -> MulticastFormatName:
    form = "MULTICAST=address:port, as in MULTICAST=234.1.1.1:8001"
    address, port = _match(r"([0-9.]{7,15}):(0|[1-9][0-9]{0,4})", value, form)
    if not _is_ip(address):
        raise _illegal(f"MULTICAST={value}", f"{address} is not an IPv4 address", f"write {form}")
    return MulticastFormatName(IPv4Address(address), int(port))


@lru_cache(maxsize=1024)  # senders choose the names, so it is bounded; refused names are not kept
def _parse_direct(value: str) -> DirectFormatName:
    name, _, rest = value.partition(":")
    protocol = _PROTOCOLS.get(name.casefold())
    if protocol is None:
        fix = f"use one of {', '.join(DirectProtocol)}"
        raise _illegal(f"DIRECT={value}", "its protocol is unknown", fix)
    try:
        return DirectFormatName(protocol, _parse_direct_path(protocol, rest), value)
    except IllegalQueuePathNameError as error:
        raise _illegal(
            f"DIRECT={value}", error.problem, error.fix, limit=error.limit, present=error.present
        ) from error


def _parse_direct_path(protocol: DirectProtocol, text: str) -> PathName:
    if protocol.is_http:
        # The grammar ends "/MSMQ" with backslashes; users and Windows write a URL. Both are accepted.
        match = _HTTP_VALUE.fullmatch(_decode_path(text.partition("?")[0].replace("\\", "/")))
        if match is None:
            raise _illegal(
                f"DIRECT={protocol}:{text}", "it is not the URL of a queue", _ADDRESS_FORMS[protocol]
            )
        return PathName.on(match[1], match[2].replace("/", "\\"))
    address, _, local_name = text.partition("\\")
    if protocol is DirectProtocol.TCP and address[:1] + address[-1:] == "[]":
        address = address[1:-1]
    return PathName.on(address, local_name)


def _not_in_url(name: str) -> "re.Match[str] | None":
    """What ends a name in a URL, or is read as another character there."""
    return _NOT_IN_URL.search(name) or (None if _decode(name) == name else _ENCODED.search(name))


def _decode_path(url: str) -> str:
    """A URL whose path has no percent-encoding any more."""
    path_at = url.find("/", len("//"))
    return url if path_at < 0 else url[:path_at] + _decode(url[path_at:])


def _decode(text: str) -> str:
    """Text without percent-encoding of UTF-8; the text itself if it is encoded in another way."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return text


def _is_address(protocol: DirectProtocol, text: str) -> bool:
    if protocol is DirectProtocol.TCP:
        # The grammar requires an IP address, but people write host names here too.
        return _is_ip(text) or ":" not in text
    if protocol in {DirectProtocol.IPX, DirectProtocol.SPX}:
        return _IPX_ADDRESS.fullmatch(text) is not None
    if protocol.is_http:
        match = _HTTP_HOST.fullmatch(text)
        return (
            match is not None
            and int(match["port"] or 0) <= 0xFFFF
            and (match["ipv6"] is None or _is_ip(match["ipv6"]))
        )
    return True


def _is_ip(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _match(pattern: str, value: str, form: str) -> tuple[str, ...]:
    match = re.fullmatch(pattern, value, re.ASCII | re.IGNORECASE | re.DOTALL)
    if match is None:
        keyword = form.partition("=")[0]
        raise _illegal(f"{keyword}={value}", f"the value of {keyword}= is invalid", f"write {form}")
    return match.groups()


def _check_range(name: FormatName, part: str, present: int, limit: int) -> None:
    if not 0 <= present <= limit:
        raise _illegal(name, f"the {part} is out of range", f"use 0 to {limit}", limit=limit, present=present)


def _check_element_count(count: int) -> None:
    if not 2 <= count <= MAX_ELEMENTS:
        limit = f"2 to {MAX_ELEMENTS}"
        problem = "the list has too many or too few elements"
        raise _illegal("list", problem, "split the list, or name one queue alone", limit=limit, present=count)


def _illegal(
    name: object, problem: str, fix: str, *, limit: object = None, present: object = None
) -> IllegalFormatNameError:
    subject = f"format name {shown(str(name))}"
    return IllegalFormatNameError(subject, problem=problem, limit=limit, present=present, fix=fix)
