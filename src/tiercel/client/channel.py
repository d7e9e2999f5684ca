"""Sockets of a remote reader: one RPC connection, and the group of connections that share their handles.

Several calls are under way on a connection at the same time. Where the server takes only one at a time, and
where a connection has its fill of calls, another one of the same association group is opened, so that a
cancel always reaches the server before the call that it ends has ended (MQRR-146).
"""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import Any, Final, cast

from tiercel.model.errors import (
    AccessDeniedError,
    MqError,
    OperationNotSupportedByRemoteComputerError,
    PeerError,
    RemoteMachineNotAvailableError,
    ResolveAddressError,
)
from tiercel.rpc.client import (
    Answered,
    Authentication,
    BindError,
    Bound,
    ClientConnection,
    Failed,
    Faulted,
    ShutdownRequested,
    UnknownInterfaceError,
)
from tiercel.rpc.security import AuthenticationError
from tiercel.rpc.syntax import Interface

_CALLS_MAX: Final = 128  # a server bounds the calls that are pending on one connection; ours at 256
# A peer that is gone without a word is noticed in two minutes, also by who waits for a message for ever.
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))

Authenticate = Callable[[], Authentication | None]
"""Makes the authentication of one connection."""


class LinkLostError(RemoteMachineNotAvailableError):
    """The connection is gone, and with it the handles and every call on them."""

    meaning = "the connection was lost"


class Answer(asyncio.Future[bytes]):
    """The stub of the answer to a call. Who was cancelled while waiting finds it in `late` all the same."""

    late: "asyncio.Future[bytes]"

    def cancel(self, msg: Any | None = None) -> bool:
        if not self.done():
            self.late = self.get_loop().create_future()
        return super().cancel(msg)


Tell = Callable[[bytes | Exception], None]
"""Hears how a call ended for which nobody waits: that costs neither a future nor a turn of the loop."""


class Channel(asyncio.Protocol):
    """One connection to one interface."""

    def __init__(self, connection: ClientConnection, where: str, port: int) -> None:
        self._connection = connection
        self._where = where
        self.port = port
        self._loop = asyncio.get_running_loop()
        self._bound: asyncio.Future[None] = self._loop.create_future()
        self._calls: dict[int, Answer | Tell] = {}
        self._room = 0  # for so many calls at a time; none before the bind and after the end
        self._awaited = 0  # how many of the calls somebody waits for
        self._is_flush_due = False
        self._is_late_flush_due = False
        self._transport: asyncio.Transport | None = None
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._is_last_call = False
        self.problem: PeerError | None = None
        self.on_end: Callable[[], None] = lambda: None

    @classmethod
    async def open(
        cls,
        interface: Interface,
        host: str,
        port: int,
        authenticate: Authenticate,
        *,
        timeout: float,  # noqa: ASYNC109
        group_id: int = 0,
    ) -> "Channel":
        """Connects and binds; whatever is in the way is an MqError that says what it is."""
        where = f"{host} port {port}"
        loop = asyncio.get_running_loop()
        channel = None
        try:
            async with asyncio.timeout(timeout):
                # In a thread: with Kerberos a third computer is asked.
                connection = await asyncio.to_thread(_begin, interface, authenticate, group_id)
                channel = cls(connection, where, port)
                await loop.create_connection(lambda: channel, host, port)
                await channel._bound
        except BaseException as error:
            if channel is not None:
                channel.abort()
            if isinstance(error, Exception):
                raise _explained(error, interface, host, where, timeout) from error
            raise
        return channel

    @property
    def is_open(self) -> bool:
        return not self._ended.done()

    @property
    def is_free(self) -> bool:
        """Whether a call would go out at once."""
        return len(self._calls) < self._room

    @property
    def is_multiplexed(self) -> bool:
        return self._room > 1

    @property
    def group_id(self) -> int:
        return self._connection.group_id

    @property
    def peer(self) -> str:
        """The address of the server: the other connections of the group must go to the same one."""
        assert self._transport is not None
        return str(self._transport.get_extra_info("peername")[0])

    def call(self, opnum: int, stub: bytes) -> Answer:
        """The stub of the answer; an RpcFault, or a LinkLostError when none can come any more.

        Of many calls in one turn of the loop the first leaves at once, the others leave together.
        """
        answer = self._call(opnum, stub)
        if self._awaited == 1:
            self._flush()
        else:
            self._flush_soon()
        return answer

    def _call(self, opnum: int, stub: bytes) -> Answer:
        answer = Answer(loop=self._loop)
        if not self._room:
            answer.set_exception(self._lost())
            return answer
        self._calls[self._connection.call(opnum, stub)] = answer
        self._awaited += 1
        return answer

    def call_together(self, opnum: int, stubs: Iterable[bytes]) -> list[Answer]:
        """Calls that leave in one piece, and now; as many as there is room for."""
        answers = [self._call(opnum, stub) for stub in islice(stubs, self._room - len(self._calls))]
        self._flush()
        return answers

    def tell(self, opnum: int, stub: bytes, tell: Tell, seconds: float = 0.0) -> None:
        """A call that nobody waits for: it goes with the next one, if that comes in this turn, or so soon."""
        self._calls[self._connection.call(opnum, stub)] = tell
        if not seconds:
            self._flush_soon()
        elif not self._is_late_flush_due:
            self._is_late_flush_due = True
            self._loop.call_later(seconds, self._flush_late)

    def _flush_late(self) -> None:
        self._is_late_flush_due = False
        self._flush()

    def _flush_soon(self) -> None:
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        data = self._connection.data_to_send()
        if data and self._transport is not None:
            self._transport.write(data)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._end()

    async def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
            await asyncio.wait([self._ended], timeout=1)
        self._end()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop has classes of its own
        keep_alive(transport.get_extra_info("socket"))
        self._flush()

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        for event in self._connection.receive(data):
            match event:
                case Answered() | Faulted():
                    self._answered(event)
                case Bound():
                    self._room = _CALLS_MAX if self._connection.is_multiplexed else 1
                    _set(self._bound)
                case Failed():
                    self._fail(event.error)
                case ShutdownRequested():
                    self._is_last_call = True
        self._flush()
        if self._is_last_call and not self._calls:
            self._transport.close()

    def _answered(self, event: Answered | Faulted) -> None:
        asked = self._calls.pop(event.call_id, None)
        if asked is None:
            return
        if not isinstance(asked, Answer):
            asked(event.stub if isinstance(event, Answered) else event.fault)
            return
        self._awaited -= 1
        answer = asked.late if asked.cancelled() else asked
        if answer.done():  # there was no time to wait for it
            return
        if isinstance(event, Answered):
            answer.set_result(event.stub)
        else:
            answer.set_exception(event.fault)
            answer.exception()  # see _end

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # the name is asyncio's
        self._end()

    def _fail(self, error: PeerError) -> None:
        self.problem = error
        self._room = 0
        if not self._bound.done():
            self._bound.set_exception(error)
            self._bound.exception()
        assert self._transport is not None
        self._transport.abort()

    def _end(self) -> None:
        if self._ended.done():
            return
        self._ended.set_result(None)
        self._room = 0
        calls, self._calls = self._calls, {}
        everything: list[asyncio.Future[Any]] = [self._bound]
        for call in calls.values():
            if isinstance(call, Answer):
                everything.append(call.late if call.cancelled() else call)
            else:
                call(self._lost())
        for waiting in everything:
            if not waiting.done():
                waiting.set_exception(self._lost())
                waiting.exception()  # nobody may be waiting any more, and asyncio shall not complain of that
        self.on_end()

    def _lost(self) -> LinkLostError:
        problem = None if self.problem is None else f"the connection was given up: {self.problem}"
        return LinkLostError(self._where, problem=problem)


class Link:
    """The connections of one association group: what one client has with one server."""

    def __init__(self, channel: Channel, open_another: Callable[[int], Awaitable[Channel]]) -> None:
        self._channels: list[Channel] = []
        self._open_another = open_another
        self._opening = asyncio.Lock()
        self._is_lost = False
        self.on_lost: list[Callable[[], None]] = []
        self._add(channel)

    @property
    def is_open(self) -> bool:
        return not self._is_lost

    @property
    def connections(self) -> int:
        return len(self._channels)

    def call_now(self, opnum: int, stub: bytes) -> Answer | None:
        """Calls on a connection that is free; None where another one must be opened first."""
        for channel in self._channels:
            if channel.is_free:
                return channel.call(opnum, stub)
        return None

    def tell(self, opnum: int, stub: bytes, tell: Tell, seconds: float = 0.0) -> bool:
        """Calls together with the next call, and nobody waits; False where only one can be made at a time."""
        for channel in self._channels:
            if channel.is_free and channel.is_multiplexed:
                channel.tell(opnum, stub, tell, seconds)
                return True
        return False

    def call_together(self, opnum: int, stubs: Iterable[bytes]) -> list[Answer]:
        """Calls in one piece on a connection that is free, as many as there is room for."""
        channel = next((channel for channel in self._channels if channel.is_free), None)
        return [] if channel is None else channel.call_together(opnum, stubs)

    async def call(self, opnum: int, stub: bytes) -> Answer:
        """Sends a call; the future of its answer."""
        while (answer := self.call_now(opnum, stub)) is None:
            async with self._opening:
                if self._is_lost:
                    raise LinkLostError("remote queue manager")
                if not any(channel.is_free for channel in self._channels):
                    self._add(await self._open_another(self._channels[0].group_id))
        return answer

    def break_off(self) -> None:
        """Ends everything at once; the server gives back what was not acknowledged."""
        if self._is_lost:
            return
        self._is_lost = True
        for channel in self._channels:
            channel.abort()
        for tell in self.on_lost:
            tell()

    async def close(self) -> None:
        self._is_lost = True
        for channel in self._channels:
            await channel.close()
        for tell in self.on_lost:
            tell()

    def _add(self, channel: Channel) -> None:
        # Handles live as long as the group, but calls do not: when one connection fails, all start afresh.
        channel.on_end = self.break_off
        self._channels.append(channel)
        if not channel.is_open:
            self.break_off()


def _explained(error: Exception, interface: Interface, host: str, where: str, limit: float) -> Exception:
    """What went wrong on the way to a bound connection, in the words of who wants to read a queue."""
    match error:
        case MqError():
            return error
        case UnknownInterfaceError():
            problem = f"it serves no {interface.name} interface there: {error}"
            fix = "pass the port where its queues are read from afar, or read on that computer itself"
            return OperationNotSupportedByRemoteComputerError(where, problem=problem, fix=fix)
        case BindError() | AuthenticationError():
            fix = "connect with a user, password and level that the server accepts"
            return AccessDeniedError(where, problem=f"it does not let us in: {error}", fix=fix)
        case OSError():
            return unreachable(error, host, where, limit)
        case PeerError():
            return RemoteMachineNotAvailableError(where, problem=f"what answers there speaks no RPC: {error}")
    return error


def unreachable(error: OSError, host: str, where: str, limit: float) -> MqError:
    """Why no connection came to be."""
    match error:
        case TimeoutError():
            return RemoteMachineNotAvailableError(where, problem=f"it did not answer within {limit:g} s")
        case socket.gaierror():
            return ResolveAddressError(host)
    reason = os.strerror(error.errno) if error.errno else str(error)
    return RemoteMachineNotAvailableError(where, problem=f"no connection can be made: {reason}")


def _begin(interface: Interface, authenticate: Authenticate, group_id: int) -> ClientConnection:
    connection = ClientConnection(interface, authenticate(), group_id=group_id)
    connection.bind()
    return connection


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def keep_alive(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
