"""The faults, and when they end."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random

from tiercel.sim.http_port import HttpPort
from tiercel.sim.machine import Machine
from tiercel.sim.network import End, Network, Stranger, Weather
from tiercel.sim.schedule import Schedule
from tiercel.sim.trace import Trace
from tiercel.wire.base_header import INTERNAL, SESSION_HEADER
from tiercel.wire.framer import Framer

_DOWN_S = (0.01, 1.0, 20.0, 200.0)
_JUMPS_S = (-3600.0, -60.0, -2.0, 2.0, 60.0, 600.0)


@dataclass(slots=True)
class FaultOptions:
    """The kinds of faults of this seed, and their number."""

    count: int = 12
    duration: float = 120.0
    leaps: bool = False  # whether clocks jump so far that all messages expire
    leaps_s: tuple[float, ...] = (-40_000_000.0, -700_000.0, 700_000.0)
    moves: bool = False  # whether machines get new addresses
    weights: dict[str, int] = field(
        default_factory=lambda: {
            "cut": 10,
            "half_open": 8,
            "crash": 10,
            "crash_at_write": 14,
            "block": 6,
            "storm": 5,
            "slow_disk": 4,
            "clock": 4,
            "names": 3,
            "intruder": 2,
            "replay": 2,
            "stop": 3,
            "full": 3,
            "throttle": 2,
            "clog": 3,
            "offline": 2,
            "move": 4,
        }
    )


def _without_acknowledgements(data: bytes) -> Iterator[bytes]:
    """The packets that may be replayed; replaying session acknowledgements could lose any message."""
    framer = Framer()
    framer.receive(data)
    for packet in framer.packets():
        if not packet[2] & SESSION_HEADER:
            yield packet
        elif not packet[2] & INTERNAL:
            return


class Faults:
    def __init__(
        self,
        machines: list[Machine],
        schedule: Schedule,
        network: Network,
        random: Random,
        trace: Trace,
        options: FaultOptions,
    ) -> None:
        self._machines = machines
        self._schedule = schedule
        self._network = network
        self._random = random
        self._trace = trace
        self._options = options
        self._is_over = False
        self._latest_offset = 0.0  # of any clock, ever
        self._calm = Weather()
        self._blocked: list[tuple[Machine, Machine]] = []
        self._clogged: list[End] = []
        self._throttled: list[Callable[[], None]] = []

    def plan(self) -> None:
        self._calm = self._network.weather
        for _ in range(self._options.count):
            self._schedule.at(self._random.random() * self._options.duration, self._strike)

    def end(self) -> None:
        """End all faults, and start every machine that is down."""
        self._is_over = True
        self._trace("world", "the faults are over")
        self._network.weather = Weather()
        while self._blocked:
            self._network.unblock(*self._blocked.pop())
        for end in self._clogged:
            self._network.tell_writable(end, is_writable=True)
        for recover in self._throttled:
            recover()
        for machine in self._machines:
            machine.disk.commit_s = 0.001
            machine.disk.max_bytes = None
            machine.disk.writes_to_crash = None
            if self._options.leaps:  # clocks that differ by days keep messages from being accepted
                machine.wall_offset = self._latest_offset
            machine.start()

    def _strike(self) -> None:
        weights = self._options.weights
        fault = self._random.choices(list(weights), list(weights.values()))[0]
        strike: Callable[[], None] = getattr(self, f"_{fault}")
        strike()

    def _later(self, delay: float, action: Callable[[], None]) -> None:
        """Schedule an action, unless the faults are over by then."""
        self._schedule.after(delay, lambda: None if self._is_over else action())

    # The network.

    def _cut(self) -> None:
        if (end := self._some_connection()) is not None:
            self._network.cut(end, dialer_hears=True, acceptor_hears=True)

    def _half_open(self) -> None:
        if (end := self._some_connection()) is not None:
            dialer_hears, acceptor_hears = self._random.choice(((True, False), (False, True), (False, False)))
            self._network.cut(end, dialer_hears=dialer_hears, acceptor_hears=acceptor_hears)

    def _some_connection(self) -> End | None:
        ends = [end for end in self._network.connections if end.peer is not None and not end.is_cut]
        return self._random.choice(ends) if ends else None

    def _block(self) -> None:
        one, other = self._random.sample(self._machines, 2)
        self._network.block(one, other)
        self._blocked.append((one, other))
        self._later(self._random.choice((0.5, 5.0, 50.0, 500.0)), partial(self._unblock, (one, other)))

    def _unblock(self, pair: tuple[Machine, Machine]) -> None:
        self._blocked.remove(pair)
        self._network.unblock(*pair)

    def _storm(self) -> None:
        """Delay everything for a while, and refuse some connections."""
        latency = self._random.choice((0.01, 0.3, 3.0, 30.0))
        self._trace("network", f"a storm: {latency} s late")
        self._set_weather(
            Weather(latency / 10, latency, split=0.8, refuse=0.3, lose_datagram=0.5, wrong_address=0.3)
        )

    def _names(self) -> None:
        """Make name lookups slow or unreliable for a while."""
        self._trace("network", "names are hard to look up")
        self._set_weather(
            Weather(unknown=0.6, wrong_address=0.6, slow_names=self._random.choice((0.1, 20.0)))
        )

    def _set_weather(self, weather: Weather) -> None:
        self._network.weather = weather

        def clear_up() -> None:
            if self._network.weather is weather:
                self._trace("network", "the storm is over")
                self._network.weather = self._calm

        self._later(self._random.choice((1.0, 10.0, 60.0)), clear_up)

    def _intruder(self) -> None:
        """Connect from a computer without a queue manager."""
        data = self._random.choice((b"", b"GET / HTTP/1.0\r\n\r\n", self._random.randbytes(600), b"\x10\x5a"))
        stranger = Stranger("10.9.9.9")
        machine = self._random.choice(self._machines)
        self._trace("stranger", f"connects to {machine.name} and sends {len(data)} bytes")
        self._network.intrude(stranger, machine, data, stays=self._random.random() < 0.5)

    def _replay(self) -> None:
        """Replay a connection of a machine: everything that it wrote, from the beginning."""
        recorded = [end for end in self._network.recorded if end.sent and end.peer is not None]
        if not recorded:
            return
        end = self._random.choice(recorded)
        assert end.sent is not None
        assert end.peer is not None
        stranger = Stranger(end.host.addresses[0])
        self._trace("stranger", f"repeats to {end.peer.host.name} what {end.host.name} wrote")
        data = bytes(end.sent)
        if not isinstance(end.host, HttpPort):
            data = b"".join(_without_acknowledgements(data))
        self._network.intrude(stranger, end.peer.host, data, stays=self._random.random() < 0.5)

    # The machines.

    def _crash(self) -> None:
        machine = self._random.choice(self._machines)
        if machine.is_up:
            machine.crash()
            self._restart_later(machine)

    def _crash_at_write(self) -> None:
        machine = self._random.choice(self._machines)
        machine.disk.kept = self._random.random() < 0.5
        machine.disk.is_error = self._random.random() < 0.1
        machine.disk.writes_to_crash = self._random.choice((1, 2, 3, 5, 8, 13, 21, 34))
        self._watch(machine, machine.life)

    def _watch(self, machine: Machine, life: int) -> None:
        """Restart the machine some time after it has crashed on a write."""
        if machine.is_up and machine.life == life:
            self._later(0.5, partial(self._watch, machine, life))
        else:
            self._restart_later(machine)

    def _restart_later(self, machine: Machine) -> None:
        self._later(self._random.choice(_DOWN_S) * (0.5 + self._random.random()), machine.start)

    def _stop(self) -> None:
        """Stop the queue manager properly, and start it again."""
        machine = self._random.choice(self._machines)
        life = machine.life
        machine.post(lambda: None if self._is_over else machine.stop())
        self._watch(machine, life)

    def _move(self) -> None:
        """Restart a machine with a new address for its second network card."""
        if not self._options.moves:
            return
        machine = self._random.choice(self._machines)
        if machine.is_up:
            machine.crash()
        machine.has_moved = True
        self._network.move(machine, f"10.{self._random.randint(1, 200)}.{machine.addresses[0][5:]}")
        self._restart_later(machine)

    def _full(self) -> None:
        """Leave the store almost no space for a while."""
        machine = self._random.choice(self._machines)
        machine.disk.max_bytes = machine.store.size + 64 * 1024 + self._random.choice((0, 500, 20_000))
        machine.was_short = True
        self._trace(machine.name, "its disk is nearly full")

        def recover() -> None:
            machine.disk.max_bytes = None

        self._later(self._random.choice((1.0, 20.0, 60.0)), recover)

    def _throttle(self) -> None:
        """Make the queue manager refuse messages for a while."""
        machine = self._random.choice(self._machines)
        if not machine.is_up:
            return
        life = machine.life
        self._trace(machine.name, "takes no messages")
        machine.was_short = True
        machine.post(machine.engine.administration.begin_flow_control)

        def recover() -> None:
            if machine.life == life:
                machine.post(machine.engine.administration.end_flow_control)

        self._throttled.append(recover)
        self._later(self._random.choice((1.0, 20.0, 60.0)), recover)

    def _offline(self) -> None:
        """Take the queue manager offline, as an administrator would, for a while."""
        machine = self._random.choice(self._machines)
        if not machine.is_up:
            return
        life = machine.life
        self._trace(machine.name, "goes offline")
        machine.post(machine.engine.administration.take_offline)

        def recover() -> None:
            if machine.life == life and machine.is_up:
                self._trace(machine.name, "goes online")
                machine.post(machine.engine.administration.bring_online)

        self._throttled.append(recover)
        self._later(self._random.choice((1.0, 20.0, 60.0)), recover)

    def _clog(self) -> None:
        """Block one side of a live connection from sending for a while."""
        dialer = self._some_connection()
        end = dialer if dialer is None or self._random.random() < 0.5 else dialer.peer
        if end is None:
            return
        self._network.tell_writable(end, is_writable=False)
        self._later(
            self._random.choice((0.1, 5.0, 50.0)), partial(self._network.tell_writable, end, is_writable=True)
        )
        self._clogged.append(end)

    def _slow_disk(self) -> None:
        machine = self._random.choice(self._machines)
        machine.disk.commit_s = self._random.choice((0.05, 1.0, 10.0))
        self._trace(machine.name, f"its disk takes {machine.disk.commit_s} s")

        def recover() -> None:
            machine.disk.commit_s = 0.001

        self._later(self._random.choice((1.0, 20.0, 60.0)), recover)

    def _clock(self) -> None:
        machine = self._random.choice(self._machines)
        jumps = self._options.leaps_s if self._options.leaps else _JUMPS_S
        jump = self._random.choice(jumps) * self._random.random()
        machine.wall_offset += jump
        self._latest_offset = max(self._latest_offset, machine.wall_offset)
        machine.clock_has_leapt = machine.clock_has_leapt or self._options.leaps
        self._trace(machine.name, f"its clock jumps by {jump:.1f} s")
        if self._random.random() < 0.5:
            machine.poke()
