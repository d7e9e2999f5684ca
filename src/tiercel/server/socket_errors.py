"""Errors of sockets in the words of connection histories."""

import errno
from typing import Final

from tiercel.model.codes import ConnectionStatus

STATUS_OF_ERROR: Final = {
    errno.ECONNREFUSED: ConnectionStatus.CONNECTION_REFUSED,
    errno.EADDRNOTAVAIL: ConnectionStatus.SOCKET_BIND_FAILURE,
    errno.EADDRINUSE: ConnectionStatus.SOCKET_BIND_FAILURE,
    errno.EMFILE: ConnectionStatus.SOCKET_CREATE_FAILURE,
    errno.ENFILE: ConnectionStatus.SOCKET_CREATE_FAILURE,
    errno.ENOBUFS: ConnectionStatus.LOW_RESOURCE,
}

# The Winsock numbers: a connection history keeps HRESULTs, and 0x8007 is the Win32 facility.
_WINSOCK_OF_ERROR: Final = {
    errno.EMFILE: 10024,
    errno.ENFILE: 10024,
    errno.EADDRINUSE: 10048,
    errno.EADDRNOTAVAIL: 10049,
    errno.ENETUNREACH: 10051,
    errno.ECONNRESET: 10054,
    errno.EPIPE: 10054,
    errno.ENOBUFS: 10055,
    errno.ETIMEDOUT: 10060,
    errno.ECONNREFUSED: 10061,
    errno.EHOSTUNREACH: 10065,
}
_HRESULT_OF_WIN32: Final = 0x8007_0000
_UNSPECIFIED: Final = 0x8000_4005  # E_FAIL


def hresult(problem: BaseException | None) -> int:
    """The HRESULT of a socket error, for the connection history; 0 for none."""
    if problem is None:
        return 0
    error = errno.ETIMEDOUT if isinstance(problem, TimeoutError) else getattr(problem, "errno", None) or 0
    winsock = _WINSOCK_OF_ERROR.get(error)
    return _UNSPECIFIED if winsock is None else _HRESULT_OF_WIN32 | winsock
