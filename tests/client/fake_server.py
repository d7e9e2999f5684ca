"""A scripted RemoteRead server: it answers as it is told, and writes down what it was asked."""

import asyncio
import contextlib
import fcntl
import selectors
import sys
import termios
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar, TypeVarTuple
from uuid import UUID

from tiercel.engine.records import Record
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId, lookup_id_sequence
from tiercel.model.limits import INFINITE
from tiercel.model.message import Message
from tiercel.remote_read import calls
from tiercel.remote_read.calls import REMOTE_READ, Request, Response, decode_request
from tiercel.remote_read.packet import serve, split
from tiercel.rpc.associations import Associations
from tiercel.rpc.endpoint_mapper import ENDPOINT_MAPPER, EndpointMapper, MappedEndpoint
from tiercel.rpc.ndr import ContextHandle
from tiercel.rpc.security import Providers
from tiercel.rpc.server import Call, ServerConnection, Service
from tiercel.rpc.status import RpcFault
from tiercel.rpc.syntax import Interface
from tiercel.wire.message import encode_message
from tiercel.wire.user_message import UserMessage

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
PATIENCE_S = 60.0  # only a test that fails waits that long
ORDERS = r"private$\orders"
SENT = 1_700_000_000
HOST = "127.0.0.1"

Answer = Response | bytes | RpcFault
Script = Callable[["Asked"], Awaitable[Answer]]


def packet_of(body: bytes = b"body", **properties: Any) -> UserMessage:
    properties.setdefault("destination_queue", FormatName.parse(r"DIRECT=OS:srv\private$\orders"))
    message = Message(body, id=MessageId(UUID(int=0xBEEF), 5), sent_time=SENT, **properties)
    return UserMessage(encode_message(message))


def found(
    packet: UserMessage | None = None, *, sequence_id: int = 7, limit: int = INFINITE, **record: Any
) -> calls.Received:
    """The answer that carries a message."""
    served = serve(packet or packet_of(), Record(b"", 0, **record))
    return calls.Received(SENT + 5, lookup_id_sequence(sequence_id), split(served, limit, limit))


@dataclass(frozen=True, eq=False)
class Asked:
    """A call as it came: which connection it came on, and what it asks."""

    connection: int
    request: Request


@dataclass
class FakeServer:
    """By default every queue can be opened and everything succeeds, but no queue has a message."""

    script: dict[Any, Script | Answer] = field(default_factory=dict)  # by the kind of request
    providers: Providers = field(default_factory=dict)
    interfaces: tuple[Interface, ...] = (REMOTE_READ,)
    multiplexed: bool = True
    port: int = 0

    def __post_init__(self) -> None:
        self.asked: list[Asked] = []
        self.pieces: list[list[Asked]] = []  # the same, as they came together
        self.connections = 0
        self.handles = 0
        self._arrived = asyncio.Condition()
        self._shells: set[_Shell] = set()

    async def __aenter__(self) -> Self:
        numbers = iter(range(1, 1 << 32))
        self._service = Service(
            self.interfaces, Associations(lambda size: next(numbers).to_bytes(size, "little")), self.providers
        )
        await self.listen()
        return self

    async def listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Shell(self, self._service), HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        await asyncio.sleep(0.01)  # for the sockets to be closed

    def stop(self) -> None:
        """No more connections, and an end to those that there are."""
        self._server.close()
        self.hang_up()

    def hang_up(self) -> None:
        for shell in list(self._shells):
            shell.transport.abort()

    # What it was asked.

    def requests(self, *kinds: type[Request]) -> list[Request]:
        return [each.request for each in self.asked if not kinds or isinstance(each.request, kinds)]

    def transcript(self) -> list[str]:
        return [type(each.request).__name__ for each in self.asked]

    async def until(self, *kinds: type[Request], count: int = 1) -> Request:
        """Waits for the `count`th request of these kinds."""
        async with asyncio.timeout(PATIENCE_S), self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests(*kinds)) >= count)
        return self.requests(*kinds)[count - 1]

    # Answering.

    async def answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        async with self._arrived:
            self._arrived.notify_all()
        for kind in (type(asked.request), *type(asked.request).__mro__):
            scripted = self.script.get(kind)
            if scripted is not None:
                return await scripted(asked) if callable(scripted) else scripted
        return self.default(asked.request)

    def default(self, request: Request) -> Response:
        match request:
            case calls.OpenQueueForMove():
                return calls.QueueOpenedForMove(0x1000 + self._new_handle(), self._handle())
            case calls.OpenQueue():
                self._new_handle()
                return calls.QueueOpened(self._handle())
            case calls.StartReceive():
                return calls.Received.failed(0xC00E001B)
            case calls.CreateCursor():
                return calls.CursorCreated(0x77)
            case calls.GetServerPort():
                return calls.ServerPort(self.port)
        return type(request).RESPONSE()

    def _new_handle(self) -> int:
        self.handles += 1
        return self.handles

    def _handle(self) -> ContextHandle:
        return ContextHandle(0, UUID(int=self.handles))


class _Shell(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self, fake: FakeServer, service: Service) -> None:
        self._fake = fake
        self._service = service
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._fake.connections += 1
        self._number = self._fake.connections
        self._fake._shells.add(self)
        self._rpc = ServerConnection(self._service, transport.get_extra_info("peername")[0])

    def data_received(self, data: bytes) -> None:
        if not self._fake.multiplexed:
            data = _without_multiplexing(data)
        came = [event for event in self._rpc.receive(data) if isinstance(event, Call)]
        piece = [Asked(self._number, decode_request(call.opnum, call.stub)) for call in came]
        if piece:
            self._fake.pieces.append(piece)
        for call, asked in zip(came, piece, strict=True):
            task = asyncio.get_running_loop().create_task(self._answer(call, asked))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self.flush()

    async def _answer(self, call: Call, asked: Asked) -> None:
        try:
            answer = await self._fake.answer(asked)
        except RpcFault as fault:
            answer = fault
        if isinstance(answer, RpcFault):
            self._rpc.fault(call, answer.status)
        else:
            self._rpc.reply(call, answer if isinstance(answer, bytes) else answer.encode())
        self.flush()

    def flush(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(self._rpc.data_to_send())
            if self._rpc.is_closing:
                self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._fake._shells.discard(self)
        self._rpc.connection_lost()
        for task in self._tasks:
            task.cancel()


def _without_multiplexing(data: bytes) -> bytes:
    """A bind that does not ask for several calls at a time, so that the server grants none."""
    is_bind = len(data) > 4 and data[2] == 11
    return data[:3] + bytes([data[3] & ~0x10]) + data[4:] if is_bind else data


@contextlib.asynccontextmanager
async def mapper(*endpoints: MappedEndpoint) -> AsyncIterator[int]:
    """An endpoint mapper that knows these; its port."""
    table = EndpointMapper(endpoints)
    service = Service((ENDPOINT_MAPPER,), Associations(lambda size: b"\1" * size))

    class Shell(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            self.transport = transport
            self.rpc = ServerConnection(service, HOST)

        def data_received(self, data: bytes) -> None:
            for event in self.rpc.receive(data):
                if isinstance(event, Call):
                    self.rpc.answer(event, lambda call: table.answer(call, HOST))
            self.transport.write(self.rpc.data_to_send())

        def connection_lost(self, exc: Exception | None) -> None:
            del exc
            self.rpc.connection_lost()

    server = await asyncio.get_running_loop().create_server(Shell, HOST, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def never(_asked: Asked) -> Answer:
    """The answer of a server that gives none."""
    answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    return await answer


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on which nobody waits: when nothing is left to do, it is later at once.

    Otherwise no time passes, however slow the machine is.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.in_threads = 0
        super().__init__(_Impatient(self))

    def time(self) -> float:
        return self.now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self.in_threads += 1
        future.add_done_callback(self._left_thread)
        return future

    def _left_thread(self, _future: asyncio.Future[Any]) -> None:
        self.in_threads -= 1


class _Impatient(selectors.DefaultSelector):
    _REAL_S = 0.05

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        for _ in range(int(PATIENCE_S / self._REAL_S)):
            ready = super().select(min(timeout, self._REAL_S))
            if ready:
                return ready
            if not self._is_something_under_way():
                break
        self._loop.now += timeout
        return []

    def _is_something_under_way(self) -> bool:
        """Whether a thread works, a socket is being connected, or what it has sent has not arrived."""
        return self._loop.in_threads > 0 or any(
            key.events & selectors.EVENT_WRITE or _unacknowledged(key.fd) for key in self.get_map().values()
        )


def _unacknowledged(descriptor: int) -> int:
    count = bytearray(4)
    with contextlib.suppress(OSError):  # one that listens
        fcntl.ioctl(descriptor, termios.TIOCOUTQ, count)
    return int.from_bytes(count, sys.byteorder)


def play(scene: Coroutine[Any, Any, T]) -> T:
    """Runs a scene on an event loop, in real time."""

    async def bounded() -> T:
        async with asyncio.timeout(PATIENCE_S):
            return await scene

    return asyncio.run(bounded())


def play_virtually(scene: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(scene)


@contextlib.contextmanager
def in_thread(fake: Callable[[], FakeServer]) -> Iterator[tuple[FakeServer, asyncio.AbstractEventLoop]]:
    """A server in a thread of its own, for clients that block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, loop).result(PATIENCE_S)

    async def start() -> FakeServer:
        return await fake().__aenter__()

    async def stop() -> None:
        server.stop()
        await asyncio.sleep(0.01)

    server = run(start())
    try:
        yield server, loop
    finally:
        run(stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
