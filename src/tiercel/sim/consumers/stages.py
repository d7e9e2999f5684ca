"""Writers of the data endpoint: they stage rows, and publish them until the answer confirms it.

Some publish in one turn, others message by message with everything else between.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from tiercel.engine.publication import Publication, PublishedBefore
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
class _Publishing:
    """A publish that goes on for several turns."""

    publication: Publication | PublishedBefore
    made: dict[str, Message]  # by label
    life: int  # of the machine
    is_prepared: bool = False
    is_stored: bool = False
    is_numbered: bool = False


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
    publishing: _Publishing | None = None

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
        self._publishing: list[_Batch] = []

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
        batch.tries += self._under_way(batch) is None
        if batch.tries > _TRIES * (1 + len(batch.stages)):
            return
        try:
            missing = [each for each in batch.stages if each not in batch.staged]
            if missing:
                self._stage(batch, missing[0])
            elif (publishing := self._under_way(batch)) is not None:
                is_given_up = not batch.is_published and self._around.random.random() < 0.03
                self._discard(batch) if is_given_up else self._go_on(batch, publishing)
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

        with self._noting_refusal(batch):
            publication = machine.engine.stages.begin_publish("app", batch.name, batch.chosen, rows_of, OWNER)
        publishing = _Publishing(publication, made, machine.life)
        if not self._around.is_over and self._around.random.random() < 0.5:
            batch.publishing = publishing
            self._publishing.append(batch)
        else:
            self._commit(batch, publishing)

    def _under_way(self, batch: _Batch) -> _Publishing | None:
        publishing = batch.publishing
        return publishing if publishing is not None and publishing.life == self.machine.life else None

    def _go_on(self, batch: _Batch, publishing: _Publishing) -> None:
        """Prepare or store one message, or commit them all."""
        with self._noting_refusal(batch):
            if not publishing.is_prepared:
                publishing.is_prepared = publishing.publication.prepare(1)
                return
            if not publishing.is_stored:
                publishing.is_stored = publishing.publication.store(1)
                if not publishing.is_numbered and not publishing.is_stored:
                    publishing.is_numbered = True
                    self._workload.number([sent for sent, _ in batch.rows if sent.is_local])
                return
        self._commit(batch, publishing)

    def _commit(self, batch: _Batch, publishing: _Publishing) -> None:
        machine, made = self.machine, publishing.made
        batch.publishing = None
        with self._noting_refusal(batch):
            published = publishing.publication.commit()
        if published.already != batch.is_published:
            word = "again" if batch.is_published else "before anybody had asked"
            self._around.book.report(f"{batch.name} of {machine}: published {word}")
        if published.already:
            return
        labels = [sent.label for sent, _ in batch.rows]
        self._around.trace(machine.name, f"publishes {' '.join(labels)}")
        numbered = publishing.is_numbered
        self._workload.number([sent for sent, _ in batch.rows if not (numbered and sent.is_local)])

        def done(is_durable: bool) -> None:
            if not is_durable:
                return
            batch.is_published = True
            for sent, _ in batch.rows:
                sent.is_sent, sent.sent_time = True, made[sent.label].sent_time
                sent.life = machine.life

        machine.note(done)

    @contextmanager
    def _noting_refusal(self, batch: _Batch) -> Iterator[None]:
        try:
            yield
        except MqError as error:
            batch.publishing = None
            self._refused(batch, error)
            raise

    def _refused(self, batch: _Batch, error: MqError) -> None:
        if batch.is_published:
            problem = f"published, and the second time refused: {error}"
            self._around.book.report(f"{batch.name} of {self.machine}: {problem}")
        batch.is_refused = True
        for sent, _ in batch.rows:
            sent.is_refused = True

    def _discard(self, batch: _Batch) -> None:
        """Discard a batch for good: it cannot be published afterwards."""
        stages, batch.publishing = self.machine.engine.stages, None
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
        """A batch that is not published stays unsent."""
        for batch in self._publishing:
            if (publishing := self._under_way(batch)) is not None:
                publishing.publication.abort()
            batch.publishing = None
