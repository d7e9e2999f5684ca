"""A computer with one queue manager: its disk, its two clocks, its starts and stops.

Input waits in a mailbox and is processed in batches, as in the daemon. A batch with a slow commit keeps the
machine busy, and its outputs leave when the disk is done.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any
from uuid import UUID

from tiercel.binary.actions import Action
from tiercel.binary.inputs import Inputs
from tiercel.binary.settings import Settings
from tiercel.engine.engine import Engine
from tiercel.engine.identity import Identity
from tiercel.engine.life import DEFAULT_MAX_BYTES as LIFE_MAX_BYTES
from tiercel.model.errors import StoreFailedError
from tiercel.security.access import Token
from tiercel.server.node import Node
from tiercel.server.transports import Transports
from tiercel.sim.http_port import HttpPort
from tiercel.sim.network import End, Network
from tiercel.sim.schedule import Event, Schedule
from tiercel.sim.trace import Trace
from tiercel.store.memory_store import CommitFails, Crash, MemoryStore, Write

START = 1_700_000_000  # wall-clock time at the start of the world
OWNER = Token.local_system()
_TICK = 0.0001  # minimum seconds of one turn of the loop
_TURNS_PER_SECOND = 2_000  # above this, the machine is spinning
_OVERDUE_TURNS = 1_000  # in a row, after each of which a deadline is still in the past


class SpinError(Exception):
    """A machine keeps running turns without progress."""


@dataclass(frozen=True)
class Parts:
    """The components of a machine; the tests of the simulator substitute broken ones."""

    engine: type[Engine] = Engine
    node: type[Node] = Node
    transports: "Callable[[Machine], Transports]" = lambda machine: machine.new_transports()
    forms: tuple[str, ...] = ()  # extra forms of format names for the applications, besides those of the seed


@dataclass(slots=True)
class Note:
    """A callback for the outcome of a batch: True if it became durable."""

    decide: Callable[[bool], None]


@dataclass(slots=True)
class Disk:
    """The speed and the planned failures of the disk."""

    commit_s: float = 0.001
    max_bytes: int | None = None
    writes_to_crash: int | None = None
    kept: bool = False  # whether the commit that crashes had reached the disk
    is_error: bool = False  # fail the commit instead of crashing


class Machine:
    def __init__(
        self,
        name: str,
        addresses: tuple[str, ...],
        store: MemoryStore,
        parts: Parts,
        schedule: Schedule,
        network: Network,
        random: Random,
        trace: Trace,
    ) -> None:
        self.name = name
        self.addresses = addresses
        self.store = store
        self.settings = Settings()
        self.disk = Disk()
        self.is_hidden = False  # behind a gateway: it can dial, but not be dialled
        self.has_moved = False  # one of its addresses has changed
        self.wall_offset = 0.0
        self.clock_has_leapt = False
        self.is_up = False
        self.life = 0
        self.crashes = 0
        self.deleted: set[str] = set()  # queues that were ever deleted, even if created again
        self.was_short = False  # of space: copies and acknowledgements may be missing, and the ledger says so
        self.ends: dict[int, End] = {}
        self.http: HttpPort | None = None  # before the first start
        self.engine_options: Callable[[], dict[str, Any]] = dict  # keys, for example
        self.node: Node
        self.engine: Engine
        self.transports: Transports
        self.protocol: Inputs
        self.starting: list[Callable[[], None]] = []  # called after every start
        self._parts = parts
        self._schedule = schedule
        self._network = network
        self._random = random
        self._trace = trace
        self._mailbox: list[Callable[[], None]] = []
        self._notes: list[Note] = []
        self._watchers: list[Callable[[bool], bool]] = []
        self._has_committed = False
        self._is_stopping = False
        self._turn: Event | None = None
        self._wake: Event | None = None
        self._busy_until = 0.0
        self._born = 0.0
        self._second = -1
        self._turns = 0
        self._overdue_turns = 0

    def __repr__(self) -> str:
        return self.name

    # Clocks.

    def wall_clock(self) -> float:
        return START + self._schedule.now + self.wall_offset

    def monotonic_clock(self) -> float:
        return self._schedule.now - self._born

    def new_guid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)

    # Starting and stopping.

    def start(self) -> None:
        if self.is_up:
            return
        self.life += 1
        self.is_up = True
        self._born = self._schedule.now - self._random.random() * 1000
        self._busy_until = self._schedule.now
        self._trace(self.name, f"starts, for the {self.life}. time")
        self.store.faults = self._meet_write
        self._run_guarded(self._boot)

    def _boot(self) -> None:
        identity = Identity(self.name, f"{self.name}.example", self.addresses)
        self.engine = self._parts.engine(
            self.store,
            identity,
            now=self.wall_clock(),
            owner=OWNER,
            new_guid=self.new_guid,
            everyone_may_send=True,
            life_bytes=LIFE_MAX_BYTES,
            **self.engine_options(),
        )
        self.node = self._parts.node(
            self.engine, wall_clock=self.wall_clock, monotonic_clock=self.monotonic_clock
        )
        self.transports = self._parts.transports(self)
        self.protocol = self.transports.binary
        if self.http is not None:
            self.http.attach()
        self.node.begin()
        if self.http is not None:
            self.http.start()
        self.transports.start()
        self._commit()
        for tell in self.starting:
            tell()

    def crash(self, *, kept: bool = False) -> None:
        """Kill the process; committed data survives, and `kept` says whether the running batch does."""
        is_silent = self._random.random() < 0.5
        how = "the whole machine" if is_silent else "the process"
        self._trace(self.name, f"dies, {how}{'; the last commit had reached the disk' if kept else ''}")
        self.disk.writes_to_crash = None
        self._decide(is_durable=kept)
        self._end(is_silent=is_silent)

    def _end(self, *, is_silent: bool) -> None:
        self.is_up = self._is_stopping = False
        self._watchers.clear()
        self.crashes += 1  # a proper stop loses express messages as well
        self._mailbox.clear()
        for event in (self._turn, self._wake):
            if event is not None:
                event.cancel()
        self._turn = self._wake = None
        self.store = self.store.crash()
        self._network.stopped(self, is_silent=is_silent)
        if self.http is not None:
            self._network.stopped(self.http, is_silent=is_silent)

    def stop(self) -> None:
        """Stop as the daemon does; call it from a command, which becomes the last one of its batch."""
        self._is_stopping = True

    def _shut_down(self) -> None:
        self._trace(self.name, "stops")
        self.node.begin()
        self.transports.stop()
        self._commit()
        self.engine.stop()
        self._end(is_silent=False)

    # Batches.

    def post(self, command: Callable[[], None]) -> None:
        """Run a command in the next batch."""
        if not self.is_up:
            return
        self._mailbox.append(command)
        if self._turn is None:
            self._turn = self._schedule.at(max(self._schedule.now, self._busy_until), self._work)

    def note(self, decide: Callable[[bool], None]) -> None:
        """From a command: call `decide` with whether its batch became durable."""
        self._notes.append(Note(decide))

    def watch(self, look: Callable[[bool], bool]) -> None:
        """Call `look` after every batch with its outcome, until it returns True."""
        self._watchers.append(look)

    def _work(self) -> None:
        self._turn = None
        if self._schedule.now < self._busy_until:
            self._turn = self._schedule.at(self._busy_until, self._work)
            return
        self._count_turn()
        commands, self._mailbox = self._mailbox, []

        def batch() -> None:
            self.store.max_bytes = self.disk.max_bytes
            self.node.begin()
            for command in commands:
                command()
            self._commit()

        self._run_guarded(batch)
        if self._is_stopping and self.is_up:
            self._run_guarded(self._shut_down)

    def _count_turn(self) -> None:
        second = int(self._schedule.now)
        if second != self._second:
            self._second, self._turns = second, 0
        self._turns += 1
        if self._turns > _TURNS_PER_SECOND:
            raise SpinError(f"{self.name} makes more than {_TURNS_PER_SECOND} turns in a second")

    def _commit(self) -> None:
        self.node.commit()
        self._decide(is_durable=True)
        wait = self.node.seconds_to_deadline()
        self._count_overdue(is_overdue=wait == 0)
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        if wait is not None:
            self._wake = self._schedule.after(max(wait, _TICK), partial(self.post, lambda: None))

    def _count_overdue(self, *, is_overdue: bool) -> None:
        """End a world in which a machine works for days on what is always due: it would seem to hang."""
        self._overdue_turns = self._overdue_turns + 1 if is_overdue else 0
        if self._overdue_turns > _OVERDUE_TURNS:
            of_engine, of_machines = self.node.deadlines
            raise SpinError(
                f"{self.name} has a deadline that never passes: after {_OVERDUE_TURNS} turns it is still due;"
                f" engine {of_engine}, now {self.wall_clock()};"
                f" protocols {of_machines}, now {self.monotonic_clock()}"
            )

    def _run_guarded(self, batch: Callable[[], None]) -> None:
        self._has_committed = False
        try:
            batch()
        except Crash as crash:
            self.crash(kept=crash.kept)
        except StoreFailedError:
            if not self.disk.is_error:
                raise
            self.disk.is_error = False
            self.crash(kept=self.disk.kept)

    def _decide(self, *, is_durable: bool) -> None:
        notes, self._notes = self._notes, []
        for note in notes:
            note.decide(is_durable)
        if self._watchers:
            self._watchers = [look for look in self._watchers if not look(is_durable)]

    def _meet_write(self, write: Write, _number: int) -> None:
        disk = self.disk
        if self._has_committed:  # the batch continues after its commit: earlier notes are durable
            self._decide(is_durable=True)
            self._has_committed = False
        if disk.writes_to_crash is not None:
            disk.writes_to_crash -= 1
            if disk.writes_to_crash <= 0:
                disk.writes_to_crash = None
                if write is not Write.COMMIT:
                    disk.is_error = False
                    raise Crash
                if disk.is_error:
                    raise CommitFails(kept=disk.kept)
                raise Crash(kept=disk.kept)
        if write is Write.COMMIT:
            self._has_committed = True
            begin = max(self._schedule.now, self._busy_until)  # another commit of the batch comes later
            self._busy_until = begin + disk.commit_s * (0.5 + self._random.random())

    def new_transports(self) -> Transports:
        return Transports(self.node, self.settings, self.perform)

    def perform(self, actions: list[Action]) -> None:
        """Release the outputs when the commit is done; a machine that dies first loses them."""
        if actions:
            self.after_commit(partial(self._network.perform, self, actions))

    def after_commit(self, act: Callable[[], None]) -> None:
        """Act when the disk is done with the batch, unless the machine dies first."""
        if self._busy_until <= self._schedule.now:
            act()
            return
        life = self.life

        def release() -> None:
            if self.is_up and self.life == life:
                act()

        self._schedule.at(self._busy_until, release)

    def poke(self) -> None:
        """Run a turn without input, for example after a clock change."""
        self.post(lambda: None)
