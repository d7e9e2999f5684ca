"""Writers of the data endpoint: they stage rows, and publish them until the answer confirms it."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from tiercel.engine.stage_records import StageId
from tiercel.model.errors import MqError, StageRefusedError
from tiercel.model.format_name import FormatName
from tiercel.model.message import Message
from tiercel.sim.consumers.client import Surroundings
from tiercel.sim.machine import OWNER, Machine
from tiercel.sim.sent_messages import SentMessage
from tiercel.sim.workload import Workload, parse

_TRIES = 8

Rows = list[tuple[SentMessage, Message]]


@dataclass(slots=True)
class _Batch:
    name: str
    stages: dict[StageId, Rows]  # of all attempts
    chosen: list[StageId]  # one attempt of each partition
    staged: set[StageId] = field(default_factory=set)
    is_published: bool = False
    is_refused: bool = False  # there was no space, and the ledger says so
    is_discarded: bool = False
    tries: int = 0

    @property
    def rows(self) -> Rows:
        return [row for stage in self.chosen for row in self.stages[stage]]


class StageClient:
    def __init__(self, machine: Machine, surroundings: Surroundings, workload: Workload) -> None:
        self.machine = machine
        self._around = surroundings
        self._workload = workload
        self._rows: dict[str, tuple[SentMessage, Message]] = {}  # by label
        self._batches = 0

    def act(self) -> None:
        """Begin a batch of one or two partitions, some of which are staged by two attempts."""
        random = self._around.random
        self._batches += 1
        name = f"batch-{self._batches}"
        stages: dict[StageId, Rows] = {}
        chosen = []
        for partition in range(random.choice((1, 2))):
            attempts = [
                StageId("app", name, str(partition), str(each)) for each in range(random.choice((1, 2)))
            ]
            for attempt in attempts:
                stages[attempt] = [self._new_row() for _ in range(random.choice((1, 3)))]
            chosen.append(random.choice(attempts))
        self._step(_Batch(name, stages, chosen))

    def _new_row(self) -> tuple[SentMessage, Message]:
        sent, message = self._workload.compose_plain(self.machine)
        self._rows[sent.label] = sent, message
        return sent, message

    def _step(self, batch: _Batch) -> None:
        """Do the next step of a batch, repeatedly until it is known to be done."""
        batch.tries += 1
        if batch.tries > _TRIES * (1 + len(batch.stages)):
            return
        try:
            missing = [each for each in batch.stages if each not in batch.staged]
            if missing:
                self._stage(batch, missing[0])
            elif batch.is_refused or (not batch.is_published and self._around.random.random() < 0.1):
                self._discard(batch)
            else:
                self._publish(batch)
        except MqError as error:
            self._around.trace(self.machine.name, f"{batch.name}: {error}")
        if not batch.is_discarded:
            self._around.later(self.machine, partial(self._step, batch))

    def _stage(self, batch: _Batch, stage: StageId) -> None:
        rows = batch.stages[stage]
        payload = "\n".join(sent.label for sent, _ in rows).encode()
        self.machine.engine.stages.stage(stage, 0, payload, len(rows))

        def done(is_durable: bool) -> None:
            if is_durable and not self._around.loses_answer():
                batch.staged.add(stage)

        self.machine.note(done)

    def _publish(self, batch: _Batch) -> None:
        machine, made = self.machine, dict[str, Message]()

        def rows_of(payload: bytes) -> Iterator[tuple[FormatName, Message]]:
            for label in payload.decode().split("\n"):
                sent, message = self._rows[label]
                made[label] = replace(message)
                yield parse(sent.name), made[label]

        try:
            published = machine.engine.stages.publish("app", batch.name, batch.chosen, rows_of, OWNER)
        except MqError as error:
            self._refused(batch, error)
            raise
        if published.already != batch.is_published:
            word = "again" if batch.is_published else "before anybody had asked"
            self._around.book.report(f"{batch.name} of {machine}: published {word}")
        if published.already:
            return
        labels = [sent.label for sent, _ in batch.rows]
        self._around.trace(machine.name, f"publishes {' '.join(labels)}")
        self._workload.number([sent for sent, _ in batch.rows])

        def done(is_durable: bool) -> None:
            if not is_durable:
                return
            batch.is_published = True
            for sent, _ in batch.rows:
                sent.is_sent, sent.sent_time = True, made[sent.label].sent_time
                sent.life = machine.life

        machine.note(done)

    def _refused(self, batch: _Batch, error: MqError) -> None:
        if batch.is_published:
            problem = f"published, and the second time refused: {error}"
            self._around.book.report(f"{batch.name} of {self.machine}: {problem}")
        batch.is_refused = True
        for sent, _ in batch.rows:
            sent.is_refused = True

    def _discard(self, batch: _Batch) -> None:
        """Discard a batch for good: it cannot be published afterwards."""
        stages = self.machine.engine.stages
        stages.discard("app", batch.name)

        def done(is_durable: bool) -> None:
            batch.is_discarded = is_durable

        self.machine.note(done)
        try:
            stages.publish("app", batch.name, batch.chosen, lambda _payload: (), OWNER)
        except StageRefusedError:
            return
        self._around.book.report(f"{batch.name} of {self.machine}: published after it was discarded")

    def settle(self) -> None:
        """Nothing to do: a batch that is not published stays unsent."""
