"""`python desk.py DIRECTORY CONFIG`: a queue manager with its data endpoint, in a process of its own.

Tests have it do things: each line of its standard input is a call in JSON, each line of its output the
answer. The first line of output says where it is reached.
"""

import asyncio
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tiercel
from tiercel import aio
from tiercel.security.descriptor import SecurityDescriptor
from tiercel.server import process_tuning
from tiercel.server.config import load

FOR_ALL = SecurityDescriptor.parse("O:WDG:WDD:(A;;0xf003f;;;WD)(A;;0xf003f;;;AN)").encode()


class Desk:
    """What can be asked; every method takes and gives plain values."""

    def __init__(self, qm: aio.AsyncEmbeddedQueueManager) -> None:
        self._qm = qm

    async def set_properties(self, **properties: Any) -> None:
        await self._qm.set_properties(**properties)

    async def create(self, queue: str, **properties: Any) -> str:
        made = await self._qm.create_queue(queue, security=FOR_ALL, **properties)
        return made.path_name

    async def delete(self, queue: str) -> None:
        await self._qm.delete_queue(queue)

    async def send(
        self, queue: str, bodies: list[str], *, transaction: bool = False, **properties: Any
    ) -> None:
        target = self._qm.queue(queue)
        properties.setdefault("delivery", 1)
        for batch in _batches(bodies):
            with self._qm.batch():
                begun = await self._qm.begin_transaction() if transaction else None
                for body in batch:
                    message = tiercel.Message(body.encode(), **({"label": body[:20]} | properties))
                    await target.send(message, transaction=begun)
                if begun is not None:
                    begun.commit()

    async def fill(self, queue: str, count: int, size: int) -> None:
        """Many messages of the same size, which begin with their numbers."""
        target = self._qm.queue(queue)
        for numbers in _batches(range(count)):
            with self._qm.batch():
                for number in numbers:
                    body = (b"%d " % number).ljust(size, b"x")
                    await target.send(tiercel.Message(body, label=f"message {number}", delivery=1))
            await asyncio.sleep(0)

    async def bodies(self, queue: str) -> list[str]:
        cursor = self._qm.queue(queue).cursor()
        found = [message.body.decode() for message in cursor]
        cursor.close()
        return found

    async def count(self, queue: str) -> int:
        try:
            return self._qm.queue(queue).count
        except tiercel.QueueNotFoundError:
            if ";" not in queue:
                raise
            return 0  # a subqueue that is empty is no more

    async def receive(self, queue: str, count: int = 1) -> list[str]:
        source = self._qm.queue(queue)
        return [(await source.receive(0)).body.decode() for _ in range(count)]

    async def purge(self, queue: str) -> int:
        return await self._qm.queue(queue).purge()


def _batches(values: list[str] | range) -> Iterable[Any]:
    return (values[start : start + 1000] for start in range(0, len(values), 1000))


async def main(directory: str, config: str) -> None:
    process_tuning.leave_out_pandas()  # as the daemon does
    async with await aio.open(directory, config=load(Path(config)), computer_name="SRV") as qm:
        manager: Any = qm._runtime
        reading = manager.daemon.remote_reading
        where = {"data_endpoint": qm.data_endpoint, "remote_read": reading.port if reading else None}
        _say(where)
        process_tuning.collect_garbage_rarely()
        desk, loop = Desk(qm), asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.buffer.readline):
            _say(await _answer(desk, json.loads(line)))


def _say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def _answer(desk: Desk, call: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"result": await getattr(desk, call["do"])(*call["arguments"], **call["more"])}
    except Exception as problem:  # noqa: BLE001  # the test is told
        return {"error": f"{type(problem).__name__}: {problem}"}


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
