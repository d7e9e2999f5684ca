"""Kills a queue manager under load again and again, and knows what must be in its store afterwards."""

import copy
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import tiercel
from tiercel.engine.check import Checker

from .load import Operation, Result
from .world import messages

LOAD = Path(__file__).with_name("load.py")


@dataclass
class Oracle:
    """The queues as lists of labels; an express message has a `!` before its label."""

    queues: dict[str, list[str]] = field(default_factory=dict)
    prepared: list[list[tuple[str, str]]] = field(default_factory=list)

    def run(self, operation: Operation) -> Result:
        do: Callable[..., Result] = getattr(self, operation[0])
        return do(*operation[1:])

    def restart(self) -> None:
        for name, labels in list(self.queues.items()):
            labels[:] = [label for label in labels if not label.startswith("!")]
            if ";" in name and not labels:
                del self.queues[name]

    def durable(self) -> "Oracle":
        other = copy.deepcopy(self)
        other.restart()
        return other

    def create(self, name: str, _transactional: bool) -> Result:
        if name in self.queues:
            return "exists"
        self.queues[name] = []
        return "created"

    def send(self, queue: str, label: str, delivery: int, _size: int) -> Result:
        self.queues[queue].append(label if delivery else f"!{label}")

    def batch(self, queue: str, labels: list[str]) -> Result:
        self.queues[queue] += labels

    def receive(self, queue: str) -> Result:
        labels = self.queues.get(queue)
        return labels.pop(0).lstrip("!") if labels else None

    receive_in_two_phases = receive

    def send_in_transaction(self, queue: str, labels: list[str]) -> Result:
        self.queues[queue] += labels

    def forward(self, source: str, target: str, label: str) -> Result:
        received = self.receive(source)
        if received is not None:
            self.queues[target].append(label)
        return received

    def receive_and_abort(self, queue: str) -> Result:
        return self.queues[queue][0] if self.queues[queue] else None

    def move(self, source: str, subqueue: str | None) -> Result:
        labels = self.queues.get(source)
        if not labels:
            return None
        root = source.partition(";")[0]
        target = f"{root};{subqueue}" if subqueue else root
        self.queues.setdefault(target, []).append(labels[0])
        return labels.pop(0).lstrip("!")

    def purge(self, queue: str) -> Result:
        count = len(self.queues[queue])
        self.queues[queue].clear()
        return count

    def prepare(self, queue: str, labels: list[str]) -> Result:
        self.prepared.append([(queue, label) for label in labels])

    def decide(self, commit: bool) -> Result:
        count = len(self.prepared)
        in_order = sorted(self.prepared, key=lambda sends: sends[0][1])
        for queue, label in (each for sends in in_order if commit for each in sends):
            self.queues[queue].append(label)
        self.prepared.clear()
        return count


class Killer:
    """Use as a context manager; `kill` runs the load once and ends it at a random moment."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.oracle = Oracle()
        self.kills = self.acknowledged = self.undecided_kept = self.undecided_lost = 0
        self._directory = directory
        self._seed = seed
        self._rand = random.Random(seed)
        self._ids: set[str] = set()
        self._lookup_ids: set[int] = set()

    def __enter__(self) -> Self:
        command = [sys.executable, str(LOAD), str(self._directory)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)  # noqa: S603
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.stdout.close()  # type: ignore[union-attr]
        self._process.wait(60)

    def kill(self) -> None:
        self.kills += 1
        operation = self._run_and_kill()
        candidates = [self.oracle.durable()]
        if operation is not None:
            done = copy.deepcopy(self.oracle)
            done.run(operation)
            done.restart()
            candidates.append(done)
        found = self._found()
        match = next((each for each in candidates if same(each, found)), None)
        assert match is not None, (
            f"seed {self._seed}, kill {self.kills}, at {operation}: {found}, {candidates}"
        )
        if len(candidates) == 2 and not same(candidates[0], candidates[1]):
            self.undecided_kept += match is candidates[1]
            self.undecided_lost += match is candidates[0]
        self.oracle = match

    def _run_and_kill(self) -> Operation | None:
        """What the process was about to do when it ended, if it did not say that it was done."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{self._seed * 1000 + self.kills}\n")
        stdin.flush()
        pid = json.loads(stdout.readline())["pid"]
        # How many acknowledgements to wait for before the kill; every third time it comes while all starts.
        wanted = self._rand.randrange(60) if self._rand.random() < 0.66 else 0
        told, is_killed = 0, False
        about: Operation | None = None
        while True:
            if told == wanted and not is_killed:
                time.sleep(self._rand.random() * (0.01 if told else 0.03))
                os.kill(pid, signal.SIGKILL)
                is_killed = True
            line = json.loads(stdout.readline())
            if isinstance(line, list):
                about = line
            elif "killed" in line:
                assert line["killed"], "the load ended by itself"
                return about
            else:
                assert about is not None
                self._compare(about, line["result"], self.oracle.run(about))
                about = None
                told += 1

    def _compare(self, operation: Operation, said: Any, expected: Result) -> None:
        """Every message once and in order, and no number twice."""
        self.acknowledged += 1
        name = operation[0]
        if name in {"receive", "receive_in_two_phases", "forward"}:
            label, lookup_id = said or (None, None)
            assert label == expected, f"{operation} gave {label}, {expected} was next"
            if lookup_id is not None:
                assert lookup_id not in self._lookup_ids
                self._lookup_ids.add(lookup_id)
        elif name == "receive_and_abort":
            assert (said or [None])[0] == expected
        elif name in {"send", "batch", "send_in_transaction"}:
            for message_id in [said] if isinstance(said, str) else said:
                assert message_id not in self._ids
                self._ids.add(message_id)
        else:
            assert said == expected, f"{operation} gave {said}, not {expected}"

    def _found(self) -> Oracle:
        """What the store holds; it must be sound in itself."""
        found = Oracle()
        with tiercel.open(self._directory, computer_name="HOST", max_bytes=256 * 2**20) as qm:
            with qm.driver._store.snapshot() as view:
                assert [str(problem) for problem in Checker(view).problems()] == []
            with qm.batch():
                for state in qm.driver.engine.queues.all():
                    path = state.queue.pathname
                    if path is not None and (qm.driver.engine.queues.is_visible(state) or path.subqueue):
                        name = path.local_name.removeprefix("private$\\")
                        found.queues[name] = [packet.label for _, packet, _ in messages(qm, state)]
                for transaction in qm.driver.engine.transactions.in_doubt():
                    sends = [(str(each.queue), each.record.packet) for each in transaction.operations]
                    found.prepared.append([(queue, packet.hex()) for queue, packet in sends])
        return found


def same(one: Oracle, other: Oracle) -> bool:
    """Transactions in doubt are compared by their sizes: which is which, only the coordinator knows."""
    counts = [sorted(len(sends) for sends in each.prepared) for each in (one, other)]
    return one.queues == other.queues and counts[0] == counts[1]
