"""The synchronous faces are derived from the asynchronous ones."""

import asyncio
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import tiercel
from tiercel import aio
from tiercel.client import daemon_sync, embedded_sync
from tiercel.client.blocking import blocking, run_at_once

from .fake_server import play

GENERATOR = Path(__file__).resolve().parents[2] / "tools" / "synchronous.py"


class Async:
    async def add(self, one: int, *, two: int = 2) -> int:
        """Adds."""
        return one + two

    async def suspend(self) -> None:
        await asyncio.sleep(0)


class Sync:
    _run = staticmethod(run_at_once)

    def __init__(self) -> None:
        self._target = Async()

    add = blocking(Async.add)
    suspend = blocking(Async.suspend)


def test_a_call_has_the_same_arguments_and_documentation() -> None:
    assert (Sync().add(1), Sync().add(1, two=3)) == (3, 4)
    assert Sync.add.__doc__ == "Adds."
    assert inspect.signature(Sync.add) == inspect.signature(Async.add)
    assert not inspect.iscoroutinefunction(Sync.add)


def test_a_call_that_runs_at_once_cannot_suspend() -> None:
    with pytest.raises(AssertionError, match="suspended"):
        Sync().suspend()


@pytest.mark.parametrize(
    ("source", "module"),
    [("embedded_aio", embedded_sync), ("daemon_aio", daemon_sync)],
    ids=["embedded", "daemon"],
)
def test_the_synchronous_queue_is_as_generated(source: str, module: ModuleType) -> None:
    program = f"import runpy; print(runpy.run_path({str(GENERATOR)!r})['generated']({source!r}), end='')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603
    present = Path(str(module.__file__)).read_text("utf-8")
    assert present == done.stdout, "run `make synchronous`"


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
