"""`aio.open` and `aio.connect`: with `await` and without."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tiercel
from tiercel import aio
from tiercel.client.opening import Opening

from .fake_server import HOST, FakeServer, play

Managers = aio.AsyncEmbeddedQueueManager


async def body_of_one(qm: Managers) -> bytes:
    queue = await qm.create_queue("orders", exist_ok=True)
    await queue.send(b"1")
    return (await queue.receive(0)).body


def is_open(directory: Path) -> bool:
    """Whether somebody still has the store."""
    try:
        with tiercel.open(directory):
            return False
    except tiercel.errors.StoreInUseError:
        return True


def test_without_await_it_is_closed_at_the_end(tmp_path: Path) -> None:
    async def scene() -> None:
        async with aio.open(tmp_path) as qm:
            assert await body_of_one(qm) == b"1"
            assert is_open(tmp_path)
        assert not is_open(tmp_path)
        with pytest.raises(ZeroDivisionError):
            async with aio.open(tmp_path):
                raise ZeroDivisionError
        assert not is_open(tmp_path)

    asyncio.run(scene())


def test_with_await(tmp_path: Path) -> None:
    async def scene() -> None:
        qm = await aio.open(tmp_path)
        assert await body_of_one(qm) == b"1"
        await qm.close()
        async with await aio.open(tmp_path) as qm:
            assert await body_of_one(qm) == b"1"
        assert not is_open(tmp_path)

    asyncio.run(scene())


def test_it_is_a_coroutine(tmp_path: Path) -> None:
    """What a program may have done with it before."""
    asyncio.run(aio.open(tmp_path / "a"))

    async def scene() -> None:
        first = asyncio.create_task(aio.open(tmp_path / "b"))
        for qm in (await first, await asyncio.wait_for(aio.open(tmp_path / "c"), 60)):
            await qm.close()

    asyncio.run(scene())


def test_a_remote_queue_manager() -> None:
    async def scene() -> None:
        async with FakeServer() as fake:
            async with aio.connect(HOST, port=fake.port) as remote:
                assert isinstance(remote, aio.AsyncRemoteQueueManager)
            await (await aio.connect(HOST, port=fake.port)).close()

    play(scene())


@pytest.mark.parametrize(
    "work",
    [lambda: aio.connect("unix:/nowhere"), lambda: aio.connect("http://127.0.0.1:1")],
    ids=["unix", "http"],
)
def test_what_cannot_be_opened(work: Callable[[], Opening[Any]]) -> None:
    async def scene() -> None:
        async with work():
            raise AssertionError

    with pytest.raises(tiercel.errors.MqError):
        asyncio.run(scene())


def test_forgotten_it_warns(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="never awaited"):
        del [aio.open(tmp_path)][0]
