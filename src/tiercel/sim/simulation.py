"""One world from one seed: build it, inject faults, let it come to rest, check the invariants."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random

from tiercel.binary.settings import RESEND_TABLE_S, Peer, Settings
from tiercel.engine.queue_state import QueueState
from tiercel.model.format_name import DirectFormatName, PrivateFormatName
from tiercel.model.queue import OutgoingQueue
from tiercel.sim import http_links
from tiercel.sim.bursts import Bursts
from tiercel.sim.checkers import Invariants
from tiercel.sim.consumers import Consumers
from tiercel.sim.enemy import Enemy, EnemyOptions
from tiercel.sim.faults import FaultOptions, Faults
from tiercel.sim.http_enemy import HttpEnemy
from tiercel.sim.http_links import HttpLinks, Routing
from tiercel.sim.http_port import HttpPort, Proxies
from tiercel.sim.machine import Machine, Parts
from tiercel.sim.network import Network
from tiercel.sim.protection import Protection
from tiercel.sim.schedule import Schedule
from tiercel.sim.sent_messages import SentMessages
from tiercel.sim.setup import NAMES, addresses_of, gateway_of, installed
from tiercel.sim.topology import Topology, choose
from tiercel.sim.trace import Trace
from tiercel.sim.workload import Workload, WorkloadOptions, outgoing_queues
from tiercel.store.memory_store import MemoryStore

_HOUR = 3600.0
_PATIENCE_S = 30 * _HOUR  # after the faults: the longest interval of the resend table is six hours
_IDLE_S = 2 * _HOUR  # after coming to rest: all sessions must be closed by then
_SPEAK_S = 3 * _HOUR  # between messages of machines that others cannot dial
_MOST_WRITES = 20_000


@dataclass(slots=True)
class Result:
    seed: int
    problems: list[str] = field(default_factory=list)
    messages: int = 0
    writes: int = 0
    crashes: int = 0
    seconds: float = 0.0
    enemies: bool = False
    http: bool = False
    protected: bool = False

    @property
    def command(self) -> str:
        options = " --enemies" * self.enemies + " --http" * self.http + " --protected" * self.protected
        return f"python -m tiercel.sim --seed {self.seed} --trace{options}"

    def __str__(self) -> str:
        lines = [
            f"seed {self.seed}: {len(self.problems)} problems",
            *self.problems,
            f"replay: {self.command}",
        ]
        return "\n    ".join(lines)


def run(
    seed: int,
    parts: Parts | None = None,
    listener: Callable[[str], None] | None = None,
    *,
    enemies: bool = False,
    http: bool = False,
    protected: bool = False,
) -> Result:
    """Run the world of a seed from start to end; `listener` gets the trace line by line.

    With `enemies`, there is a hostile machine in half of the worlds. With `http`, some machines speak HTTP
    with each other. With `protected`, messages are signed and encrypted.
    """
    world = World(seed, parts or Parts(), listener, enemies=enemies, http=http, protected=protected)
    try:
        return world.run()
    except Exception:  # noqa: BLE001 -- any exception of the product is a finding
        world.trace("world", "ends with an error")
        return replace(world.result(), problems=[traceback.format_exc().rstrip()])


class World:
    def __init__(
        self,
        seed: int,
        parts: Parts,
        listener: Callable[[str], None] | None,
        *,
        enemies: bool = False,
        http: bool = False,
        protected: bool = False,
    ) -> None:
        self.seed = seed
        self.protection = Protection(self._random("protection")) if protected else None
        self._has_enemies = enemies
        self._has_http = http
        self._proxies = Proxies()
        self.links = HttpLinks()
        self.schedule = Schedule()
        self.trace = Trace(self.schedule, listener)
        self.sent_messages = SentMessages()
        random = self._random("world")
        self.network = Network(self.schedule, self._random("network"), self.trace)
        self.machines = [self._machine(index, parts) for index in range(random.choice((2, 2, 3, 3, 4)))]
        duration = random.choice((20.0, 120.0, 120.0, 600.0))
        topology = self._configure(random)
        is_focused = random.random() < 0.4  # heavy traffic in few streams
        workload = WorkloadOptions(
            actions=random.choice((6, 12, 20, 40)),
            duration=duration,
            forms=(*topology.forms, *parts.forms),
            expiring=random.choice((0.0, 0.0, 0.2)),
            refused=0.0 if is_focused else random.choice((0.0, 0.05, 0.2)),
            misspelt=random.choice((0.0, 0.0, 0.3)),
            router_purges=random.choice((0, 2, 5)) if topology.is_routed else 0,
        )
        if is_focused:
            workload.forms = (random.choice(workload.forms),)
            workload.local = 0.0
            if random.random() < 0.25:
                workload.actions, workload.bursts = 8, (1, 10, 40)
            self.network.strays = workload.forms == ("private",) and topology is Topology.KNOWN
            workload.transactional_queues, workload.plain_queues = ("orders",), ("news",)
        faults = FaultOptions(count=random.choice((0, 3, 6, 12, 20)), duration=duration)
        # A router whose clock is days ahead forwards nothing, and the senders retry for days.
        faults.leaps = not topology.is_routed and random.random() < 0.15
        faults.moves = random.random() < 0.15
        workload.addresses = 1 if faults.moves else 2
        if not topology.is_routed and not parts.forms and random.random() < 0.15:
            self._hide(random.randrange(len(self.machines)))
        if http:
            self._add_http(workload, faults)
        if self.protection is not None:
            self._protect(self.protection, workload)
        self._duration = duration
        self._drains = random.random() < 0.7
        self._drains_after_s = random.choice((0.0, 0.0, 0.0, 0.0, 3 * 86400.0))
        self._spoke = 0.0
        self.workload = self._applications("workload", workload)
        self.bursts = Bursts(
            self.machines,
            self.schedule,
            self.network,
            self._random("bursts"),
            self._applications("messages of bursts", workload),
            duration,
        )
        self.faults = Faults(
            self.machines, self.schedule, self.network, self._random("faults"), self.trace, faults
        )
        self.consumers = Consumers(
            self.machines, self.schedule, self._random("consumers"), self.trace, self.workload, duration
        )
        self.enemy = self._enemy(duration) if enemies else None
        self.enemies: list[Enemy | HttpEnemy] = []
        if self.enemy is not None:
            self.enemies.append(self.enemy)
            if http:
                self.enemies.append(self._http_enemy(self.enemy.options))
            self._drains_after_s = 0.0  # answers to made-up computers are tried for days, which takes long

    def _applications(self, purpose: str, options: WorkloadOptions) -> Workload:
        return Workload(
            self.machines, self.schedule, self._random(purpose), self.trace, self.sent_messages, options
        )

    def _random(self, purpose: str) -> Random:
        """A separate random source per part: a change in one does not affect the others."""
        return Random(f"{self.seed} {purpose}")  # noqa: S311 -- it must be the same every time

    def _machine(self, index: int, parts: Parts) -> Machine:
        _, _, disk = installed(index)
        name = NAMES[index]
        machine = Machine(
            name,
            addresses_of(index),
            MemoryStore(disk),
            parts,
            self.schedule,
            self.network,
            self._random(name),
            self.trace,
        )
        self.network.add(machine, name, f"{name}.example")
        return machine

    def _protect(self, protection: Protection, workload: WorkloadOptions) -> None:
        workload.protection = protection
        for machine in self.machines:
            machine.engine_options = partial(protection.engine_options, machine.name)

    def _add_http(self, workload: WorkloadOptions, faults: FaultOptions) -> None:
        random = self._random("http")
        self.links = workload.http = self._open_http_ports(random)
        if self.links.router:
            for machine in self.machines:
                routers = (*(machine.settings.in_routing_servers or ()), self.links.router.lower())
                machine.settings = replace(machine.settings, in_routing_servers=routers)
        workload.actions = random.choice((12, 20, 40, 60))
        workload.local = 0.05
        workload.weights |= {"transact": 50}
        workload.expiring = random.choice((0.0, 0.2, 0.5))  # gaps in streams, and streams without a beginning
        workload.router_purges = random.choice((0, 2, 5)) if self.links.routing is Routing.FORWARD else 0
        # Answers that leave too early, that say 500, and that come late.
        faults.weights |= {"crash_at_write": 30, "full": 6, "throttle": 6, "slow_disk": 8}
        faults.leaps &= (
            self.links.routing is Routing.NONE
        )  # what a router has when it expires is not sent again
        faults.leaps_s = (-700_000.0, 700_000.0)  # a stream is forgotten after half a year
        self.network.strays = False  # another computer answers 400, which is final

    def _open_http_ports(self, random: Random) -> HttpLinks:
        machines = [machine for machine in self.machines if not machine.is_hidden]
        names = [machine.name for machine in machines]
        links, common = http_links.choose(random, names), http_links.settings(random)
        self._proxies.lose = random.choice((0.0, 0.02, 0.1, 0.3))
        self._proxies.copy = random.choice((0.0, 0.05, 0.3))
        ports: dict[str, HttpPort] = {}
        for machine in machines:
            others = [name for name in names if name != machine.name]
            machine.http = HttpPort(
                machine,
                http_links.at(common, machine.name),
                links.redirections(machine.name, others),
                self._proxies,
                ports,
                self.schedule,
                self.network,
                self._random(f"{machine.name} http"),
                self.trace,
            )
        return links

    def _enemy(self, duration: float) -> Enemy | None:
        random = self._random("enemy")
        if random.random() < 0.5:
            return None
        options = EnemyOptions(
            count=random.choice((5, 15, 40)), duration=duration, is_pinned=random.random() < 0.5
        )
        if options.is_pinned:
            self._pin()
        return Enemy(
            self.machines, self.schedule, self.network, random, self.trace, self.sent_messages, options
        )

    def _http_enemy(self, options: EnemyOptions) -> HttpEnemy:
        """The same hostile computer."""
        return HttpEnemy(
            [machine.http for machine in self.machines if machine.http is not None],
            self.schedule,
            self.network,
            self._random("http enemy"),
            self.trace,
            self.sent_messages,
            options,
        )

    def _pin(self) -> None:
        """Pin the GUID of every machine to its addresses: nobody else may claim it."""
        peers = tuple(
            Peer(
                name=machine.name,
                guid=installed(index)[0],
                addresses=(machine.name.lower(), *machine.addresses, gateway_of(index)),
            )
            for index, machine in enumerate(self.machines)
        )
        for machine in self.machines:
            machine.settings = replace(machine.settings, peers=peers)

    def _hide(self, index: int) -> None:
        machine = self.machines[index]
        machine.is_hidden = True
        self.network.hide(machine, gateway_of(index))

    def _configure(self, random: Random) -> Topology:
        """The settings that the seed varies, and the routes between the machines."""
        common = Settings(
            window_size=random.choice((64, 64, 2, 1)),
            ping=random.random() < 0.2,
            retry_max_ms=random.choice((60_000, 5_000)),
            cleanup_ms=random.choice((None, None, 30_000)),
            resend_table_s=random.choice((RESEND_TABLE_S, RESEND_TABLE_S, (1, 5, 30))),
            history_size=random.choice((10_000, 10_000, 10_000, 5)),
            # Longer than most readers wait: their final acknowledgements come before the OrderAck.
            order_ack_delay_ms=random.choice((500, 500, 3_000)),
        )
        count = len(self.machines)
        topology = choose(random, count)
        if not topology.is_routed:  # a router must accept sessions
            common = replace(common, max_in_sessions=random.choice((*[None] * 14, 1, 3)))
        for index, machine in enumerate(self.machines):
            machine.settings = topology.settings(common, index, count)
        return topology

    # The run.

    def run(self) -> Result:
        for machine in self.machines:
            machine.start()
        self.workload.plan()
        self.bursts.plan()
        self.faults.plan()
        self.consumers.plan()
        for enemy in self.enemies:
            enemy.plan()
        self.schedule.run_until(self._duration)
        self.faults.end()
        self._proxies.lose = self._proxies.copy = 0.0
        for enemy in self.enemies:
            enemy.end()
        self.workload.settle()
        self.consumers.settle()
        self._rest()
        if self._drains:
            self.schedule.run_until(self.schedule.now + self._drains_after_s)
            self.trace("world", "everything is received")
            self.workload.drain()
            self._rest()
        problems = self._judge_rest()
        self.trace("world", "ends")
        problems += Invariants(
            self.machines, self.sent_messages, history_holds=self._history_holds()
        ).problems()
        problems += self.consumers.problems
        result = self.result()
        result.problems = problems
        return result

    def _rest(self) -> None:
        """Wait until nothing is in transit, and a while longer."""
        end = self.schedule.now + _PATIENCE_S
        while self.schedule.now < end:
            self.schedule.run_until(min(self.schedule.now + 600.0, end))
            if self._is_quiet() or self.network.writes > _MOST_WRITES:
                break
            if self.schedule.now < end:
                self._speak_again()

    def _speak_again(self) -> None:
        """Let machines that cannot be dialled, or not where they were, send something from time to time."""
        if self.schedule.now < self._spoke + _SPEAK_S:
            return
        self._spoke = self.schedule.now
        for machine in self.machines:
            if machine.is_hidden or machine.has_moved:
                self.workload.speak(machine)

    def _is_quiet(self) -> bool:
        if self.schedule.now - self.network.last_write < 600.0:
            return False
        return not any(
            _expires_soon(machine)
            or any(state.count for state in outgoing_queues(machine) if self._leads_somewhere(machine, state))
            for machine in self.machines
            if machine.is_up
        )

    def _leads_somewhere(self, machine: Machine, state: QueueState) -> bool:
        """Whether an outgoing queue is for a machine of this world, not for one that an enemy invented."""
        assert isinstance(state.queue, OutgoingQueue)
        name = state.queue.destination_format_name
        if self.enemy is None:
            return True
        if isinstance(name, PrivateFormatName):
            if state.answers_to in self.enemy.addresses:  # after an hour, it goes elsewhere
                seen = machine.engine.peers.address(name.queue_manager)
                has_routers = bool(machine.settings.out_routing_servers)
                return has_routers or seen not in {None, *self.enemy.addresses}
            return name.queue_manager in {installed(index)[0] for index in range(len(self.machines))}
        return isinstance(name, DirectFormatName) and self.network.knows(name.host, but=self.enemy)

    def _judge_rest(self) -> list[str]:
        """Check that the machines are silent after the last message, and all connections closed."""
        problems = [f"a session ended for no good reason: {text}" for text in self.network.complaints]
        if self.protection is not None:
            problems += self.protection.problems
        before = self.network.writes
        self.schedule.run_until(self.schedule.now + _IDLE_S)
        if self.network.writes > before:
            problems.append(
                f"{self.network.writes - before} writes to the network after everything had ended"
            )
        if self.network.writes > _MOST_WRITES:
            problems.append(f"{self.network.writes} writes to the network: something is sent again and again")
        for machine in self.machines:
            if not machine.is_up:
                problems.append(f"{machine} is down")
            if held := sorted(number for number, end in machine.ends.items() if end.peer is not None):
                problems.append(f"{machine} holds connections {held}")
            if machine.http is not None and machine.http.open_connections:
                problems.append(f"{machine} holds HTTP connections {machine.http.open_connections}")
        return problems

    def _history_holds(self) -> bool:
        """Whether the receivers' histories cover everything: no clock has jumped far, and there was space."""
        return all(
            machine.settings.history_size > len(self.sent_messages.all)
            and machine.settings.max_in_sessions is None  # a refused peer may try again after an hour
            and abs(machine.wall_offset) < 900
            and not machine.clock_has_leapt
            for machine in self.machines
        )

    def result(self) -> Result:
        return Result(
            self.seed,
            messages=len(self.sent_messages.all),
            writes=self.network.writes,
            crashes=sum(machine.crashes for machine in self.machines),
            seconds=self.schedule.now,
            enemies=self._has_enemies,
            http=self._has_http,
            protected=self.protection is not None,
        )


def _expires_soon(machine: Machine) -> bool:
    """Whether a message will expire, and its sender will be notified."""
    deadline = machine.engine.next_deadline
    return deadline is not None and deadline - machine.wall_clock() < 2 * _IDLE_S
