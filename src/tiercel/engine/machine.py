"""What a protocol is to a queue manager: a machine without clock, sockets or tasks.

A node runs any number of them beside its engine and knows none by name. Each batch calls, in this order:

    begin(now)       the batch starts; inputs and commands follow
    flush()          before the commit: what became due or ready, and everything that must be durable
    finish(effects)  after the commit: takes the effects that concern the machine, returns the others
    take_actions()   what may leave now that it is durable, for the holder of the sockets
"""

from typing import Protocol, TypeVar

from tiercel.engine.core import Effect

Action = TypeVar("Action")


class ProtocolMachine(Protocol[Action]):
    def begin(self, now: float) -> None:
        """`now` is a clock that never goes back, in seconds."""

    def flush(self) -> None: ...

    def finish(self, effects: list[Effect]) -> list[Effect]: ...

    def take_actions(self) -> list[Action]: ...

    @property
    def next_deadline(self) -> float | None:
        """When to flush next, on the clock of `begin`; a machine that is due now is flushed in this batch."""
