"""Consumers of the data endpoint: they claim, acknowledge, crash, and are taken over by others."""

from tiercel.engine.claims import Claimed
from tiercel.engine.queue_state import QueueState
from tiercel.model.errors import ConsumerFencedError, MqError
from tiercel.sim.consumers.client import QUEUES, Held, Surroundings, queue_of
from tiercel.sim.machine import Machine
from tiercel.sim.workload import Workload
from tiercel.wire.user_message import UserMessage


class ClaimClient:
    """One consumer of one queue; several instances may believe that they are the current one."""

    def __init__(self, machine: Machine, surroundings: Surroundings, _workload: Workload) -> None:
        self.machine = machine
        self._around = surroundings
        self._queue = surroundings.random.choice(QUEUES)
        self._name = f"consumer-{self._queue}"
        self._epoch: int | None = None  # of the current instance
        self._hi = 0  # the last number that it knows
        self._old_epochs: list[int] = []
        self._numbers: dict[tuple[object, int], Held] = {}  # the message of each number, once durable

    def act(self) -> None:
        state = queue_of(self.machine, self._queue)
        if state is None:
            return
        draw = self._around.random.random()
        try:
            if self._epoch is None or draw < 0.1:
                self._attach(state)  # the first instance, or one that takes over after a crash
            elif draw < 0.6:
                self._claim(state, self._epoch)
            elif draw < 0.9:
                self._acknowledge(state, self._epoch)
            elif draw < 0.95:
                self._release()
            else:
                self._disturb(state)
        except MqError as error:
            self._around.trace(self.machine.name, f"{self._name}: {error}")
            self._epoch = None  # restarted
        self._around.later(self.machine, self.act)

    def _attach(self, state: QueueState) -> None:
        claims = self.machine.engine.claims
        epoch = claims.attach(self._name)
        lo = claims.status(self._name, state).lo

        def done(is_durable: bool) -> None:
            if not is_durable:
                return
            if self._epoch is not None:
                self._old_epochs.append(self._epoch)
            self._epoch, self._hi = (None, 0) if self._around.loses_answer() else (epoch, lo)

        self.machine.note(done)

    def _claim(self, state: QueueState, epoch: int) -> None:
        machine, claims = self.machine, self.machine.engine.claims
        up_to = self._hi if self._around.random.random() < 0.3 else 0
        ended = self._held(state, up_to)
        claim = claims.claim(
            self._name,
            epoch,
            state,
            self._around.random.choice((1, 3, 10)),
            start=self._hi,
            acknowledge=up_to,
        )
        found = list(claims.messages(self._name, state, claim.lo, claim.hi))

        def done(is_durable: bool) -> None:
            if not is_durable:
                return
            self._end(ended)
            for each in found:
                self._handed(state, each)
            if not self._around.loses_answer():
                self._hi = claim.hi

        machine.note(done)

    def _handed(self, state: QueueState, claimed: Claimed) -> None:
        label = UserMessage(claimed.record.packet).label
        book, key = self._around.book, (state.queue.identifier, claimed.claim_seq)
        held = book.handed(self.machine, state, claimed.lookup_id, label)
        before = self._numbers.setdefault(key, held)
        if before.sent is not held.sent:
            book.report(f"{held.sent}: has the number {claimed.claim_seq} of {before.sent.label}")

    def _acknowledge(self, state: QueueState, epoch: int) -> None:
        ended = self._held(state, self._hi)
        self.machine.engine.claims.acknowledge(self._name, epoch, state, self._hi)
        self.machine.note(lambda is_durable: self._end(ended) if is_durable else None)

    def _held(self, state: QueueState, up_to: int) -> list[tuple[object, int]]:
        """The numbers that an acknowledgement would cover."""
        claims = self.machine.engine.claims
        if not up_to:
            return []
        return [
            (state.queue.identifier, each.claim_seq) for each in claims.messages(self._name, state, 0, up_to)
        ]

    def _end(self, numbers: list[tuple[object, int]]) -> None:
        for number in numbers:
            self._around.book.acknowledged(self._numbers[number])

    def _disturb(self, state: QueueState) -> None:
        """An instance that was taken over wakes up and acknowledges its old messages."""
        for epoch in self._old_epochs[-2:]:
            try:
                self.machine.engine.claims.acknowledge(self._name, epoch, state, self._hi)
            except ConsumerFencedError:
                continue
            except MqError:
                return
            self._around.book.report(f"{self._name} of {self.machine}: epoch {epoch} is not fenced")

    def _release(self) -> None:
        while self.machine.engine.claims.release(self._name):
            pass
        self._epoch = None

    def settle(self) -> None:
        if any(each.consumer == self._name for each in self.machine.engine.claims.all()):
            self.machine.engine.claims.release(self._name, limit=1_000_000)
        self._queue = "nowhere"  # it stops working
