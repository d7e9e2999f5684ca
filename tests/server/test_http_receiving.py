"""HTTP clients of a daemon, over real sockets: every answer that they can get, and when it leaves."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import tiercel
from addresses import own_address
from certificates import Authority
from srmp.vectors import load, read
from tiercel.binary.settings import Peer
from tiercel.engine.queue_state import QueueState
from tiercel.model.errors import StoreFailedError
from tiercel.server.daemon import Daemon
from tiercel.srmp.envelope import Services
from tiercel.srmp.request import write_srmp
from tiercel.store.lmdb_store import LmdbBatch

from .scripted import PATIENCE_S, Streams, configured, ended

Scene = Callable[[Daemon, QueueState], Awaitable[None]]
Play = Callable[..., None]

HOST = own_address(2)
MESSAGE = load("02_msmq_element")
HEAD, _, BODY = MESSAGE.partition(b"\r\n\r\n")
WRITERS: list[asyncio.StreamWriter] = []
CLOSE = HEAD + b"\r\nConnection: close\r\n\r\n" + BODY


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Runs a scene against a daemon that has the queue of the message, and sees that it still works."""

    async def main(scene: Scene, srmp: dict[str, Any], sections: dict[str, Any]) -> None:
        options = {
            "enabled": True,
            "host": HOST,
            "port": 0,
            "https_port": 0,
            "aliases": ("machine2",),
            **srmp,
        }
        config = configured(tmp_path, srmp=options, **sections)
        async with asyncio.timeout(PATIENCE_S), Daemon(config) as daemon:
            path = tiercel.PathName.parse(r".\private$\simpleq")
            state = await daemon.call(lambda engine: engine.queues.create(path, daemon.driver.owner))
            try:
                await scene(daemon, state)
            finally:
                await close_all()
            assert daemon.failure is None

    return lambda scene, srmp=(), **sections: asyncio.run(main(scene, dict(srmp), sections))


def durable(number: int) -> bytes:
    """A message that the store keeps."""
    request = read("02_msmq_element")
    path = replace(request.envelope.path, id=request.envelope.path.id._replace(uniquifier=number))
    envelope = replace(request.envelope, path=path, services=Services(durable=True))
    return write_srmp(envelope, b"body").encode()


async def close_all() -> None:
    while WRITERS:
        writer = WRITERS.pop()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def connect(daemon: Daemon, *, tls: ssl.SSLContext | None = None, source: str = HOST) -> Streams:
    assert daemon.http is not None
    port = daemon.http.https_port if tls else daemon.http.port
    return await opened(port, source, tls)


async def opened(port: int, source: str = HOST, tls: ssl.SSLContext | None = None) -> Streams:
    """A connection that ends with the scene."""
    reader, writer = await asyncio.open_connection(HOST, port, local_addr=(source, 0), ssl=tls)
    WRITERS.append(writer)
    return reader, writer


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Status and text of the next answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    return int(head.split()[1]), await reader.readexactly(length)


async def post(daemon: Daemon, data: bytes, **options: Any) -> int:
    reader, writer = await connect(daemon, **options)
    writer.write(data)
    status, _ = await answer(reader)
    writer.close()
    return status


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110  # it may be about anything
        await asyncio.sleep(0.001)


class TestAnswers:
    def test_a_message_is_taken_and_kept(self, play: Play) -> None:
        async def scene(daemon: Daemon, queue: QueueState) -> None:
            assert await post(daemon, MESSAGE) == 200
            assert queue.count == 1

        play(scene)

    @pytest.mark.parametrize(
        ("data", "status"),
        [
            (b"GET /msmq/private$/simpleq HTTP/1.1\r\nHost: x\r\n\r\n", 405),
            (b"POST /private$/simpleq HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 404),
            (b"hello\r\n\r\n", 400),
            (HEAD + b"\r\nContent-Length: 1\r\n\r\n" + BODY, 400),
            (HEAD.replace(b"Content-Length: ", b"Content-Length: 9999") + b"\r\n\r\n" + BODY, 400),
            (MESSAGE.replace(b"simpleQ</to>", b"another</to>").replace(b"1272", b"1272"), 400),
        ],
    )
    def test_everything_else_gets_the_usual_ones(self, play: Play, data: bytes, status: int) -> None:
        async def scene(daemon: Daemon, queue: QueueState) -> None:
            assert await post(daemon, data) == status
            assert queue.count == 0
            assert await post(daemon, MESSAGE) == 200

        play(scene)

    def test_an_old_client_gets_one_and_the_end(self, play: Play) -> None:
        async def scene(daemon: Daemon, queue: QueueState) -> None:
            reader, writer = await connect(daemon)
            writer.write(MESSAGE.replace(b"HTTP/1.1", b"HTTP/1.0", 1))
            assert (await ended(reader)).startswith(b"HTTP/1.1 200 OK")
            assert queue.count == 1

        play(scene)

    def test_a_client_that_has_ended_its_side_gets_one(self, play: Play) -> None:
        async def scene(daemon: Daemon, queue: QueueState) -> None:
            reader, writer = await connect(daemon)
            writer.write(MESSAGE)
            writer.write_eof()
            assert (await ended(reader)).startswith(b"HTTP/1.1 200 OK")
            assert queue.count == 1
            assert daemon.http is not None
            await until(lambda: not daemon.http.connections)  # type: ignore[union-attr]

        play(scene)

    def test_chunks_are_read(self, play: Play) -> None:
        async def scene(daemon: Daemon, queue: QueueState) -> None:
            reader, writer = await connect(daemon)
            lines = [line for line in HEAD.split(b"\r\n") if not line.startswith(b"Content-Length")]
            writer.write(b"\r\n".join([*lines, b"Transfer-Encoding: chunked", b"", b""]))
            for at in range(0, len(BODY), 100):
                piece = BODY[at : at + 100]
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
                await asyncio.sleep(0)
            writer.write(b"0\r\n\r\n")
            assert (await answer(reader))[0] == 200
            assert queue.count == 1

        play(scene)

    def test_a_client_that_asks_first_is_told_to_go_on(self, play: Play) -> None:
        async def scene(daemon: Daemon, queue: QueueState) -> None:
            reader, writer = await connect(daemon)
            writer.write(HEAD + b"\r\nExpect: 100-continue\r\n\r\n")
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(BODY)
            assert (await answer(reader))[0] == 200
            assert queue.count == 1

        play(scene)

    @pytest.mark.conformance("SRMP-016")
    def test_a_full_queue_is_an_error_that_passes(self, play: Play) -> None:
        async def scene(daemon: Daemon, queue: QueueState) -> None:
            owner = daemon.driver.token
            await daemon.call(lambda engine: engine.queues.set_properties(queue, owner, quota_kib=0))
            assert await post(daemon, MESSAGE) == 500
            await daemon.call(lambda engine: engine.queues.set_properties(queue, owner, quota_kib=100))
            assert await post(daemon, MESSAGE) == 200
            assert queue.count == 1

        play(scene)


class TestTheCommit:
    def test_comes_before_the_answer(self, play: Play) -> None:
        """A store whose commit fails: the client gets no answer, and the message counts as not sent."""

        async def scene(daemon: Daemon, _queue: QueueState) -> None:
            reader, writer = await connect(daemon)
            with patch.object(LmdbBatch, "commit", side_effect=StoreFailedError("store", problem="broken")):
                writer.write(MESSAGE)
                assert await ended(reader) == b""
            assert isinstance(daemon.failure, StoreFailedError)
            daemon.failure = None  # seen

        play(scene)

    def test_is_one_for_all_that_come_together(self, play: Play) -> None:
        async def scene(daemon: Daemon, queue: QueueState) -> None:
            clients = [await connect(daemon) for _ in range(16)]
            assert daemon.http is not None
            await until(lambda: len(daemon.http.connections) == 16)  # type: ignore[union-attr]
            with patch.object(LmdbBatch, "commit", autospec=True, side_effect=LmdbBatch.commit) as commit:
                for number, (_, writer) in enumerate(clients):
                    writer.write(durable(30000 + number))
                answers = [await answer(reader) for reader, _ in clients]
            assert [status for status, _ in answers] == [200] * 16
            assert queue.stored_count == 16
            assert commit.call_count == 1, "all bytes were there before the first batch"

        play(scene)

    def test_waits_for_those_that_come_while_the_first_are_read(self, play: Play) -> None:
        """Before each commit the sockets are polled once more."""

        async def scene(daemon: Daemon, queue: QueueState) -> None:
            clients = [await connect(daemon) for _ in range(16)]
            http = daemon.http
            assert http is not None
            await until(lambda: len(http.connections) == 16)
            late = [(writer, durable(30000 + number)) for number, (_, writer) in enumerate(clients[8:], 8)]
            seen = count(1)

            def put(*arguments: Any) -> None:
                daemon._put(*arguments)
                if next(seen) == 8:
                    for writer, request in late:
                        writer.write(request)

            with (
                patch.object(LmdbBatch, "commit", autospec=True, side_effect=LmdbBatch.commit) as commit,
                patch.object(http, "put", put),
            ):
                for number, (_, writer) in enumerate(clients[:8]):
                    writer.write(durable(30000 + number))
                answers = [await answer(reader) for reader, _ in clients]
            assert [status for status, _ in answers] == [200] * 16
            assert queue.stored_count == 16
            assert commit.call_count == 1

        play(scene)


class TestStrangers:
    def test_a_slow_one_costs_its_own_place_only(self, play: Play) -> None:
        async def scene(daemon: Daemon, queue: QueueState) -> None:
            reader, writer = await connect(daemon)
            writer.write(HEAD[:20])
            assert await post(daemon, MESSAGE) == 200
            assert queue.count == 1
            assert (await answer(reader))[0] == 408
            assert await ended(reader) == b""

        play(scene, {"request_s": 1})

    def test_one_that_does_nothing_makes_room_for_the_next(self, play: Play) -> None:
        async def scene(daemon: Daemon, queue: QueueState) -> None:
            silent = [await connect(daemon) for _ in range(2)]
            assert await post(daemon, MESSAGE) == 200
            assert queue.count == 1
            assert await ended(silent[0][0]) == b""
            assert daemon.http is not None
            assert daemon.http.guests.turned_away == 1

        play(scene, {"connections_per_address": 2})

    def test_only_peers_are_heard(self, play: Play) -> None:
        async def scene(daemon: Daemon, queue: QueueState) -> None:
            assert await post(daemon, MESSAGE) == 403
            nonsense = b"POST /msmq/private$/simpleq HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
            assert await post(daemon, nonsense) == 403, "it is not even read"
            assert queue.count == 0
            assert await post(daemon, MESSAGE, source=own_address(3)) == 200
            assert queue.count == 1

        peers = (Peer(name="a", addresses=(own_address(3),)),)
        play(scene, access={"only_peers": True}, peers=peers)


class TestTls:
    def test_a_message_is_taken(self, play: Play, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        issued = authority.issue(HOST)
        context = ssl.create_default_context(cafile=authority.file)

        async def scene(daemon: Daemon, queue: QueueState) -> None:
            assert await post(daemon, MESSAGE, tls=context) == 200
            assert await post(daemon, CLOSE.replace(b"20503", b"20504"), tls=context) == 200
            assert queue.count == 2
            assert daemon.http is not None
            assert daemon.http.port == 0, "http = false"
            await until(lambda: not daemon.http.connections)  # type: ignore[union-attr]

        play(scene, {**certified(issued), "http": False})

    def test_clients_need_a_certificate_if_so_configured(self, play: Play, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        issued, client = authority.issue(HOST), authority.issue("client", name="client")
        strangers = [
            None,
            Authority(tmp_path, "another").issue("client", name="stranger"),
            authority.issue("client", name="expired", is_expired=True),
        ]
        context = ssl.create_default_context(cafile=authority.file)

        async def scene(daemon: Daemon, queue: QueueState) -> None:
            for stranger in strangers:
                if stranger is not None:
                    context.load_cert_chain(stranger.certificate, stranger.key)
                with pytest.raises((OSError, EOFError)):
                    await post(daemon, MESSAGE, tls=context)
            assert queue.count == 0
            context.load_cert_chain(client.certificate, client.key)
            assert await post(daemon, MESSAGE, tls=context) == 200
            assert queue.count == 1

        play(scene, {**certified(issued), "tls_client_ca": str(authority.file)})

    def test_a_handshake_that_never_comes_costs_its_own_place_only(self, play: Play, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        issued = authority.issue(HOST)
        context = ssl.create_default_context(cafile=authority.file)

        async def scene(daemon: Daemon, queue: QueueState) -> None:
            assert daemon.http is not None
            port = daemon.http.https_port
            silent = [await opened(port) for _ in range(3)]
            assert await post(daemon, MESSAGE, tls=context) == 200
            assert daemon.http.guests.turned_away == 2
            assert queue.count == 1
            for reader, writer in silent:
                writer.write(b"GET / HTTP/1.1\r\n\r\n")
                await ended(reader)
            assert await post(daemon, MESSAGE, tls=context) == 200

        play(scene, {**certified(issued), "connections": 2})

    def test_a_handshake_that_is_under_way_ends_with_the_daemon(self, play: Play, tmp_path: Path) -> None:
        issued = Authority(tmp_path).issue(HOST)

        async def scene(daemon: Daemon, _queue: QueueState) -> None:
            assert daemon.http is not None
            reader, _ = await opened(daemon.http.https_port)
            await until(lambda: len(daemon.http.guests))  # type: ignore[union-attr]
            await daemon.stop()
            assert await ended(reader) == b""
            assert not len(daemon.http.guests)

        with patch("tiercel.server.http_network._HANDSHAKE_S", 3600):
            play(scene, certified(issued))


def certified(issued: Any) -> dict[str, str]:
    return {"tls_certificate": str(issued.certificate), "tls_key": str(issued.key)}
