"""The sockets: performs the actions of the protocol, and turns network events into its inputs."""

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final
from weakref import WeakSet

from tiercel.binary.actions import Action, Dial, Resolve, SendDatagram, SessionEvent, Unwrap
from tiercel.binary.inputs import Inputs
from tiercel.engine.machine import Close, Write
from tiercel.model.codes import ConnectionStatus
from tiercel.server import log, tls
from tiercel.server.addresses import source_address
from tiercel.server.config import Config, Endpoint, LimitOptions
from tiercel.server.connection import Connection
from tiercel.server.connection_limits import ConnectionLimits
from tiercel.server.open_connections import OpenConnections
from tiercel.server.resolver import Resolver
from tiercel.server.socket_errors import STATUS_OF_ERROR, hresult

_TLS_HANDSHAKE_S: Final = 10
_SESSION_LINES: Final = 50  # a second, for each kind of event: strangers can open and close sessions all day
_SESSION_EVENTS: Final = {
    "accepted": logging.INFO,
    "opened": logging.INFO,
    "closed": logging.INFO,
    "refused": logging.WARNING,
}
_DATAGRAM_MAX_BYTES: Final = 1024  # a ping has 24 bytes

Put = Callable[..., None]


class Network:
    """`put(feed, argument, size)` calls `feed(argument)` in the next batch; `protocol` is set later."""

    protocol: Inputs

    def __init__(self, config: Config, put: Put) -> None:
        """Raises `ConfigError` for certificates that cannot be used."""
        self.limits: LimitOptions = config.limits
        self.put = put
        self.resolver = Resolver(config.hosts)
        self.connections: OpenConnections[Connection] = OpenConnections()
        self._config = config
        self._guests = ConnectionLimits("", self.limits.connections, self.limits.connections_per_address)
        # Separate places: strangers on the port without TLS must not keep those with certificates out.
        self._tls_guests = ConnectionLimits(
            "tls", self.limits.connections, self.limits.connections_per_address
        )
        self._tls: tls.Renewable[tls.Contexts] | None = None
        if config.tls.tls_certificate:
            self._tls = tls.Renewable("tls", lambda: tls.queue_manager_contexts(config.tls))
        self._handshakes: WeakSet[tls.TlsHandshake] = WeakSet()
        self._by_number: dict[int, Connection] = {}
        self._dials: dict[int, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._pings: _Datagrams | None = None  # the ping service
        self._questions: _Datagrams | None = None  # sends our pings
        self._handshake_failed = log.Repeated("tls_refused", level=logging.WARNING)
        self._evicted = log.Repeated("connections_evicted")
        self._peer_moved = log.Repeated("peer_address_changed", level=logging.WARNING)
        self._log_doubt = log.Repeated("not_believed")
        self._log_session = {
            name: log.Repeated(f"session_{name}", level=level, burst=_SESSION_LINES)
            for name, level in _SESSION_EVENTS.items()
        }
        self._cannot_decrypt = log.Repeated("cannot_decrypt", level=logging.ERROR)
        self._unwrapping = ThreadPoolExecutor(1, "unwrap")  # its thread starts with the first message
        self.failures: Counter[str] = Counter()  # failed connections by reason, since the start

    def change_limits(self, limits: LimitOptions) -> None:
        self.limits = limits
        for guests in (self._guests, self._tls_guests):
            guests.change(limits.connections, limits.connections_per_address)

    def renew_certificates(self) -> None:
        if self._tls is not None:
            self._tls.renew()

    # Listening.

    async def listen(self, sockets: Iterable[socket.socket] = ()) -> list[Endpoint]:
        """Listen on the given sockets, or else on the configured address. Raises `OSError`."""
        loop, options = asyncio.get_running_loop(), self._config.listen
        for each in sockets:
            server = await loop.create_server(self._incoming, sock=each, backlog=options.backlog)
            self._servers.append(server)
        if not self._servers:
            server = await loop.create_server(
                self._incoming, options.host, options.port, backlog=options.backlog
            )
            self._servers.append(server)
        if (endpoint := self._config.tls.endpoint) is not None:
            self._servers.append(await self._listen_for_tls(endpoint))
        if self._config.binary.ping:
            self._pings = await self._open_datagrams(self._config.binary.ping_port)
            self._questions = await self._open_datagrams(0)
        names = [each.getsockname() for server in self._servers for each in server.sockets]
        return [Endpoint(name[0], name[1]) for name in names]

    async def _listen_for_tls(self, endpoint: Endpoint) -> asyncio.Server:
        try:
            return await asyncio.get_running_loop().create_server(
                self._incoming_tls, endpoint.host, endpoint.port, backlog=self._config.listen.backlog
            )
        except OSError as problem:
            raise OSError(problem.errno, problem.strerror or str(problem), str(endpoint)) from problem

    async def _open_datagrams(self, port: int) -> "_Datagrams":
        transport, protocol = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: _Datagrams(self, is_reply=not port), local_addr=(self._config.listen.host, port)
        )
        protocol.transport = transport
        return protocol

    def stop_listening(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()
        for each in (self._pings, self._questions):
            if each is not None:
                each.transport.close()

    async def close(self, seconds: float) -> None:
        """Wait until the connections have ended, but at most `seconds`; then abort the rest."""
        self.stop_listening()
        self._abort_handshakes()
        for task in self._tasks:
            task.cancel()
        self._unwrapping.shutdown(wait=False, cancel_futures=True)
        await self.connections.wait_closed(seconds)

    def abort(self) -> None:
        """Abort all connections; unsent data is lost."""
        self.stop_listening()
        self._abort_handshakes()
        self._unwrapping.shutdown(wait=False, cancel_futures=True)
        self.connections.abort()

    def _abort_handshakes(self) -> None:
        for handshake in self._handshakes:
            handshake.abort_if_pending()

    # Called by connections.

    def _incoming(self) -> Connection:
        return Connection(self)

    def _incoming_tls(self) -> tls.TlsHandshake:
        assert self._tls is not None
        context = self._tls.current.server
        assert context is not None
        handshake = tls.TlsHandshake(Connection(self, is_tls=True), context, _TLS_HANDSHAKE_S)
        self._handshakes.add(handshake)
        return handshake

    def admits(self, connection: Connection) -> bool:
        guests = self._tls_guests if connection.is_tls else self._guests
        if guests.enter(connection, connection.address):
            return True
        self.failures["turned_away"] += 1
        return False

    def opened(self, connection: Connection) -> None:
        if connection.number is not None:
            self._by_number[connection.number] = connection
        self.connections.add(connection)

    def handshake_failed(self, connection: Connection, reason: str) -> None:
        self.failures["tls_handshake"] += 1
        self._handshake_failed(reason, address=connection.address)

    def has_carried(self, connection: Connection) -> bool:
        return connection.number is not None and self.protocol.has_carried(connection.number)

    def evicted(self, connection: Connection) -> None:
        self.failures["evicted"] += 1
        self._evicted(f"idle for {self.limits.idle_s} s or more, and others want to connect")
        self.lost(connection)

    def lost(self, connection: Connection) -> None:
        """Also for a connection that was never made, or was evicted."""
        self.connections.discard(connection)
        for guests in (self._guests, self._tls_guests):
            guests.leave(connection)

    # Inputs of the protocol, inside a batch.

    def feed_start(self, connection: Connection) -> None:
        if connection.number is not None:
            self.protocol.connected(connection.number, connection.certificate)
            return
        connection.number = self.protocol.accepted(connection.address, connection.certificate)
        self._by_number[connection.number] = connection

    def feed_received(self, arrived: tuple[Connection, bytes]) -> None:
        connection, data = arrived
        if connection.number is not None and not connection.is_closing:
            self.protocol.received(connection.number, data)

    def unwritable(self, connection: Connection) -> None:
        assert connection.number is not None
        # Outside a batch, because it only sets a flag, which a batch before the next turn must see.
        self.protocol.writable(connection.number, is_writable=False)

    def feed_writable(self, connection: Connection) -> None:
        if connection.number is not None and not connection.is_closing:
            self.protocol.writable(connection.number, is_writable=connection.is_writable)

    def feed_lost(self, connection: Connection) -> None:
        if connection.number is None or connection.is_closing:
            return
        self._by_number.pop(connection.number, None)
        self.protocol.disconnected(connection.number, hresult(connection.problem))

    def _feed_refused(self, refusal: tuple[int, ConnectionStatus, int, str]) -> None:
        self.failures[refusal[1].name.lower()] += 1
        self.protocol.connect_failed(*refusal)

    def _feed_unwrapped(self, answer: tuple[int, Any]) -> None:
        self.protocol.unwrapped(*answer)

    def _feed_resolved(self, answer: tuple[str, list[str]]) -> None:
        self.protocol.resolved(*answer)

    def feed_datagram(self, arrived: tuple[str, int, bytes, bool]) -> None:
        address, port, data, is_reply = arrived
        self.protocol.datagram(address, port, data, is_reply=is_reply)

    # Actions of the protocol, after the commit.

    def perform(self, actions: list[Action]) -> None:
        writes: dict[int, list[bytes]] = {}  # one write per connection
        for action in actions:
            match action:
                case Write(number, data):
                    writes.setdefault(number, []).append(data)
                case Close(number):
                    self._write(number, writes.pop(number, []))
                    self._close(number)
                case SessionEvent():
                    self.log_event(action)
                case Resolve(host):
                    self._start(self._resolve(host))
                case Dial(number):
                    self._dials[number] = self._start(self._dial(action))
                    self._dials[number].add_done_callback(partial(self._dialled, number))
                case SendDatagram():
                    self._send_datagram(action)
                case Unwrap(number):
                    self._start_unwrapping(action)
        for number, parts in writes.items():
            self._write(number, parts)

    def _write(self, number: int, parts: list[bytes]) -> None:
        connection = self._by_number.get(number)
        if connection is not None and parts and not connection.is_closing:
            connection.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def _close(self, number: int) -> None:
        if number in self._dials:
            self._dials[number].cancel()
        connection = self._by_number.pop(number, None)
        if connection is not None:
            connection.close()

    def log_event(self, event: SessionEvent) -> None:
        if event.event == "doubted":
            self._log_doubt(event.reason, address=event.address, peer=event.peer)
            return
        if event.event == "moved":
            self._peer_moved(event.reason, peer=event.peer, address=event.address)
            return
        if event.event == "opened" and event.connection in self._by_number:
            self._by_number[event.connection].established()
        self._log_session[event.event](
            event.reason, connection=event.connection, address=event.address, peer=event.peer
        )

    def _send_datagram(self, action: SendDatagram) -> None:
        sender = self._pings if action.is_reply else self._questions
        if sender is not None:
            sender.send(action.data, self.resolver.endpoint(action.address, action.port).host, action.port)

    def _start_unwrapping(self, action: Unwrap) -> None:
        connection = self._by_number.get(action.connection)
        if connection is not None:
            connection.pause_reading()
            self._start(self._unwrap(action, connection))

    async def _unwrap(self, action: Unwrap, connection: Connection) -> None:
        """In one thread for all connections: strangers can ask for as many as they like."""
        try:
            result = await asyncio.get_running_loop().run_in_executor(self._unwrapping, action.work)
        except Exception as problem:  # noqa: BLE001  # the sender keeps its messages, and sends them again
            self._cannot_decrypt(repr(problem), connection=action.connection)
            connection.transport.abort()
            return
        self.put(self._feed_unwrapped, (action.connection, result))
        connection.resume_reading()

    def _start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _resolve(self, host: str) -> None:
        try:
            addresses = await self.resolver.resolve(host, self.limits.connect_s)
        except (OSError, RuntimeError) as problem:  # no answer, or no thread for the lookup
            log.debug("lookup_failed", host=host, reason=problem)
            addresses = []
        if not addresses:
            self.failures[ConnectionStatus.DNS_FAILURE.name.lower()] += 1
        self.put(self._feed_resolved, (host, addresses))

    def _dialled(self, number: int, _task: "asyncio.Task[None]") -> None:
        del self._dials[number]

    async def _dial(self, action: Dial) -> None:
        number = action.connection
        try:
            endpoint = self.resolver.endpoint(action.address, action.port)
            async with asyncio.timeout(self.limits.connect_s):
                if action.is_tls:
                    await self._connect_tls(number, Endpoint(endpoint.host, action.port))
                else:
                    await self._connect(lambda: Connection(self, number), endpoint)
        except (OSError, ValueError) as problem:  # OSError includes TimeoutError and SSLError
            log.debug("dial_failed", connection=number, address=action.address, reason=problem)
            error = getattr(problem, "errno", None) or 0
            status = STATUS_OF_ERROR.get(error, ConnectionStatus.SOCKET_CONNECT_FAILURE)
            if isinstance(problem, ssl.SSLError):
                status = ConnectionStatus.CERTIFICATE_VALIDATION_FAILURE
            reason = self._tell_tls_failed(action, problem) if action.is_tls else ""
            self.put(self._feed_refused, (number, status, hresult(problem), reason))

    async def _connect(
        self,
        connection: Callable[[], Connection],
        endpoint: Endpoint,
        context: ssl.SSLContext | None = None,
    ) -> None:
        await asyncio.get_running_loop().create_connection(
            connection,
            endpoint.host,
            endpoint.port,
            local_addr=source_address(self._config.listen.host, endpoint.host),
            ssl=context,
        )

    async def _connect_tls(self, number: int, endpoint: Endpoint) -> None:
        """`[hosts]` may override DNS, but not the port of `tls` in `[[peers]]`."""
        if self._tls is None:  # the peer is new since the last reload
            raise ssl.SSLError(0, "[tls] has no certificate; set it and restart")
        await self._connect(lambda: Connection(self, number, is_tls=True), endpoint, self._tls.current.client)

    def _tell_tls_failed(self, action: Dial, problem: OSError | ValueError) -> str:
        reason = f"no TLS with {action.address} port {action.port}: {tls.sentence(problem)}"
        self._handshake_failed(reason, address=action.address)
        return reason


class _Datagrams(asyncio.DatagramProtocol):
    """A UDP socket; a datagram that cannot be sent at once is dropped."""

    transport: asyncio.DatagramTransport

    def __init__(self, network: Network, *, is_reply: bool) -> None:
        self._network = network
        self._is_reply = is_reply  # whether it receives the answers to our pings
        self._is_full = False

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False

    def send(self, data: bytes, host: str, port: int) -> None:
        if not self._is_full:
            self.transport.sendto(data, (host, port))

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        if len(data) <= _DATAGRAM_MAX_BYTES:
            arrived = (addr[0], addr[1], data, self._is_reply)
            self._network.put(self._network.feed_datagram, arrived, _DATAGRAM_MAX_BYTES)
