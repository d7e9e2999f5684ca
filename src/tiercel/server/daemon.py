r"""A queue manager on the network, on one event loop: the input of one turn of the loop is one batch.

    async with Daemon(config) as daemon:
        path = PathName.parse(r".\private$\orders")
        await daemon.call(lambda engine: engine.queues.create(path, owner))

Socket callbacks only queue their input. The next turn feeds all of it to the protocol, runs the commands of
all callers, commits once, and then releases the outputs; meanwhile the next batch gathers in the kernel.
"""

import asyncio
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar

from tiercel.engine.engine import Engine
from tiercel.engine.handles import Found, Waiter
from tiercel.model.errors import MqError, ServiceNotAvailableError, StoreDamagedError, StoreFailedError
from tiercel.remote_read.service import RemoteReadService
from tiercel.server import addresses, log, trust_file
from tiercel.server.certificate_expiry import ExpiryWatch
from tiercel.server.config import Config, Endpoint
from tiercel.server.driver import Driver, NetworkSettings
from tiercel.server.http_network import HttpNetwork
from tiercel.server.logons import providers
from tiercel.server.multicast_network import MulticastNetwork, why_unavailable
from tiercel.server.network import Network
from tiercel.server.node import Clock, Node
from tiercel.server.reads import Reads
from tiercel.server.remote_reading import RemoteReading
from tiercel.server.transports import Transports

_FATAL: Final = (StoreFailedError, StoreDamagedError)
_LONGEST_SLEEP_S: Final = 60.0  # the clock may be set meanwhile
_LOOKS: Final = 4  # polls of the sockets before a commit
_TURN_S: Final = 0.25  # then the rest of the input waits, so that commands are answered
_AFTER_A_BATCH_S: Final = 0.001  # a program holds a batch open over an `await`: retry soon

T = TypeVar("T")


class Face(Protocol):
    """Another interface of the daemon: started after its sockets, stopped before the store closes."""

    async def start(self, daemon: "Daemon") -> None:
        """Start it; an error leaves nothing behind."""

    def reload(self) -> None:
        """Read the certificates again, without dropping connections."""

    async def stop(self) -> None: ...

    @property
    def addresses(self) -> dict[str, str]:
        """Its addresses, by the field name in the log."""


class Daemon:
    """The constructor opens the store, `start` opens the sockets.

    `completed` is called for every wait that has ended, except those of `read`.
    """

    def __init__(
        self,
        config: Config,
        *,
        completed: Callable[[Waiter], None] = lambda _waiter: None,
        clock: Clock = time.time,
        faces: Iterable[Face] = (),
    ) -> None:
        self.config = config
        self.faces = list(faces)
        self._completed = completed
        self._reads = Reads()
        self.endpoints: list[Endpoint] = []
        self.turned_away: dict[str, Callable[[], int]] = {}  # connections, by interfaces in other processes
        self.failure: BaseException | None = None
        self.failed = asyncio.Event()
        self.network = Network(config, self._put)
        self.http = self._new_http(config)
        self.multicast = self._new_multicast(config)
        trust_file.check(config.security)
        node, known = config.node, trust_file.current(config.security)
        self.driver = Driver(
            node.data,
            clock=clock,
            completed=self._end_wait,
            deadline_changed=self._arm,
            computer_name=node.computer_name or None,
            max_bytes=node.max_bytes,
            life_bytes=config.life.max_bytes,
            network=NetworkSettings(
                self._attach,
                self._fail,
                addresses.own_names(config),
                everyone_may_send=config.access.everyone_may_send,
                believe_unsigned_senders=config.access.believe_unsigned_senders,
                hardened=config.access.hardened,
                verifier=trust_file.verifier(config.security, known),
                encryption=partial(trust_file.encryption, config.security, known),
                legacy=config.security.legacy,
            ),
        )
        self.protocol = self.transports.binary
        self._loop = asyncio.get_running_loop()
        self._inputs: list[tuple[Callable[[Any], None], Any]] = []
        self._input_bytes = 0
        self._calls: list[tuple[Callable[[Engine], Any], asyncio.Future[Any]]] = []
        self._is_scheduled = False
        self._is_turning = False
        self._timer: asyncio.TimerHandle | None = None
        self._expiry = ExpiryWatch(lambda: self.engine.verifier.trust)
        self._is_stopped = False
        self.turns = 0

    @property
    def engine(self) -> Engine:
        return self.driver.engine

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self, sockets: Iterable[socket.socket] = ()) -> None:
        """Listen on the given sockets or the configured address, and start sending the backlog."""
        try:
            if self.engine.queue_manager.hardened_security:  # only HTTP ([MS-MQDMPR] 3.1.1.1)
                log.warning("binary_off", reason="the queue manager is hardened: messages go over HTTP only")
            else:
                self.endpoints = await self.network.listen(sockets)
            if self.remote_reading is not None:
                self.endpoints += await self.remote_reading.listen()
            if self.http is not None:
                self.endpoints += await self.http.listen()
            if self.multicast is not None:
                self.endpoints.append(self.multicast.listen())
            self.driver.run(self._begin)
            await self._show_faces()
        except BaseException:
            self.abort()
            self._close()
            raise
        self._arm()
        self._expiry.start()
        manager, queues = self.engine.queue_manager, list(self.engine.queues.all())
        log.info(
            "start",
            version=version("tiercel"),
            guid=manager.identifier,
            computer=manager.computer_name,
            address=",".join(map(str, self.endpoints)),
            data=self.config.node.data,
            queues=sum(1 for queue in queues if self.engine.queues.is_visible(queue)),
            messages=sum(queue.count for queue in queues),
            **{name: address for face in self.faces for name, address in face.addresses.items()},
        )

    async def _show_faces(self) -> None:
        shown: list[Face] = []
        try:
            for face in self.faces:
                await face.start(self)
                shown.append(face)
        except BaseException:
            for face in reversed(shown):
                await face.stop()
            raise

    def _begin(self) -> None:
        wanted = self.config.access.insecure_nacks
        if wanted is not None and wanted != self.engine.queue_manager.send_insecure_nacks:
            self.engine.administration.set_properties(send_insecure_nacks=wanted)
        self._begin_srmp()
        if self.multicast is not None and not self.engine.queue_manager.srmp_pgm_support:
            self.engine.administration.set_properties(srmp_pgm_support=True)
        self.transports.start()
        self._warn_of_access_lists()
        if self.config.security.legacy:
            log.warning(
                "legacy_security",
                reason="[security] legacy allows MD5, 512-bit keys, RC2 and RC4, which can be broken",
            )
        routing = self.config.routing
        if routing.out_routing_servers and routing.in_routing_servers is None:
            log.info(
                "routing",
                in_routing_servers=",".join(routing.out_routing_servers),
                reason="not set; list all servers that pass on messages to this computer",
            )

    def _begin_srmp(self) -> None:
        manager = self.engine.queue_manager
        if manager.srmp_http_support != (self.http is not None):
            self.engine.administration.set_properties(srmp_http_support=self.http is not None)
        self._change_srmp_settings()

    def _change_srmp_settings(self) -> None:
        """The receipts of our streams come to the ports that the listeners really have."""
        if self.http is not None:
            manager = self.engine.queue_manager
            urls = self.http.urls(manager.qualified_computer_name or manager.computer_name)
            self.http.protocol.change_settings(self.config.srmp_settings(urls))

    def _warn_of_access_lists(self) -> None:
        for queue in self.engine.queues.all():
            if self.engine.queues.is_visible(queue) and self.engine.queues.ignores_named_senders(queue):
                log.warning(
                    "senders_not_verified",
                    queue=queue,
                    reason="its access list names accounts, and senders from other computers cannot prove "
                    "who they are: all of them count as Everyone and Anonymous. Let them sign and add their "
                    "certificates to [security] trust, or grant the right to send to Everyone",
                )

    async def stop(self, seconds: float = 2.0) -> None:
        """Refuse new connections, commit what has arrived, end the sessions, and close the store."""
        if self._is_stopped:
            return
        for face in reversed(self.faces):  # first: their open requests need a running daemon
            await face.stop()
        self._is_stopped = True
        self.network.stop_listening()
        if self.http is not None:
            self.http.stop_listening()
        if self.remote_reading is not None:
            self.remote_reading.close()
        try:
            if self.failure is None:
                for _ in range(2):  # input is read in one turn of the loop and fed in the next
                    await asyncio.sleep(0)
                self._turn()
            if self.failure is None:
                self._run(self.transports.stop)
            await asyncio.gather(
                self.network.close(seconds), *(() if self.http is None else (self.http.close(seconds),))
            )
            if self.multicast is not None:
                self.multicast.close()
        finally:
            self._close()
        log.info("stop", address=",".join(map(str, self.endpoints)))

    def _attach(self, node: Node) -> None:
        """Add the machines: the transports, and the service for remote readers."""
        self.transports = Transports(node, self.config.settings, self.network.perform)
        self.network.protocol = self.transports.binary
        if self.http is not None:
            settings = self.config.srmp_settings()
            self.http.protocol = self.transports.add_srmp(node, settings, self.http.perform)
        self._attach_multicast(node)
        self.remote_reading = self._new_remote_reading(node, self.config)

    def _new_http(self, config: Config) -> HttpNetwork | None:
        if not config.srmp.enabled:
            return None
        listen, resolver = config.listen, self.network.resolver
        return HttpNetwork(config.srmp, config.limits, listen.backlog, resolver, self._put)

    def _new_multicast(self, config: Config) -> MulticastNetwork | None:
        """Without the right to open its sockets everything else works (SRMP-194)."""
        if not config.multicast.enabled:
            return None
        try:
            return MulticastNetwork(config.multicast, self._put)
        except OSError as problem:
            log.warning("multicast_off", reason=why_unavailable(problem, config.multicast))
            return None

    def _attach_multicast(self, node: Node) -> None:
        if self.multicast is None:
            return
        if node.engine.queue_manager.hardened_security:  # only HTTP ([MS-MQDMPR] 3.1.1.1)
            log.warning("multicast_off", reason="the queue manager is hardened: messages go over HTTP only")
            self.multicast.close()
            self.multicast = None
            return
        network = self.multicast
        network.protocol = self.transports.add_multicast(
            node, self.config.multicast.settings, network.address, network.perform
        )

    def _new_remote_reading(self, node: Node, config: Config) -> RemoteReading | None:
        options, engine = config.remote_read, node.engine
        if not options.enabled:
            return None
        if engine.queue_manager.hardened_security:  # read only at the start ([MS-MQDMPR] 3.1.1.1)
            log.warning("remote_reading_off", reason="the queue manager is hardened: it answers no RPC")
            return None
        service = RemoteReadService(engine, options.settings)
        logons = providers(config.accounts, engine.queue_manager.computer_name)
        reading = RemoteReading(service, options, config.listen.host, self._put, logons)
        node.attach(service, reading.perform)
        return reading

    def abort(self) -> None:
        """Abort all connections; unsent data is lost."""
        self.network.abort()
        if self.http is not None:
            self.http.abort()
        if self.multicast is not None:
            self.multicast.close()

    def _close(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._expiry.stop()
        self._refuse_calls()
        self.driver.close()

    def call(self, command: Callable[[Engine], T], *, is_last: bool = False) -> "asyncio.Future[T]":
        """Run a command in the next batch; the future resolves when that batch is durable.

        An `MqError` means that the command did nothing. Any other exception stops the daemon, because the
        command may have been half done. `is_last`: the caller's clients have no more for this batch.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        if self._is_stopped or self.failure is not None:
            future.set_exception(_not_running() if self.failure is None else _failed(self.failure))
            return future
        self._calls.append((command, future))
        if is_last and not self._is_turning and not self.driver.is_in_batch and not self._has_connections():
            self._turn()  # polls for more input would be in vain
        else:
            self._schedule()
        return future

    async def read(self, command: Callable[[Engine], Found | Waiter]) -> Found:
        """A read that may wait. Cancelling it returns a message that has arrived already."""
        result = await self.call(command)
        return result if isinstance(result, Found) else await self._reads.result(self.driver, result)

    def _end_wait(self, waiter: Waiter) -> None:
        if not self._reads.completed(waiter):
            self._completed(waiter)

    def reload(self, config: Config) -> list[str]:
        """Apply what can change at run time, and read the certificates again.

        Returns the options that need a restart.
        """
        old = self.config
        self.config = replace(
            old,
            limits=config.limits,
            hosts=config.hosts,
            machines=config.machines,
            peers=config.peers,
            routing=config.routing,
            access=replace(old.access, only_peers=config.access.only_peers),
            log=replace(old.log, level=config.log.level),
        )
        self.network.change_limits(self.config.limits)
        self.network.renew_certificates()
        if self.http is not None:
            self.http.limits = self.config.limits
            self.http.renew_certificates()
        for face in self.faces:
            face.reload()
        self.network.resolver.hosts = self.config.hosts
        change = self.call(lambda _: self._change_settings())
        change.add_done_callback(lambda call: call.exception())  # a failure is reported elsewhere
        return changed_options(self.config, config)

    def _change_settings(self) -> None:
        self.transports.change_settings(self.config.settings)
        self._change_srmp_settings()

    # Turns.

    def _put(self, feed: Callable[[Any], None], argument: Any, size: int = 0) -> None:
        if self.failure is not None:
            return
        self._inputs.append((feed, argument))
        self._input_bytes += size
        is_much = self._input_bytes >= self.network.limits.batch_bytes  # in one turn of the loop
        if (is_much or self._has_heard_all()) and not self._is_turning:
            self._turn()
        else:
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._scheduled_turn, len(self._inputs) + len(self._calls), _LOOKS)

    def _scheduled_turn(self, seen: int, looks: int) -> None:
        """Poll for more input first: a poll costs microseconds, a commit milliseconds."""
        arrived = len(self._inputs) + len(self._calls)
        if not arrived:
            self._is_scheduled = False  # an earlier turn took them
        elif self.driver.is_in_batch:
            self._loop.call_later(_AFTER_A_BATCH_S, self._scheduled_turn, seen, looks)
        elif arrived != seen and looks:
            self._loop.call_soon(self._scheduled_turn, arrived, looks - 1)
        else:
            self._is_scheduled = False
            self._turn()

    def _has_heard_all(self) -> bool:
        """Whether all clients wait for an answer, so that no more input can come: polls would be in vain."""
        reading, http = self.remote_reading, self.http
        if self._calls or self.driver.is_in_batch:
            return False
        if reading is not None and reading.are_all_heard(len(self._inputs)):
            return True
        return http is not None and not self.network.connections and http.are_all_heard(len(self._inputs))

    def _has_connections(self) -> bool:
        """Whether other computers may have input for the next batch."""
        networks = (self.network, self.http, self.remote_reading)
        is_connected = any(each is not None and each.connections for each in networks)
        return is_connected or self.multicast is not None

    def _turn(self) -> None:
        calls, self._calls = self._calls, []
        inputs, self._inputs, self._input_bytes = self._inputs, [], 0
        results: list[tuple[asyncio.Future[Any], Any, MqError | None]] = []

        def feed() -> None:
            until = self._loop.time() + _TURN_S
            for number, (take, argument) in enumerate(inputs, 1):
                take(argument)
                if self._loop.time() > until and number < len(inputs):  # costly input, perhaps on purpose
                    self._inputs[:0] = inputs[number:]
                    self._schedule()
                    break
            for command, future in calls:
                if not future.done():
                    results.append((future, *self._result(command)))

        self._run(feed)
        if self.failure is not None:
            results = [(future, None, _failed(self.failure)) for _, future in calls]
        for future, value, problem in results:
            if future.done():
                continue
            if problem is None:
                future.set_result(value)
            else:
                future.set_exception(problem)

    def _result(self, command: Callable[[Engine], Any]) -> tuple[Any, MqError | None]:
        try:
            return command(self.engine), None
        except _FATAL:
            raise
        except MqError as problem:
            return None, problem

    def _run(self, batch: Callable[[], None]) -> None:
        self._is_turning = True
        self.turns += 1
        try:
            self.driver.run(batch)
        except Exception as problem:  # noqa: BLE001  # memory and store may differ now
            self._fail(problem)
        finally:
            self._is_turning = False

    def _fail(self, problem: BaseException) -> None:
        """Stop everything; nothing that was not durable has been sent."""
        if self.failure is not None:
            return
        self.failure = problem
        trace = None if isinstance(problem, MqError) else problem
        log.LOGGER.critical(
            "store_failed" if trace is None else "internal_error",
            exc_info=trace,
            extra=log.fields(reason=problem),
        )
        self.abort()
        self._refuse_calls()
        self.failed.set()

    def _refuse_calls(self) -> None:
        calls, self._calls = self._calls, []
        for _, future in calls:
            if not future.done():
                future.set_exception(_not_running())

    # Time.

    def _arm(self) -> None:
        """Set the timer for the next deadline; an earlier timer stays."""
        if self._is_stopped or self.failure is not None:
            return
        seconds = self.driver.seconds_to_deadline()
        if seconds is None:
            return
        due = self._loop.time() + min(seconds, _LONGEST_SLEEP_S)
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._is_stopped or self.failure is not None:
            return
        seconds = self.driver.seconds_to_deadline()
        if seconds is not None and seconds <= 0.0 and not self.driver.is_in_batch:
            self._turn()
        if self._timer is None:
            self._arm()


def changed_options(old: Config, new: Config) -> list[str]:
    """The options that differ, as `section.option`."""
    changed = []
    for section in Config.__dataclass_fields__:
        before, after = getattr(old, section), getattr(new, section)
        if before == after:
            continue
        names = getattr(before, "__dataclass_fields__", None)
        changed += (
            [section]
            if names is None
            else [f"{section}.{name}" for name in names if getattr(before, name) != getattr(after, name)]
        )
    return changed


def _failed(problem: BaseException) -> MqError:
    if isinstance(problem, MqError):
        return problem
    return StoreFailedError("queue manager", problem=f"its last batch ended half-way ({problem!r})")


def _not_running() -> MqError:
    return ServiceNotAvailableError("queue manager", problem="it is stopping", fix="start it again")
