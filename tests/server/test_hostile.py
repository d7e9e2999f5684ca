"""Peers that send garbage, too much, too little or nothing: each costs little and disturbs nobody."""

import asyncio
import random
import socket
import struct
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

import tiercel
from tiercel.engine.belief import Doubt
from tiercel.engine.engine import Engine
from tiercel.model.codes import QueueAccess
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import NULL_GUID, MessageId, TxSequenceId
from tiercel.model.message import Message
from tiercel.server.config import LimitOptions
from tiercel.server.daemon import Daemon
from tiercel.wire.internal_packets import (
    ConnectionParameters,
    ConnectionParametersHeader,
    EstablishConnection,
    EstablishConnectionHeader,
    SessionAck,
)
from tiercel.wire.message import encode_message
from tiercel.wire.order_ack import build_order_ack

from .scripted import PATIENCE_S, Streams, configured, connect, ended

Scene = Callable[[Daemon], Awaitable[None]]
Play = Callable[..., None]

SIGNATURE = b"LIOR"
ESTABLISH_SIZE = 572
PARAMETERS_SIZE = 32


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Runs a scene against a daemon with the real protocol, and sees that it still works afterwards."""

    async def main(scene: Scene, sections: dict[str, Any]) -> None:
        async with asyncio.timeout(PATIENCE_S), Daemon(configured(tmp_path, **sections)) as daemon:
            path = tiercel.PathName.parse(r".\private$\orders")
            state = await daemon.call(lambda engine: engine.queues.create(path, daemon.driver.owner))
            await scene(daemon)
            assert daemon.failure is None
            daemon.network.limits = LimitOptions()  # a short patience was for the scene
            before = state.count
            _, writer = await greeted(daemon, "127.0.0.77")
            writer.write(user_message())
            await until(lambda: state.count == before + 1)
            writer.close()

    return lambda scene, **sections: asyncio.run(main(scene, sections))


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110  # it may be about anything
        await asyncio.sleep(0.001)


def head(size: int, *, version: int = 0x10, flags: int = 3, signature: bytes = SIGNATURE) -> bytes:
    return struct.pack("<BBH4sII", version, 0, flags, signature, size, 0xFFFF_FFFF)


def establish(server: UUID = NULL_GUID) -> bytes:
    return EstablishConnection.of(EstablishConnectionHeader(uuid4(), server)).encode()


async def greeted(daemon: Daemon, source: str | None = None) -> Streams:
    """A peer with an open session."""
    reader, writer = await connect(daemon, source)
    writer.write(establish())
    answer = await reader.readexactly(ESTABLISH_SIZE)
    assert answer[4:8] == SIGNATURE
    writer.write(ConnectionParameters.of(ConnectionParametersHeader(500, 20_000)).encode())
    await reader.readexactly(PARAMETERS_SIZE)
    return reader, writer


def user_message(body: bytes = b"hello", **properties: Any) -> bytes:
    message = Message(body, **properties)
    message.id = MessageId(uuid4(), 7)
    message.sent_time = int(time.time())
    message.destination_queue = FormatName.parse(r"DIRECT=TCP:127.0.0.1\private$\orders")
    return encode_message(message)


def garbage(seed: int) -> bytes:
    return random.Random(seed).randbytes(2000)


class TestForgery:
    def test_acknowledgements_of_messages_that_were_not_sent_change_nothing(
        self, play: Play, caplog: pytest.LogCaptureFixture
    ) -> None:
        """They are counted, the log has a line or two, and the session ends."""
        caplog.set_level("INFO", "tiercel")
        far = FormatName.parse(r"DIRECT=TCP:203.0.113.1\private$\orders")

        async def scene(daemon: Daemon) -> None:
            def send(engine: Engine) -> None:
                transaction = engine.transactions.begin()
                opened = engine.opening.open(far, QueueAccess.SEND, token=daemon.driver.owner)
                engine.sending.send(opened, Message(b"waits"), transaction=transaction)
                engine.transactions.commit(transaction.id)

            await daemon.call(send)
            (queue,) = daemon.engine.outgoing.queues()
            sequence = daemon.engine.outgoing.stream(queue).sequence
            reader, writer = await greeted(daemon)
            own = daemon.engine.queue_manager.identifier
            for number in range(150):
                guess = sequence if number % 2 else (int(time.time()) << 32 | number)
                ack = build_order_ack(MessageId(uuid4(), number + 1), int(time.time()), own, guess, 1)
                writer.write(ack.data)
            await ended(reader)
            writer.close()
            assert queue.count == 1
            doubts = daemon.protocol.doubts
            assert doubts == {Doubt.NOT_SENT: 50, Doubt.UNKNOWN_SEQUENCE: 51}

        play(scene)
        assert 1 <= sum(record.getMessage() == "not_believed" for record in caplog.records) < 20

    def test_many_strangers_leave_one_kind_of_line(
        self, play: Play, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Each claims to be somebody else: the log counts by reason, which they cannot invent."""
        caplog.set_level("INFO", "tiercel")

        async def scene(daemon: Daemon) -> None:
            for _ in range(20):
                _, writer = await greeted(daemon)
                writer.write(
                    user_message(transaction_id=1, tx_sequence_id=TxSequenceId(1, 1), tx_sequence_number=1)
                )
                await writer.drain()
                writer.close()
            await until(lambda: daemon.protocol.doubts[Doubt.FOREIGN_SENDER] == 20)

        play(scene)
        told = [vars(record)["tiercel_fields"] for record in caplog.records if record.msg == "not_believed"]
        assert {each["reason"] for each in told} == {f"message: {Doubt.FOREIGN_SENDER.meaning}"}
        assert told[0]["address"] == "127.0.0.1"


class TestGarbage:
    @pytest.mark.parametrize(
        "data",
        [
            garbage(1),
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"\x16\x03\x01\x02\x00" + garbage(2),  # TLS
            bytes(100),
            b"\xff" * 100,
            head(0) + bytes(100),
            head(15),
            head(0xFFFF_FFFF),  # 4 GiB
            head(4 * 2**20 + 1),
            head(4 * 2**20),  # allowed, but not before there is a session
            head(1025, flags=0x08),
            head(100, version=0x11) + bytes(84),
            head(100, signature=b"ROIL") + bytes(84),
            establish()[:200] + garbage(3),
            user_message(),  # before there is a session
            SessionAck.of(SessionAck.HEADER()).encode(),
        ],
        ids=lambda data: data[:12].hex(),
    )
    def test_before_a_session_ends_the_connection(self, data: bytes, play: Play) -> None:
        async def scene(daemon: Daemon) -> None:
            reader, writer = await connect(daemon)
            writer.write(data)
            await ended(reader)
            writer.close()
            await until(lambda: not daemon.network.connections)

        play(scene)

    @pytest.mark.parametrize("seed", range(8))
    def test_after_a_session_was_made(self, seed: int, play: Play) -> None:
        async def scene(daemon: Daemon) -> None:
            chance = random.Random(seed)
            reader, writer = await greeted(daemon)
            good = user_message(b"x" * 100, label="label")
            spoiled = bytearray(good)
            for _ in range(chance.randrange(1, 20)):
                spoiled[chance.randrange(16, len(good))] = chance.randrange(256)
            writer.write(bytes(spoiled) + head(0xFFFF_FFFF))
            await ended(reader)
            writer.close()
            await until(lambda: not daemon.network.connections)

        play(scene)


class TestSlowness:
    def test_half_a_packet_for_ever(self, play: Play) -> None:
        async def scene(daemon: Daemon) -> None:
            reader, writer = await connect(daemon)
            writer.write(establish()[:300])
            assert await ended(reader) == b""
            writer.close()

        play(scene, limits={"handshake_s": 0.1})

    def test_a_byte_at_a_time_buys_no_time(self, play: Play) -> None:
        async def scene(daemon: Daemon) -> None:
            reader, writer = await connect(daemon)
            end = asyncio.ensure_future(ended(reader))
            for byte in establish()[:-1]:
                writer.write(bytes([byte]))
                await asyncio.sleep(0.002)
                if end.done():
                    break
            assert await end == b""
            writer.close()

        play(scene, limits={"handshake_s": 0.1})

    def test_many_silent_peers_cost_little(self, play: Play) -> None:
        """Each may hold a socket and a little memory until the time-out; never a packet of 4 MiB."""

        async def scene(daemon: Daemon) -> None:
            before = tracemalloc.get_traced_memory()[0]
            streams = [await connect(daemon, f"127.0.3.{number % 50 + 1}") for number in range(150)]
            for _, writer in streams:
                writer.write(establish()[:500])
            await until(lambda: len(daemon.network.connections) == 150)
            grown = tracemalloc.get_traced_memory()[0] - before
            assert grown < 150 * 100_000  # both ends are in this process
            for _, writer in streams:
                writer.close()
            await until(lambda: not daemon.network.connections)

        tracemalloc.start()
        try:
            play(scene)
        finally:
            tracemalloc.stop()


class TestResets:
    def test_garbage_and_then_a_reset(self, play: Play) -> None:
        """The reset may come before, with or after our own close; none of it may end the daemon."""

        async def scene(daemon: Daemon) -> None:
            loop, port = asyncio.get_running_loop(), daemon.endpoints[0].port
            for turn in range(40):
                with socket.socket() as peer:
                    peer.setblocking(False)
                    await loop.sock_connect(peer, (daemon.endpoints[0].host, port))
                    await loop.sock_sendall(peer, garbage(turn))
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    for _ in range(turn % 8):
                        await asyncio.sleep(0)
            await until(lambda: not daemon.network.connections)
            assert daemon.failure is None

        play(scene)


class TestFloods:
    def test_of_connections(self, play: Play) -> None:
        """Two thousand of them, over a limit of twenty."""

        async def scene(daemon: Daemon) -> None:
            reader, writer = await greeted(daemon, "127.0.0.9")
            most = 0
            for _ in range(20):
                streams = await asyncio.gather(*(connect(daemon, "127.0.0.8") for _ in range(100)))
                most = max(most, len(daemon.network.connections))
                for _, each in streams:
                    each.transport.abort()
            assert most <= 11
            writer.write(user_message())
            await until(lambda: sum(queue.count for queue in daemon.engine.queues.all()) == 1)
            assert not reader.at_eof()
            writer.close()

        play(scene, limits={"connections": 20, "connections_per_address": 10})

    def test_of_messages_nobody_reads_the_answers_of(self, play: Play) -> None:
        """They are taken; what we say to it is bounded, and others are served meanwhile."""

        async def scene(daemon: Daemon) -> None:
            _, deaf = await greeted(daemon)
            deaf.transport.pause_reading()  # type: ignore[attr-defined]
            for _ in range(50):
                deaf.write(b"".join(user_message(b"x") for _ in range(40)))
                _, writer = await greeted(daemon, "127.0.0.9")
                writer.close()
            await until(lambda: sum(queue.count for queue in daemon.engine.queues.all()) == 2000)
            deaf.transport.abort()

        play(scene)

    def test_of_establish_connections(self, play: Play) -> None:
        """A second greeting is against the rules, and ends it."""

        async def scene(daemon: Daemon) -> None:
            reader, writer = await connect(daemon)
            writer.write(establish() * 1000)
            assert len(await ended(reader)) <= ESTABLISH_SIZE
            writer.transport.abort()

        play(scene)


class TestProbes:
    """The public probes for this port get the answers that they know real servers by."""

    def test_a_greeting_for_somebody_else(self, play: Play) -> None:
        async def scene(daemon: Daemon) -> None:
            reader, writer = await connect(daemon)
            writer.write(establish(server=UUID(int=1)))
            answer = await ended(reader)
            assert answer.startswith(bytes.fromhex("10 5A 0B 00 4C 49 4F 52 3C 02 00 00 FF FF FF FF"))
            assert len(answer) == ESTABLISH_SIZE
            writer.close()

        play(scene)
