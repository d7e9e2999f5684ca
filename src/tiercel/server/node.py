"""A queue manager and its protocols as one: a batch of inputs, one commit, and only then the outputs."""

import time
from collections.abc import Callable

from tiercel.binary.actions import Action
from tiercel.binary.protocol import BinaryProtocol
from tiercel.engine.core import Effect, earliest
from tiercel.engine.engine import Engine
from tiercel.remote_read.actions import Action as Answer
from tiercel.remote_read.service import RemoteReadService
from tiercel.server.latencies import Latencies

Clock = Callable[[], float]


def _nobody(_actions: list[Action]) -> None:
    """Without a network there is nothing to perform."""


class Node:
    """Inputs of the protocol and commands of the engine belong between `begin` and `commit`.

    `perform` gets what the protocol wants done, after the commit that justifies it. Two clocks: the engine
    lives by the time of day, the timers of the protocol by a clock that nobody can set. A node without a
    protocol is a queue manager that talks to nobody.
    """

    def __init__(
        self,
        engine: Engine,
        protocol: BinaryProtocol | None = None,
        perform: Callable[[list[Action]], None] = _nobody,
        *,
        wall_clock: Clock = time.time,
        monotonic_clock: Clock = time.monotonic,
    ) -> None:
        self.engine = engine
        self.protocol = protocol
        self._perform = perform
        # Set by the daemon: the service of remote readers, and who answers them.
        self.remote_read: RemoteReadService | None = None
        self.answer: Callable[[list[Answer]], None] = lambda _answers: None
        self._wall_clock = wall_clock
        self._monotonic_clock = monotonic_clock
        self.commits = Latencies()  # of those that change a queue

    def begin(self) -> None:
        self.engine.begin(self._wall_clock())
        if self.protocol is not None:
            self.protocol.begin(self._monotonic_clock())
        if self.remote_read is not None:
            self.remote_read.begin(self._monotonic_clock())

    def commit(self) -> list[Effect]:
        """Makes the batch durable, then lets its outputs go; gives the effects that concern applications."""
        if self.protocol is None:
            return self._committed()
        effects: list[Effect] = []
        while True:
            self.protocol.flush()
            if self.remote_read is not None:
                self.remote_read.flush()
            effects += self._committed()
            self._perform(self.protocol.take_actions())
            is_due = False
            if self.remote_read is not None:
                effects = self.remote_read.finish(effects)
                self.answer(self.remote_read.take_actions())
                is_due = self.remote_read.flush_due()
            # What ended with the batch itself may have to be told.
            if not is_due and not self.engine.outgoing.has_ready:
                return effects

    def _committed(self) -> list[Effect]:
        if not self.engine.has_changes:
            return self.engine.commit()
        started = self._monotonic_clock()
        effects = self.engine.commit()
        self.commits.observe(self._monotonic_clock() - started)
        return effects

    @property
    def deadlines(self) -> tuple[float | None, float | None]:
        """When something happens by itself: on the clock of the engine, and on that of the protocol."""
        of_protocol = None if self.protocol is None else self.protocol.next_deadline
        of_readers = None if self.remote_read is None else self.remote_read.next_deadline
        return self.engine.next_deadline, earliest(of_protocol, of_readers)

    def seconds_to_deadline(self) -> float | None:
        """How long until something happens by itself: call `begin` and `commit` then."""
        of_engine, of_protocol = self.deadlines
        waits = []
        if of_engine is not None:
            waits.append(of_engine - self._wall_clock())
        if of_protocol is not None:
            waits.append(of_protocol - self._monotonic_clock())
        return max(min(waits), 0.0) if waits else None
