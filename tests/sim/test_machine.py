"""One simulated computer: its disk, its batches, its deaths."""

from collections.abc import Callable
from random import Random

import pytest

from tiercel.engine.handles import OpenQueue
from tiercel.model.codes import DeliveryGuarantee, QueueAccess
from tiercel.model.format_name import FormatName
from tiercel.model.message import Message
from tiercel.sim.checkers import contents
from tiercel.sim.machine import OWNER, START, Machine, Parts, SpinError
from tiercel.sim.network import Network
from tiercel.sim.schedule import Schedule
from tiercel.sim.setup import addresses_of, installed
from tiercel.sim.trace import Trace
from tiercel.store.memory_store import MemoryStore
from tiercel.wire.user_message import UserMessage


class Bench:
    def __init__(self) -> None:
        self.schedule = Schedule()
        self.lines: list[str] = []
        trace = Trace(self.schedule, self.lines.append)
        self.network = Network(self.schedule, Random(1), trace)
        store = MemoryStore(installed(0)[2])
        self.machine = Machine(
            "ALPHA", addresses_of(0), store, Parts(), self.schedule, self.network, Random(2), trace
        )
        self.network.add(self.machine, "ALPHA")
        self.machine.start()
        self.fates: list[bool] = []

    def open(self, name: str) -> OpenQueue:
        return self.machine.engine.opening.open(FormatName.parse(name), QueueAccess.SEND, token=OWNER)

    def send(self, label: str, *, delivery: int = DeliveryGuarantee.RECOVERABLE) -> Callable[[], None]:
        def command() -> None:
            self.machine.note(self.fates.append)
            opened = self.open(r"DIRECT=OS:.\private$\news")
            self.machine.engine.sending.send(opened, Message(b"", label=label, delivery=delivery))

        return command

    def run(self, seconds: float = 1.0) -> None:
        self.schedule.run_until(self.schedule.now + seconds)

    def labels(self) -> list[str]:
        return [UserMessage(record.packet).label for _, _, record in contents(self.machine)]


def test_what_is_posted_runs_in_one_batch() -> None:
    bench = Bench()
    bench.machine.post(bench.send("a"))
    bench.machine.post(bench.send("b"))
    writes = bench.machine.store.writes
    bench.run()
    assert (bench.labels(), bench.fates) == (["a", "b"], [True, True])
    assert bench.machine.store.writes > writes


def test_a_crash_at_a_put_takes_the_batch_with_it() -> None:
    bench = Bench()
    bench.machine.disk.writes_to_crash = 1
    bench.machine.post(bench.send("a"))
    bench.run()
    assert (bench.machine.is_up, bench.fates) == (False, [False])
    bench.machine.start()
    assert bench.labels() == []


@pytest.mark.parametrize("kept", [True, False])
def test_a_crash_at_a_commit_keeps_the_batch_or_not(kept: bool) -> None:
    bench = Bench()
    bench.machine.post(bench.send("a"))
    bench.run()
    before = bench.machine.store.writes
    bench.machine.post(bench.send("b"))
    bench.run()
    bench.machine.disk.kept = kept
    bench.machine.disk.writes_to_crash = bench.machine.store.writes - before
    bench.machine.post(bench.send("c"))
    bench.run()
    assert (bench.machine.is_up, bench.fates) == (False, [True, True, kept])
    bench.machine.start()
    assert bench.labels() == ["a", "b", "c"][: 2 + kept]


def test_express_messages_end_with_the_process() -> None:
    bench = Bench()
    bench.machine.post(bench.send("a", delivery=DeliveryGuarantee.EXPRESS))
    bench.machine.post(bench.send("b"))
    bench.run()
    bench.machine.crash()
    bench.machine.start()
    assert bench.labels() == ["b"]


def test_a_slow_disk_holds_the_outputs_back_and_lets_inputs_wait() -> None:
    bench = Bench()
    bench.machine.disk.commit_s = 10.0
    times: list[float] = []

    def send_away() -> None:
        opened = bench.open(r"DIRECT=TCP:10.0.0.9\private$\news")
        bench.machine.engine.sending.send(opened, Message(b"", delivery=DeliveryGuarantee.RECOVERABLE))

    bench.machine.post(send_away)
    bench.schedule.after(0.1, lambda: bench.machine.post(lambda: times.append(bench.schedule.now)))
    bench.run(30.0)
    resolved = next(line for line in bench.lines if "resolve" in line)
    assert float(resolved.split()[0]) >= 5.0
    assert times[0] >= 5.0


def test_an_orderly_stop_keeps_what_is_durable() -> None:
    bench = Bench()
    bench.machine.post(bench.send("a"))
    bench.machine.post(bench.machine.stop)
    bench.run()
    assert not bench.machine.is_up
    bench.machine.start()
    assert (bench.labels(), bench.machine.life) == (["a"], 2)


def test_the_wall_clock_can_be_set_and_the_other_cannot() -> None:
    bench = Bench()
    before = bench.machine.monotonic_clock()
    bench.machine.wall_offset = -500.0
    bench.run(10.0)
    assert bench.machine.wall_clock() == START + 10.0 - 500.0
    assert bench.machine.monotonic_clock() == pytest.approx(before + 10.0)


def test_a_machine_that_spins_is_found() -> None:
    bench = Bench()

    def again() -> None:
        bench.machine.post(again)

    bench.machine.post(again)
    with pytest.raises(SpinError):
        bench.run()


def test_a_deadline_that_never_passes_ends_the_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow disk keeps such a machine from making many turns a second."""
    bench = Bench()
    bench.machine.disk.commit_s = 0.01
    monkeypatch.setattr(type(bench.machine.engine), "next_deadline", START)
    bench.machine.poke()
    with pytest.raises(SpinError, match="ALPHA has a deadline that never passes"):
        bench.run(60.0)
