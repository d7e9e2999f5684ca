"""[MS-MQRR] on real sockets: readers of the daemon, bound by hand with the client machine."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from addresses import own_address
from tiercel.engine.carriers import AbsentCarrier
from tiercel.engine.engine import Engine
from tiercel.model.codes import OutgoingQueueState, QueueAccess, ReceiveAction
from tiercel.model.errors import DecodeError
from tiercel.model.format_name import FormatName
from tiercel.model.limits import MAX_PACKET_SIZE
from tiercel.model.message import Message
from tiercel.model.path_name import PathName
from tiercel.model.queue import OutgoingQueue
from tiercel.remote_read import calls, service
from tiercel.remote_read.calls import REMOTE_READ, RR_ACK, RR_NACK
from tiercel.remote_read.packet import rebuild
from tiercel.remote_read.queue_format import QueueFormat
from tiercel.rpc.client import Answered, Bound, ClientConnection, Faulted
from tiercel.rpc.endpoint_mapper import ENDPOINT_MAPPER, EPT_LOOKUP, EPT_MAP, map_request, read_map_answer
from tiercel.rpc.ndr import NULL_HANDLE, ContextHandle, NdrWriter
from tiercel.rpc.status import ERROR_ACCESS_DENIED, RpcFault
from tiercel.rpc.syntax import Interface
from tiercel.rpc.towers import Tower
from tiercel.security.access import Token
from tiercel.server import remote_reading
from tiercel.server.config import RemoteReadOptions
from tiercel.server.daemon import Daemon
from tiercel.server.remote_reading import RpcConnection

from .scripted import PATIENCE_S, configured

SYSTEM = Token.local_system()
HOST = own_address()  # where every port is free
MAPPER_PORT = 11135  # the usual one needs root
NAME = FormatName.parse(r"DIRECT=OS:.\private$\q")
Scene = Callable[[Daemon], Awaitable[None]]
Play = Callable[..., None]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    async def main(scene: Scene, options: dict[str, Any]) -> None:
        remote_read = {"enabled": True, "host": HOST, "port": 0, "least_level_local": "none"} | options
        config = configured(tmp_path, remote_read=remote_read)
        async with asyncio.timeout(PATIENCE_S), Daemon(config) as daemon:
            if not daemon.engine.queues.find(NAME):
                path = PathName.parse(r".\private$\q")
                await daemon.call(lambda engine: engine.queues.create(path, open_to_all()))
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

    async def connect(self, port: int, host: str = HOST, local: str = "") -> "Reader":
        own = (local, 0) if local else None
        self.stream, self.sink = await asyncio.open_connection(host, port, local_addr=own)
        READERS.append(self)
        self.rpc.bind()
        assert await self.events() == [Bound()]
        return self

    async def events(self) -> list[Any]:
        self.sink.write(self.rpc.data_to_send())
        events: list[Any] = []
        while not events:
            data = await self.stream.read(65536)
            if not data:
                raise ConnectionError("the server closed the connection")
            events = list(self.rpc.receive(data))
        self.sink.write(self.rpc.data_to_send())
        return events

    def start(self, request: calls.Request) -> int:
        number = self.rpc.call(request.OPNUM, request.encode())
        self.sink.write(self.rpc.data_to_send())
        return number

    async def answer(self, number: int) -> bytes:
        while number not in self.answers:
            for event in await self.events():
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


def connections(daemon: Daemon) -> list[RpcConnection]:
    assert daemon.remote_reading is not None
    return list(daemon.remote_reading.connections)


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110  # nobody tells us
        await asyncio.sleep(0)


async def put(daemon: Daemon, *bodies: bytes) -> None:
    def send(engine: Engine) -> None:
        opened = engine.opening.open(NAME, QueueAccess.SEND, token=SYSTEM)
        for body in bodies:
            engine.sending.send(opened, Message(body, delivery=1))
        engine.opening.close(opened)

    await daemon.call(send)


async def count(daemon: Daemon) -> int:
    return await daemon.call(lambda engine: engine.queues.get(NAME).count)


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
def test_an_acknowledgement_is_answered_although_nothing_else_is_to_be_said(play: Play) -> None:
    async def scene(daemon: Daemon) -> None:
        await put(daemon, b"only")
        reader = await Reader().connect(port_of(daemon))
        handle = await reader.open()
        assert body(await reader.call(calls.StartReceive(handle, request_id=1))) == b"only"
        end = calls.EndReceive(handle, RR_ACK, 1)
        waiting = calls.StartReceive(handle, timeout_ms=600_000, request_id=2)
        ended = reader.rpc.call(end.OPNUM, end.encode())
        started = reader.start(waiting)  # both in one piece: it does not wait for the first answer
        assert calls.Done.decode(await reader.answer(ended)) == calls.Done()
        assert await count(daemon) == 0
        await put(daemon, b"next")
        assert body(calls.Received.decode(await reader.answer(started))) == b"next"

    play(scene)


def test_answers_that_nobody_waits_for_go_with_the_next_one(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(daemon: Daemon) -> None:
        many = 80  # more than are made durable together
        await put(daemon, *(b"%d" % number for number in range(many)))
        reader = await Reader().connect(port_of(daemon))
        handle = await reader.open()
        start = calls.StartReceive(handle, request_id=1)
        await reader.call(start)
        pieces: list[list[int]] = []
        for number in range(1, many):
            end = calls.EndReceive(handle, RR_ACK, number)
            reader.rpc.call(end.OPNUM, end.encode())
            start = calls.StartReceive(handle, request_id=number + 1)
            reader.rpc.call(start.OPNUM, start.encode())
            events = await reader.events()
            pieces.append([len(event.stub) for event in events])
        done = len(calls.Done().encode())
        assert any(done in piece for piece in pieces)
        assert all(any(size > done for size in piece) for piece in pieces)

    monkeypatch.setattr(remote_reading, "_UNHURRIED_S", 2 * PATIENCE_S)
    play(scene)


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


@pytest.mark.conformance("MQRR-017", "MQRR-018")
@pytest.mark.parametrize(
    ("switches", "workgroup", "is_let_in"),
    [
        ({}, 1, False),
        ({"allow_unauthenticated": True}, 0, True),
        ({"allow_unauthenticated": True, "deny_workgroup_clients": True}, 0, False),
        ({"allow_unauthenticated": True, "deny_workgroup_clients": True}, 1, True),
        ({"allow_anonymous": True}, 0, True),
        ({"least_level_local": "integrity"}, 1, False),
    ],
)
def test_switches_that_let_strangers_in(
    play: Play, switches: dict[str, Any], workgroup: int, is_let_in: bool
) -> None:
    async def scene(daemon: Daemon) -> None:
        await put(daemon, b"1")
        reader = await Reader().connect(port_of(daemon))
        opening = calls.OpenQueue(QueueFormat.of(NAME), int(QueueAccess.RECEIVE), is_workgroup=workgroup)
        if not is_let_in:
            with pytest.raises(RpcFault) as refusal:
                await reader.call(opening)
            assert refusal.value.status == 0x5
            return
        handle = (await reader.call(opening)).handle
        assert body(await reader.call(calls.StartReceive(handle, request_id=1))) == b"1"

    play(scene, **{"least_level_local": "privacy"} | switches)


async def mapped_ports(port: int) -> list[int]:
    mapper = await Reader(ENDPOINT_MAPPER).connect(port)
    number = mapper.rpc.call(EPT_MAP, map_request(REMOTE_READ.syntax))
    mapper.sink.write(mapper.rpc.data_to_send())
    return read_map_answer(await mapper.answer(number), REMOTE_READ.syntax)


@pytest.mark.conformance("MQRR-007")
def test_readers_may_stay_where_the_mapper_sends_them_or_ask_for_the_port(
    play: Play,
) -> None:
    async def scene(daemon: Daemon) -> None:
        await put(daemon, b"1", b"2")
        [port] = await mapped_ports(MAPPER_PORT)
        staying = await Reader().connect(port)
        handle = await staying.open()
        assert body(await staying.call(calls.StartReceive(handle, request_id=1))) == b"1"
        asking = await Reader().connect(port)
        named = (await asking.call(calls.GetServerPort())).port
        rebound = await Reader().connect(named)
        handle = await rebound.open()
        assert body(await rebound.call(calls.StartReceive(handle, request_id=1))) == b"2"

    play(scene, endpoint_mapper=True, endpoint_mapper_port=MAPPER_PORT)


def own_sockets(table: str) -> set[str]:
    """The sockets of this process that /proc/net/`table` lists."""
    own = set()
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            own.add(str(link.readlink()))
    rows = Path(f"/proc/net/{table}").read_text("ascii").splitlines()[1:]
    return {f"socket:[{row.split()[9]}]" for row in rows} & own


@pytest.mark.conformance("MQRR-003")
def test_there_is_nothing_but_tcp(play: Play) -> None:
    datagrams = own_sockets("udp") | own_sockets("udp6")

    async def scene(daemon: Daemon) -> None:
        assert (own_sockets("udp") | own_sockets("udp6")) <= datagrams
        assert len(own_sockets("tcp")) >= 3  # the binary protocol, remote reading and the mapper
        mapper = await Reader(ENDPOINT_MAPPER).connect(MAPPER_PORT)
        everything = NdrWriter().u32(0).pointer(is_there=False).pointer(is_there=False).u32(1)
        question = everything.context_handle(NULL_HANDLE).u32(100).data
        number = mapper.rpc.call(EPT_LOOKUP, question)
        mapper.sink.write(mapper.rpc.data_to_send())
        towers = read_towers(await mapper.answer(number))
        assert [tower.interface for tower in towers] == [REMOTE_READ.syntax]
        assert all(tower.is_tcp and tower.port == port_of(daemon) for tower in towers)

    play(scene, endpoint_mapper=True, endpoint_mapper_port=MAPPER_PORT)


def read_towers(stub: bytes) -> list[Tower]:
    """Of an answer to ept_lookup, found by their shape: a count twice, then as many octets."""
    towers = []
    for at in range(0, len(stub) - 8, 4):
        size = int.from_bytes(stub[at : at + 4], "little")
        if size and stub[at : at + 4] == stub[at + 4 : at + 8] and at + 8 + size <= len(stub):
            with suppress(DecodeError):
                towers.append(Tower.decode(stub[at + 8 : at + 8 + size]))
    return towers


@pytest.mark.conformance("MQRR-005")
@pytest.mark.parametrize("taken", [0, 1, 2])
def test_a_port_that_is_taken_is_passed_over(play: Play, taken: int) -> None:
    default = RemoteReadOptions().port

    async def scene(daemon: Daemon) -> None:
        assert port_of(daemon) == 2103 + 11 * taken
        reader = await Reader().connect(port_of(daemon))
        assert (await reader.call(calls.GetServerPort())).port == port_of(daemon)

    with ExitStack() as others:
        for number in range(taken):
            others.enter_context(socket.create_server((HOST, default + 11 * number)))
        play(scene, port=default)


@pytest.mark.conformance("MQRR-004", "MQRR-006")
def test_the_endpoint_mapper_leads_to_the_port(play: Play) -> None:
    async def scene(daemon: Daemon) -> None:
        assert await mapped_ports(MAPPER_PORT) == [port_of(daemon)]
        reader = await Reader().connect(port_of(daemon))
        assert (await reader.call(calls.GetServerPort())).port == port_of(daemon)

    play(scene, endpoint_mapper=True, endpoint_mapper_port=MAPPER_PORT)


@pytest.mark.conformance("DMPR-003")
def test_all_protocols_serve_one_queue_manager(play: Play) -> None:
    async def scene(daemon: Daemon) -> None:
        assert daemon.remote_reading is not None
        engine = daemon.engine
        parts = (daemon.protocol, daemon.remote_reading.service)
        managers = [part._engine.queue_manager for part in parts]
        assert all(manager is engine.queue_manager for manager in managers)
        await daemon.call(lambda engine: engine.administration.set_properties(send_insecure_nacks=True))
        assert all(manager.send_insecure_nacks for manager in managers)

    play(scene)


@pytest.mark.conformance("DMPR-023")
def test_a_hardened_queue_manager_answers_no_rpc_from_its_next_start_on(play: Play) -> None:
    async def hardening(daemon: Daemon) -> None:
        await daemon.call(lambda engine: engine.administration.set_properties(hardened_security=True))
        reader = await Reader().connect(port_of(daemon))
        assert (await reader.call(calls.GetServerPort())).port == port_of(daemon)

    async def hardened(daemon: Daemon) -> None:
        assert daemon.remote_reading is None
        http = AbsentCarrier(lambda name: "HTTP" in str(name), ("DIRECT=HTTP",))
        daemon.engine.carriers.register(http)  # without one the name is refused
        ways = {
            name: await daemon.call(way_to(name))
            for name in (r"TCP:192.0.2.9\private$\q", "http://192.0.2.9/msmq/private$/q")
        }
        assert list(ways.values()) == [OutgoingQueueState.LOCKED, OutgoingQueueState.INACTIVE]

    def way_to(name: str) -> Callable[[Engine], OutgoingQueueState]:
        def find(engine: Engine) -> OutgoingQueueState:
            queue = engine.queues.destination(FormatName.parse(f"DIRECT={name}")).queue
            assert isinstance(queue, OutgoingQueue)
            return queue.state

        return find

    play(hardening)
    play(hardened)


class TestStrangers:
    """Readers that connect, and ask for nothing."""

    @staticmethod
    async def is_closed(reader: Reader) -> bool:
        try:
            return await reader.stream.read(1) == b""
        except ConnectionResetError:
            return True

    def test_silent_binds_do_not_keep_others_out(self, play: Play) -> None:
        async def scene(daemon: Daemon) -> None:
            silent = [await Reader().connect(port_of(daemon)) for _ in range(4)]
            late = await Reader().connect(port_of(daemon), local=own_address(1))
            assert await late.open()
            assert await self.is_closed(silent[0])
            assert await silent[1].open()

        play(scene, connections=4, connections_per_address=4)

    def test_one_address_has_a_limit_of_its_own(self, play: Play) -> None:
        async def scene(daemon: Daemon) -> None:
            busy = [await Reader().connect(port_of(daemon)) for _ in range(2)]
            for each in busy:
                await each.open()
            with pytest.raises((ConnectionError, AssertionError)):
                await Reader().connect(port_of(daemon))
            other = await Reader().connect(port_of(daemon), local=own_address(1))
            assert await other.open()

        play(scene, connections=10, connections_per_address=2)

    def test_readers_with_an_open_queue_keep_their_place(self, play: Play) -> None:
        async def scene(daemon: Daemon) -> None:
            reader = await Reader().connect(port_of(daemon))
            handle = await reader.open()
            for _ in range(3):
                await Reader().connect(port_of(daemon), local=own_address(1))
            await put(daemon, b"kept")
            assert body(await reader.call(calls.StartReceive(handle, request_id=1))) == b"kept"

        play(scene, connections=2)

    def test_a_logon_has_a_deadline(self, play: Play) -> None:
        async def scene(daemon: Daemon) -> None:
            reader = await Reader().connect(port_of(daemon))
            await reader.open()
            silent = await Reader().connect(port_of(daemon))
            assert await self.is_closed(silent)
            assert await reader.open()

        play(scene, logon_s=1)

    def test_incomplete_calls_do_not_fill_memory(self, play: Play) -> None:
        async def scene(daemon: Daemon) -> None:
            for interface, port in ((REMOTE_READ, port_of(daemon)), (ENDPOINT_MAPPER, MAPPER_PORT)):
                stranger = await Reader(interface).connect(port)
                stranger.rpc.call(0, bytes(300_000))
                stranger.sink.write(stranger.rpc.data_to_send()[:-1])  # its end never comes
                (refused,) = await stranger.events()
                assert isinstance(refused, Faulted)
                assert refused.fault.status == ERROR_ACCESS_DENIED

        play(scene, endpoint_mapper=True, endpoint_mapper_port=MAPPER_PORT)

    @pytest.mark.parametrize("timeout_ms", [0, 3_600_000])
    def test_answers_that_are_not_read_do_not_fill_memory(
        self, play: Play, monkeypatch: pytest.MonkeyPatch, timeout_ms: int
    ) -> None:
        """Many peeks of one large message, of those who wait for it too; all are answered in the end."""
        size, peeks = 300_000, 100  # more than the sockets hold
        assert service._ANSWERS_MAX == MAX_PACKET_SIZE
        monkeypatch.setattr(service, "_ANSWERS_MAX", size)

        async def scene(daemon: Daemon) -> None:
            greedy = await Reader().connect(port_of(daemon))
            (shell,) = connections(daemon)
            other = await Reader().connect(port_of(daemon))
            handle, others_handle = await greedy.open(), await other.open()
            if not timeout_ms:
                await put(daemon, bytes(size))
            action = ReceiveAction.PEEK_CURRENT
            numbers = [
                greedy.start(calls.StartReceive(handle, 0, 0, action, timeout_ms, number))
                for number in range(peeks)
            ]
            if timeout_ms:
                await until(lambda: shell.rpc.pending_calls == peeks)
                await put(daemon, bytes(size))
            await until(lambda: shell.is_paused)
            await other.call(calls.CreateCursor(others_handle))  # nobody else waits
            assert shell.rpc.pending_calls > 0
            assert shell.transport.get_write_buffer_size() < 4 * size
            for number in numbers:
                answer = calls.StartReceive.RESPONSE.decode(await greedy.answer(number))
                assert len(body(answer)) == size

        play(scene)

    def test_a_call_with_the_largest_argument_is_taken(self, play: Play) -> None:
        async def scene(daemon: Daemon) -> None:
            reader = await Reader().connect(port_of(daemon))
            token = bytes(calls.TOKEN_MAX_BYTES)
            request = calls.EnlistRemoteTransaction(uuid4(), token, QueueFormat.of(NAME))
            answer = await reader.call(request)
            assert isinstance(answer, calls.Done)

        play(scene)

    def test_the_endpoint_mapper_closes_silent_connections(self, play: Play) -> None:
        async def scene(_daemon: Daemon) -> None:
            first = await Reader(ENDPOINT_MAPPER).connect(MAPPER_PORT)
            await Reader(ENDPOINT_MAPPER).connect(MAPPER_PORT)
            assert await self.is_closed(first)

        play(scene, endpoint_mapper=True, endpoint_mapper_port=MAPPER_PORT, connections=1, logon_s=3600)
