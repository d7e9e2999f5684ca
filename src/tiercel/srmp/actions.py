"""The actions that the protocol asks of the owner of the sockets; they may run only after the commit."""

from dataclasses import dataclass

from tiercel.engine.machine import Close, Write


@dataclass(frozen=True, slots=True)
class Dial:
    """Open a TCP connection, with TLS if `is_tls`: the certificate must be valid for the host.

    `tunnel` is the host and port of an HTTP proxy that is asked to CONNECT. Answered with
    `connected(connection, address)` or `connect_failed(connection, ...)`.
    """

    connection: int
    host: str
    port: int
    is_tls: bool
    tunnel: tuple[str, int] | None = None
    is_for_receipts: bool = False  # to a host that anybody may have named


@dataclass(frozen=True, slots=True)
class HttpEvent:
    """Something for the log."""

    event: str  # of a client: refused, dropped, doubted; of our own requests: failed
    address: str
    queue: str = ""
    reason: str = ""


Action = Dial | Write | Close | HttpEvent
