"""The synchronous faces are derived from the asynchronous ones."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import tiercel
from tiercel import aio
from tiercel.client.blocking import blocking, blocking_context, blocking_generator, run_at_once

from .fake_server import play


class Async:
    def __init__(self) -> None:
        self.told: list[str] = []

    async def add(self, one: int, *, two: int = 2) -> int:
        """Adds."""
        return one + two

    @asynccontextmanager
    async def block(self) -> AsyncIterator[str]:
        try:
            yield "value"
        except KeyError:
            self.told.append("swallowed")
        except BaseException as error:
            self.told.append(type(error).__name__)
            raise
        self.told.append("left")

    def count(self, limit: int) -> AsyncGenerator[int, None]:
        self.counting = self._count(limit)  # held, so that only `aclose` can end it
        return self.counting

    async def _count(self, limit: int) -> AsyncGenerator[int, None]:
        try:
            for number in range(limit):
                yield number
        finally:
            self.told.append("closed")


class Sync:
    _run = staticmethod(run_at_once)

    def __init__(self) -> None:
        self._target = Async()

    add = blocking(Async.add)
    block = blocking_context(Async.block)
    count = blocking_generator(Async.count)

    @property
    def told(self) -> list[str]:
        return self._target.told


def test_a_call_has_the_same_arguments_and_documentation() -> None:
    assert (Sync().add(1), Sync().add(1, two=3)) == (3, 4)
    assert Sync.add.__doc__ == "Adds."
    assert inspect.signature(Sync.add) == inspect.signature(Async.add)
    assert not inspect.iscoroutinefunction(Sync.add)


def test_a_block_hears_how_it_ended() -> None:
    sync = Sync()
    with sync.block() as value:
        assert value == "value"
    with pytest.raises(ZeroDivisionError), sync.block():
        raise ZeroDivisionError
    with pytest.raises(StopIteration), sync.block():
        raise StopIteration
    with sync.block():
        raise KeyError
    assert sync.told == ["left", "ZeroDivisionError", "StopIteration", "swallowed", "left"]


def test_a_generator_is_closed_however_its_loop_ends() -> None:
    sync = Sync()
    assert list(sync.count(3)) == [0, 1, 2]
    for number in sync.count(3):
        if number == 1:
            break
    assert sync.told == ["closed", "closed"]


def test_a_cursor_on_an_event_loop_refuses_to_wait(tmp_path: Path) -> None:
    async def scene() -> None:
        async with await aio.open(tmp_path / "data") as qm:
            orders = await qm.create_queue("orders")
            with pytest.raises(tiercel.IllegalOperationError, match="cannot wait on an event loop"):
                orders.cursor().receive(5)
            await orders.send(b"x")  # and nothing has come to the read that was refused
            await asyncio.sleep(0)
            assert orders.cursor().receive(0).body == b"x"

    play(scene())
