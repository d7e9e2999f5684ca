"""The sockets of SRMP: performs the actions of the protocol, and turns network events into its inputs."""

import asyncio
import logging
import os
import ssl
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final
from weakref import WeakSet

from tiercel.engine.machine import Close, Write
from tiercel.model.codes import ConnectionStatus
from tiercel.server import log, tls
from tiercel.server.addresses import source_address
from tiercel.server.config import Endpoint, LimitOptions, SrmpOptions
from tiercel.server.connection_limits import ConnectionLimits
from tiercel.server.http_connection import HttpConnection
from tiercel.server.open_connections import OpenConnections
from tiercel.server.proxy_tunnel import ProxyError, open_tunnel
from tiercel.server.resolver import Resolver, TooManyLookupsError
from tiercel.server.socket_errors import STATUS_OF_ERROR, hresult
from tiercel.srmp.actions import Action, Dial, HttpEvent
from tiercel.srmp.protocol import SrmpProtocol

_HANDSHAKE_S: Final = 10  # for the TLS handshake of a client
_ACCEPTED: Final = b"HTTP/1.1 2"

Put = Callable[..., None]


class HttpNetwork:
    """`put(feed, argument, size)` calls `feed(argument)` in the next batch; `protocol` is set later."""

    protocol: SrmpProtocol

    def __init__(
        self,
        options: SrmpOptions,
        limits: LimitOptions,
        backlog: int,
        resolver: Resolver,
        put: Put,
    ) -> None:
        """Raises `ConfigError` for certificates that cannot be used."""
        self.put = put
        self.limits = limits
        self.failures: Counter[str] = Counter()  # failed connections by reason, since the start
        self.guests = ConnectionLimits(
            "http", options.connections, options.connections_per_address, options.trusted_proxies
        )
        self.connections: OpenConnections[HttpConnection] = OpenConnections()
        self.port = self.https_port = 0  # where it listens
        self._options = options
        self._backlog = backlog
        self._resolver = resolver
        self._tls = tls.Renewable("srmp", lambda: tls.srmp_contexts(options))
        self._servers: list[asyncio.Server] = []
        self._handshakes: WeakSet[tls.TlsHandshake] = WeakSet()
        self._by_number: dict[int, HttpConnection] = {}
        self._dials: dict[int, asyncio.Task[None]] = {}
        self._heard: set[HttpConnection] = set()  # sent something since the last batch
        self._ending: list[HttpConnection] = []  # close them after the answers of this batch
        self._log = {
            "refused": log.Repeated("http_request_refused"),
            "dropped": log.Repeated("http_message_dropped", level=logging.WARNING),
            "doubted": log.Repeated("not_believed"),
            "failed": log.Repeated("http_send_failed"),
        }

    # Listening.

    async def listen(self) -> list[Endpoint]:
        """Raises an `OSError` that names the address."""
        options, endpoints = self._options, []
        if options.http:
            self.port = await self._listen(options.port, lambda: HttpConnection(self))
            endpoints.append(Endpoint(options.host, self.port))
        if self._tls.current.server is not None:
            self.https_port = await self._listen(options.https_port, self._new_tls_connection)
            endpoints.append(Endpoint(options.host, self.https_port))
        return endpoints

    async def _listen(self, port: int, new: Callable[[], asyncio.Protocol]) -> int:
        host = self._options.host
        try:
            server = await asyncio.get_running_loop().create_server(new, host, port, backlog=self._backlog)
        except OSError as problem:
            where = str(Endpoint(host, port))
            raise OSError(problem.errno, problem.strerror or str(problem), where) from problem
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    def _new_tls_connection(self) -> tls.TlsHandshake:
        context = self._tls.current.server
        assert context is not None
        handshake = tls.TlsHandshake(HttpConnection(self), context, _HANDSHAKE_S)
        self._handshakes.add(handshake)
        return handshake

    def renew_certificates(self) -> None:
        if self._options.tls_certificate or self._options.ca:
            self._tls.renew()

    def urls(self, host: str) -> tuple[str, str]:
        """Where others reach the listeners, over HTTP and HTTPS: as configured, or `host` and the port."""
        options = self._options
        return (
            options.http_url or (_url("http", host, self.port, 80) if self.port else ""),
            options.https_url or (_url("https", host, self.https_port, 443) if self.https_port else ""),
        )

    def stop_listening(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()

    async def close(self, seconds: float) -> None:
        """Wait until the connections have ended, but at most `seconds`; then abort the rest."""
        self.stop_listening()
        for handshake in self._handshakes:
            handshake.abort_if_pending()
        for task in list(self._dials.values()):
            task.cancel()
        await self.connections.wait_closed(seconds)

    def abort(self) -> None:
        """Abort all connections; unsent data is lost."""
        self.stop_listening()
        for handshake in self._handshakes:
            handshake.abort_if_pending()
        self.connections.abort()

    # Called by connections.

    def opened(self, connection: HttpConnection) -> None:
        if connection.number is not None:
            self._by_number[connection.number] = connection
        self.connections.add(connection)

    def heard(self, connection: HttpConnection, data: bytes) -> None:
        self._heard.add(connection)
        self.put(self.feed_received, (connection, data), len(data))

    def are_all_heard(self, inputs: int) -> bool:
        """Whether every connection has sent its input: then no more can come before one is answered."""
        return inputs == len(self._heard) == len(self.connections)

    def lost(self, connection: HttpConnection) -> None:
        self.connections.discard(connection)

    def handshake_failed(self, reason: str) -> None:
        self.failures["tls_handshake"] += 1
        self._log["refused"](reason)

    # Inputs of the protocol, inside a batch.

    def feed_start(self, connection: HttpConnection) -> None:
        if connection.number is None:
            connection.number = self.protocol.accepted(connection.address)
            self._by_number[connection.number] = connection
        elif not connection.is_closing:
            self.protocol.connected(connection.number, connection.address)

    def feed_received(self, arrived: tuple[HttpConnection, bytes]) -> None:
        connection, data = arrived
        if connection.number is not None and not connection.is_closing:
            self.protocol.received(connection.number, data)

    def feed_end(self, connection: HttpConnection) -> None:
        """The client has nothing more to say; what it said is answered in this batch."""
        if connection.number is not None and not connection.is_closing:
            self.protocol.disconnected(connection.number)
            self._ending.append(connection)

    def feed_lost(self, connection: HttpConnection) -> None:
        if connection.number is None or connection.is_closing:
            return
        self._by_number.pop(connection.number, None)
        reason = "" if connection.problem is None else str(connection.problem)
        self.protocol.disconnected(connection.number, hresult(connection.problem), reason)

    def _feed_refused(self, refusal: tuple[int, ConnectionStatus, int, str]) -> None:
        self.failures[refusal[1].name.lower()] += 1
        self.protocol.connect_failed(*refusal)

    # Actions of the protocol, after the commit.

    def perform(self, actions: list[Action]) -> None:
        self._heard.clear()
        for action in actions:
            match action:
                case Write(number, data):
                    self._write(number, data)
                case Close(number):
                    self._close(number)
                case Dial(number):
                    task = asyncio.get_running_loop().create_task(self._dial(action))
                    self._dials[number] = task
                    task.add_done_callback(partial(self._dialled, number))
                case HttpEvent():
                    self._log_event(action)
        ending, self._ending = self._ending, []
        for connection in ending:
            self._by_number.pop(connection.number or 0, None)
            connection.close()

    def _dialled(self, number: int, _task: "asyncio.Task[None]") -> None:
        del self._dials[number]

    def _write(self, number: int, data: bytes) -> None:
        connection = self._by_number.get(number)
        if connection is not None and not connection.is_closing:
            connection.is_known = connection.is_known or data.startswith(_ACCEPTED)
            connection.write(data)

    def _close(self, number: int) -> None:
        if number in self._dials:
            self._dials[number].cancel()
        connection = self._by_number.pop(number, None)
        if connection is not None:
            connection.close()

    def _log_event(self, event: HttpEvent) -> None:
        self._log[event.event](event.reason, address=event.address, queue=event.queue)

    # Dialling.

    async def _dial(self, action: Dial) -> None:
        try:
            endpoints = await self._resolve(action)
            async with asyncio.timeout(self.limits.connect_s):
                await self._connect(endpoints, action)
        except ssl.SSLCertVerificationError as problem:
            reason = f"the certificate of {action.host} is not valid: {problem.verify_message}"
            self._refuse(action, ConnectionStatus.CERTIFICATE_VALIDATION_FAILURE, problem, reason)
        except ssl.SSLError as problem:
            reason = f"no TLS with {action.host}: {problem.reason or problem}"
            self._refuse(action, ConnectionStatus.SOCKET_CONNECT_FAILURE, problem, reason)
        except (_UnknownHostError, TooManyLookupsError) as problem:
            self._refuse(action, ConnectionStatus.DNS_FAILURE, problem, str(problem))
        except TimeoutError as problem:
            reason = f"{action.host} did not answer within {self.limits.connect_s} s"
            self._refuse(action, ConnectionStatus.SOCKET_CONNECT_FAILURE, problem, reason)
        except ProxyError as problem:
            self._refuse(action, ConnectionStatus.SOCKET_CONNECT_FAILURE, problem, str(problem))
        except (OSError, ValueError, RuntimeError) as problem:  # RuntimeError: no thread for the lookup
            number = getattr(problem, "errno", None) or 0
            status = STATUS_OF_ERROR.get(number, ConnectionStatus.SOCKET_CONNECT_FAILURE)
            why = os.strerror(number).lower() if number else str(problem)
            self._refuse(action, status, problem, f"cannot connect to {action.host}: {why}")

    def _refuse(self, action: Dial, status: ConnectionStatus, problem: Exception, reason: str) -> None:
        self.put(self._feed_refused, (action.connection, status, hresult(problem), reason))

    async def _resolve(self, action: Dial) -> list[Endpoint]:
        """The addresses of the host, or of the proxy."""
        host, port = action.tunnel or (action.host, action.port)
        seconds = self.limits.connect_s
        found = await self._resolver.resolve(host, seconds, for_receipts=action.is_for_receipts)
        if not found:
            raise _UnknownHostError(f"the name {host} has no address")
        # `[hosts]` may override DNS, but not the port of a URL.
        return [Endpoint(Endpoint.parse(each).host, port) for each in found]

    async def _connect(self, endpoints: list[Endpoint], action: Dial) -> None:
        """Try the addresses in turn."""
        for endpoint in endpoints[:-1]:
            try:
                async with asyncio.timeout(self.limits.connect_s / len(endpoints)):
                    await self._connect_to(endpoint, action)
            except ssl.SSLError:
                raise
            except OSError as problem:
                log.debug("dial_failed", host=action.host, address=endpoint.host, reason=problem)
            else:
                return
        await self._connect_to(endpoints[-1], action)

    async def _connect_to(self, endpoint: Endpoint, action: Dial) -> None:
        connection = HttpConnection(self, action.connection)
        source = source_address(self._options.host, endpoint.host)
        if action.tunnel is not None:
            await open_tunnel(endpoint, source, action, connection, self._tls.current.client)
            return
        await asyncio.get_running_loop().create_connection(
            lambda: connection,
            endpoint.host,
            endpoint.port,
            local_addr=source,
            ssl=self._tls.current.client if action.is_tls else None,
            server_hostname=action.host if action.is_tls else None,
        )


class _UnknownHostError(Exception):
    pass


def _url(scheme: str, host: str, port: int, default: int) -> str:
    return f"{scheme}://{host}" if port == default else f"{scheme}://{host}:{port}"
