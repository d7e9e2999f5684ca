r"""Three asyncio workers that share the messages of one queue and reply to another.

python examples/workers.py
"""

import asyncio
import tempfile
from pathlib import Path

import tiercel
from tiercel import aio


async def work(name: str, jobs: aio.Queue, results: aio.Queue) -> None:
    while True:
        async with jobs.receiving() as job:  # returned if the block raises or the task is cancelled
            await asyncio.sleep(0.01)
            await results.send(tiercel.Message(label=f"{name} did {job.label}"))


async def main(directory: Path) -> None:
    async with aio.open(directory) as qm:
        jobs = await qm.create_queue(r".\private$\jobs")
        results = await qm.create_queue(r".\private$\results")
        workers = [asyncio.create_task(work(f"worker {number}", jobs, results)) for number in (1, 2, 3)]
        for number in range(9):
            urgent = number == 8
            await jobs.send(tiercel.Message(label=f"job {number}", priority=7 if urgent else 3))
        for _ in range(9):
            print((await results.receive(timeout=5)).label)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        asyncio.run(main(Path(scratch)))
