"""[MS-MQRR] on real sockets: readers of the daemon, bound by hand with the client machine."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tiercel.engine.engine import Engine
from tiercel.model.codes import QueueAccess
from tiercel.model.format_name import FormatName
from tiercel.model.message import Message
from tiercel.model.path_name import PathName
from tiercel.remote_read import calls
from tiercel.remote_read.calls import REMOTE_READ, RR_ACK, RR_NACK
from tiercel.remote_read.packet import rebuild
from tiercel.remote_read.queue_format import QueueFormat
from tiercel.rpc.client import Answered, Bound, ClientConnection, Faulted
from tiercel.rpc.endpoint_mapper import ENDPOINT_MAPPER, EPT_MAP, map_request, read_map_answer
from tiercel.rpc.ndr import ContextHandle
from tiercel.rpc.status import RpcFault
from tiercel.rpc.syntax import Interface
from tiercel.security.access import Token
from tiercel.server.daemon import Daemon

from .scripted import PATIENCE_S, configured

SYSTEM = Token.local_system()
NAME = FormatName.parse(r"DIRECT=OS:.\private$\q")
Scene = Callable[[Daemon], Awaitable[None]]
Play = Callable[..., None]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    async def main(scene: Scene, options: dict[str, Any]) -> None:
        remote_read = {"enabled": True, "port": 0, "least_level_local": "none"} | options
        config = configured(tmp_path, remote_read=remote_read)
        async with asyncio.timeout(PATIENCE_S), Daemon(config) as daemon:
            await daemon.call(
                lambda engine: engine.create_queue(PathName.parse(r".\private$\q"), open_to_all())
            )
            try:
                await scene(daemon)
            finally:
                while READERS:
                    READERS.pop().sink.close()

    return lambda scene, **options: asyncio.run(main(scene, options))


def open_to_all() -> Token:
    """A stranger's queue grants Everyone everything, and so the reader that proves nothing."""
    return Token.anonymous()


READERS: "list[Reader]" = []


class Reader:
    """A reader that does everything by hand."""

    def __init__(self, interface: Interface = REMOTE_READ) -> None:
        self.rpc = ClientConnection(interface)
        self.answers: dict[int, bytes | RpcFault] = {}

    async def connect(self, port: int) -> "Reader":
        self.stream, self.sink = await asyncio.open_connection("127.0.0.1", port)
        READERS.append(self)
        self.rpc.bind()
        assert await self._events() == [Bound()]
        return self

    async def _events(self) -> list[Any]:
        self.sink.write(self.rpc.data_to_send())
        events: list[Any] = []
        while not events:
            events = list(self.rpc.receive(await self.stream.read(65536)))
        self.sink.write(self.rpc.data_to_send())
        return events

    def start(self, request: calls.Request) -> int:
        number = self.rpc.call(request.OPNUM, request.encode())
        self.sink.write(self.rpc.data_to_send())
        return number

    async def answer(self, number: int) -> bytes:
        while number not in self.answers:
            for event in await self._events():
                if isinstance(event, Answered):
                    self.answers[event.call_id] = event.stub
                elif isinstance(event, Faulted):
                    self.answers[event.call_id] = event.fault
        answer = self.answers.pop(number)
        if isinstance(answer, RpcFault):
            raise answer
        return answer

    async def call(self, request: calls.Request) -> Any:
        return request.RESPONSE.decode(await self.answer(self.start(request)))

    async def open(self) -> ContextHandle:
        opened = await self.call(calls.OpenQueue(QueueFormat.of(NAME), int(QueueAccess.RECEIVE)))
        assert isinstance(opened, calls.QueueOpened)
        return opened.handle


def port_of(daemon: Daemon) -> int:
    assert daemon.remote_reading is not None
    return daemon.remote_reading.port


async def put(daemon: Daemon, *bodies: bytes) -> None:
    def send(engine: Engine) -> None:
        opened = engine.open_queue(NAME, QueueAccess.SEND, token=SYSTEM)
        for body in bodies:
            engine.send(opened, Message(body, delivery=1))
        engine.close_queue(opened)

    await daemon.call(send)


async def count(daemon: Daemon) -> int:
    return await daemon.call(lambda engine: engine.queue_state(NAME).count)


def body(received: calls.Received) -> bytes:
    return rebuild(received.sections).packet.body


def test_a_message_is_received_in_two_steps(play: Play) -> None:
    async def scene(daemon: Daemon) -> None:
        await put(daemon, b"first", b"second")
        reader = await Reader().connect(port_of(daemon))
        handle = await reader.open()
        received = await reader.call(calls.StartReceive(handle, request_id=1))
        assert (received.status, body(received), await count(daemon)) == (0, b"first", 2)
        assert (await reader.call(calls.EndReceive(handle, RR_ACK, 1))).status == 0
        assert await count(daemon) == 1
        again = await reader.call(calls.StartReceive(handle, request_id=2))
        assert (await reader.call(calls.EndReceive(handle, RR_NACK, 2))).status == 0
        assert (body(again), await count(daemon)) == (b"second", 1)

    play(scene)


def test_a_waiting_read_is_answered_when_a_message_comes_and_others_are_not_held_up(play: Play) -> None:
    async def scene(daemon: Daemon) -> None:
        reader = await Reader().connect(port_of(daemon))
        handle = await reader.open()
        waiting = reader.start(calls.StartReceive(handle, timeout_ms=0xFFFF_FFFF, request_id=1))
        cursor = await reader.call(calls.CreateCursor(handle))
        assert cursor.status == 0
        await put(daemon, b"late")
        assert body(calls.Received.decode(await reader.answer(waiting))) == b"late"

    play(scene)


@pytest.mark.conformance("MQRR-134", "MQRR-135")
def test_a_reader_that_vanishes_keeps_nothing(play: Play) -> None:
    async def scene(daemon: Daemon) -> None:
        await put(daemon, b"held")
        lost = await Reader().connect(port_of(daemon))
        handle = await lost.open()
        await lost.call(calls.StartReceive(handle, request_id=1))
        lost.start(calls.StartReceive(handle, timeout_ms=0xFFFF_FFFF, request_id=2))
        lost.sink.transport.abort()
        reader = await Reader().connect(port_of(daemon))
        other = await reader.open()
        received = await reader.call(calls.StartReceive(other, timeout_ms=60_000, request_id=1))
        assert body(received) == b"held"
        await put(daemon, b"later")
        received = await reader.call(calls.StartReceive(other, timeout_ms=60_000, request_id=2))
        assert body(received) == b"later"

    play(scene)


@pytest.mark.conformance("MQRR-015")
def test_who_proves_nothing_is_refused_by_default(play: Play) -> None:
    async def scene(daemon: Daemon) -> None:
        reader = await Reader().connect(port_of(daemon))
        with pytest.raises(RpcFault) as refusal:
            await reader.open()
        assert refusal.value.status == 0x5

    play(scene, least_level_local="privacy")


@pytest.mark.conformance("MQRR-004", "MQRR-006")
def test_the_endpoint_mapper_leads_to_the_port(play: Play, unused_port: int) -> None:
    async def scene(daemon: Daemon) -> None:
        mapper = await Reader(ENDPOINT_MAPPER).connect(unused_port)
        number = mapper.rpc.call(EPT_MAP, map_request(REMOTE_READ.syntax))
        mapper.sink.write(mapper.rpc.data_to_send())
        assert read_map_answer(await mapper.answer(number), REMOTE_READ.syntax) == [port_of(daemon)]
        reader = await Reader().connect(port_of(daemon))
        assert (await reader.call(calls.GetServerPort())).port == port_of(daemon)

    play(scene, endpoint_mapper=True, endpoint_mapper_port=unused_port)


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
