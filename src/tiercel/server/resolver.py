"""From the name of a computer to its addresses, with the configuration's word before that of the DNS."""

import asyncio
import socket
import threading
from collections.abc import Mapping
from typing import Final

from tiercel.server.config import Endpoint

_AT_ONCE: Final = 16  # a DNS server that is silent must not cost a thread for every name


class Resolver:
    def __init__(self, hosts: Mapping[str, Endpoint]) -> None:
        self.hosts = hosts
        self._free = asyncio.Semaphore(_AT_ONCE)

    async def resolve(self, host: str) -> list[str]:
        """Addresses as `endpoint` takes them, in the order of preference; none when the name is unknown."""
        known = self.hosts.get(host.casefold()) or _endpoint(host)
        async with self._free:
            addresses = await _look_up(known.host)
        return [str(Endpoint(address, known.port)) for address in addresses]

    def endpoint(self, address: str, port: int) -> Endpoint:
        """Where to dial: the port of the configuration, if it has one for this address, is the right one."""
        known = self.hosts.get(address.casefold()) or Endpoint.parse(address)
        return Endpoint(known.host, known.port or port)


def _endpoint(host: str) -> Endpoint:
    """An address that a peer was reached by may have a port; the name of a computer has none."""
    try:
        return Endpoint.parse(host)
    except ValueError:
        return Endpoint(host)


async def _look_up(host: str) -> list[str]:
    """Asks the system in a thread that nobody waits for at the end: a lookup can take minutes."""
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
