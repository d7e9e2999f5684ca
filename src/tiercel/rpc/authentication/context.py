"""The common part of all security contexts: tokens first, then fragments; a failure is final."""

from abc import ABC, abstractmethod
from typing import Final, Protocol

from tiercel.model.errors import DecodeError
from tiercel.rpc.security import AuthenticationError, AuthenticationLevel, Identity

REFUSED: Final = "the logon was refused"


class Protector(Protocol):
    """Signs and seals with the keys of a completed logon."""

    @property
    def signs_headers_always(self) -> bool: ...

    @property
    def signature_size(self) -> int: ...

    def wrap(self, header: bytes, stub: bytes, trailer: bytes) -> tuple[bytes, bytes]: ...

    def unwrap(self, header: bytes, sealed: bytes, trailer: bytes, signature: bytes) -> bytes: ...

    def sign(self, data: bytes) -> bytes: ...

    def verify(self, data: bytes, signature: bytes) -> None: ...

    def sign_mechanisms(self, data: bytes) -> bytes:
        """The mechListMIC of SPNEGO."""
        ...

    def verify_mechanisms(self, data: bytes, signature: bytes) -> None: ...


class Context(ABC):
    """A `SecurityContext`: `_step` sets `protector` once the peer is authenticated."""

    # Whether SPNEGO must require a signed list of mechanisms, even if the client's first choice was taken.
    wants_mechanisms_signed = False

    def __init__(self, level: AuthenticationLevel) -> None:
        self.level = level.effective
        self.protector: Protector | None = None
        self._identity: Identity | None = None
        self._has_failed = False

    @property
    def is_complete(self) -> bool:
        return self.protector is not None and not self._has_failed

    @property
    def identity(self) -> Identity | None:
        """The peer; None on a client, which cannot know it."""
        return self._identity if self.is_complete else None

    @property
    def signature_size(self) -> int:
        return self._ready().signature_size

    @property
    def signs_headers_always(self) -> bool:
        return self._ready().signs_headers_always

    def step(self, token: bytes) -> bytes | None:
        if self._has_failed or self.protector is not None:
            raise AuthenticationError("unexpected token")
        try:
            return self._step(token)
        except AuthenticationError:
            self._has_failed = True
            raise
        except DecodeError as problem:
            self._has_failed = True
            raise AuthenticationError(REFUSED) from problem

    @abstractmethod
    def _step(self, token: bytes) -> bytes | None: ...

    def wrap(self, header: bytes, stub: bytes, trailer: bytes) -> tuple[bytes, bytes]:
        return self._ready(sealed=True).wrap(header, stub, trailer)

    def unwrap(self, header: bytes, sealed: bytes, trailer: bytes, signature: bytes) -> bytes:
        protector = self._ready(sealed=True)
        try:
            return protector.unwrap(header, sealed, trailer, signature)
        except AuthenticationError:
            self._has_failed = True  # from here on the two sides count differently
            raise

    def sign(self, header: bytes, stub: bytes, trailer: bytes) -> bytes:
        return self._ready(sealed=False).sign(header + stub + trailer)

    def verify(self, header: bytes, stub: bytes, trailer: bytes, signature: bytes) -> None:
        protector = self._ready(sealed=False)
        try:
            protector.verify(header + stub + trailer, signature)
        except AuthenticationError:
            self._has_failed = True
            raise

    def _ready(self, *, sealed: bool | None = None) -> Protector:
        if self.protector is None or self._has_failed:
            raise AuthenticationError("the authentication is not complete")
        if sealed is not None and (sealed != self.level.is_sealed or not self.level.is_signed):
            raise AuthenticationError(f"fragments are not protected like this at level {self.level.name}")
        return self.protector
