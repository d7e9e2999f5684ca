"""Resolving computer names: the configuration first, then DNS."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Final

from tiercel.server.config import Endpoint

_AT_ONCE: Final = 16  # lookups: an unresponsive DNS server must not take a thread per name
_AT_ONCE_FOR_RECEIPTS: Final = 4
_WAITING_FOR_RECEIPTS: Final = 1000
_NAMES_KEPT: Final = 1000


class TooManyLookupsError(Exception):
    pass


class Resolver:
    def __init__(self, hosts: Mapping[str, Endpoint]) -> None:
        self.hosts = hosts
        self._free = asyncio.Semaphore(_AT_ONCE)
        self._free_for_receipts = asyncio.Semaphore(_AT_ONCE_FOR_RECEIPTS)
        self._waiting_for_receipts = 0
        self._answered: dict[str, None] = {}  # names that had an address when they were last looked up

    async def resolve(self, host: str, seconds: float, *, for_receipts: bool = False) -> list[str]:
        """Addresses for `endpoint`, in order of preference; none if the name is unknown.

        A lookup may take `seconds`, after its turn has come. Anybody can have names looked up `for_receipts`,
        so those that never had an address have few places. Raises `TimeoutError` and `TooManyLookupsError`.
        """
        known = self.hosts.get(host.casefold()) or _endpoint(host)
        if _is_address(known.host):
            return [str(known)]
        if for_receipts and known.host not in self._answered:
            async with self._turn_for_receipts():
                addresses = await self._look_up(known.host, seconds)
        else:
            addresses = await self._look_up(known.host, seconds)
        return [str(Endpoint(address, known.port)) for address in addresses]

    @asynccontextmanager
    async def _turn_for_receipts(self) -> AsyncIterator[None]:
        if self._waiting_for_receipts >= _WAITING_FOR_RECEIPTS:
            raise TooManyLookupsError("too many names of other receivers of receipts are looked up")
        self._waiting_for_receipts += 1
        try:
            async with self._free_for_receipts:
                yield
        finally:
            self._waiting_for_receipts -= 1

    async def _look_up(self, host: str, seconds: float) -> list[str]:
        async with self._free:
            self._answered.pop(host, None)
            async with asyncio.timeout(seconds):
                addresses = await _look_up(host)
        if addresses:
            self._answered[host] = None
            if len(self._answered) > _NAMES_KEPT:
                del self._answered[next(iter(self._answered))]
        return addresses

    def endpoint(self, address: str, port: int) -> Endpoint:
        """Where to connect; a port that the configuration gives for the address takes precedence."""
        known = self.hosts.get(address.casefold()) or Endpoint.parse(address)
        return Endpoint(known.host, known.port or port)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


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
