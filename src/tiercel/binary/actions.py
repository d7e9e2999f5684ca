"""The actions that the protocol asks of the owner of the sockets; they may run only after the commit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tiercel.engine.machine import Close, Write


@dataclass(frozen=True, slots=True)
class Resolve:
    """Look up the addresses of a computer; answered with `resolved(host, addresses)`, which may be empty."""

    host: str


@dataclass(frozen=True, slots=True)
class Dial:
    """Open a TCP connection; answered with `connected(connection)` or `connect_failed(connection, ...)`."""

    connection: int
    address: str
    port: int
    is_tls: bool = False


@dataclass(frozen=True, slots=True)
class SendDatagram:
    address: str
    port: int
    data: bytes
    is_reply: bool  # sent from the socket of the ping service; requests use a separate socket


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """A change of a connection, for the log."""

    connection: int
    event: str  # accepted, opened, closed, refused, moved, doubted
    address: str
    peer: UUID | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Unwrap:
    """Call `work` beside the event loop, and read nothing from the connection meanwhile.

    Answered with `unwrapped(connection, result)`. It takes about a millisecond, and changes nothing.
    """

    connection: int
    work: Callable[[], Any]


Action = Resolve | Dial | Write | Close | SendDatagram | SessionEvent | Unwrap
