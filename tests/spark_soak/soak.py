"""A job, a queue manager, and a list of kills; in the end every message is in the sink once."""

import queue
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from spark_soak import jobs
from spark_soak.daemon import Daemon
from spark_soak.line import Line, Stop
from spark_soak.processes import PATIENCE_S
from spark_soak.sinks import check, numbers_in
from spark_soak.steps import Sink, Step, Victim
from tiercel.pipeline.running import Checkpoint

_LOT = 250  # messages that are sent before each kill: some batches
_IDLE_S = 3.0  # after which a stream that has nothing to do is given more


@dataclass(frozen=True, slots=True)
class Kill:
    step: Step
    victim: Victim

    def __str__(self) -> str:
        return f"{self.victim} at {self.step}"


@dataclass(slots=True)
class Result:
    messages: int = 0
    kills: list[Kill] = field(default_factory=list)
    starts: int = 0
    seconds: float = 0.0
    store: str = ""


class Soak:
    """`sinks` are tables, which one pipeline fills, or the other queue."""

    def __init__(
        self,
        folder: Path,
        sinks: Sequence[Sink],
        kills: Sequence[Kill],
        seed: int,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self.folder = folder
        self.result = Result()
        self.minutes: float | None = None  # after which nobody is killed any more
        self._sinks, self._kills = sinks, kills
        self._rand = random.Random(seed)
        self._say = say
        self._daemon = Daemon(folder / "daemon")

    def run(self) -> Result:
        """Raises an AssertionError when a message is missing, doubled or changed."""
        began = time.monotonic()
        self._daemon.start()
        self._line = Line(self._daemon.url)
        self._driver = (
            jobs.relay(self.folder, self._line.url)
            if Sink.QUEUE in self._sinks
            else jobs.pipeline(self.folder, self._line.url, self._sinks)
        )
        try:
            self._driver.start()
            for number, each in enumerate(self._kills, 1):
                if self.minutes is not None and time.monotonic() - began > 60 * self.minutes:
                    break
                self._kill(each)
                self._say(f"{time.monotonic() - began:4.0f} s  {number}/{len(self._kills)}  {each}")
            self._drain()
            self._check()
        finally:
            self._line.arm(None)
            self._driver.stop()
            self._line.close()
            self._daemon.stop()
        self.result.store = self._daemon.check()
        self.result.seconds = time.monotonic() - began
        return self.result

    # A kill.

    def _kill(self, kill: Kill) -> None:
        seen: queue.Queue[Checkpoint] = queue.Queue()

        def act(port: int) -> bool:
            checkpoint = Checkpoint.read(self.folder / "state")
            is_to_arrive = self._strike(kill, port)
            seen.put(checkpoint)
            return is_to_arrive

        stop = Stop(kill.step, act, skip=self._rand.randrange(3))
        self._daemon.send(_LOT)
        self._line.arm(stop)
        checkpoint = self._wait_for(kill, stop, seen)
        # Spark's own logs, as they were at that moment, must say that it was at that step.
        is_within = checkpoint.planned > checkpoint.finished
        assert kill.step.is_within_a_batch in {is_within, None}, f"{kill} came elsewhere: {checkpoint}"
        if kill.victim is Victim.QUEUE_MANAGER:
            self._daemon.start()
        self.result.kills.append(kill)

    def _strike(self, kill: Kill, port: int) -> bool:
        """Kills; whether the answer that was on its way then shall arrive nevertheless."""
        match kill.victim:
            case Victim.DRIVER:
                self._driver.kill()
            case Victim.WORKER:
                self._driver.kill_worker(port)
            case Victim.DATA_PROCESS:
                self._daemon.kill_data_process()
            case Victim.QUEUE_MANAGER:
                self._daemon.kill()
        return kill.step is not Step.READ and self._rand.random() < 0.5

    def _wait_for(self, kill: Kill, stop: Stop, seen: "queue.Queue[Checkpoint]") -> Checkpoint:
        deadline, looked = time.monotonic() + PATIENCE_S, time.monotonic()
        while True:
            with suppress(queue.Empty):
                return seen.get(timeout=0.1)
            assert time.monotonic() < deadline, f"{kill} never came to be; {self._driver.last_words()}"
            self._keep_running()
            if time.monotonic() - looked > _IDLE_S:
                looked = time.monotonic()
                self._feed(stop, seen)

    def _feed(self, stop: Stop, seen: "queue.Queue[Checkpoint]") -> None:
        """More messages for a stream that has none. Nobody may die while we ask: nobody would start him."""
        self._line.arm(None)
        if not seen.empty():
            return
        if self._daemon.is_drained():
            self._daemon.send(_LOT)
        self._line.arm(stop)

    def _keep_running(self) -> None:
        """A job that has ended is started again, as a service manager would do."""
        if not self._driver.is_alive:
            assert self._driver.starts < 3 * len(self._kills) + 3, self._driver.last_words()
            self._driver.start()

    # The end.

    def _drain(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self._daemon.is_drained():
            assert time.monotonic() < deadline, f"it does not come to an end; {self._driver.last_words()}"
            self._keep_running()
            time.sleep(0.2)

    def _check(self) -> None:
        self.result.messages = sent = self._daemon.sent
        self.result.starts = self._driver.starts
        for sink in self._sinks:
            is_queue = sink is Sink.QUEUE
            check(sink, sent, self._daemon.copies() if is_queue else numbers_in(sink, self.folder / sink))
        if Sink.QUEUE in self._sinks:
            assert self._daemon.copies() == list(range(sent)), "the order is not kept"
            assert not self._daemon.stages(), "stages are left over"
