"""The sockets, real ones on loopback, under a scripted protocol: what is performed, and what is bounded."""

import asyncio
import errno
import fcntl
import logging
import os
import socket
import sys
import termios
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tiercel.binary.actions import Action, Dial, Resolve, SendDatagram, SessionEvent
from tiercel.engine.machine import Close, Write
from tiercel.model.codes import ConnectionStatus
from tiercel.server.config import Endpoint
from tiercel.server.daemon import Daemon

from .scripted import configured, connect, echo, ended, scripted

Scene = Callable[[Daemon, Any], Awaitable[None]]
Play = Callable[..., None]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    async def main(scene: Scene, sections: dict[str, Any]) -> None:
        async with scripted(configured(tmp_path, **sections)) as (daemon, protocol):
            await scene(daemon, protocol)

    return lambda scene, **sections: asyncio.run(main(scene, sections))


async def do(daemon: Daemon, *actions: Action) -> None:
    protocol: Any = daemon.protocol
    await daemon.call(lambda _: protocol.do(*actions))


def wait_for_bytes(sock: socket.socket, count: int) -> None:
    """Until so many can be read; meanwhile the loop, which would read them, stands still."""
    waiting = bytearray(4)
    while int.from_bytes(waiting, sys.byteorder) < count:
        fcntl.ioctl(sock.fileno(), termios.FIONREAD, waiting)


class TestAccepted:
    def test_speaks_and_ends(self, play: Play) -> None:
        async def scene(daemon: Daemon, protocol: Any) -> None:
            protocol.answer = echo
            reader, writer = await connect(daemon, "127.0.0.9")
            assert await protocol.until_input("accepted") == ("accepted", 1, "127.0.0.9")
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            writer.close()
            await protocol.until_input("disconnected", 1)
            await protocol.until(lambda: not daemon.network.connections)

        play(scene)

    def test_bytes_that_come_with_the_end_are_not_lost(self, play: Play) -> None:
        async def scene(daemon: Daemon, protocol: Any) -> None:
            _, writer = await connect(daemon)
            writer.write(b"last words")
            writer.close()
            await protocol.until_input("disconnected", 1)
            kinds = [each[0] for each in protocol.inputs]
            assert kinds == ["start", "accepted", "received", "disconnected"]
            assert protocol.received_bytes(1) == b"last words"

        play(scene)

    def test_has_no_delay(self, play: Play) -> None:
        async def scene(daemon: Daemon, protocol: Any) -> None:
            _, writer = await connect(daemon)
            await protocol.until_input("accepted", 1)
            [connection] = daemon.network.connections
            raw = connection.transport.get_extra_info("socket")
            assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            writer.close()

        play(scene)


class TestWrites:
    def test_to_one_connection_go_in_one_piece(self, play: Play) -> None:
        async def scene(daemon: Daemon, protocol: Any) -> None:
            streams = [await connect(daemon), await connect(daemon)]
            await protocol.until_input("accepted", 2)
            written: list[tuple[int | None, bytes]] = []
            for connection in daemon.network.connections:
                write, number = connection.write, connection.number

                def note(data: Any, number: Any = number, write: Any = write) -> None:
                    written.append((number, data))
                    write(data)

                connection.write = note  # type: ignore[method-assign]
            await do(daemon, Write(1, b"a"), Write(2, b"x"), Write(1, b"b"), Write(7, b"?"), Write(1, b"c"))
            assert written == [(1, b"abc"), (2, b"x")]
            assert await streams[0][0].readexactly(3) == b"abc"
            for _, writer in streams:
                writer.close()

        play(scene)

    def test_a_peer_that_does_not_read_is_told_of(self, play: Play) -> None:
        async def scene(daemon: Daemon, protocol: Any) -> None:
            reader, writer = await connect(daemon)
            await protocol.until_input("accepted", 1)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await do(daemon, Write(1, bytes(32 << 20)))
            assert ("writable", 1, False) in protocol.inputs  # before anything else can be sent
            [connection] = daemon.network.connections
            assert connection.transport.is_reading()
            writer.write(b"still heard")
            await protocol.until(lambda: protocol.received_bytes(1) == b"still heard")
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            assert await reader.readexactly(32 << 20)
            await protocol.until_input("writable", 1, True)
            writer.close()

        play(scene, limits={"write_buffer_bytes": 65536})

    def test_a_peer_that_never_reads_is_cut_off(self, play: Play, caplog: pytest.LogCaptureFixture) -> None:
        """What piles up for it is bounded, and the others go on."""

        async def scene(daemon: Daemon, protocol: Any) -> None:
            protocol.answer = echo
            _, deaf = await connect(daemon)
            await protocol.until_input("accepted", 1)
            [connection] = daemon.network.connections
            largest = 0
            write = connection.write

            def note(data: bytes) -> None:
                nonlocal largest
                write(data)
                largest = max(largest, connection.transport.get_write_buffer_size())

            connection.write = note  # type: ignore[method-assign]
            deaf.transport.pause_reading()  # type: ignore[attr-defined]
            deaf.write(bytes(64 << 20))
            await protocol.until_input("disconnected", 1)
            one_batch = daemon.network.limits.batch_bytes + 262144  # it ends with the read that fills it
            assert largest < one_batch + 2 * 65536
            reader, writer = await connect(daemon)
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            writer.close()
            deaf.transport.abort()

        play(scene, limits={"write_buffer_bytes": 65536})
        assert "peer_does_not_read" in caplog.text


class TestClose:
    def test_comes_after_everything_written(self, play: Play) -> None:
        async def scene(daemon: Daemon, protocol: Any) -> None:
            protocol.answer = echo
            reader, writer = await connect(daemon)
            await protocol.until_input("accepted", 1)
            writer.write(b"bye")
            assert await ended(reader) == b"goodbye"
            writer.write(b"more")  # is not wanted any more, and makes nothing worse
            writer.close()
            await protocol.until(lambda: not daemon.network.connections)
            assert [each[0] for each in protocol.inputs] == ["start", "accepted", "received"]

        play(scene)

    def test_the_last_words_arrive_though_the_peer_had_more_to_say(self, play: Play) -> None:
        """Bytes that nobody read must not make the kernel take our answer back."""

        async def scene(daemon: Daemon, protocol: Any) -> None:
            def answer(*event: Any) -> list[Action]:
                return [Write(1, b"no"), Close(1)] if event[0] == "received" else []

            protocol.answer = answer
            reader, writer = await connect(daemon)
            writer.write(bytes(4 << 20))
            assert await reader.read() == b"no"  # and no reset, which may overtake the answer
            await writer.drain()
            writer.close()
            await protocol.until(lambda: not daemon.network.connections)

        play(scene)

    def test_a_peer_that_never_goes_is_cut_off(self, play: Play) -> None:
        async def scene(daemon: Daemon, protocol: Any) -> None:
            _, writer = await connect(daemon)
            await protocol.until_input("accepted", 1)
            await do(daemon, Write(1, bytes(32 << 20)), Close(1))
            await protocol.until(lambda: not daemon.network.connections)
            writer.transport.abort()

        play(scene, limits={"close_s": 0})

    def test_of_what_is_not_there(self, play: Play) -> None:
        async def scene(daemon: Daemon, _protocol: Any) -> None:
            await do(daemon, Close(1), Write(1, b"x"), Close(1))
            assert daemon.failure is None

        play(scene)


class TestLimits:
    def test_of_all_connections(self, play: Play, caplog: pytest.LogCaptureFixture) -> None:
        async def scene(daemon: Daemon, protocol: Any) -> None:
            protocol.answer = echo
            kept = [await connect(daemon) for _ in range(3)]
            await protocol.until(lambda: len(daemon.network.connections) == 3)
            for _ in range(200):
                reader, writer = await connect(daemon)
                assert await ended(reader) == b""
                writer.close()
            assert len(daemon.network.connections) == 3
            assert sum(each[0] == "accepted" for each in protocol.inputs) == 3
            for reader, writer in kept:
                writer.write(b"hello")
                assert await reader.readexactly(5) == b"hello"
            kept[0][1].close()
            await protocol.until(lambda: len(daemon.network.connections) == 2)
            reader, writer = await connect(daemon)
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            for _, each in (*kept, (reader, writer)):
                each.close()
            await protocol.until(lambda: "connections_turned_away" in caplog.text)

        with caplog.at_level(logging.INFO):
            play(scene, limits={"connections": 3})
        assert caplog.text.count("connections_turned_away") <= 200

    def test_a_newcomer_replaces_the_idle_and_strangers_first(
        self, play: Play, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The first one has carried something, and is the longest silent."""

        async def scene(daemon: Daemon, protocol: Any) -> None:
            protocol.answer = echo
            reader, writer = await connect(daemon)
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            kept = [(reader, writer), await connect(daemon), await connect(daemon)]
            await protocol.until(lambda: len(daemon.network.connections) == 3)
            newcomers = []
            for stranger in (1, 2):
                newcomers.append(await connect(daemon))
                newcomers[-1][1].write(b"hello")
                assert await newcomers[-1][0].readexactly(5) == b"hello"
                assert await ended(kept[stranger][0]) == b""
            assert len(daemon.network.connections) == 3
            newcomers.append(await connect(daemon))
            assert await ended(reader) == b""
            assert daemon.network.failures["evicted"] == 3
            for _, each in (*kept, *newcomers):
                each.close()

        with caplog.at_level(logging.INFO):
            play(scene, limits={"connections": 3, "idle_s": 0})
        assert "connections_evicted" in caplog.text

    def test_of_one_address(self, play: Play) -> None:
        async def scene(daemon: Daemon, protocol: Any) -> None:
            protocol.answer = echo
            kept = [await connect(daemon, "127.0.0.9") for _ in range(2)]
            await protocol.until(lambda: len(daemon.network.connections) == 2)
            reader, writer = await connect(daemon, "127.0.0.9")
            assert await ended(reader) == b""
            writer.close()
            reader, other = await connect(daemon, "127.0.0.8")
            other.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            for _, each in kept:
                each.close()
            other.close()
            await protocol.until(lambda: not daemon.network.connections)

        play(scene, limits={"connections_per_address": 2})

    def test_of_the_time_without_a_session(self, play: Play, caplog: pytest.LogCaptureFixture) -> None:
        async def scene(daemon: Daemon, protocol: Any) -> None:
            reader, writer = await connect(daemon)
            assert await ended(reader) == b""
            await protocol.until_input("disconnected", 1)
            writer.close()

        play(scene, limits={"handshake_s": 0.05})
        assert "session_refused" in caplog.text

    def test_a_session_is_not_cut_off(self, play: Play) -> None:
        async def scene(daemon: Daemon, protocol: Any) -> None:
            protocol.answer = echo
            _, writer = await connect(daemon)
            await protocol.until_input("accepted", 1)
            [connection] = daemon.network.connections
            assert connection._timer is None
            writer.close()

        play(scene)


class TestDial:
    def test_reaches_another_from_where_we_listen(self, play: Play) -> None:
        async def scene(daemon: Daemon, protocol: Any) -> None:
            sources: asyncio.Queue[str] = asyncio.Queue()

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                sources.put_nowait(writer.get_extra_info("peername")[0])
                writer.write(await reader.readexactly(5))
                writer.close()

            async with await asyncio.start_server(serve, "127.0.0.3", 0) as server:
                port = server.sockets[0].getsockname()[1]
                await do(daemon, Dial(77, "127.0.0.3", port))
                await protocol.until_input("connected", 77)
                await do(daemon, Write(77, b"hello"))
                await protocol.until_input("disconnected", 77)
                assert protocol.received_bytes(77) == b"hello"
                assert sources.get_nowait() == "127.0.0.2"

        play(scene, listen={"host": "127.0.0.2", "port": 0})

    def test_that_is_refused(self, play: Play) -> None:
        async def scene(daemon: Daemon, protocol: Any) -> None:
            with socket.socket() as unused:
                unused.bind(("127.0.0.3", 0))
                await do(daemon, Dial(77, "127.0.0.3", unused.getsockname()[1]))
                failed = await protocol.until_input("connect_failed")
            assert failed[1:] == (77, ConnectionStatus.CONNECTION_REFUSED, 0x8007_274D)

        play(scene)

    @pytest.mark.conformance("DMPR-057")
    @pytest.mark.parametrize(
        ("number", "status", "code"),
        [
            (errno.ECONNREFUSED, ConnectionStatus.CONNECTION_REFUSED, 0x8007_274D),
            (errno.EADDRINUSE, ConnectionStatus.SOCKET_BIND_FAILURE, 0x8007_2740),
            (errno.EADDRNOTAVAIL, ConnectionStatus.SOCKET_BIND_FAILURE, 0x8007_2741),
            (errno.EMFILE, ConnectionStatus.SOCKET_CREATE_FAILURE, 0x8007_2728),
            (errno.ENOBUFS, ConnectionStatus.LOW_RESOURCE, 0x8007_2747),
            (errno.EHOSTUNREACH, ConnectionStatus.SOCKET_CONNECT_FAILURE, 0x8007_2751),
            (errno.EPERM, ConnectionStatus.SOCKET_CONNECT_FAILURE, 0x8000_4005),
        ],
    )
    def test_the_history_has_a_status_and_a_code_for_each_failure(
        self, play: Play, monkeypatch: pytest.MonkeyPatch, number: int, status: ConnectionStatus, code: int
    ) -> None:
        """What a kernel cannot be made to answer on demand is answered for it."""

        async def scene(daemon: Daemon, protocol: Any) -> None:
            async def fail(*_: object, **__: object) -> None:
                raise OSError(number, os.strerror(number))

            monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", fail)
            await do(daemon, Dial(77, "127.0.0.3", 1801))
            assert (await protocol.until_input("connect_failed"))[1:] == (77, status, code)

        play(scene)

    @pytest.mark.parametrize("address", ["no address", "1.2.3.4:99999", ""])
    def test_of_nonsense_fails(self, address: str, play: Play) -> None:
        async def scene(daemon: Daemon, protocol: Any) -> None:
            await do(daemon, Dial(77, address, 1801))
            await protocol.until_input("connect_failed", 77)

        play(scene)

    def test_that_takes_too_long(self, play: Play) -> None:
        async def scene(daemon: Daemon, protocol: Any) -> None:
            with socket.socket() as full:  # a listener that takes nobody, with a full backlog
                full.bind(("127.0.0.3", 0))
                full.listen(0)
                blockers = []
                for _ in range(4):
                    blocker = socket.socket()
                    blocker.setblocking(False)
                    with suppress(BlockingIOError):
                        blocker.connect(full.getsockname())
                    blockers.append(blocker)
                await do(daemon, Dial(77, *full.getsockname()))
                await protocol.until_input("connect_failed", 77)
                for blocker in blockers:
                    blocker.close()

        play(scene, limits={"connect_s": 0.05})

    def test_that_is_given_up(self, play: Play) -> None:
        """A close of what is being dialled leaves nothing behind, whenever it comes."""

        async def scene(daemon: Daemon, protocol: Any) -> None:
            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await ended(reader)
                writer.close()

            async with await asyncio.start_server(serve, "127.0.0.3", 0) as server:
                port = server.sockets[0].getsockname()[1]
                await do(daemon, Dial(77, "127.0.0.3", port), Close(77))
                await do(daemon, Dial(78, "127.0.0.3", port))
                await do(daemon, Close(78))
                await do(daemon, Dial(79, "127.0.0.3", port))
                await protocol.until_input("connected", 79)
                await do(daemon, Close(79))
                await protocol.until(lambda: not daemon.network.connections and not daemon.network._tasks)
                assert not daemon.network._by_number
                assert not daemon.network._dials
                assert ("disconnected", 79) not in protocol.inputs

        play(scene)


class TestResolve:
    def test_asks_the_configuration_first(self, play: Play) -> None:
        async def scene(daemon: Daemon, protocol: Any) -> None:
            await do(daemon, Resolve("Server-A"))
            assert await protocol.until_input("resolved") == ("resolved", "Server-A", ["127.0.0.3"])
            await do(daemon, Resolve("server-b"))
            assert await protocol.until_input("resolved", "server-b") == (
                "resolved",
                "server-b",
                ["127.0.0.4:2801"],
            )
            resolver = daemon.network.resolver
            assert resolver.endpoint("127.0.0.4:2801", 1801) == Endpoint("127.0.0.4", 2801)
            assert resolver.endpoint("127.0.0.3", 1801) == Endpoint("127.0.0.3", 1801)
            assert resolver.endpoint("127.0.0.5", 1801) == Endpoint("127.0.0.5", 99)

        hosts = {
            "server-a": Endpoint("127.0.0.3"),
            "server-b": Endpoint("127.0.0.4", 2801),
            "127.0.0.5": Endpoint("127.0.0.5", 99),
        }
        play(scene, hosts=hosts)

    def test_asks_the_system(self, play: Play) -> None:
        def answer(host: str, *_arguments: Any, **_options: Any) -> list[Any]:
            if host == "nobody":
                raise socket.gaierror(-2, "unknown")
            return [
                (0, 0, 0, "", ("127.0.0.5", 0)),
                (0, 0, 0, "", ("127.0.0.5", 0)),
                (0, 0, 0, "", ("::1", 0)),
            ]

        async def scene(daemon: Daemon, protocol: Any) -> None:
            await do(daemon, Resolve("somebody"), Resolve("nobody"))
            assert (await protocol.until_input("resolved", "somebody"))[2] == ["127.0.0.5", "::1"]
            assert (await protocol.until_input("resolved", "nobody"))[2] == []

        with patch("tiercel.server.resolver.socket.getaddrinfo", answer):
            play(scene)

    def test_what_is_no_name_at_all(self, play: Play) -> None:
        async def scene(daemon: Daemon, protocol: Any) -> None:
            await do(daemon, Resolve("\udc80" * 3), Resolve("x" * 300), Resolve(""), Resolve("a..b"))
            await protocol.until(lambda: sum(each[0] == "resolved" for each in protocol.inputs) == 4)

        play(scene)


class TestPing:
    def test_only_when_it_is_wanted(self, play: Play) -> None:
        async def scene(daemon: Daemon, _protocol: Any) -> None:
            assert daemon.network._pings is None
            await do(daemon, SendDatagram("127.0.0.1", 9, b"x", is_reply=True))
            await do(daemon, SendDatagram("127.0.0.1", 9, b"x", is_reply=False))

        play(scene)

    def test_goes_both_ways(self, play: Play) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.6", 0))
            port = probe.getsockname()[1]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
            peer.bind(("127.0.0.7", 0))
            peer.setblocking(False)

            async def scene(daemon: Daemon, protocol: Any) -> None:
                own = peer.getsockname()
                loop = asyncio.get_running_loop()
                peer.sendto(bytes(2000), ("127.0.0.6", port))  # no ping is that long
                peer.sendto(b"asked", ("127.0.0.6", port))
                assert await protocol.until_input("datagram") == ("datagram", *own, b"asked", False)
                await do(daemon, SendDatagram(own[0], own[1], b"reply", is_reply=True))
                assert await loop.sock_recvfrom(peer, 100) == (b"reply", ("127.0.0.6", port))
                await do(daemon, SendDatagram(own[0], own[1], b"question", is_reply=False))
                data, (host, questions) = await loop.sock_recvfrom(peer, 100)
                assert (data, host) == (b"question", "127.0.0.6")
                assert questions != port
                peer.sendto(b"answer", (host, questions))
                await protocol.until_input("datagram", *own, b"answer", True)

            play(scene, listen={"host": "127.0.0.6", "port": 0}, binary={"ping": True, "ping_port": port})


class TestTheEnd:
    def test_commits_what_has_arrived(self, play: Play) -> None:
        async def scene(daemon: Daemon, protocol: Any) -> None:
            def answer(*event: Any) -> list[Action]:
                return [Close(1)] if event[0] == "stop" else []

            protocol.answer = answer
            reader, writer = await connect(daemon)
            await protocol.until_input("accepted", 1)
            writer.write(b"in the kernel")
            [connection] = daemon.network.connections
            wait_for_bytes(connection.transport.get_extra_info("socket"), 13)
            stopping = asyncio.ensure_future(daemon.stop())
            await ended(reader)
            writer.close()
            await stopping
            assert protocol.received_bytes(1) == b"in the kernel"
            assert protocol.inputs[-1] == ("stop",)

        play(scene)

    def test_takes_nobody_any_more(self, play: Play) -> None:
        async def scene(daemon: Daemon, _protocol: Any) -> None:
            await daemon.stop()
            with pytest.raises(OSError, match=r"refused|Connect call failed"):
                await connect(daemon)
            await daemon.stop()

        play(scene)

    def test_does_not_wait_for_a_peer_for_ever(self, play: Play) -> None:
        async def scene(daemon: Daemon, protocol: Any) -> None:
            _, writer = await connect(daemon)
            await protocol.until_input("accepted", 1)
            await daemon.stop(seconds=0.01)
            assert not daemon.network.connections
            writer.close()

        play(scene)


def test_what_becomes_of_sessions_is_in_the_log(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    async def scene(daemon: Daemon, _protocol: Any) -> None:
        await do(daemon, SessionEvent(1, "opened", "10.0.0.1"), SessionEvent(2, "refused", "10.0.0.2"))

    with caplog.at_level(logging.INFO):
        play(scene)
    names = [record.message for record in caplog.records if record.name == "tiercel"]
    assert names == ["start", "session_opened", "session_refused", "stop"]


def test_sessions_that_come_and_go_do_not_fill_the_log(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    async def scene(daemon: Daemon, _protocol: Any) -> None:
        await do(daemon, *(SessionEvent(number, "closed", "10.0.0.1") for number in range(1000)))

    with caplog.at_level(logging.INFO):
        play(scene)
    assert 50 <= sum(record.message == "session_closed" for record in caplog.records) <= 200
