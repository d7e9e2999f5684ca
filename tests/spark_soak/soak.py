"""A job, a queue manager, and a list of kills; in the end every message is in the sink once."""

import json
import queue
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from spark_soak.daemon import CONSUMER, COPIES, ORDERS, Daemon, number_of
from spark_soak.driver import FOLDER, Driver
from spark_soak.line import Line, Stop
from spark_soak.processes import PATIENCE_S
from spark_soak.steps import TABLES, Sink, Step, Victim
from tiercel.pipeline.running import Checkpoint

Say = Callable[[str], None]
_LOT = 250  # messages that are sent before each kill
_BATCH = 100  # at most in one micro-batch, in two tasks
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


@dataclass
class Soak:
    """`sinks` are tables that one pipeline fills, or the other queue."""

    folder: Path
    sinks: Sequence[Sink]
    kills: Sequence[Kill]
    seed: int
    say: Say = lambda _text: None
    master: str = "local[2,4]"
    result: Result = field(default_factory=Result)

    def run(self) -> Result:
        """Raises an AssertionError when a message is missing, doubled or changed."""
        began = time.monotonic()
        self._rand = random.Random(self.seed)
        self._daemon = Daemon(self.folder / "daemon")
        self._daemon.start()
        self._line = Line(self._daemon.url)
        self._driver = self._make_driver()
        try:
            self._driver.start()
            for number, each in enumerate(self.kills, 1):
                self._kill(each)
                self.say(f"{time.monotonic() - began:4.0f} s  {number}/{len(self.kills)}  {each}")
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

    # The job.

    def _make_driver(self) -> Driver:
        if Sink.QUEUE in self.sinks:
            return Driver(self.folder, "relay_job.py", self._relay_file(), self._line.url)
        (self.folder / "gates.py").write_text((FOLDER / "gates.py").read_text("utf-8"), "utf-8")
        return Driver(self.folder, "pipeline_job.py", self._pipeline_file(), self._line.url)

    def _pipeline_file(self) -> Path:
        tables = "".join(
            f'[[table]]\nformat = "{sink}"\npath = "{sink}"\nfunction = "gates:through"\n'
            + ('name = "orders"\n' if sink is Sink.ICEBERG else "")
            for sink in self.sinks
        )
        file = self.folder / "pipeline.toml"
        file.write_text(
            f'[pipeline]\nname = "{CONSUMER}"\nmaster = "{self.master}"\nstate = "state"\ntrigger = "1s"\n'
            '[spark]\n"spark.driver.memory" = "1g"\n'
            f"[source]\nurl = '{self._line.url}'\nqueues = ['{ORDERS}']\n"
            'columns = ["queue", "claim_seq", "message_id", "label", "body"]\n'
            f"max_messages_per_trigger = {_BATCH}\nmax_messages_per_partition = {_BATCH // 2}\n"
            f"[decode]\nbodies = false\n{tables}",
            "utf-8",
        )
        return file

    def _relay_file(self) -> Path:
        limits = {"maxMessagesPerTrigger": str(_BATCH), "maxMessagesPerPartition": str(_BATCH // 2)}
        job = {
            "master": self.master,
            "spark": {"spark_driver_memory": "1g", "spark_ui_enabled": "false"},
            "source": {"url": self._line.url, "queue": ORDERS, "consumer": CONSUMER, **limits},
            "sink": {"url": self._line.url, "queue": COPIES},
            "checkpoint": str(self._checkpoint),
        }
        file = self.folder / "relay.json"
        file.write_text(json.dumps(job), "utf-8")
        return file

    @property
    def _checkpoint(self) -> Path:
        return self.folder / "state" / "checkpoint"

    # A kill.

    def _kill(self, kill: Kill) -> None:
        done: queue.Queue[Checkpoint] = queue.Queue()
        skip = self._rand.randrange(3)

        def act(port: int) -> bool:
            done.put(Checkpoint.read(self._checkpoint.parent))
            return self._strike(kill, port)

        stop = Stop(kill.step, act, skip)
        self._send_and_arm(stop)
        checkpoint = self._wait_for_it(kill, stop, done)
        # The logs of Spark, read at that moment, must say that it was that step.
        is_within = checkpoint.planned > checkpoint.finished
        assert is_within == kill.step.is_within_a_batch, f"{kill} came elsewhere: {checkpoint}"
        if not self._daemon.is_alive:
            self._daemon.start()
        self._keep_running()
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

    def _send_and_arm(self, stop: Stop) -> None:
        """Nobody may die while we ask for something ourselves: nobody would start him again."""
        self._line.arm(None)
        self._daemon.send(_LOT)
        self._line.arm(stop)

    def _wait_for_it(self, kill: Kill, stop: Stop, done: "queue.Queue[Checkpoint]") -> Checkpoint:
        deadline, looked = time.monotonic() + PATIENCE_S, time.monotonic()
        while True:
            try:
                return done.get(timeout=0.1)
            except queue.Empty:
                pass
            assert time.monotonic() < deadline, f"{kill} never came to be; {self._driver.last_words()}"
            self._keep_running()
            if time.monotonic() - looked > _IDLE_S:
                looked = time.monotonic()
                self._line.arm(None)
                if not done.empty():
                    continue
                if self._daemon.is_drained():
                    self._daemon.send(_LOT)
                self._line.arm(stop)

    def _keep_running(self) -> None:
        """A job that ends by itself after a kill is started again, as an operator's system would do."""
        if not self._driver.is_alive:
            assert self._driver.starts < 3 * len(self.kills) + 3, self._driver.last_words()
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
        for sink in self.sinks:
            found = Counter(self._daemon.copies() if sink is Sink.QUEUE else _numbers(sink, self.folder / sink))
            missing = sorted(set(range(sent)) - found.keys())
            doubled = sorted(number for number, times in found.items() if times > 1)
            assert not missing, f"{sink}: {len(missing)} of {sent} are missing: {missing[:20]}"
            assert not doubled, f"{sink}: {len(doubled)} of {sent} are doubled: {doubled[:20]}"
            assert len(found) == sent, f"{sink}: {len(found)} of {sent}"
        if Sink.QUEUE in self.sinks:
            assert self._daemon.copies() == list(range(sent)), "the order is not kept"
            assert not self._daemon.stages(), "stages are left over"


def _numbers(sink: Sink, folder: Path) -> list[int]:
    """The messages in a table, as somebody reads it who knows nothing of Spark or of us."""
    match sink:
        case Sink.PARQUET:
            bodies = [pq.read_table(file, columns=["body"]) for file in folder.glob("**/*.parquet")]
        case Sink.DELTA:
            bodies = [pq.read_table(uri, columns=["body"]) for uri in DeltaTable(folder).file_uris()]
        case Sink.ICEBERG:
            catalog = SqlCatalog("soak", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=f"file://{folder}")
            bodies = [catalog.load_table("default.orders").scan(selected_fields=("body",)).to_arrow()]
            catalog.engine.dispose()
        case _:
            raise AssertionError(sink)
    return [number_of(body) for table in bodies for body in table.column("body").to_pylist()]


def all_kills(sink: Sink, rand: random.Random) -> list[Kill]:
    """Everybody at every step, in any order."""
    del sink
    kills = [Kill(step, victim) for step in Step for victim in Victim]
    rand.shuffle(kills)
    return kills


__all__ = ["TABLES", "Kill", "Result", "Soak", "all_kills"]
