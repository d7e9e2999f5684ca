r"""Who calls, and how calls are signed and sealed: NTLM, SPNEGO and Kerberos for the RPC machines.

A server makes its providers once, a client makes an initiator for each connection:

    providers = acceptors(NtlmServer(AccountFile(path), computer_name="LINUX-HOST"))
    context = initiator(password(r"EXAMPLE\reader", "secret"), "linux-host")

NTLM and SPNEGO of the server are our own and take any bytes; pyspnego makes the client's tokens and reaches
Kerberos. docs/decisions says why.
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
