"""How calls become fragments and fragments become calls, signed and sealed: [MS-RPCE] 3.3.1.5.2.2.

Both machines use this; a `Protection` is one security context of a connection.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from tiercel.rpc.pdu import FIRST, HEADER_SIZE, LAST, TRAILER_SIZE, WHOLE, Request, Response, Verifier
from tiercel.rpc.security import AuthenticationError, AuthenticationLevel, SecurityContext

# The security trailer begins at a multiple of this from the beginning of the stub data, [MS-RPCE] 2.2.2.11.
_ALIGNMENT: Final = 16
_FIXED: Final = 8  # what requests and responses have between the header and the stub data, without an object

P = TypeVar("P", Request, Response)


@dataclass(slots=True)
class Protection:
    auth_type: int
    level: AuthenticationLevel
    context_id: int
    context: SecurityContext
    signs_headers: bool = False
    # How many tokens were taken; and why the last one was refused, which the first request learns.
    legs: int = 0
    problem: str = ""

    def matches(self, auth: Verifier) -> bool:
        """Whether `auth` says the same of itself as the bind did."""
        return (auth.auth_type, auth.auth_level) == (self.auth_type, self.level)

    def token(self, token: bytes) -> Verifier:
        """The trailer that carries a token of the authentication itself."""
        return Verifier(self.auth_type, self.level, self.context_id, token)


def cut(template: P, stub: bytes, max_fragment: int, protection: Protection | None) -> Iterator[bytes]:
    """The fragments of a call whose header is `template`; a generator must be run to its end, in order."""
    head = HEADER_SIZE + _FIXED + _object_size(template)
    signed = protection if protection is not None and protection.level.is_signed else None
    room = max_fragment - head - (TRAILER_SIZE + signed.context.signature_size if signed else 0)
    room -= room % _ALIGNMENT
    flags = template.flags & ~WHOLE | FIRST
    at, size = 0, len(stub)
    while True:
        chunk = stub[at : at + room]
        if at + room >= size:
            flags |= LAST
        fragment = replace(template, flags=flags, alloc_hint=size - at, stub=chunk)
        yield fragment.encode() if signed is None else _protected(fragment, head, signed)
        at += room
        if at >= size:
            return
        flags &= ~FIRST


def _protected(fragment: P, head: int, protection: Protection) -> bytes:
    context = protection.context
    pad = -len(fragment.stub) % _ALIGNMENT
    empty = bytes(context.signature_size)
    auth = Verifier(protection.auth_type, protection.level, protection.context_id, empty, pad)
    data = replace(fragment, stub=fragment.stub + bytes(pad), auth=auth).encode()
    end = len(data) - len(empty)
    header, body, trailer = data[:head], data[head : end - TRAILER_SIZE], data[end - TRAILER_SIZE : end]
    signed = (header, trailer) if protection.signs_headers else (b"", b"")
    if protection.level.is_sealed:
        sealed, signature = context.wrap(signed[0], body, signed[1])
    else:
        sealed, signature = body, context.sign(signed[0], body, signed[1])
    if (len(sealed), len(signature)) != (len(body), len(empty)):
        raise AssertionError("a security context changed the size of a fragment")
    return header + sealed + trailer + signature


def open_fragment(fragment: Request | Response, data: bytes, protection: Protection | None) -> bytes:
    """The stub data of a fragment whose bytes are `data`: checked, unsealed and without its padding.

    Every fragment must come by here in its order, also those of calls that are given up: the security context
    counts them.
    """
    auth = fragment.auth
    if auth is None or protection is None or not protection.level.is_signed:
        if protection is not None and protection.level.is_signed:
            raise AuthenticationError("a fragment came without the signature that its level asks for")
        return fragment.stub if auth is None else fragment.stub[: len(fragment.stub) - auth.pad_length]
    header = trailer = b""
    if protection.signs_headers:
        header = data[: HEADER_SIZE + _FIXED + _object_size(fragment)]
        at = len(data) - len(auth.token) - TRAILER_SIZE
        trailer = data[at : at + TRAILER_SIZE]
    stub = fragment.stub
    if protection.level.is_sealed:
        stub = protection.context.unwrap(header, stub, trailer, auth.token)
    else:
        protection.context.verify(header, stub, trailer, auth.token)
    return stub[: len(stub) - auth.pad_length]


def _object_size(fragment: Request | Response) -> int:
    return 16 if isinstance(fragment, Request) and fragment.object is not None else 0
