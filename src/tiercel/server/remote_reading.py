"""Remote readers on the network: the RPC endpoint of [MS-MQRR], and the endpoint mapper."""

import asyncio
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Final, cast

from tiercel.remote_read.actions import Action, CallId, Enlist, Fault
from tiercel.remote_read.calls import REMOTE_READ, TOKEN_MAX_BYTES
from tiercel.remote_read.server_stub import ServerStub
from tiercel.remote_read.service import RemoteReadService
from tiercel.rpc.associations import Associations
from tiercel.rpc.endpoint_mapper import ENDPOINT_MAPPER, EndpointMapper, MappedEndpoint
from tiercel.rpc.security import Providers
from tiercel.rpc.server import Call, Event, Limits, ServerConnection, Service
from tiercel.server import log
from tiercel.server.config import Endpoint, RemoteReadOptions
from tiercel.server.connection_limits import ConnectionLimits, Standing

_NEXT_PORT: Final = 11  # [MS-MQRR] note 4: the step to the next port if one is taken
_PORTS_TRIED: Final = 50
_UNHURRIED_S: Final = 0.005  # delay of an answer that no call waits for, so that it travels with the next one
# Strangers may begin a call on every connection: no call has room for more than it can need.
_CALLS: Final = Limits(max_request_bytes=TOKEN_MAX_BYTES + 4096)  # the largest argument, and the others
_MAPPER_CALLS: Final = Limits(max_request_bytes=16384)

Put = Callable[..., None]


class RemoteReading:
    """`put(feed, argument, size)` calls `feed(argument)` in the next batch."""

    def __init__(
        self,
        service: RemoteReadService,
        options: RemoteReadOptions,
        host: str,
        put: Put,
        providers: Providers,
    ) -> None:
        self.service = service
        self.put = put
        self._loop = asyncio.get_running_loop()
        self.options = options
        self._host = options.host or host
        self._stub = ServerStub(service)
        self._rpc = Service((REMOTE_READ,), Associations(os.urandom), providers, _CALLS)
        self._mapper = EndpointMapper()
        self._mapper_rpc = Service((ENDPOINT_MAPPER,), Associations(os.urandom), limits=_MAPPER_CALLS)
        self._servers: list[asyncio.Server] = []
        self.connections: set[RpcConnection] = set()
        self.limits = ConnectionLimits("reader", options.connections, options.connections_per_address)
        self.mapper_limits = ConnectionLimits(
            "endpoint_mapper", options.connections, options.connections_per_address
        )
        self.log_connected = log.Repeated("reader_connected", field="address")
        self.log_stranger = log.Repeated("reader_never_logged_on")
        self._by_rpc: dict[object, RpcConnection] = {}
        self._touched: dict[RpcConnection, None] = {}  # may have something to send
        self._unhurried: dict[RpcConnection, None] = {}  # have answers that no call waits for
        self._later: dict[RpcConnection, list[Event]] = {}  # calls that wait until answers have left
        service.is_blocked = self._is_blocked
        self._timer: asyncio.TimerHandle | None = None
        self._heard: set[RpcConnection] = set()  # sent something since the last batch
        self.port = 0

    # Listening.

    async def listen(self) -> list[Endpoint]:
        """Listen; a taken port is skipped, as on Windows. Raises `OSError`."""
        listener = self._free_socket()
        loop = self._loop
        self._servers.append(await loop.create_server(lambda: RpcConnection(self, self._rpc), sock=listener))
        self.port = self.service.port = listener.getsockname()[1]
        if self.options.endpoint_mapper:
            self._mapper.endpoints = (
                MappedEndpoint(REMOTE_READ.syntax, self.port, "Message Queuing - RemoteRead V1"),
            )
            server = await loop.create_server(
                lambda: MapperConnection(
                    self._mapper_rpc, self._mapper, self.mapper_limits, self.options.logon_s
                ),
                self._host,
                self.options.endpoint_mapper_port,
            )
            self._servers.append(server)
        return [Endpoint(self._host, self.port)]

    def _free_socket(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        port = self.options.port
        for attempt in range(_PORTS_TRIED):
            # Named as TCP: asyncio turns Nagle's delays off only for sockets that say so.
            listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((self._host, port + attempt * _NEXT_PORT if port else 0))
            except OSError:
                listener.close()
                if not port or attempt == _PORTS_TRIED - 1:
                    raise
            else:
                return listener
        raise AssertionError("the last attempt either listens or raises")

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            connection.transport.abort()

    # Input of connections; the feeds run inside a batch.

    def opened(self, connection: "RpcConnection") -> bool:
        if not self.limits.enter(connection, connection.address):
            return False
        self.connections.add(connection)
        self._by_rpc[connection.rpc] = connection
        return True

    def heard(self, connection: "RpcConnection", data: bytes) -> None:
        self._heard.add(connection)
        self.put(self.feed_received, (connection, data), len(data))

    def are_all_heard(self, inputs: int) -> bool:
        """Whether every reader has sent its input: then no more can come before one is answered."""
        return inputs == len(self._heard) == len(self.connections)

    def feed_received(self, arrived: "tuple[RpcConnection, bytes]") -> None:
        connection, data = arrived
        events = connection.rpc.receive(data)
        if connection in self._later:
            self._later[connection] += events
        else:
            self._take(connection, events)

    def feed_later(self, connection: "RpcConnection") -> None:
        """Goes on with a connection whose client has read the answers so far."""
        self.service.unblock()
        self._take(connection, self._later.pop(connection, ()))

    def _take(self, connection: "RpcConnection", events: Sequence[Event]) -> None:
        self._touched[connection] = None
        left = self._stub.take_all(connection.rpc, events)
        if left:
            self._later[connection] = list(left)

    def _is_blocked(self, call: CallId) -> bool:
        """Whether the client of the call does not read its answers."""
        shell = self._by_rpc.get(cast("tuple[object, object]", call)[0])
        return shell is not None and shell.is_paused

    def feed_lost(self, connection: "RpcConnection") -> None:
        """Abandon the calls of the connection; with the last one of its group, also the handles."""
        for event in connection.rpc.connection_lost():
            self._stub.take(connection.rpc, event)
        self.connections.discard(connection)
        self._by_rpc.pop(connection.rpc, None)
        self._touched.pop(connection, None)
        self._unhurried.pop(connection, None)
        self._later.pop(connection, None)

    # Actions of the service, after the commit.

    def perform(self, actions: Iterable[Action]) -> None:
        touched, unhurried, by_rpc = self._touched, self._unhurried, self._by_rpc
        for action in actions:
            self._stub.perform(action)
            if isinstance(action, Enlist):
                continue
            shell = by_rpc.get(cast("tuple[object, object]", action.call)[0])
            if shell is not None:
                (touched if isinstance(action, Fault) or action.is_awaited else unhurried)[shell] = None
        for connection in self._touched:
            connection.flush()
            self._unhurried.pop(connection, None)
        self._touched.clear()
        self._heard.clear()
        for connection in list(self._later):
            if not connection.is_paused:
                self.put(self.feed_later, connection)
        if self._unhurried and self._timer is None:
            self._timer = self._loop.call_later(_UNHURRIED_S, self._flush_unhurried)

    def _flush_unhurried(self) -> None:
        """Send the answers that had nothing to travel with."""
        self._timer = None
        for connection in self._unhurried:
            connection.flush()
        self._unhurried.clear()


class RpcConnection(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self, owner: RemoteReading, service: Service) -> None:
        self._owner = owner
        self._service = service
        self._was_made = False
        self.is_paused = False
        self._deadline: asyncio.TimerHandle | None = None
        self._reason = ""  # we closed it

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop has classes of its own
        self.address = peer_address(transport)
        self.rpc = ServerConnection(self._service, self.address)
        if not self._owner.opened(self):
            self.transport.abort()
            return
        self._was_made = True
        seconds = self._owner.options.logon_s
        self._deadline = asyncio.get_running_loop().call_later(seconds, self._check_logon)
        self._owner.log_connected(self.address)

    @property
    def standing(self) -> Standing:
        group = self.rpc.association
        if group is not None and group.has_handles:  # a queue let it in
            return Standing.BUSY
        return Standing.IDLE if self.rpc.is_logged_on else Standing.STRANGER

    def _check_logon(self) -> None:
        if self.standing is Standing.STRANGER:
            self._end(f"no logon within {self._owner.options.logon_s} s")

    def evict(self) -> None:
        self._end("its place was needed")

    def _end(self, reason: str) -> None:
        self._reason = reason
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._was_made:
            self._owner.heard(self, data)

    # Clients that stop reading are paused.

    def pause_writing(self) -> None:
        self.is_paused = True
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self.is_paused = False
        self.transport.resume_reading()
        self._owner.put(self._owner.feed_later, self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._owner.limits.leave(self)
        if self._was_made:
            reason = (
                self._reason or self.rpc.problem or (str(exc) if exc else "the reader closed the connection")
            )
            if self.standing is Standing.STRANGER:
                self._owner.log_stranger(reason)
            else:
                log.info("reader_disconnected", address=self.address, reason=reason)
            self._owner.put(self._owner.feed_lost, self)

    def flush(self) -> None:
        if self.transport.is_closing():
            return
        data = self.rpc.data_to_send()
        if data:
            self.transport.write(data)
        if self.rpc.is_closing:
            self.transport.close()


class MapperConnection(asyncio.Protocol):
    """The endpoint mapper needs no batch: it answers at once. A connection lasts at most `seconds`."""

    transport: asyncio.Transport
    standing = Standing.STRANGER  # nobody logs on here

    def __init__(
        self, service: Service, mapper: EndpointMapper, limits: ConnectionLimits, seconds: float
    ) -> None:
        self._service = service
        self._mapper = mapper
        self._limits = limits
        self._seconds = seconds

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop has classes of its own
        peer = peer_address(transport)
        self._rpc = ServerConnection(self._service, peer)
        self._address = transport.get_extra_info("sockname")[0]
        self._deadline = asyncio.get_running_loop().call_later(self._seconds, self.transport.abort)
        self._limits.enter(self, peer)  # never refused: there is always a stranger to evict

    def evict(self) -> None:
        self.transport.abort()

    def pause_writing(self) -> None:
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        for event in self._rpc.receive(data):
            if isinstance(event, Call):
                self._rpc.answer(event, lambda call: self._mapper.answer(call, self._address))
        self.transport.write(self._rpc.data_to_send())
        if self._rpc.is_closing:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._deadline.cancel()
        self._limits.leave(self)
        self._rpc.connection_lost()


def peer_address(transport: asyncio.BaseTransport) -> str:
    peer = transport.get_extra_info("peername")
    return str(peer[0])
