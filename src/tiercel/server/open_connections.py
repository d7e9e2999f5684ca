"""The open connections of a network, which end together when the daemon stops."""

import asyncio
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar


class _Connection(Protocol):
    @property
    def transport(self) -> asyncio.Transport: ...


C = TypeVar("C", bound=_Connection)


class OpenConnections(Generic[C]):
    def __init__(self) -> None:
        self._open: set[C] = set()
        self._none_left = asyncio.Event()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[C]:
        return iter(self._open)

    def add(self, connection: C) -> None:
        self._open.add(connection)

    def discard(self, connection: C) -> None:
        self._open.discard(connection)
        if not self._open:
            self._none_left.set()

    def abort(self) -> None:
        """Abort all connections; unsent data is lost."""
        for connection in list(self._open):
            connection.transport.abort()

    async def wait_closed(self, seconds: float) -> None:
        """Wait until the connections have ended, but at most `seconds`; then abort the rest."""
        if self._open:
            self._none_left.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._none_left.wait()
            except TimeoutError:
                self.abort()
        await asyncio.sleep(0)  # transports close in a later turn of the loop
