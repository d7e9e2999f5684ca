"""The providers of a server, and the contexts and credentials of a client."""

from collections.abc import Callable
from pathlib import Path

import spnego

from tiercel.rpc.authentication.context import Context
from tiercel.rpc.authentication.initiator import Credentials, Initiator
from tiercel.rpc.authentication.kerberos import KerberosServer
from tiercel.rpc.authentication.ntlm_acceptor import NtlmServer
from tiercel.rpc.authentication.spnego_acceptor import SpnegoAcceptor
from tiercel.rpc.authentication.spnego_tokens import KERBEROS_OID, NTLM_OID
from tiercel.rpc.security import AuthenticationLevel, AuthenticationType, Providers, SecurityContext


def acceptors(ntlm: NtlmServer | None = None, kerberos: KerberosServer | None = None) -> Providers:
    """The providers of a server: each of the two alone, and either inside SPNEGO."""
    found: dict[int, Callable[[AuthenticationLevel], SecurityContext]] = {}
    mechanisms: dict[bytes, Callable[[AuthenticationLevel], Context]] = {}
    if kerberos is not None:
        found[AuthenticationType.KERBEROS] = mechanisms[KERBEROS_OID] = kerberos
    if ntlm is not None:
        found[AuthenticationType.NTLM] = mechanisms[NTLM_OID] = ntlm
    if mechanisms:
        found[AuthenticationType.SPNEGO] = lambda level: SpnegoAcceptor(mechanisms, level)
    return found


def initiator(
    credentials: Credentials,
    host: str,
    kind: AuthenticationType = AuthenticationType.NTLM,
    level: AuthenticationLevel = AuthenticationLevel.PRIVACY,
) -> Initiator:
    """The client's side of an authentication. With Kerberos it may contact the KDC, and block."""
    return Initiator(kind, level, credentials, host)


def password(user: str, secret: str) -> Credentials:
    r"""`user` is DOMAIN\user, user@domain or user."""
    return [spnego.Password(user, secret)]


def keytab(path: Path, principal: str | None = None) -> Credentials:
    """A Kerberos key from a file; the first one if no principal is given."""
    return [spnego.KerberosKeytab(str(path), principal)]
