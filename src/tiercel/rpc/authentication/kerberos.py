"""Kerberos through GSSAPI: [MS-KILE] 3.4.5, with the three legs of DCE style.

Needs the packages gssapi and krb5 (`pip install tiercel[kerberos]`), which need the system's libraries.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import spnego
from spnego.iov import BufferType, IOVResBuffer

from tiercel.rpc.authentication.context import REFUSED, Context
from tiercel.rpc.security import AuthenticationError, AuthenticationLevel, Identity
from tiercel.security.accounts import Directory, split_name, stable_sid

WANTED: Final = (
    spnego.ContextReq.mutual_auth
    | spnego.ContextReq.replay_detect
    | spnego.ContextReq.sequence_detect
    | spnego.ContextReq.integrity
    | spnego.ContextReq.confidentiality
    | spnego.ContextReq.dce_style
)
# Sealing adds this to a signature: a confounder, a copy of the header ([RFC4121] 4.2.4) and padding.
# With RC4 it is only a confounder ([RFC4757] 7.3), and the total is smaller than with newer ciphers.
_SEALING_SIZE: Final = 48
_SEALING_SIZE_RC4: Final = 8
_SMALLEST_NEWER: Final = 60


def is_available() -> bool:
    """Whether the libraries for Kerberos are installed."""
    return find_spec("gssapi") is not None and find_spec("krb5") is not None


class GssProtector:
    """A `Protector` that uses GSSAPI, which keeps the keys and sequence numbers."""

    signs_headers_always = False

    def __init__(self, gss: spnego.ContextProxy, level: AuthenticationLevel) -> None:
        self._gss = gss
        size = gss.query_message_sizes().header
        more = _SEALING_SIZE if size >= _SMALLEST_NEWER else _SEALING_SIZE_RC4
        self.signature_size = size if level.is_sealed else size - more

    def wrap(self, header: bytes, stub: bytes, trailer: bytes) -> tuple[bytes, bytes]:
        try:
            buffers = self._gss.wrap_iov([*_around(header, stub, trailer), BufferType.header]).buffers
        except Exception as problem:
            raise AuthenticationError(f"a fragment cannot be sealed: {problem}") from problem
        return _data(buffers), buffers[-1].data or b""

    def unwrap(self, header: bytes, sealed: bytes, trailer: bytes, signature: bytes) -> bytes:
        try:
            result = self._gss.unwrap_iov([*_around(header, sealed, trailer), (BufferType.header, signature)])
        except Exception as problem:
            raise AuthenticationError("a sealed fragment is wrong") from problem
        if not result.encrypted:
            raise AuthenticationError("a fragment that should be sealed is only signed")
        return _data(result.buffers)

    def sign(self, data: bytes) -> bytes:
        try:
            return self._gss.sign(data)
        except Exception as problem:
            raise AuthenticationError(f"a fragment cannot be signed: {problem}") from problem

    def verify(self, data: bytes, signature: bytes) -> None:
        try:
            self._gss.verify(data, signature)
        except Exception as problem:
            raise AuthenticationError("a signature is wrong") from problem

    def sign_mechanisms(self, data: bytes) -> bytes:
        return self.sign(data)

    def verify_mechanisms(self, data: bytes, signature: bytes) -> None:
        self.verify(data, signature)


def _around(header: bytes, stub: bytes, trailer: bytes) -> list[tuple[BufferType, bytes]]:
    buffers = [(BufferType.data, stub)]
    if header or trailer:
        buffers = [(BufferType.sign_only, header), *buffers, (BufferType.sign_only, trailer)]
    return buffers


def _data(buffers: Iterable[IOVResBuffer]) -> bytes:
    return next(each.data or b"" for each in buffers if each.type == BufferType.data)


@dataclass(frozen=True, slots=True)
class KerberosServer:
    """Shared by all logons of a server: the keytab (default: the system's), and the SIDs of principals."""

    accounts: Directory | None = None
    keytab: Path | None = None
    report: Callable[[str], None] = lambda _reason: None

    def __call__(self, level: AuthenticationLevel) -> "KerberosAcceptor":
        return KerberosAcceptor(self, level)

    def identity(self, principal: str) -> Identity:
        user, realm = split_name(principal)
        account = self.accounts.find(user, realm) if self.accounts is not None else None
        return Identity(user, realm, stable_sid(user, realm) if account is None else account.sid)


class KerberosAcceptor(Context):
    def __init__(self, server: KerberosServer, level: AuthenticationLevel) -> None:
        super().__init__(level)
        self._server = server
        self._gss: spnego.ContextProxy | None = None

    def _step(self, token: bytes) -> bytes | None:
        try:
            if self._gss is None:
                self._gss = _accept(self._server.keytab)
            answer = _step(self._gss, token)
            if not self._gss.complete:
                return answer
            principal = self._gss.client_principal or ""
            protector = GssProtector(self._gss, self.level)
        except Exception as problem:  # the libraries raise arbitrary exceptions
            self._server.report(str(problem))
            raise AuthenticationError(REFUSED) from problem
        if not principal:
            raise AuthenticationError(REFUSED)
        self._identity = self._server.identity(principal)
        self.protector = protector
        return answer


def _step(gss: spnego.ContextProxy, token: bytes) -> bytes | None:
    try:
        return gss.step(token)
    except AttributeError:  # gssapi keeps the reason for a refusal until the next step
        return gss.step(token)


def _accept(keytab: Path | None) -> spnego.ContextProxy:
    options: dict[str, Any] = {}
    if keytab is not None:
        gssapi: Any = import_module("gssapi")
        options["_gssapi_credential"] = gssapi.Credentials(usage="accept", store={"keytab": str(keytab)})
    return spnego.server(protocol="kerberos", context_req=WANTED, **options)
