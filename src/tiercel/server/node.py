"""A queue manager and its protocol as one thing: a batch of inputs, one commit, and only then the outputs."""

import time
from collections.abc import Callable

from tiercel.binary.actions import Action
from tiercel.binary.protocol import BinaryProtocol
from tiercel.engine.core import Effect
from tiercel.engine.engine import Engine

Clock = Callable[[], float]


class Node:
    """Inputs of the protocol and commands of the engine belong between `begin` and `commit`.

    `perform` gets what the protocol wants done, after the commit that justifies it. Two clocks: the engine
    lives by the time of day, the timers of the protocol by a clock that nobody can set.
    """

    def __init__(
        self,
        engine: Engine,
        protocol: BinaryProtocol,
        perform: Callable[[list[Action]], None],
        *,
        wall_clock: Clock = time.time,
        monotonic_clock: Clock = time.monotonic,
    ) -> None:
        self.engine = engine
        self.protocol = protocol
        self._perform = perform
        self._wall_clock = wall_clock
        self._monotonic_clock = monotonic_clock

    def begin(self) -> None:
        self.engine.begin(self._wall_clock())
        self.protocol.begin(self._monotonic_clock())

    def commit(self) -> list[Effect]:
        """Makes the batch durable, then lets its outputs go; gives the effects that concern applications."""
        self.protocol.flush()
        effects = self.engine.commit()
        self._perform(self.protocol.take_actions())
        return effects

    def seconds_to_deadline(self) -> float | None:
        """How long until something happens by itself: call `begin` and `commit` then."""
        waits = []
        if (deadline := self.engine.next_deadline) is not None:
            waits.append(deadline - self._wall_clock())
        if (deadline := self.protocol.next_deadline) is not None:
            waits.append(deadline - self._monotonic_clock())
        return max(min(waits), 0.0) if waits else None
