"""Both machines on real sockets."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tiercel.rpc.client import Answered, Authentication, Bound, ClientConnection, Event, Faulted
from tiercel.rpc.endpoint_mapper import ENDPOINT_MAPPER, EPT_MAP, map_request, read_map_answer
from tiercel.rpc.ndr import NdrReader, NdrWriter
from tiercel.rpc.security import AuthenticationLevel, AuthenticationType
from tiercel.rpc.status import NCA_S_FAULT_CANCEL
from tiercel.rpc.syntax import Interface

from .echo_server import ECHO_BACK, REPEAT, WAIT, EchoServer
from .scripted import ECHO, ScriptedContext, scripted_providers


class Client:
    """A client machine on a socket that does one thing after the other."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self._events: list[Event] = []

    async def connect(self, port: int) -> "Client":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        self.connection.bind()
        assert await self.next_event() == Bound()
        return self

    async def next_event(self) -> Event:
        self._writer.write(self.connection.data_to_send())
        while not self._events:
            data = await self._reader.read(65536)
            assert data, "the server closed the connection"
            self._events += self.connection.receive(data)
        return self._events.pop(0)

    async def call(self, opnum: int, stub: bytes) -> bytes:
        call_id = self.connection.call(opnum, stub)
        event = await self.next_event()
        assert isinstance(event, Answered), event
        assert event.call_id == call_id
        return event.stub

    async def close(self) -> None:
        self._writer.write(self.connection.data_to_send())
        self._writer.close()
        await self._writer.wait_closed()


def play(story: Callable[[EchoServer], Awaitable[Any]]) -> None:
    async def run() -> None:
        async with EchoServer(scripted_providers()).listening() as server:
            await story(server)

    asyncio.run(run())


async def connect(
    server: EchoServer, interface: Interface = ECHO, auth: Authentication | None = None
) -> Client:
    return await Client(ClientConnection(interface, auth, max_fragment=4280)).connect(server.port)


def test_a_reply_of_100_kib() -> None:
    async def story(server: EchoServer) -> None:
        client = await connect(server)
        stub = await client.call(REPEAT, NdrWriter().u32(100 * 1024).data)
        assert NdrReader(stub).conformant_bytes("data") == b"x" * 100 * 1024
        data = bytes(range(256)) * 400
        stub = await client.call(ECHO_BACK, NdrWriter().conformant_bytes(data).data)
        assert NdrReader(stub).conformant_bytes("data") == data
        await client.close()

    play(story)


def test_sealed() -> None:
    async def story(server: EchoServer) -> None:
        context = ScriptedContext(is_server=False)
        auth = Authentication(AuthenticationType.NTLM, AuthenticationLevel.PRIVACY, context)
        client = await connect(server, auth=auth)
        stub = await client.call(REPEAT, NdrWriter().u32(100 * 1024).data)
        assert len(stub) == 100 * 1024 + 4
        await client.close()

    play(story)


def test_a_call_that_waits_is_overtaken_and_cancelled() -> None:
    async def story(server: EchoServer) -> None:
        client = await connect(server)
        waiting = client.connection.call(WAIT, b"")
        assert await client.call(REPEAT, NdrWriter().u32(1).data) == b"\1\0\0\0x"
        client.connection.cancel(waiting)
        event = await client.next_event()
        assert isinstance(event, Faulted)
        assert (event.call_id, event.fault.status) == (waiting, NCA_S_FAULT_CANCEL)
        await client.close()

    play(story)


def test_where_echo_is() -> None:
    async def story(server: EchoServer) -> None:
        client = await connect(server, ENDPOINT_MAPPER)
        stub = await client.call(EPT_MAP, map_request(ECHO.syntax))
        assert read_map_answer(stub, ECHO.syntax) == [server.port]
        await client.close()

    play(story)
