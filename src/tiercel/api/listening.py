"""Listening sockets and certificates of the HTTP endpoints."""

import asyncio
import errno
import socket
import ssl
from typing import Final

from tiercel.server import log
from tiercel.server.config import ApiOptions, ConfigError, DataOptions, Endpoint, is_loopback
from tiercel.server.connection_limits import ConnectionLimits

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


def connection_limits(section: str, options: Options) -> ConnectionLimits:
    return ConnectionLimits(
        section, options.connections, options.connections_per_address, options.trusted_proxies
    )


def check_certificate(section: str, options: Options) -> None:
    if not options.tls_certificate:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(options.tls_certificate, options.tls_key)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        files = f"{options.tls_certificate}, {options.tls_key}"
        raise ConfigError(
            f"[{section}] tls_certificate, tls_key: {files}: cannot be used ({reason})"
        ) from problem


def warn_without_tls(event: str, options: Options, endpoint: Endpoint) -> None:
    if not options.tls_certificate and not is_loopback(options.host):
        log.warning(event, address=endpoint)
