"""The interface of authentication providers: [MS-RPCE] 2.2.1.1.7, 2.2.1.1.8 and 3.3.1.5.2.

A provider makes a `SecurityContext` for one connection and one level. The connections exchange its tokens,
then pass every fragment to it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from tiercel.model.errors import PeerError
from tiercel.model.sid import SecurityIdentifier


class AuthenticationError(PeerError):
    """An invalid token, signature or sealed fragment."""


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
        """Whether the client sends the last token, in an auth3."""
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
        """The level that this one is treated as."""
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
    """The authenticated identity of the peer."""

    name: str
    domain: str = ""
    sid: SecurityIdentifier | None = None
    groups: tuple[SecurityIdentifier, ...] = ()

    def __str__(self) -> str:
        return f"{self.domain}\\{self.name}" if self.domain else self.name


class SecurityContext(Protocol):
    """One side of one authentication, for one connection and one level; it keeps the sequence numbers.

    Methods raise no error but `AuthenticationError`. Without header signing `header` and `trailer` are empty,
    unless the context always signs them.
    """

    @property
    def is_complete(self) -> bool:
        """Whether the peer is known and fragments can be protected."""
        ...

    @property
    def identity(self) -> Identity | None:
        """The peer; None before it is known, and on a client that cannot know it."""
        ...

    @property
    def signature_size(self) -> int:
        """The size of each signature at the level of this context, in bytes."""
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
"""Makes the server's security context for a level."""

Providers = Mapping[int, Acceptor]
"""The accepted providers by `AuthenticationType`: the table of [MS-RPCE] 3.1.3.1.1."""
