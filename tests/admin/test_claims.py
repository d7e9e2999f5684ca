"""Long commands run in slices: between two of them the daemon has turns for others."""

import asyncio
from pathlib import Path

from data.served import PATIENCE_S
from tiercel.admin.claims import SLICE, Claims
from tiercel.admin.waits import Waits
from tiercel.engine.engine import Engine
from tiercel.model.codes import QueueAccess
from tiercel.model.message import Message
from tiercel.model.path_name import PathName
from tiercel.model.queue_name import parse_queue_name
from tiercel.server.config import Config, ListenOptions, NodeOptions
from tiercel.server.daemon import Daemon

QUEUE = r".\private$\orders"
COUNT = 50_000


async def fill(daemon: Daemon, count: int) -> None:
    await daemon.call(lambda engine: engine.queues.create(PathName.parse(QUEUE), daemon.driver.owner))
    opened = await daemon.call(
        lambda engine: engine.opening.open(
            parse_queue_name(QUEUE), QueueAccess.SEND, token=daemon.driver.token
        )
    )

    def send(engine: Engine) -> None:
        for _ in range(5000):
            engine.sending.send(opened, Message(b"x" * 100, delivery=1))

    for _ in range(count // 5000):
        await daemon.call(send)


class Others:
    """Somebody who calls the daemon all the time, and counts how often it answers."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._task = asyncio.create_task(self._call())
        self.answers = 0

    async def _call(self) -> None:
        while True:
            await self._daemon.call(lambda _: None)
            self.answers += 1

    def end(self) -> int:
        self._task.cancel()
        return self.answers


async def claim_and_acknowledge(folder: Path) -> None:
    node, listen = NodeOptions(data=str(folder / "data"), computer_name="HOST"), ListenOptions(port=0)
    async with Daemon(Config(node=node, listen=listen)) as daemon:
        await fill(daemon, COUNT)
        claims = Claims(daemon, Waits())
        epoch = (await claims.attach("c", [QUEUE], create=True, epoch=None))["epoch"]
        slices = COUNT // SLICE
        others = Others(daemon)
        claim = await claims.claim(
            "c", epoch, QUEUE, start=0, limit=None, byte_limit=None, acknowledge=0, wait_s=0
        )
        assert claim["hi"] == COUNT
        assert [end for end, _ in claim["weights"]] == list(range(SLICE, COUNT + 1, SLICE))
        assert others.end() >= slices // 2
        others = Others(daemon)
        repeat = await claims.claim(
            "c", epoch, QUEUE, start=0, limit=None, byte_limit=None, acknowledge=0, wait_s=0
        )
        assert repeat["hi"] == COUNT
        assert others.end() >= slices // 2
        others = Others(daemon)
        assert (await claims.acknowledge("c", epoch, QUEUE, COUNT))["acknowledged"] == COUNT
        assert others.end() >= slices // 2


def test_a_large_claim_leaves_turns_to_others(tmp_path: Path) -> None:
    asyncio.run(claim_and_acknowledge(tmp_path))


async def wait_and_stop(folder: Path) -> None:
    node, listen = NodeOptions(data=str(folder / "data"), computer_name="HOST"), ListenOptions(port=0)
    async with Daemon(Config(node=node, listen=listen)) as daemon:
        await fill(daemon, 0)
        waits = Waits()
        claims = Claims(daemon, waits)
        epoch = (await claims.attach("c", [QUEUE], create=True, epoch=None))["epoch"]

        async def wait() -> dict[str, object]:
            return await claims.claim(
                "c", epoch, QUEUE, start=0, limit=1, byte_limit=None, acknowledge=0, wait_s=60
            )

        waiting = asyncio.create_task(wait())
        queue = daemon.engine.queues.get(parse_queue_name(QUEUE))
        async with asyncio.timeout(PATIENCE_S):
            while not queue.waiters:  # noqa: ASYNC110  # nobody tells us
                await asyncio.sleep(0.001)
        assert not waiting.done()
        waits.stop()
        assert (await waiting)["hi"] == 0
        await daemon.call(lambda _: None)
        assert not queue.waiters
        assert [each.access for each in queue.handles.values()] == [QueueAccess.SEND]


def test_a_wait_ends_when_the_daemon_stops(tmp_path: Path) -> None:
    asyncio.run(wait_and_stop(tmp_path))
