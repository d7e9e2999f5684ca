"""A queue manager and its protocols as one unit: a batch of inputs, one commit, and only then the outputs."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from tiercel.engine.core import Effect, earliest
from tiercel.engine.engine import Engine
from tiercel.engine.machine import ProtocolMachine
from tiercel.server.latencies import Latencies

Clock = Callable[[], float]
Action = TypeVar("Action")


class Attached(NamedTuple):
    """A protocol machine, and the function that performs its actions."""

    machine: ProtocolMachine[Any]
    perform: Callable[[list[Any]], None]


class Node:
    """Call the inputs of the machines and the commands of the engine between `begin` and `commit`.

    There are two clocks: wall-clock time for the engine, and a monotonic clock for the machines. A node
    without machines is a queue manager off the network.
    """

    def __init__(
        self, engine: Engine, *, wall_clock: Clock = time.time, monotonic_clock: Clock = time.monotonic
    ) -> None:
        self.engine = engine
        self._attached: list[Attached] = []
        self._wall_clock = wall_clock
        self._monotonic_clock = monotonic_clock
        self._now = 0.0  # start of the batch, on the monotonic clock
        self.commits = Latencies()  # only commits that change a queue

    def attach(self, machine: ProtocolMachine[Action], perform: Callable[[list[Action]], None]) -> None:
        """Add a machine; `perform` gets its actions after the commit that justifies them."""
        self._attached.append(Attached(machine, perform))

    def begin(self) -> None:
        self.engine.begin(self._wall_clock())
        self._now = self._monotonic_clock()
        for machine, _ in self._attached:
            machine.begin(self._now)

    def commit(self) -> list[Effect]:
        """Make the batch durable, then release its outputs; returns the effects that concern applications."""
        effects: list[Effect] = []
        while True:
            for machine, _ in self._attached:
                machine.flush()
            effects += self._committed()
            for machine, perform in self._attached:
                effects = machine.finish(effects)
                perform(machine.take_actions())
            deadline = self._machine_deadline
            if deadline is None or deadline > self._now:
                return effects

    def _committed(self) -> list[Effect]:
        if not self.engine.has_changes:
            return self.engine.commit()
        started = self._monotonic_clock()
        effects = self.engine.commit()
        self.commits.observe(self._monotonic_clock() - started)
        return effects

    @property
    def _machine_deadline(self) -> float | None:
        return earliest(*(machine.next_deadline for machine, _ in self._attached))

    @property
    def deadlines(self) -> tuple[float | None, float | None]:
        """The next deadline of the engine, in wall-clock time, and of the machines, in monotonic time."""
        return self.engine.next_deadline, self._machine_deadline

    def seconds_to_deadline(self) -> float | None:
        """Seconds until the next deadline, when `begin` and `commit` are due; None without a deadline."""
        of_engine, of_machines = self.deadlines
        waits = []
        if of_engine is not None:
            waits.append(of_engine - self._wall_clock())
        if of_machines is not None:
            waits.append(of_machines - self._monotonic_clock())
        return max(min(waits), 0.0) if waits else None
