"""A node runs any number of machines beside its engine: nothing leaves before the commit."""

from dataclasses import dataclass, field

import pytest

from tiercel.engine.core import Completed, Effect
from tiercel.engine.engine import Engine
from tiercel.engine.handles import Waiter
from tiercel.engine.identity import Identity
from tiercel.model.path_name import PathName
from tiercel.security.access import Token
from tiercel.server.node import Node
from tiercel.store.memory_store import MemoryStore, Write

SYSTEM = Token.local_system()


@dataclass
class Noting:
    """Notes what happens to it, and is due as often as the test wants."""

    name: str
    log: list[str]
    due: int = 0
    effects: list[Effect] = field(default_factory=list)

    def begin(self, now: float) -> None:
        self.log.append(f"{self.name} begin {now:.0f}")
        self.now = now

    def flush(self) -> None:
        self.log.append(f"{self.name} flush")

    def finish(self, effects: list[Effect]) -> list[Effect]:
        self.effects += effects
        return [] if self.name == "a" else effects

    def take_actions(self) -> list[str]:
        self.due -= 1
        return [f"{self.name} acts"]

    @property
    def next_deadline(self) -> float | None:
        return self.now if self.due > 0 else None


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def node(log: list[str]) -> Node:
    store = MemoryStore()
    engine = Engine(store, Identity("HERE"), now=1.0, owner=SYSTEM)
    store.faults = lambda write, _number: log.append("commit") if write is Write.COMMIT else None
    return Node(engine, wall_clock=lambda: 2.0, monotonic_clock=lambda: 5.0)


def test_outputs_leave_after_the_commit(node: Node, log: list[str]) -> None:
    for name in "ab":
        node.attach(Noting(name, log), log.extend)
    node.begin()
    node.engine.queues.create(PathName.parse(r".\private$\q"), SYSTEM)
    node.commit()
    assert log == ["a begin 5", "b begin 5", "a flush", "b flush", "commit", "a acts", "b acts"]


def test_a_machine_that_is_still_due_is_flushed_again(node: Node, log: list[str]) -> None:
    """So remote readers get their answers before the acknowledgements that have waited are made durable."""
    node.attach(Noting("a", log, due=2), log.extend)
    node.begin()
    node.commit()
    assert log == ["a begin 5", "a flush", "a acts", "a flush", "a acts"]
    assert node.seconds_to_deadline() is None


def test_a_machine_takes_its_effects_and_the_rest_goes_on(node: Node, log: list[str]) -> None:
    first, second = Noting("b", log), Noting("a", log)
    node.attach(first, log.extend)
    node.attach(second, log.extend)
    node.begin()
    effect = Completed(Waiter.__new__(Waiter))  # of no queue: only who gets it counts
    node.engine._core.effects.append(effect)
    assert node.commit() == []
    assert (first.effects, second.effects) == ([effect], [effect])
