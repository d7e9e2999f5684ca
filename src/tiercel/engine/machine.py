"""A protocol, as a queue manager sees it: a machine without clock, sockets or tasks.

A node runs any number of machines beside its engine and knows none by name. Each batch calls, in this order:

    begin(now)       the batch starts; inputs and commands follow
    flush()          before the commit: what became due or ready, and everything that must be durable
    finish(effects)  after the commit: takes the effects that concern the machine, returns the others
    take_actions()   what may leave now that it is durable, for the owner of the sockets

Machines that carry messages to other computers derive from `CarrierMachine`.
"""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tiercel.engine.carriers import CarrierQueues
from tiercel.engine.core import Effect
from tiercel.engine.timers import Timers

Action = TypeVar("Action")


class ProtocolMachine(Protocol[Action]):
    def begin(self, now: float) -> None:
        """`now` is a clock that never goes back, in seconds."""

    def flush(self) -> None: ...

    def finish(self, effects: list[Effect]) -> list[Effect]: ...

    def take_actions(self) -> list[Action]: ...

    @property
    def next_deadline(self) -> float | None:
        """When to flush next, on the clock of `begin`; a machine that is due now is flushed in this batch."""


@dataclass(frozen=True, slots=True)
class Write:
    """The action of every machine with connections: write the data to the connection of this number."""

    connection: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection after everything written to it; further input is ignored."""

    connection: int


class MachineContext(Generic[Action]):
    """State shared by the parts of a machine: the time, timers, and actions that wait for the commit."""

    def __init__(self) -> None:
        self.timers = Timers()
        self.now = 0.0  # monotonic, in seconds
        self._actions: list[Action] = []

    def do(self, action: Action) -> None:
        self._actions.append(action)

    def take_actions(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions


class CarrierMachine(Generic[Action]):
    """The parts of a batch that all carriers share; `flush` and the inputs belong to each of them."""

    _context: MachineContext[Action]
    _queues: CarrierQueues

    def begin(self, now: float) -> None:
        self._context.now = max(now, self._context.now)

    def finish(self, effects: list[Effect]) -> list[Effect]:
        return effects

    def take_actions(self) -> list[Action]:
        return self._context.take_actions()

    @property
    def next_deadline(self) -> float | None:
        """When a timer is due, on the clock of `begin`; at once while there is something to send."""
        if self._queues.has_ready:
            return self._context.now
        return self._context.timers.next_deadline
