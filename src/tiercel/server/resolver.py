"""Resolving computer names: the configuration first, then DNS."""

import asyncio
import socket
import threading
from collections.abc import Mapping
from typing import Final

from tiercel.server.config import Endpoint

_AT_ONCE: Final = 16  # lookups: an unresponsive DNS server must not take a thread per name


class Resolver:
    def __init__(self, hosts: Mapping[str, Endpoint]) -> None:
        self.hosts = hosts
        self._free = asyncio.Semaphore(_AT_ONCE)

    async def resolve(self, host: str) -> list[str]:
        """Addresses for `endpoint`, in order of preference; none if the name is unknown."""
        known = self.hosts.get(host.casefold()) or _endpoint(host)
        async with self._free:
            addresses = await _look_up(known.host)
        return [str(Endpoint(address, known.port)) for address in addresses]

    def endpoint(self, address: str, port: int) -> Endpoint:
        """Where to connect; a port that the configuration gives for the address takes precedence."""
        known = self.hosts.get(address.casefold()) or Endpoint.parse(address)
        return Endpoint(known.host, known.port or port)


def _endpoint(host: str) -> Endpoint:
    """The address of a known peer may have a port; a computer name has none."""
    try:
        return Endpoint.parse(host)
    except ValueError:
        return Endpoint(host)


async def _look_up(host: str) -> list[str]:
    """Ask the system in a daemon thread: a lookup can take minutes and must not delay the exit."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def tell(addresses: list[str]) -> None:
        if not answer.done():
            answer.set_result(addresses)

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            found = []
        addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, addresses)

    threading.Thread(target=ask, name=f"lookup {host}", daemon=True).start()
    return await answer
