"""What the connections ask of an authentication provider: [MS-RPCE] 2.2.1.1.7, 2.2.1.1.8 and 3.3.1.5.2.

A provider makes a `SecurityContext` for one connection and for the level that the client asked for. The
machines exchange its tokens, then hand every fragment to it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from tiercel.model.errors import PeerError
from tiercel.model.sid import SecurityIdentifier


class AuthenticationError(PeerError):
    """A token, signature or sealed fragment that is not what the security context expects."""


class AuthenticationType(IntEnum):
    """[MS-RPCE] 2.2.1.1.7"""

    NONE = 0x00
    SPNEGO = 0x09
    NTLM = 0x0A
    SCHANNEL = 0x0E
    KERBEROS = 0x10
    NETLOGON = 0x44
    DEFAULT = 0xFF

    @property
    def has_odd_legs(self) -> bool:
        """Whether the last token goes from the client to the server, so that an auth3 carries it."""
        return self in {AuthenticationType.NTLM, AuthenticationType.NETLOGON}


class AuthenticationLevel(IntEnum):
    """[MS-RPCE] 2.2.1.1.8"""

    DEFAULT = 0
    NONE = 1
    CONNECT = 2
    CALL = 3
    PACKET = 4
    INTEGRITY = 5
    PRIVACY = 6

    @property
    def effective(self) -> "AuthenticationLevel":
        """The level that this one stands for."""
        return _STANDS_FOR.get(self, self)

    @property
    def is_signed(self) -> bool:
        """Whether each fragment carries a signature.

        The tables of 3.3.1.5.2.2 protect no segment at level packet; in practice it is signed like integrity.
        """
        return self.effective >= AuthenticationLevel.PACKET

    @property
    def is_sealed(self) -> bool:
        return self is AuthenticationLevel.PRIVACY


_STANDS_FOR = {
    AuthenticationLevel.DEFAULT: AuthenticationLevel.CONNECT,
    AuthenticationLevel.CALL: AuthenticationLevel.PACKET,
}


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the other side proved to be."""

    name: str
    domain: str = ""
    sid: SecurityIdentifier | None = None
    groups: tuple[SecurityIdentifier, ...] = ()

    def __str__(self) -> str:
        return f"{self.domain}\\{self.name}" if self.domain else self.name


class SecurityContext(Protocol):
    """One side of one authentication, for one connection and one level; it keeps the sequence numbers.

    Every method raises an `AuthenticationError` for what it cannot accept, and nothing else. Where header
    signing was not negotiated, `header` and `trailer` are empty, unless the context wants them always.
    """

    @property
    def is_complete(self) -> bool:
        """Whether the peer is known and fragments can be protected."""
        ...

    @property
    def identity(self) -> Identity | None:
        """Who the peer is; None before it is known, and on a client that cannot tell."""
        ...

    @property
    def signature_size(self) -> int:
        """How many bytes each signature has at the level of this context."""
        ...

    @property
    def signs_headers_always(self) -> bool:
        """Whether signatures cover headers without negotiation, as those of NTLM do; asked once complete."""
        ...

    def step(self, token: bytes) -> bytes | None:
        """Take the peer's token (empty for the client's first step); the token to answer with, if any."""
        ...

    def wrap(self, header: bytes, stub: bytes, trailer: bytes) -> tuple[bytes, bytes]:
        """Level privacy: the sealed stub, as long as the stub, and the signature over all three."""
        ...

    def unwrap(self, header: bytes, sealed: bytes, trailer: bytes, signature: bytes) -> bytes:
        """Level privacy: the stub, once the signature has been checked."""
        ...

    def sign(self, header: bytes, stub: bytes, trailer: bytes) -> bytes:
        """Levels packet and integrity: the signature over all three."""
        ...

    def verify(self, header: bytes, stub: bytes, trailer: bytes, signature: bytes) -> None:
        """Levels packet and integrity: check the signature."""
        ...


Acceptor = Callable[[AuthenticationLevel], SecurityContext]
"""Makes the server's side of an authentication at a level."""

Providers = Mapping[int, Acceptor]
"""What a server accepts, by `AuthenticationType`: the table of security providers of 3.1.3.1.1."""
