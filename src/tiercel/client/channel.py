"""The sockets of a remote reader: one RPC connection, and the group of connections that share handles.

Several calls can be pending on one connection. When the server takes only one at a time, or a connection is
full, another connection of the same association group is opened, so that a cancel always reaches the server
before the call that it cancels has ended (MQRR-146).
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

_CALLS_MAX: Final = 128  # servers limit the calls that are pending on one connection; ours to 256
# Detects a dead peer within two minutes, even while a read waits without a timeout.
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))

Authenticate = Callable[[], Authentication | None]
"""Creates the authentication of one connection."""


class LinkLostError(RemoteMachineNotAvailableError):
    """The connection was lost, with its handles and pending calls."""

    meaning = "the connection was lost"


class Answer(asyncio.Future[bytes]):
    """The stub of the answer to a call. After a cancellation, an answer that still comes is in `late`."""

    late: "asyncio.Future[bytes]"

    def cancel(self, msg: Any | None = None) -> bool:
        if not self.done():
            self.late = self.get_loop().create_future()
        return super().cancel(msg)


Tell = Callable[[bytes | Exception], None]
"""Called with the end of a call that has no waiter: cheaper than a future and a turn of the loop."""


class Channel(asyncio.Protocol):
    """One connection to one interface."""

    def __init__(self, connection: ClientConnection, where: str, port: int) -> None:
        self._connection = connection
        self._where = where
        self.port = port
        self._loop = asyncio.get_running_loop()
        self._bound: asyncio.Future[None] = self._loop.create_future()
        self._calls: dict[int, Answer | Tell] = {}
        self._room = 0  # calls that can still be made; 0 before the bind and after the end
        self._awaited = 0  # pending calls that have a waiter
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
        """Connects and binds; failures are MqErrors that name the cause."""
        where = f"{host} port {port}"
        loop = asyncio.get_running_loop()
        channel = None
        try:
            async with asyncio.timeout(timeout):
                # In a thread: Kerberos may contact a domain controller.
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
        """Whether a call would be sent at once."""
        return len(self._calls) < self._room

    @property
    def is_multiplexed(self) -> bool:
        return self._room > 1

    @property
    def group_id(self) -> int:
        return self._connection.group_id

    @property
    def peer(self) -> str:
        """The address of the server; all connections of a group must go to the same one."""
        assert self._transport is not None
        return str(self._transport.get_extra_info("peername")[0])

    def call(self, opnum: int, stub: bytes) -> Answer:
        """The stub of the answer, an RpcFault, or a LinkLostError when no answer can come.

        Of several calls in one turn of the loop, the first is sent at once and the others together.
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
        """Sends as many calls as there is room for, in one piece and at once."""
        answers = [self._call(opnum, stub) for stub in islice(stubs, self._room - len(self._calls))]
        self._flush()
        return answers

    def tell(self, opnum: int, stub: bytes, tell: Tell, seconds: float = 0.0) -> None:
        """A call without a waiter: sent with the next call, or after a moment if none follows."""
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

    # Called by asyncio.

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
        if answer.done():  # it came at once
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
                waiting.exception()  # there may be no waiter left; keeps asyncio from logging that
        self.on_end()

    def _lost(self) -> LinkLostError:
        problem = None if self.problem is None else f"the connection was given up: {self.problem}"
        return LinkLostError(self._where, problem=problem)


class Link:
    """The connections of one client to one server: an association group."""

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
        """Calls on a free connection; None if another one must be opened first."""
        for channel in self._channels:
            if channel.is_free:
                return channel.call(opnum, stub)
        return None

    def tell(self, opnum: int, stub: bytes, tell: Tell, seconds: float = 0.0) -> bool:
        """Calls together with the next call, without a waiter; False if only one can be pending."""
        for channel in self._channels:
            if channel.is_free and channel.is_multiplexed:
                channel.tell(opnum, stub, tell, seconds)
                return True
        return False

    def call_together(self, opnum: int, stubs: Iterable[bytes]) -> list[Answer]:
        """Sends as many calls as a free connection has room for, in one piece."""
        channel = next((channel for channel in self._channels if channel.is_free), None)
        return [] if channel is None else channel.call_together(opnum, stubs)

    async def call(self, opnum: int, stub: bytes) -> Answer:
        """Sends a call; returns the future of its answer."""
        while (answer := self.call_now(opnum, stub)) is None:
            async with self._opening:
                if self._is_lost:
                    raise LinkLostError("remote queue manager")
                if not any(channel.is_free for channel in self._channels):
                    self._add(await self._open_another(self._channels[0].group_id))
        return answer

    def break_off(self) -> None:
        """Aborts all connections; the server gives back messages that were not acknowledged."""
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
        # Handles live as long as the group, but calls do not: when one connection fails, all are replaced.
        channel.on_end = self.break_off
        self._channels.append(channel)
        if not channel.is_open:
            self.break_off()


def _explained(error: Exception, interface: Interface, host: str, where: str, limit: float) -> Exception:
    """The reason why no bound connection was made, as an error for users."""
    match error:
        case MqError():
            return error
        case UnknownInterfaceError():
            problem = f"it does not offer the {interface.name} interface: {error}"
            fix = "pass the port of its remote read service, or read on that computer itself"
            return OperationNotSupportedByRemoteComputerError(where, problem=problem, fix=fix)
        case BindError() | AuthenticationError():
            fix = "connect with a user, password and level that the server accepts"
            return AccessDeniedError(where, problem=f"it refused the logon: {error}", fix=fix)
        case OSError():
            return unreachable(error, host, where, limit)
        case PeerError():
            return RemoteMachineNotAvailableError(
                where, problem=f"the service there does not speak RPC: {error}"
            )
    return error


def unreachable(error: OSError, host: str, where: str, limit: float) -> MqError:
    """The reason why no connection was made."""
    match error:
        case TimeoutError():
            return RemoteMachineNotAvailableError(where, problem=f"it did not answer within {limit:g} s")
        case socket.gaierror():
            return ResolveAddressError(host)
    reason = os.strerror(error.errno) if error.errno else str(error)
    return RemoteMachineNotAvailableError(where, problem=f"cannot connect: {reason}")


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
