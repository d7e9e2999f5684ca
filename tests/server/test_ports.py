"""[MS-MQQB] 2.1: the ports of the protocol, with real sockets, on addresses that no other test uses."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from addresses import own_address
from tiercel.engine.engine import Engine
from tiercel.model.codes import QueueAccess
from tiercel.model.format_name import FormatName
from tiercel.model.message import Message
from tiercel.server.config import Config
from tiercel.server.daemon import Daemon
from tiercel.wire.structure import encode_guid
from wire.packets import frame, replaced

from .scripted import PATIENCE_S, configured, connect

TCP_PORT, UDP_PORT = 1801, 3527

Scene = Callable[[Daemon], Awaitable[None]]
Play = Callable[..., None]


HERE, THERE = own_address(0), own_address(1)


@pytest.fixture
def play(tmp_path: Path) -> Play:
    async def main(scene: Scene, sections: dict[str, Any]) -> None:
        config = configured(tmp_path, listen={"host": HERE, "port": TCP_PORT}, **sections)
        async with asyncio.timeout(PATIENCE_S), Daemon(config) as daemon:
            await scene(daemon)

    return lambda scene, **sections: asyncio.run(main(scene, sections))


@contextmanager
def datagrams(host: str, port: int) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind((host, port))
        udp.setblocking(False)
        yield udp


async def send_there(daemon: Daemon) -> None:
    """Gives it a message for the other address."""
    name = FormatName.parse(rf"DIRECT=TCP:{THERE}\private$\q")

    def send(engine: Engine) -> None:
        opened = engine.opening.open(name, QueueAccess.SEND, token=daemon.driver.owner)
        engine.sending.send(opened, Message(b"hello"))

    await daemon.call(send)


async def first_packet_there(daemon: Daemon, before: Callable[[], Awaitable[None]] | None = None) -> bytes:
    """What comes to port 1801 of the other address when there is a message for it."""
    came: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.set_result(await reader.readexactly(572))
        writer.close()

    async with await asyncio.start_server(serve, THERE, TCP_PORT):
        await send_there(daemon)
        if before is not None:
            await before()
        return await came


class TestSessions:
    """2.1.1."""

    @pytest.mark.conformance("MQQB-001")
    def test_are_accepted_on_1801(self, play: Play) -> None:
        async def scene(daemon: Daemon) -> None:
            reader, writer = await connect(daemon)
            writer.write(replaced(frame(3), 36, bytes(16)))
            assert (await reader.readexactly(572))[:4] == b"\x10\x5a\x0b\x00"
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()

        assert Config().listen.port == TCP_PORT
        play(scene)

    @pytest.mark.conformance("MQQB-002")
    def test_are_made_to_1801(self, play: Play) -> None:
        async def scene(daemon: Daemon) -> None:
            packet = await first_packet_there(daemon)
            assert packet[8:12] == (572).to_bytes(4, "little")
            assert packet[20:36] == encode_guid(daemon.engine.queue_manager.identifier)

        play(scene)


class TestPings:
    """2.1.2."""

    @pytest.mark.conformance("MQQB-026")
    def test_are_neither_sent_nor_heard_by_default(self, play: Play) -> None:
        async def scene(daemon: Daemon) -> None:
            with datagrams(THERE, UDP_PORT) as other, datagrams(HERE, UDP_PORT):  # the port is free
                await first_packet_there(daemon)
                with pytest.raises(BlockingIOError):
                    other.recv(100)

        play(scene)

    @pytest.mark.conformance("MQQB-026", "MQQB-027")
    def test_are_answered_on_3527(self, play: Play) -> None:
        async def scene(daemon: Daemon) -> None:
            loop = asyncio.get_running_loop()
            with datagrams(THERE, 0) as client:
                client.sendto(frame(1), (HERE, UDP_PORT))
                data, source = await loop.sock_recvfrom(client, 100)
                assert source == (HERE, UDP_PORT)
                assert data[4:8] == b"\4\0\0\0"
                assert data[8:] == encode_guid(daemon.engine.queue_manager.identifier)

        play(scene, binary={"ping": True})

    @pytest.mark.conformance("MQQB-025")
    @pytest.mark.parametrize("port", [UDP_PORT, 4527])
    def test_go_out_to_the_port_of_the_service(self, play: Play, port: int) -> None:
        async def scene(daemon: Daemon) -> None:
            loop = asyncio.get_running_loop()
            with datagrams(THERE, port) as service:

                async def answer() -> None:
                    data, source = await loop.sock_recvfrom(service, 100)
                    assert (len(data), data[4:8]) == (24, b"\1\0\0\0")
                    service.sendto(replaced(data, 0, b"\0\0"), source)

                packet = await first_packet_there(daemon, answer)
                assert packet[56:58] == b"\x10\x00"  # there was a ping

        play(scene, binary={"ping": True, "ping_port": port})
