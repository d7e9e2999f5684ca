"""What the protocol wants done by whoever has the sockets; it may be done only after the commit."""

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Resolve:
    """Look up the addresses of a computer; the answer is `resolved(host, addresses)`, empty without any."""

    host: str


@dataclass(frozen=True, slots=True)
class Dial:
    """Open a TCP connection; answer with `connected(connection)` or `connect_failed(connection, status)`."""

    connection: int
    address: str
    port: int


@dataclass(frozen=True, slots=True)
class Write:
    connection: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection, after everything written to it; what still arrives from it is not wanted."""

    connection: int


@dataclass(frozen=True, slots=True)
class SendDatagram:
    address: str
    port: int
    data: bytes
    is_reply: bool  # from the socket of the ping service; requests go out from a socket of their own


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """For the log: what became of a connection."""

    connection: int
    event: str  # accepted, opened, closed, refused
    address: str
    peer: UUID | None = None
    reason: str = ""


Action = Resolve | Dial | Write | Close | SendDatagram | SessionEvent
