"""The HTTP side of a machine: SRMP on the same network, with connections of its own.

HTTP passes proxies. They may lose a request or its answer together with the connection, and they may deliver
a copy of a request later, even when newer ones have arrived.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from tiercel.binary.certificate import Certificate
from tiercel.binary.inputs import Inputs
from tiercel.engine.machine import Close, Write
from tiercel.model.codes import ConnectionStatus
from tiercel.sim.network import End, Network, Stranger
from tiercel.sim.schedule import Schedule
from tiercel.sim.trace import Trace
from tiercel.srmp.actions import Action, Dial, HttpEvent
from tiercel.srmp.protocol import SrmpProtocol
from tiercel.srmp.redirections import Redirections
from tiercel.srmp.settings import Settings

if TYPE_CHECKING:
    from tiercel.sim.machine import Machine

_COPY_COMES_AFTER_S = (0.0, 0.1, 2.0, 60.0)


@dataclass(slots=True)
class Proxies:
    """How badly the proxies of the world behave; all zero when the faults are over."""

    lose: float = 0.0  # probability that a request or an answer is lost with its connection
    copy: float = 0.0  # probability that a request is delivered once more


class HttpPort:
    """A `Host` of the network beside the machine, and the `Inputs` of its connections."""

    def __init__(
        self,
        machine: "Machine",
        settings: Settings,
        redirections: Redirections,
        proxies: Proxies,
        ports: "dict[str, HttpPort]",
        schedule: Schedule,
        network: Network,
        random: Random,
        trace: Trace,
    ) -> None:
        self.machine = machine
        self.settings = settings
        self.ends: dict[int, End] = {}
        self.srmp: SrmpProtocol
        self._redirections = redirections
        self._proxies = proxies
        self._ports = ports  # of all machines, by name
        self._schedule = schedule
        self._network = network
        self._random = random
        self._trace = trace
        ports[machine.name] = self

    # A host of the network.

    @property
    def name(self) -> str:
        return self.machine.name

    @property
    def addresses(self) -> tuple[str, ...]:
        return self.machine.addresses

    @property
    def is_up(self) -> bool:
        return self.machine.is_up

    @property
    def life(self) -> int:
        return self.machine.life

    @property
    def protocol(self) -> Inputs:
        return self

    def post(self, command: Callable[[], None]) -> None:
        self.machine.post(command)

    @property
    def open_connections(self) -> list[int]:
        """Without those that are being dialled: receipts for a hostile machine may never reach it."""
        return [number for number, end in self.ends.items() if end.peer is not None]

    # The protocol.

    def attach(self) -> None:
        """A start of the machine, before its first batch."""
        machine = self.machine
        self.srmp = machine.transports.add_srmp(machine.node, self.settings, self._perform)

    def start(self) -> None:
        """In the first batch."""
        if self.srmp.redirections.current != self._redirections:
            self.srmp.redirections.change(self._redirections)

    # Actions.

    def _perform(self, actions: list[Action]) -> None:
        if actions:
            self.machine.after_commit(partial(self._act, actions))

    def _act(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Dial():
                    self._dial(action)
                case Write():
                    self._write(action)
                case Close():
                    self._network.perform(self, [action])
                case HttpEvent():
                    text = f"HTTP {action.event} {action.address} {action.queue} {action.reason}"
                    self._trace(self.name, text.rstrip())

    def _dial(self, dial: Dial) -> None:
        """Addresses are tried in turn, so one that leads nowhere costs only time."""
        hosts = [self._network.find(address) for address in self._network.look_up(dial.host)]
        names = [host.name for host in hosts if host is not None]
        self._trace(
            self.name, f"#{dial.connection} dial {dial.host}:{dial.port} {names[0] if names else 'nobody'}"
        )
        self._network.dial(self, dial.connection, self._ports.get(names[0]) if names else None)

    def _write(self, write: Write) -> None:
        end = self.ends.get(write.connection)
        if end is None:
            return
        self._network.perform(self, [write])
        is_request = end in self._network.connections
        dialer = end if is_request else end.peer
        if dialer is None or dialer.peer is None or dialer.is_cut:
            return
        if self._random.random() < self._proxies.lose:
            self._trace("network", f"a proxy loses {'a request' if is_request else 'an answer'}")
            dialer_hears, acceptor_hears = self._random.choice(((True, True), (True, False), (False, False)))
            self._network.cut(dialer, dialer_hears=dialer_hears, acceptor_hears=acceptor_hears)
        if is_request and self._random.random() < self._proxies.copy:
            delay = self._random.choice(_COPY_COMES_AFTER_S) * self._random.random()
            assert end.peer is not None
            copy = partial(self._deliver_copy, end.peer.host.name, write.data)
            self._schedule.after(delay, copy)

    def _deliver_copy(self, target: str, data: bytes) -> None:
        self._trace("network", f"a proxy delivers a copy of a request of {self.name} to {target}")
        self._network.intrude(Stranger(self.addresses[0]), self._ports[target], data, stays=False)

    # Network events: `Inputs`.

    def accepted(self, address: str, certificate: Certificate | None = None) -> int:
        del certificate
        return self.srmp.accepted(address)

    def connected(self, connection: int, certificate: Certificate | None = None) -> None:
        del certificate
        peer = self.ends[connection].peer
        assert peer is not None
        self.srmp.connected(connection, peer.host.addresses[0])

    def connect_failed(
        self, connection: int, status: ConnectionStatus, error: int = 0, reason: str = ""
    ) -> None:
        self.srmp.connect_failed(connection, status, error, reason)

    def received(self, connection: int, data: bytes) -> None:
        self.srmp.received(connection, data)

    def disconnected(self, connection: int, error: int = 0) -> None:
        self.srmp.disconnected(connection, error)

    def has_carried(self, connection: int) -> bool:
        return connection in self.ends

    def writable(self, connection: int, *, is_writable: bool) -> None: ...

    def resolved(self, host: str, addresses: list[str]) -> None: ...

    def unwrapped(self, connection: int, result: Any) -> None: ...

    def datagram(self, address: str, port: int, data: bytes, *, is_reply: bool) -> None: ...
