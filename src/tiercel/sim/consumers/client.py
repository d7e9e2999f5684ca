"""Shared by all consumers: the record of messages handed out and acknowledged, and the faults of clients."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Protocol

from tiercel.engine.queue_state import QueueState
from tiercel.sim.machine import Machine
from tiercel.sim.schedule import Schedule
from tiercel.sim.sent_messages import Receipt, SentMessage, SentMessages
from tiercel.sim.setup import PLAIN_QUEUES, TRANSACTIONAL_QUEUES
from tiercel.sim.trace import Trace
from tiercel.sim.workload import parse

QUEUES = (*TRANSACTIONAL_QUEUES, *PLAIN_QUEUES)
_PAUSES_S = (0.001, 0.1, 2.0, 20.0)


class Client(Protocol):
    machine: Machine

    def act(self) -> None:
        """Make a request; runs inside a batch."""

    def settle(self) -> None:
        """Give back all held messages; runs inside a batch, after the faults."""


@dataclass(frozen=True, slots=True)
class Held:
    """A message held by a client."""

    sent: SentMessage
    machine: Machine
    life: int  # of the machine, when it was handed out
    state: QueueState
    lookup_id: int

    @property
    def key(self) -> tuple[str, object, int]:
        return self.machine.name, self.state.queue.identifier, self.lookup_id


class Book:
    def __init__(self, sent_messages: SentMessages, trace: Trace) -> None:
        self.problems: list[str] = []
        self._sent_messages = sent_messages
        self._trace = trace
        self._acknowledged: set[tuple[str, object, int]] = set()

    def handed(self, machine: Machine, state: QueueState, lookup_id: int, label: str) -> Held:
        """Record that a queue manager handed a message to a client."""
        held = Held(self._sent_messages.find(label), machine, machine.life, state, lookup_id)
        self._trace(machine.name, f"hands out {label} of {state}")
        if held.key in self._acknowledged:
            self.report(f"{held.sent}: was acknowledged, and is handed out again")
        return held

    def acknowledged(self, held: Held) -> None:
        """Record a durable acknowledgement."""
        self._trace(held.machine.name, f"acknowledged {held.sent.label}")
        self._acknowledged.add(held.key)
        held.sent.receipts.append(Receipt(held.life, held.lookup_id, held.state))

    def report(self, problem: str) -> None:
        self.problems.append(problem)


@dataclass(slots=True)
class Surroundings:
    schedule: Schedule
    random: Random
    trace: Trace
    book: Book
    is_over: bool = False  # from then on there are no faults

    def loses_answer(self) -> bool:
        return not self.is_over and self.random.random() < 0.2

    def later(self, machine: Machine, command: Callable[[], None]) -> None:
        self.schedule.after(self.random.choice(_PAUSES_S), partial(machine.post, command))


def queue_of(machine: Machine, queue: str) -> QueueState | None:
    return machine.engine.queues.find(parse(rf"DIRECT=OS:.\private$\{queue}"))
