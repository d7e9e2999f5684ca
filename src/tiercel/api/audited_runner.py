"""Writes the audit line of a request in the commit of its first change.

The line is in the store before, or together with, everything that the request changes: there is no change
without its line.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Final, TypeVar

from tiercel.admin.runner import Runner
from tiercel.engine.engine import Engine
from tiercel.engine.handles import Found, Waiter
from tiercel.server.driver import Driver

T = TypeVar("T")


class AuditEntry:
    """What one request does, as far as it is known when its first command has run."""

    def __init__(self, line: Callable[[], Mapping[str, object]]) -> None:
        self._line = line
        self.is_written = False

    def run(self, engine: Engine, command: Callable[[Engine], T]) -> T:
        result = command(engine)
        if not self.is_written and not self._line().get("dry_run"):
            self.is_written = True
            engine.audit.add(self._known())
        return result

    async def failed(self, runner: Runner, code: str) -> None:
        """A line for a request that has changed something, perhaps, before it failed."""
        await runner.call(lambda engine: engine.audit.add({**self._known(), "failed": code}))

    def _known(self) -> dict[str, object]:
        return {
            name: value for name, value in self._line().items() if value is not None and value is not False
        }


CURRENT: Final[ContextVar[AuditEntry | None]] = ContextVar("audit", default=None)
ACTOR: Final[ContextVar[str]] = ContextVar("actor", default="")  # who sends the present request


class AuditedRunner:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.driver: Driver = runner.driver

    @property
    def turns(self) -> int:
        return self._runner.turns

    @turns.setter
    def turns(self, value: int) -> None:
        self._runner.turns = value

    def call(self, command: Callable[[Engine], T], *, is_last: bool = False) -> "asyncio.Future[T]":
        return self._runner.call(_acting(_with_line(command)), is_last=is_last)

    async def read(self, command: Callable[[Engine], Found | Waiter]) -> Found:
        return await self._runner.read(_acting(_with_line(command)))


def _acting(command: Callable[[Engine], T]) -> Callable[[Engine], T]:
    """The record of each message has the name of whoever acts on it."""
    actor = ACTOR.get()
    if not actor:
        return command

    def acting(engine: Engine) -> T:
        with engine.life.acting(actor):
            return command(engine)

    return acting


def _with_line(command: Callable[[Engine], T]) -> Callable[[Engine], T]:
    entry = CURRENT.get()
    if entry is None or entry.is_written:
        return command
    return lambda engine: entry.run(engine, command)
