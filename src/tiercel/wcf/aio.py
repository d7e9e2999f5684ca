"""Endpoints and services for asyncio: the same names, with `await` where a call may wait.

orders = wcf.aio.Endpoint(qm, "net.msmq://localhost/private/orders")     # qm of tiercel.aio
async with orders.client() as client:
    await client.send("http://example.org/IOrders/Submit", {"id": 7})
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from tiercel.framing.initiator import Initiator
from tiercel.wcf.endpoint import Body, EndpointBase
from tiercel.wcf.service import ServiceBase


class Endpoint(EndpointBase):
    """See `tiercel.wcf.Endpoint`."""

    def client(self, *, transaction: Any = None) -> "Client":
        return Client(self, self.initiator(session=False), transaction)


class Client:
    """See `tiercel.wcf.Client`."""

    def __init__(self, endpoint: Endpoint, initiator: Initiator, transaction: Any = None) -> None:
        self._endpoint = endpoint
        self._initiator = initiator
        self._transaction = transaction
        self._run = endpoint.runner.arun

    async def __aenter__(self) -> Self:
        await self._run(self._initiator.open())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self._run(self._initiator.close())
        else:
            await self._run(self._initiator.abandon())

    async def send(self, action: str, body: Body = None, *, transaction: Any = None, **options: Any) -> UUID:
        message_id = options.pop("message_id", None) or self._endpoint.new_id()
        envelope = self._endpoint.envelope(action, body, message_id=message_id, **options)
        await self._run(self._initiator.send(envelope, transaction or self._transaction))
        return message_id

    @asynccontextmanager
    async def session(self, *, transaction: Any = None) -> "AsyncIterator[Client]":
        initiator = self._endpoint.initiator(session=True)
        async with Client(self._endpoint, initiator, transaction or self._transaction) as client:
            yield client


class Service(ServiceBase):
    """See `tiercel.wcf.Service`. Operations may be coroutines; cancel the task of `run` to stop it."""

    def __init__(self, endpoint: Endpoint, **options: Any) -> None:
        super().__init__(endpoint, **options)
        self._run = endpoint.runner.arun

    async def run(self, timeout: float | None = None) -> int:  # noqa: ASYNC109 - ends the wait in the queue manager
        """Serve until the task is cancelled, or until no message comes for `timeout` seconds."""
        count = 0
        await self._run(self._dispatcher.open())
        try:
            while await self._run(self._dispatcher.serve(timeout, self._clock)):
                count += 1
        finally:
            await asyncio.shield(self._run(self._dispatcher.close()))
        return count
