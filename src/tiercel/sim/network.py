"""The network: byte streams that only guarantee order, names, and datagrams.

Bytes of a stream arrive late and in pieces of any size. When a stream is cut, both sides notice, or one, or
none; data in transit is then lost. Between two computers that cannot reach each other, bytes wait, as TCP
would retransmit them, and new connections fail.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Protocol

from tiercel.binary.actions import Action, Dial, Resolve, SendDatagram, SessionEvent, Unwrap
from tiercel.binary.inputs import Inputs
from tiercel.engine.machine import Close, Write
from tiercel.model.codes import ConnectionStatus
from tiercel.sim.schedule import Schedule
from tiercel.sim.trace import PacketReader, Trace

NOBODY = "192.0.2.99"  # an address without a computer
_ASKING_PORT = 50_000  # source port of pings
_REASONS_TO_CLOSE = (
    "idle",
    "no session after",
    "refused: ",
    "the peer acknowledges nothing",
    "the peer closed the connection",
    "the peer refused the session",
    "the addresses of the routing servers",
    "the queue manager",
    "there is no room",
    "we have reached ourselves",
)
_UNWRAP_S = 0.001  # seconds that opening a session key takes
_GIVES_UP_S = (
    60.0  # seconds between which lookups of names that do not exist end, together: a turn for each is slow
)
_RECORDED = 8  # connections whose bytes are kept for a replay
_RECORDED_BYTES = 100_000


class Host(Protocol):
    """A computer, as the network sees it."""

    ends: "dict[int, End]"  # its connections, by their numbers in its protocol

    @property
    def name(self) -> str: ...

    @property
    def addresses(self) -> tuple[str, ...]: ...

    @property
    def is_up(self) -> bool: ...

    @property
    def life(self) -> int:
        """The number of starts."""

    @property
    def protocol(self) -> Inputs: ...

    def post(self, command: Callable[[], None]) -> None:
        """Run a command in the next batch."""


class MovableHost(Host, Protocol):
    addresses: tuple[str, ...]


class Stranger:
    """A computer without a queue manager that connects to others."""

    def __init__(self, address: str) -> None:
        self.name = "stranger"
        self.addresses: tuple[str, ...] = (address,)
        self.is_up = True
        self.life = 0
        self.ends: dict[int, End] = {}
        self.protocol: Inputs

    def post(self, command: Callable[[], None]) -> None:
        """It ignores all input."""


@dataclass(eq=False, slots=True)
class End:
    """One side of a connection, and the data in transit to the other side; None is the end of the stream."""

    host: Host
    life: int
    number: int = 0
    peer: "End | None" = None
    is_open: bool = True  # as far as this side's operating system knows
    is_cut: bool = False
    hears_reset: bool = True  # notices a cut as soon as it writes
    flight: deque[bytes | None] = field(default_factory=deque)
    arrives: float = 0.0  # when the last byte in transit arrives
    stalled: int = 0
    sent: bytearray | None = None  # everything written, if it is recorded
    written: PacketReader | None = None
    read: PacketReader | None = None

    @property
    def is_alive(self) -> bool:
        return self.is_open and self.host.is_up and self.host.life == self.life


@dataclass(slots=True)
class Weather:
    """The current quality of the network; the faults change it."""

    latency: float = 0.001
    jitter: float = 0.002
    split: float = 0.2  # probability that bytes written together arrive in pieces
    refuse: float = 0.0  # probability that a connection is refused
    unknown: float = 0.0  # probability that a name cannot be resolved
    wrong_address: float = 0.0  # probability that a dead address comes before the right one
    lose_datagram: float = 0.0
    slow_names: float = 0.0  # maximum seconds for a name lookup


class Network:
    def __init__(self, schedule: Schedule, random: Random, trace: Trace) -> None:
        self._schedule = schedule
        self._random = random
        self._trace = trace
        self._hosts: dict[str, Host] = {}
        self._names: dict[str, Host] = {}
        self._blocked: dict[frozenset[str], int] = {}
        self._gateways: dict[str, str] = {}  # the address of the gateway, by the name of the host behind it
        self.weather = Weather()
        self.connections: dict[End, None] = {}  # the dialing ends of connections that are still in use
        self.recorded: list[End] = []
        self.complaints: list[str] = []  # sessions between two machines that ended without a good reason
        self._strange: set[tuple[str, int, int]] = set()  # connections from computers without a queue manager
        self.strays = False  # an expired OrderAck; a newer one says the same
        self._hostile: list[Host] = []
        self.writes = 0
        self.bytes_written = 0
        self.last_write = 0.0

    def add(self, host: Host, *names: str, is_hostile: bool = False) -> None:
        if is_hostile:
            self._hostile.append(host)
        for address in host.addresses:
            self._hosts[address] = host
        for name in names:
            self._names[name.casefold()] = host

    def hide(self, host: Host, gateway: str) -> None:
        """Put a host behind a gateway with network address translation: it can dial, but not be dialled."""
        self._gateways[host.name] = gateway
        self._hosts[gateway] = host

    def move(self, host: MovableHost, address: str) -> None:
        """Replace the last address of a host, as DHCP does; nobody answers at the old one."""
        self._trace(host.name, f"has the address {address} instead of {host.addresses[-1]}")
        del self._hosts[host.addresses[-1]]
        host.addresses = (*host.addresses[:-1], address)
        self._hosts[address] = host

    def knows(self, host: str, *, but: Host) -> bool:
        """Whether a name or address leads to a computer other than this one."""
        found = self._hosts.get(host) or self._names.get(host.casefold())
        return found is not None and found is not but

    def _source_address(self, host: Host) -> str:
        """The address that the other side of a connection sees."""
        return self._gateways.get(host.name) or self._random.choice(host.addresses)

    # Actions of a machine.

    def perform(self, host: Host, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Write():
                    if (end := host.ends.get(action.connection)) is not None:
                        self._write(end, action.data)
                case Close():
                    self._close(host, action.connection)
                case Dial():
                    self._dial(host, action)
                case Resolve():
                    self._resolve(host, action.host)
                case SendDatagram():
                    self._send_datagram(host, action)
                case SessionEvent():
                    self._trace_event(host, action)
                case Unwrap():
                    self._unwrap(host, action)

    def _unwrap(self, host: Host, action: Unwrap) -> None:
        """The thread beside the loop: always as slow, so that no random number is drawn."""
        life, result = host.life, action.work()

        def answer() -> None:
            if host.is_up and host.life == life:
                host.post(lambda: host.protocol.unwrapped(action.connection, result))

        self._schedule.after(_UNWRAP_S, answer)

    def _trace_event(self, host: Host, event: SessionEvent) -> None:
        peer = "" if event.peer is None else f" peer {str(event.peer)[:8]}"
        text = f"#{event.connection} {event.event} {event.address}{peer} {event.reason}"
        self._trace(host.name, text.rstrip())
        is_strange = (host.name, host.life, event.connection) in self._strange
        is_pinned = "is pinned to other addresses" in event.reason  # its name is not looked up again yet
        is_odd = not is_strange and not is_pinned and not event.reason.startswith(_REASONS_TO_CLOSE)
        if event.event == "closed" and is_odd:
            self.complaints.append(f"{host.name} {text}")

    def _delay(self) -> float:
        return self.weather.latency + self._random.random() * self.weather.jitter

    # Names.

    def _resolve(self, host: Host, name: str) -> None:
        addresses = self.look_up(name)
        self._trace(host.name, f"resolve {name}: {', '.join(addresses) or 'unknown'}")
        life = host.life

        def answer() -> None:
            if host.is_up and host.life == life:
                host.post(lambda: host.protocol.resolved(name, addresses))

        wait = self._delay() + self._random.random() * self.weather.slow_names
        if name not in self._hosts and name.casefold() not in self._names:
            wait = _GIVES_UP_S - self._schedule.now % _GIVES_UP_S
        self._schedule.after(wait, answer)

    def find(self, address: str) -> Host | None:
        return self._hosts.get(address)

    def look_up(self, name: str) -> list[str]:
        if name in self._hosts:
            return [name]
        found = self._names.get(name.casefold())
        if found is None or self._random.random() < self.weather.unknown:
            return []
        addresses = list(found.addresses)
        self._random.shuffle(addresses)
        if self.strays and self._random.random() < self.weather.wrong_address:
            addresses.insert(0, self._random.choice(self._honest_addresses()))
        if self._random.random() < self.weather.wrong_address:
            addresses.insert(self._random.randrange(len(addresses) + 1), NOBODY)
        return addresses

    def _honest_addresses(self) -> list[str]:
        """A name may lead to the wrong machine, but not to a hostile one: only a pin helps against that."""
        return [address for address, host in self._hosts.items() if host not in self._hostile]

    # Opening.

    def _dial(self, host: Host, dial: Dial) -> None:
        target = self._hosts.get(dial.address)
        self._trace(
            host.name, f"#{dial.connection} dial {dial.address} {target.name if target else 'nobody'}"
        )
        self.dial(host, dial.connection, target)

    def dial(self, host: Host, number: int, target: Host | None) -> None:
        """Open a connection from a host to another."""
        end = host.ends[number] = self._new_end(host, number)
        if target is None or target.name in self._gateways or self.is_blocked(host, target):
            self._schedule.after(self._random.uniform(1, 60), partial(self._fail, end))
        elif self._random.random() < self.weather.refuse:
            self._schedule.after(self._delay(), partial(self._fail, end))
        else:
            self._schedule.after(self._delay(), partial(self._knock, end, target))

    def _new_end(self, host: Host, number: int = 0) -> End:
        end = End(host, host.life, number)
        if self._trace.is_on:
            end.written, end.read = PacketReader(), PacketReader()
        return end

    def _knock(self, end: End, target: Host) -> None:
        if not end.is_alive:
            return
        if not target.is_up or self.is_blocked(end.host, target):
            self._schedule.after(self._delay(), partial(self._fail, end))
            return
        self._join(end, target, self._source_address(end.host))
        if len(self.recorded) < _RECORDED:
            end.sent = bytearray()
            self.recorded.append(end)
        self._schedule.after(self._delay(), partial(self._connected, end))

    def _join(self, end: End, target: Host, address: str) -> None:
        """Create the two ends of a new connection; the acceptor is told at once."""
        peer = self._new_end(target)
        end.peer, peer.peer = peer, end
        self.connections[end] = None

        def accept() -> None:
            peer.number = target.protocol.accepted(address)
            target.ends[peer.number] = peer
            if end.host.life == 0:
                self._strange.add((target.name, target.life, peer.number))
            if target.life == 0:
                self._strange.add((end.host.name, end.host.life, end.number))
            self._trace(target.name, f"#{peer.number} accepted from {end.host.name}")

        target.post(accept)

    def _connected(self, end: End) -> None:
        if end.is_alive and end.host.ends.get(end.number) is end:
            end.host.post(partial(self._if_wanted, end, lambda: end.host.protocol.connected(end.number)))

    def _fail(self, end: End) -> None:
        if end.is_alive and end.host.ends.get(end.number) is end:
            end.is_open = False
            del end.host.ends[end.number]
            self._trace(end.host.name, f"#{end.number} connect failed")
            status = ConnectionStatus.SOCKET_CONNECT_FAILURE
            end.host.post(lambda: end.host.protocol.connect_failed(end.number, status))

    def _if_wanted(self, end: End, command: Callable[[], None]) -> None:
        """Run a command, unless the process has closed the connection in the meantime."""
        if end.host.ends.get(end.number) is end:
            command()

    # Bytes.

    def _write(self, end: End, data: bytes) -> None:
        self.writes += 1
        self.bytes_written += len(data)
        self.last_write = self._schedule.now
        if not end.is_open:
            return
        if end.sent is not None and len(end.sent) < _RECORDED_BYTES:
            end.sent += data
        if end.written is not None:
            name = end.peer.host.name if end.peer is not None else "?"
            for line in end.written.read(data):
                self._trace(end.host.name, f"#{end.number} -> {name} {line}")
        for piece in self._pieces(data):
            self._launch(end, piece)

    def _pieces(self, data: bytes) -> list[bytes]:
        if len(data) < 2 or self._random.random() >= self.weather.split:
            return [data]
        cuts = sorted({self._random.randrange(1, len(data)) for _ in range(self._random.randint(1, 4))})
        return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]

    def _launch(self, end: End, piece: bytes | None) -> None:
        end.flight.append(piece)
        end.arrives = max(end.arrives, self._schedule.now + self._delay())
        self._schedule.at(end.arrives, partial(self._land, end))

    def _land(self, end: End) -> None:
        """Deliver the next piece of a stream to the other side, or drop it."""
        if not end.flight or end.peer is None:
            return
        peer = end.peer
        if self.is_blocked(end.host, peer.host):
            end.stalled += 1
            return
        piece = end.flight.popleft()
        if end.is_cut:
            if end.hears_reset and piece is not None:
                self._schedule.after(self._delay(), partial(self.hang_up, end))
        elif piece is None:
            self.hang_up(peer)
        elif peer.is_alive:
            peer.host.post(partial(self._receive, peer, piece))
        elif peer.host.is_up:  # the operating system does not know the connection
            self._schedule.after(self._delay(), partial(self.hang_up, end))

    def _receive(self, end: End, piece: bytes) -> None:
        if end.host.ends.get(end.number) is end:
            if end.read is not None and end.peer is not None:
                for line in end.read.read(piece):
                    self._trace(end.host.name, f"#{end.number} <- {end.peer.host.name} {line}")
            end.host.protocol.received(end.number, piece)

    def tell_writable(self, end: End, *, is_writable: bool) -> None:
        """Tell one side whether its operating system accepts more bytes for the connection."""
        if end.is_alive and end.host.ends.get(end.number) is end:
            self._trace(
                end.host.name, f"#{end.number} takes {'bytes again' if is_writable else 'no more bytes'}"
            )
            protocol = end.host.protocol
            end.host.post(
                partial(self._if_wanted, end, lambda: protocol.writable(end.number, is_writable=is_writable))
            )

    # Ending.

    def _close(self, host: Host, number: int) -> None:
        end = host.ends.pop(number, None)
        if end is None:
            return
        self._trace(host.name, f"#{number} close")
        if end.is_open:
            end.is_open = False
            if end.peer is not None:
                self._launch(end, None)
            self._forget(end)

    def hang_up(self, end: End) -> None:
        """Tell one side that the connection is gone."""
        if not end.is_alive:
            return
        end.is_open = False
        self._forget(end)

        def tell() -> None:
            del end.host.ends[end.number]
            self._trace(end.host.name, f"#{end.number} disconnected")
            end.host.protocol.disconnected(end.number)

        end.host.post(partial(self._if_wanted, end, tell))

    def _forget(self, end: End) -> None:
        peer = end.peer
        if peer is None or not peer.is_open:
            self.connections.pop(end, None)
            if peer is not None:
                self.connections.pop(peer, None)

    def cut(self, end: End, *, dialer_hears: bool, acceptor_hears: bool) -> None:
        """Cut a connection; data in transit is lost. A side that is not told may notice on writing."""
        assert end.peer is not None
        names = f"{end.host.name}#{end.number} and {end.peer.host.name}#{end.peer.number}"
        hearers = [each for each, hears in ((end, dialer_hears), (end.peer, acceptor_hears)) if hears]
        heard = " and ".join(each.host.name for each in hearers) or "nobody"
        self._trace("network", f"cut between {names}; {heard} hears of it")
        for each in (end, end.peer):
            each.is_cut = True
            each.hears_reset = self._random.random() < 0.5
        for each in hearers:
            self._schedule.after(self._random.random() * 2, partial(self.hang_up, each))
        if not hearers:
            self.connections.pop(end, None)

    def stopped(self, host: Host, *, is_silent: bool) -> None:
        """Handle the end of a process: its operating system closes the connections, unless it is down too."""
        for end in host.ends.values():
            if not end.is_open:
                continue
            end.is_open = False
            if is_silent:
                for _ in range(self._random.randint(0, len(end.flight))):
                    end.flight.pop()
            elif end.peer is not None:
                self._launch(end, None)
            self._forget(end)
        host.ends.clear()

    # Partitions.

    def is_blocked(self, one: Host, other: Host) -> bool:
        return bool(self._blocked) and frozenset((one.name, other.name)) in self._blocked

    def block(self, one: Host, other: Host) -> None:
        pair = frozenset((one.name, other.name))
        self._blocked[pair] = self._blocked.get(pair, 0) + 1
        self._trace("network", f"{one.name} and {other.name} cannot reach each other")

    def unblock(self, one: Host, other: Host) -> None:
        pair = frozenset((one.name, other.name))
        left = self._blocked.pop(pair, 0) - 1
        if left > 0:
            self._blocked[pair] = left
            return
        self._trace("network", f"{one.name} and {other.name} can reach each other again")
        for dialer in list(self.connections):
            for end in (dialer, dialer.peer):
                if (
                    end is not None
                    and end.stalled
                    and end.peer is not None
                    and not self.is_blocked(end.host, end.peer.host)
                ):
                    for _ in range(end.stalled):
                        end.arrives = max(end.arrives, self._schedule.now + self._delay())
                        self._schedule.at(end.arrives, partial(self._land, end))
                    end.stalled = 0

    # Connections from other computers.

    def intrude(self, stranger: Host, target: Host, data: bytes, *, stays: bool) -> None:
        """Connect, send bytes and ignore any answer."""
        if not target.is_up:
            return
        end = self._new_end(stranger)
        end.hears_reset = False
        self._join(end, target, stranger.addresses[0])
        if data:
            self._write(end, data)
        if not stays:
            self._schedule.after(self._random.random() * 30, lambda: self._leave(end))

    def _leave(self, end: End) -> None:
        if end.is_open:
            end.is_open = False
            self._launch(end, None)
            self._forget(end)

    # Datagrams.

    def _send_datagram(self, host: Host, sent: SendDatagram) -> None:
        target = self._hosts.get(sent.address)
        if target is None or self._random.random() < self.weather.lose_datagram:
            return
        if target.name in self._gateways and not sent.is_reply:
            return

        def arrive() -> None:
            if target.is_up and not self.is_blocked(host, target):
                source, port = self._gateways.get(host.name, host.addresses[0]), _ASKING_PORT
                target.post(lambda: target.protocol.datagram(source, port, sent.data, is_reply=sent.is_reply))

        self._schedule.after(self._delay(), arrive)
