"""Publishing in the daemon: it holds very many messages, and searches none of them for cycles."""

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path

from tiercel.admin.stages import Stages
from tiercel.engine.publication import Row
from tiercel.engine.stage_records import StageId
from tiercel.model.message import Message
from tiercel.model.path_name import PathName
from tiercel.model.queue_name import parse_queue_name
from tiercel.server.config import Config, ListenOptions, NodeOptions
from tiercel.server.daemon import Daemon

QUEUE = r".\private$\orders"


async def publish(folder: Path) -> list[bool]:
    """Whether the collector ran, for each message."""
    node, listen = NodeOptions(data=str(folder / "data"), computer_name="HOST"), ListenOptions(port=0)
    stage, collects = StageId.parse("app/1/0/a"), []

    def rows_of(payload: bytes) -> Iterator[Row]:
        for _ in payload:
            collects.append(gc.isenabled())
            yield parse_queue_name(QUEUE), Message(b"x", delivery=1)

    async with Daemon(Config(node=node, listen=listen)) as daemon:
        await daemon.call(lambda engine: engine.queues.create(PathName.parse(QUEUE), daemon.driver.owner))
        stages = Stages(daemon)
        await stages.stage(stage, 0, b"123", 3)
        done = await stages.publish("app", "1", [stage], rows_of, transactional=False)
        assert done == {"published": 3, "already": False}
    return collects


def test_the_garbage_collector_rests_while_it_publishes(tmp_path: Path) -> None:
    assert asyncio.run(publish(tmp_path)) == [False, False, False]
    assert gc.isenabled()
