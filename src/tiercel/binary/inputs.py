"""Network events, reported to the protocol by the owner of the sockets; always inside a batch.

The counterpart of `actions`: connections are identified by the numbers from `accepted` and `Dial`.
"""

from typing import Any, Protocol

from tiercel.binary.certificate import Certificate
from tiercel.model.codes import ConnectionStatus


class Inputs(Protocol):
    def accepted(self, address: str, certificate: Certificate | None = None) -> int:
        """A peer connected, with a certificate if over TLS; returns the number of the connection."""

    def connected(self, connection: int, certificate: Certificate | None = None) -> None:
        """A `Dial` succeeded."""

    def connect_failed(
        self, connection: int, status: ConnectionStatus, error: int = 0, reason: str = ""
    ) -> None:
        """A `Dial` failed; `reason` for people, if the status does not say it."""

    def received(self, connection: int, data: bytes) -> None: ...

    def unwrapped(self, connection: int, result: Any) -> None:
        """The answer to `Unwrap`: what its work returned."""

    def disconnected(self, connection: int, error: int = 0) -> None:
        """The connection ended, but not by a `Close`; `error` if it was not closed in order."""

    def has_carried(self, connection: int) -> bool:
        """Whether a message was sent or received on the connection; outside a batch, too."""

    def writable(self, connection: int, *, is_writable: bool) -> None:
        """Whether the connection accepts more bytes."""

    def resolved(self, host: str, addresses: list[str]) -> None:
        """The answer to `Resolve`; no addresses for an unknown host."""

    def datagram(self, address: str, port: int, data: bytes, *, is_reply: bool) -> None:
        """A UDP packet: to the socket of our own requests (`is_reply`), or to the ping service."""
