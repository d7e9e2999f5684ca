"""Where the remote reader finds its server, and what it says when it cannot: [MS-MQRR] 3.2.4.1."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

import tiercel
from client.fake_server import (
    HOST,
    ORDERS,
    Answer,
    Asked,
    FakeServer,
    found,
    mapper,
    never,
    play,
    play_virtually,
)
from rpc.scripted import ECHO, ScriptedContext, scripted_providers
from tiercel import aio
from tiercel.client import dialing, remote_aio
from tiercel.client.dialing import Options
from tiercel.remote_read import calls
from tiercel.remote_read.calls import REMOTE_READ
from tiercel.rpc.client import Authentication
from tiercel.rpc.endpoint_mapper import MappedEndpoint
from tiercel.rpc.security import AuthenticationLevel, AuthenticationType


@pytest.fixture(autouse=True)
def _nobody_listens(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with socket.socket() as mapper_port, socket.socket() as server_port:  # taken, so that nobody else does
        for sock, name in ((mapper_port, "MAPPER_PORT"), (server_port, "SERVER_PORT")):
            sock.bind((HOST, 0))
            monkeypatch.setattr(dialing, name, sock.getsockname()[1])
        yield


class TestPort:
    @pytest.mark.conformance("MQRR-007", "MQRR-138")
    @pytest.mark.parametrize("rebind", [False, True])
    def test_the_mapper_knows_it(self, monkeypatch: pytest.MonkeyPatch, rebind: bool) -> None:
        """With `rebind` the server itself is asked, and there the queue is opened."""

        async def scene() -> None:
            async with FakeServer() as second, FakeServer() as first:
                first.script[calls.GetServerPort] = calls.ServerPort(second.port)
                async with mapper(MappedEndpoint(REMOTE_READ.syntax, first.port)) as port:
                    monkeypatch.setattr(dialing, "MAPPER_PORT", port)
                    async with await aio.connect(HOST, rebind=rebind) as remote:
                        await remote.queue(ORDERS).purge()
                opening = ["OpenQueue", "PurgeQueue", "CloseQueue"]
                if rebind:
                    assert first.transcript() == ["GetServerPort"]
                    assert second.transcript() == opening
                else:
                    assert first.transcript() == opening
                    assert not second.connections

        play(scene())

    @pytest.mark.parametrize("port_named", ["its own", "none", "another"])
    def test_without_a_mapper_the_fixed_one_is_asked(
        self, monkeypatch: pytest.MonkeyPatch, port_named: str
    ) -> None:
        async def scene() -> None:
            async with FakeServer() as second, FakeServer() as first:
                monkeypatch.setattr(dialing, "SERVER_PORT", first.port)
                named = {"its own": first.port, "none": 0, "another": second.port}[port_named]
                first.script[calls.GetServerPort] = calls.ServerPort(named)
                async with await aio.connect(HOST) as remote:
                    await remote.queue(ORDERS).purge()
                assert first.transcript()[0] == "GetServerPort"
                used = second if port_named == "another" else first
                assert used.transcript()[-3:] == ["OpenQueue", "PurgeQueue", "CloseQueue"]

        play(scene())

    def test_the_one_given_is_taken(self) -> None:
        async def scene() -> None:
            async with FakeServer() as fake, await aio.connect(HOST, port=fake.port):
                pass
            assert not fake.transcript()

        play(scene())

    def test_a_foreign_mapper_does_not_hide_the_server(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Samba's, say, on the computer where Tiercel has the port of MSMQ."""

        async def scene() -> None:
            async with FakeServer() as fake, mapper(MappedEndpoint(ECHO.syntax, 9)) as port:
                monkeypatch.setattr(dialing, "MAPPER_PORT", port)
                monkeypatch.setattr(dialing, "SERVER_PORT", fake.port)
                async with await aio.connect(HOST):
                    pass

        play(scene())


class TestErrors:
    def test_nobody_there(self) -> None:
        with pytest.raises(tiercel.RemoteMachineNotAvailableError, match="refused") as caught:
            play(aio.connect(HOST))
        assert str(dialing.MAPPER_PORT) in str(caught.value)
        assert str(dialing.SERVER_PORT) in str(caught.value)

    def test_no_such_name(self) -> None:
        with pytest.raises(tiercel.ResolveAddressError):
            play(aio.connect("no-such-host.invalid"))

    def test_the_mapper_knows_no_such_interface(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def scene() -> None:
            async with mapper(MappedEndpoint(ECHO.syntax, 9)) as port:
                monkeypatch.setattr(dialing, "MAPPER_PORT", port)
                await aio.connect(HOST)

        with pytest.raises(tiercel.OperationNotSupportedByRemoteComputerError, match="EPT_S_NOT_REGISTERED"):
            play(scene())

    def test_the_port_serves_another_interface(self) -> None:
        async def scene() -> None:
            async with FakeServer(interfaces=(ECHO,)) as fake:
                await aio.connect(HOST, port=fake.port)

        with pytest.raises(
            tiercel.OperationNotSupportedByRemoteComputerError, match="not offer the RemoteRead interface"
        ):
            play(scene())

    def test_the_port_speaks_something_else(self) -> None:
        async def scene() -> None:
            async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                await writer.drain()
                writer.close()

            server = await asyncio.start_server(talk, HOST, 0)
            async with server:
                await aio.connect(HOST, port=server.sockets[0].getsockname()[1])

        with pytest.raises(tiercel.RemoteMachineNotAvailableError, match="does not speak RPC"):
            play(scene())

    def test_the_port_is_silent(self) -> None:
        async def scene() -> None:
            async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await reader.read()
                writer.close()

            server = await asyncio.start_server(listen, HOST, 0)
            async with server:
                with pytest.raises(tiercel.RemoteMachineNotAvailableError, match="within 20 s"):
                    await aio.connect(HOST, port=server.sockets[0].getsockname()[1])
                await asyncio.sleep(0.05)  # for the server to notice

        play_virtually(scene())

    @pytest.mark.parametrize(
        ("options", "word"),
        [
            ({"port": 0}, "port"),
            ({"port": 70000}, "port"),
            ({"level": "secret"}, "level"),
            ({"level": "privacy"}, "level"),
            ({"user": "reader", "password": "x", "level": "none"}, "level"),
            ({"rpc_cancel_minutes": 0}, "rpc_cancel_minutes"),
            ({"reconnect_s": -1}, "reconnect_s"),
        ],
    )
    def test_of_arguments(self, options: dict[str, Any], word: str) -> None:
        with pytest.raises(tiercel.InvalidParameterError, match=word):
            play(aio.connect(HOST, **options))


class TestTimes:
    @pytest.mark.conformance("MQRR-130")
    @pytest.mark.parametrize(("options", "minutes"), [({}, 5), ({"rpc_cancel_minutes": 1}, 1)])
    @pytest.mark.parametrize("kind", [calls.OpenQueue, calls.OpenQueueForMove, calls.EnlistRemoteTransaction])
    def test_a_call_that_is_not_answered_ends(
        self, options: dict[str, Any], minutes: int, kind: type[calls.Request]
    ) -> None:
        async def scene() -> float:
            async with (
                FakeServer({kind: never}) as fake,
                await aio.connect(HOST, port=fake.port, **options) as remote,
            ):
                if kind is not calls.OpenQueue:
                    fake.script[calls.OpenQueue] = calls.QueueOpened(fake._handle())
                orders, loop = remote.queue(ORDERS), asyncio.get_running_loop()
                began = loop.time()
                transaction = remote.transaction(b"")
                is_move = kind is calls.OpenQueueForMove
                use = orders.move(7, "retry") if is_move else orders.receive(0, transaction=transaction)
                with pytest.raises(tiercel.QueueNotAvailableError, match="not answered"):
                    await use
                return loop.time() - began

        waited = play_virtually(scene())
        assert minutes * 60 <= waited < minutes * 60 + 15

    def test_a_wait_has_no_such_end(self) -> None:
        async def late(_asked: Asked) -> Answer:
            await asyncio.sleep(3600)
            return found()

        async def scene() -> None:
            async with (
                FakeServer({calls.StartReceive: late}) as fake,
                await aio.connect(HOST, port=fake.port) as remote,
            ):
                await remote.queue(ORDERS).receive()
                await remote.queue(ORDERS).receive(4000)

        play_virtually(scene())


class TestAuthentication:
    @pytest.mark.parametrize(
        "level", [AuthenticationLevel.CONNECT, AuthenticationLevel.INTEGRITY, AuthenticationLevel.PRIVACY]
    )
    def test_every_connection_authenticates(self, level: AuthenticationLevel) -> None:
        def authenticate() -> Authentication:
            kind = AuthenticationType.NTLM
            return Authentication(kind, level, ScriptedContext(is_server=False))

        async def scene() -> None:
            async with FakeServer(providers=scripted_providers(), multiplexed=False) as fake:
                options = Options(host=HOST, port=fake.port, authenticate=authenticate)
                async with remote_aio.AsyncRemoteQueueManager(options) as remote:
                    await remote.start()
                    await asyncio.gather(*(remote.queue(ORDERS).purge() for _ in range(3)))
                assert fake.connections > 1

        play(scene())

    def test_who_is_not_let_in_is_told(self) -> None:
        def authenticate() -> Authentication:
            context = ScriptedContext(is_server=False, name="nobody")
            return Authentication(AuthenticationType.NTLM, AuthenticationLevel.PRIVACY, context)

        async def scene() -> None:
            async with FakeServer(providers=scripted_providers()) as fake:
                options = Options(host=HOST, port=fake.port, authenticate=authenticate)
                async with remote_aio.AsyncRemoteQueueManager(options) as remote:
                    await remote.start()
                    await remote.queue(ORDERS).purge()

        with pytest.raises(tiercel.MqError):
            play(scene())
