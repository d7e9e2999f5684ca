"""A server machine on a real socket: two operations that talk back, and an endpoint mapper.

By hand, for programs of others: `PYTHONPATH=src:tests python -m rpc.echo_server 7777`.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from tiercel.rpc.associations import Associations, Rundown
from tiercel.rpc.endpoint_mapper import ENDPOINT_MAPPER, EndpointMapper, MappedEndpoint
from tiercel.rpc.ndr import NdrReader, NdrWriter
from tiercel.rpc.security import Providers
from tiercel.rpc.server import Abandoned, Call, Cancelled, ServerConnection, Service
from tiercel.rpc.status import NCA_S_FAULT_CANCEL

from .scripted import ECHO

ECHO_BACK, REPEAT, WAIT = range(3)


class EchoServer:
    def __init__(self, providers: Providers | None = None) -> None:
        self._providers = providers or {}
        self._associations = Associations(os.urandom)
        self._mapper = EndpointMapper()
        self.rundowns: list[Rundown] = []
        self.port = 0

    def connect(self) -> "EchoConnection":
        interfaces = (ECHO, ENDPOINT_MAPPER)
        service = Service(interfaces, self._associations, self._providers, endpoint=str(self.port))
        return EchoConnection(self, service)

    @asynccontextmanager
    async def listening(self, port: int = 0) -> AsyncIterator["EchoServer"]:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self.connect, "127.0.0.1", port)
        self.port = server.sockets[0].getsockname()[1]
        self._mapper.endpoints = (MappedEndpoint(ECHO.syntax, self.port, "Echo"),)
        try:
            yield self
        finally:
            server.close()

    def answer(self, call: Call, address: str) -> bytes:
        if call.interface is ENDPOINT_MAPPER:
            return self._mapper.answer(call, address)
        reader = NdrReader(call.stub)
        if call.opnum == ECHO_BACK:
            return NdrWriter().conformant_bytes(reader.conformant_bytes("data")).data
        return NdrWriter().conformant_bytes(b"x" * reader.u32("size", high=1 << 20)).data


class EchoConnection(asyncio.Protocol):
    def __init__(self, server: EchoServer, service: Service) -> None:
        self._server = server
        self._service = service
        self._waiting: list[Call] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._address: str = transport.get_extra_info("sockname")[0]
        self._connection = ServerConnection(self._service, transport.get_extra_info("peername")[0])

    def data_received(self, data: bytes) -> None:
        for event in self._connection.receive(data):
            if isinstance(event, Call) and (event.interface, event.opnum) == (ECHO, WAIT):
                self._waiting.append(event)
            elif isinstance(event, Call):
                self._connection.answer(event, lambda call: self._server.answer(call, self._address))
            elif isinstance(event, Cancelled):
                self._connection.fault(event.call, NCA_S_FAULT_CANCEL)
            elif isinstance(event, Abandoned):
                self._waiting.remove(event.call)
        self._transport.write(self._connection.data_to_send())
        if self._connection.is_closing:
            self._transport.close()

    def connection_lost(self, _error: Exception | None) -> None:
        events = self._connection.connection_lost()
        self._server.rundowns += [event for event in events if isinstance(event, Rundown)]


async def main(port: int) -> None:
    async with EchoServer().listening(port):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
