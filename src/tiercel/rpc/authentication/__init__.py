r"""Authentication of callers, signing and sealing: NTLM, SPNEGO and Kerberos for the RPC machines.

A server creates its providers once; a client creates an initiator for each connection:

    providers = acceptors(NtlmServer(AccountFile(path), computer_name="LINUX-HOST"))
    context = initiator(password(r"EXAMPLE\reader", "secret"), "linux-host")

The server's NTLM and SPNEGO are our own and accept arbitrary bytes; pyspnego makes the client's tokens and
provides Kerberos. docs/decisions gives the reasons.
"""

from tiercel.rpc.authentication.initiator import Credentials, Initiator
from tiercel.rpc.authentication.kerberos import KerberosServer
from tiercel.rpc.authentication.kerberos import is_available as kerberos_is_available
from tiercel.rpc.authentication.ntlm_acceptor import NtlmServer
from tiercel.rpc.authentication.providers import acceptors, initiator, keytab, password

__all__ = [
    "Credentials",
    "Initiator",
    "KerberosServer",
    "NtlmServer",
    "acceptors",
    "initiator",
    "kerberos_is_available",
    "keytab",
    "password",
]
