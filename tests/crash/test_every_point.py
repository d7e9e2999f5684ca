"""Every scenario, stopped at each of its writes: before every put, delete and commit, after every commit.

(After a put or delete is before the next write: nothing happens in between.) The machine then starts again on
what the last commit left.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tiercel.model.errors import StoreFailedError
from tiercel.model.format_name import DirectFormatName
from tiercel.store import Crash, MemoryStore, Store, Write

from .scenarios import SCENARIOS, Scenario
from .world import START, World, all_ids, observe, opened, problems_of, sequence_numbers


@dataclass
class Run:
    """One telling of a scenario, with a crash at a write or without."""

    crash_at: int = 0
    kept: bool = False  # the commit at that write reaches the disk, but nobody hears of it
    writes: list[tuple[Write, int]] = field(default_factory=list)  # each with the number of yields before it
    states: list[str] = field(default_factory=list)
    now: float = START  # when the last yield was
    crashed: bool = False
    world: World | None = None
    store: MemoryStore = field(default_factory=MemoryStore)

    def tell(self, scenario: Scenario, *, check: bool) -> None:
        """Up to the end or the crash; with `check`, what is acknowledged is looked for after every yield."""
        self.store.faults = self._meet
        try:
            self.world = World(self.store, self._reopen)
            for state in scenario(self.world):
                self.states.append(state)
                self.now = self.world.now
                self.world.acknowledged()
                if check:
                    assert after_crash(MemoryStore(self.store._committed()), self) == state
        except (Crash, StoreFailedError):
            assert self.crashed

    def _meet(self, write: Write, _number: int) -> None:
        if self.crashed:  # the machine is off: whoever goes on writes nothing
            raise Crash
        self.writes.append((write, len(self.states)))
        if len(self.writes) == self.crash_at:
            self.crashed = True
            if self.kept and self.world is not None:
                self.now = self.world.now
            raise Crash(kept=self.kept)

    def _reopen(self, _store: Store) -> Store:
        self.store = self.store.crash()
        self.store.faults = self._meet
        return self.store


def after_crash(store: MemoryStore, run: Run) -> str:
    """What the next start finds; it must be whole in itself, and use no number again."""
    assert problems_of(store) == []
    with opened(store, run.now) as qm:
        seen = observe(qm)
        assert problems_of(store) == []
        lookup_ids, ids = all_ids(qm)
        assert len(lookup_ids) == len(set(lookup_ids))
        probe = qm.create_queue(r".\private$\probe")
        new = probe.send(b"probe")
        new_lookup_id = probe.peek(0).lookup_id
        for queue in qm.queues():
            if isinstance(queue.format_name, DirectFormatName) and queue.transactional:
                with qm.transaction() as transaction:
                    queue.send(b"probe", transaction=transaction)
        numbers = sequence_numbers(qm)
        assert len(numbers) == len(set(numbers))
        world = run.world
        if world is not None:
            world.known_lookup_ids.update(lookup_ids)
            assert new not in world.known_ids
            assert new_lookup_id not in world.known_lookup_ids
        assert new not in ids
        assert new_lookup_id not in lookup_ids
    return seen


def expected(run: Run, states: list[str], writes: list[tuple[Write, int]]) -> str | None:
    """What must be there after the crash; None in the setting, before the first yield."""
    _, yields = writes[run.crash_at - 1]
    later = writes[run.crash_at :]
    is_last_commit = (Write.COMMIT, yields) not in later
    told = yields + (run.kept and is_last_commit)
    return states[told - 1] if yields else None


@pytest.mark.parametrize("name", SCENARIOS)
def test_stopped_at_every_write(name: str, record_property: Callable[[str, object], None]) -> None:
    scenario = SCENARIOS[name]
    whole = Run()
    whole.tell(scenario, check=True)
    assert not whole.crashed
    points = 0
    for number, (write, _) in enumerate(whole.writes, 1):
        for kept in (False, True) if write is Write.COMMIT else (False,):
            run = Run(number, kept)
            run.tell(scenario, check=False)
            assert run.crashed
            seen = after_crash(run.store.crash(), run)
            wanted = expected(run, whole.states, whole.writes)
            place = f"{name}: {'after' if kept else 'before'} write {number} ({write})"
            assert wanted is None or seen == wanted, place
            points += 1
    assert points > 10
    record_property("crash points", points)
    print(f"{name}: {points} crash points")  # noqa: T201 -- pytest -s, or run.py, adds them up


def test_there_are_enough_scenarios() -> None:
    assert len(SCENARIOS) >= 20
