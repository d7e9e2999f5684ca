r"""Backups of queue managers that work, and what a restored one says to those it spoke with before."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import tiercel
from tiercel import aio
from tiercel.engine.check import Checker
from tiercel.model.errors import StoreFailedError
from tiercel.server.backup import make_backup, make_backup_apart
from tiercel.store import Keyspace, open_snapshot
from tiercel.store.lmdb_store import LmdbStore

from .test_two_daemons import ORDERS, Play, World, play, received, remote

__all__ = ["play"]

RECOVERABLE = tiercel.DeliveryGuarantee.RECOVERABLE


def labels(directory: Path, name: str = ORDERS) -> list[str]:
    with tiercel.open(directory) as qm:
        return [message.label for message in qm.queue(name).cursor()]


async def transact(manager: aio.AsyncEmbeddedQueueManager, *bodies: bytes) -> None:
    async with manager.transaction() as transaction:
        for body in bodies:
            await remote(manager).send(tiercel.Message(body), transaction=transaction)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # queues tell nobody that they grow
        await asyncio.sleep(0.001)


def has_grown(numbers: list[int], enough: int) -> bool:
    return len(numbers) >= enough


class TestUnderLoad:
    def test_everything_acknowledged_before_is_in_it(self, tmp_path: Path) -> None:
        acknowledged: list[int] = []

        async def send(queue: aio.AsyncEmbeddedQueue, first: int) -> None:
            number = first
            while True:
                await queue.send(tiercel.Message(b"x" * 2000, label=f"{number}", delivery=RECOVERABLE))
                acknowledged.append(number)
                number += 10
                await asyncio.sleep(0)

        async def main() -> list[set[int]]:
            before = []
            async with await aio.open(tmp_path / "data") as qm:
                queue = await qm.create_queue(ORDERS)
                senders = [asyncio.create_task(send(queue, first)) for first in range(10)]
                for number in range(3):
                    await until(partial(has_grown, acknowledged, len(acknowledged) + 100))
                    before.append(set(acknowledged))
                    made = await make_backup_apart(tmp_path / "data", tmp_path / f"backup{number}")
                    assert made.messages >= len(before[-1])
                    assert not made.problems
                for sender in senders:
                    sender.cancel()
                await asyncio.gather(*senders, return_exceptions=True)
            return before

        for number, before in enumerate(asyncio.run(main())):
            directory = tmp_path / f"backup{number}"
            assert [each.name for each in directory.iterdir()] == ["data.mdb"]
            found = list(map(int, labels(directory)))
            assert before <= set(found)
            assert len(set(found)) == len(found)
            for first in range(10):  # of one moment: each sender's messages up to one of them
                mine = sorted(each for each in found if each % 10 == first)
                assert mine == [first + 10 * each for each in range(len(mine))]

    def test_transactions_are_whole(self, tmp_path: Path) -> None:
        async def move(
            qm: aio.AsyncEmbeddedQueueManager, source: aio.AsyncEmbeddedQueue, target: aio.AsyncEmbeddedQueue
        ) -> None:
            while True:
                async with qm.transaction() as transaction:
                    taken = await source.receive(timeout=0, transaction=transaction)
                    await target.send(tiercel.Message(taken.body), transaction=transaction)
                source, target = target, source
                await asyncio.sleep(0)

        async def main() -> None:
            async with await aio.open(tmp_path / "data") as qm:
                one, other = [
                    await qm.create_queue(rf".\private$\{name}", transactional=True)
                    for name in ("one", "other")
                ]
                async with qm.transaction() as transaction:
                    await one.send(b"the only one", transaction=transaction)
                moving = asyncio.create_task(move(qm, one, other))
                for number in range(2):
                    await make_backup_apart(tmp_path / "data", tmp_path / f"{number}")
                moving.cancel()
                await asyncio.gather(moving, return_exceptions=True)

        asyncio.run(main())
        for number in range(2):
            found = [len(labels(tmp_path / f"{number}", rf".\private$\{name}")) for name in ("one", "other")]
            assert sum(found) == 1


class TestRestored:
    def test_a_stream_under_way_goes_on(self, play: Play) -> None:
        """The numbers that the sender gave out since are not given out again: the receiver knows them."""

        async def scene(world: World) -> None:
            sender, backup = world.directory / "A", world.directory / "backup"
            async with world.machine("A") as a:  # while B is away
                await transact(a, b"1", b"2")
                await make_backup_apart(sender, backup)
                await transact(a, b"3", b"4")
                async with world.machine("B") as b:
                    orders = await b.create_queue(ORDERS, transactional=True)
                    assert await received(orders, 4) == [b"1", b"2", b"3", b"4"]
            shutil.rmtree(sender)
            shutil.copytree(backup, sender)
            async with world.machine("A") as a, world.machine("B") as b:
                await transact(a, b"5", b"6")
                assert await received(b.queue(ORDERS), 2) == [b"5", b"6"]
                await until(lambda: not remote(a).count)
                assert b.queue(ORDERS).count == 0
            with open_snapshot(sender) as view:
                assert not list(Checker(view).problems())

        play(scene)

    def test_ids_and_places_are_new(self, tmp_path: Path) -> None:
        with tiercel.open(tmp_path / "data") as qm:
            qm.create_queue(ORDERS).send(tiercel.Message(delivery=RECOVERABLE))
        make_backup(tmp_path / "data", tmp_path / "backup")
        sent = []
        for name in ("data", "backup", "backup"):
            with tiercel.open(tmp_path / name) as qm:
                qm.queue(ORDERS).send(tiercel.Message(delivery=RECOVERABLE))
                sent.append([*qm.queue(ORDERS).cursor()][-1])
        original, first, again = sent
        assert first.id.uniquifier - original.id.uniquifier > 10**9
        assert first.lookup_id - original.lookup_id > 10**9
        assert 0 < again.lookup_id - first.lookup_id < 10**6, "it leaps once"
        with open_snapshot(tmp_path / "backup") as view:
            assert not list(Checker(view).problems())

    def test_a_consumer_is_not_mistaken_for_one_of_before(self, tmp_path: Path) -> None:
        with tiercel.open(tmp_path / "data") as qm:
            qm.create_queue(ORDERS)
        make_backup(tmp_path / "data", tmp_path / "backup")
        epochs = []
        for name in ("data", "backup"):
            with tiercel.open(tmp_path / name) as qm:
                epochs.append(qm.consumer("lake").epoch)
        assert epochs[0] != epochs[1]


class TestWhatCannotBe:
    def test_it_is_said_in_one_line(self, tmp_path: Path) -> None:
        with tiercel.open(tmp_path / "data"):
            pass
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "letter").touch()
        ended = subprocess.run(  # noqa: S603  # our own program
            [sys.executable, "-m", "tiercel.server.backup", tmp_path / "data", tmp_path / "full"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 1
        assert ended.stderr == "the directory holds other things (letter) and no store\n"
        with pytest.raises(StoreFailedError, match=r"holds other things \(letter\)"):
            asyncio.run(make_backup_apart(tmp_path / "data", tmp_path / "full"))

    def test_damage_is_copied_and_told(self, tmp_path: Path) -> None:
        with tiercel.open(tmp_path / "data") as qm:
            qm.create_queue(ORDERS).send(tiercel.Message(delivery=RECOVERABLE))
        store = LmdbStore.open(tmp_path / "data")
        batch = store.begin()
        [(key, value)] = batch.range(Keyspace.MESSAGES, b"", b"\xff" * 20)
        batch.put(Keyspace.MESSAGES, key, value[:-1] + b"!")
        batch.commit()
        store.close()
        made = make_backup(tmp_path / "data", tmp_path / "backup")
        assert made.messages == 1
        assert len(made.problems) == 1
