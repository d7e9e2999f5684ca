"""Listening sockets and certificates of the HTTP endpoints."""

import asyncio
import errno
import socket
from collections.abc import MutableSequence
from typing import Final

from tiercel.server import log
from tiercel.server.config import ApiOptions, DataOptions, Endpoint, is_loopback
from tiercel.server.connection_limits import ConnectionLimits
from tiercel.server.tls import RenewableContext, server_context

_TRIES, _TRY_S = 20, 0.1  # the data process of a killed daemon may still hold the port
_BACKLOG: Final = 128

Options = ApiOptions | DataOptions


async def listen(host: str, port: int) -> socket.socket:
    """Raises an `OSError` that names the address."""
    found = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, *_, address = found[0]
    for tries_left in reversed(range(_TRIES)):
        try:
            return socket.create_server(address, family=family, backlog=_BACKLOG)
        except OSError as problem:
            if problem.errno != errno.EADDRINUSE or not tries_left:
                raise OSError(problem.errno, problem.strerror, str(Endpoint(host, port))) from problem
        await asyncio.sleep(_TRY_S)
    raise AssertionError("the last try either listens or raises")


def connection_limits(
    section: str, options: Options, turned_away: MutableSequence[int] | None = None
) -> ConnectionLimits:
    return ConnectionLimits(
        section,
        options.connections,
        options.connections_per_address,
        options.trusted_proxies,
        turned_away=turned_away,
    )


def tls_context(section: str, options: Options) -> RenewableContext | None:
    """None without a certificate. Raises `ConfigError`."""
    if not options.tls_certificate:
        return None
    return RenewableContext(section, lambda: server_context(section, options))


def warn_without_tls(event: str, options: Options, endpoint: Endpoint) -> None:
    if not options.tls_certificate and not is_loopback(options.host):
        log.warning(event, address=endpoint)
