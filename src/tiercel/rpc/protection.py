"""Fragmenting calls, signing and sealing the fragments, and the reverse: [MS-RPCE] 3.3.1.5.2.2.

Client and server use this; a `Protection` is one security context of a connection.
"""

import struct
from dataclasses import dataclass
from typing import Final

from tiercel.rpc.pdu import FIRST, HEADER_SIZE, LAST, TRAILER_SIZE, WHOLE, Request, Response, Verifier
from tiercel.rpc.security import AuthenticationError, AuthenticationLevel, SecurityContext

# The security trailer is aligned to this, from the start of the stub data: [MS-RPCE] 2.2.2.11.
_ALIGNMENT: Final = 16
_FIXED: Final = 8  # of requests and responses, between header and stub data, without an object

# The fields that differ between the fragments of a call
_FLAGS_AT: Final = 3
_LENGTHS_AT: Final = 8
_LENGTHS = struct.Struct("<HH")
_HINT = struct.Struct("<I")


@dataclass(slots=True)
class Protection:
    auth_type: int
    level: AuthenticationLevel
    context_id: int
    context: SecurityContext
    # As negotiated by PFC_SUPPORT_HEADER_SIGN.
    header_signing: bool = False
    # The number of tokens taken; and why the last one was refused, which is reported to the first request.
    legs: int = 0
    problem: str = ""

    def matches(self, auth: Verifier) -> bool:
        """Whether `auth` has the type and level of the bind."""
        return (auth.auth_type, auth.auth_level) == (self.auth_type, self.level)

    @property
    def signs_headers(self) -> bool:
        return self.header_signing or self.context.signs_headers_always

    def token(self, token: bytes) -> Verifier:
        """The trailer with an authentication token."""
        return Verifier(self.auth_type, self.level, self.context_id, token)


def cut(
    template: Request | Response, stub: bytes, max_fragment: int, protection: Protection | None
) -> list[bytes]:
    """The fragments of a call with the header of `template`, to be sent in order."""
    head = bytearray(template.encode())
    signed = protection if protection is not None and protection.level.is_signed else None
    signature_size = signed.context.signature_size if signed else 0
    overhead = len(head) + (TRAILER_SIZE + signature_size if signed else 0)
    room = (max_fragment - overhead) // _ALIGNMENT * _ALIGNMENT
    size = len(stub)
    fragments = []
    for at in range(0, size or 1, room):
        chunk = stub[at : at + room]
        pad = -len(chunk) % _ALIGNMENT if signed else 0
        head[_FLAGS_AT] = template.flags & ~WHOLE | (0 if at else FIRST) | (LAST if at + room >= size else 0)
        _LENGTHS.pack_into(head, _LENGTHS_AT, overhead + len(chunk) + pad, signature_size)
        _HINT.pack_into(head, HEADER_SIZE, size - at)
        header = bytes(head)
        fragments.append(header + chunk if signed is None else _protected(header, chunk, pad, signed))
    return fragments


def _protected(header: bytes, stub: bytes, pad: int, protection: Protection) -> bytes:
    context = protection.context
    body = stub + bytes(pad)
    trailer = Verifier(protection.auth_type, protection.level, protection.context_id, b"", pad).trailer
    signed = (header, trailer) if protection.signs_headers else (b"", b"")
    if protection.level.is_sealed:
        sealed, signature = context.wrap(signed[0], body, signed[1])
    else:
        sealed, signature = body, context.sign(signed[0], body, signed[1])
    if (len(sealed), len(signature)) != (len(body), context.signature_size):
        raise AssertionError("a security context changed the size of a fragment")
    return header + sealed + trailer + signature


def open_fragment(fragment: Request | Response, data: bytes, protection: Protection | None) -> bytes:
    """The stub data of the fragment in `data`: verified, unsealed and without padding.

    Every fragment must be passed here in order, even those of abandoned calls: the security context counts
    them.
    """
    auth = fragment.auth
    if auth is None or protection is None or not protection.level.is_signed:
        if protection is not None and protection.level.is_signed:
            raise AuthenticationError("a fragment has no signature, which its level requires")
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
