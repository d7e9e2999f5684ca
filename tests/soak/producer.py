r"""The daemon that sends: `producer.py DATA CONFIG DESTINATION TOTAL SEED`, killed and started again at will.

A queue manager that talks, and the program that embeds it. The number of the next message lies in a queue; a
transaction takes it, sends some messages and puts the new number back. So a kill at any moment neither
skips nor repeats a number. Every line of the output says how far it is:

    NEXT WAITING        the next number, and how many messages wait to be sent or acknowledged
"""

import asyncio
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from soak.letters import COUNTER, letter
from tiercel import aio
from tiercel.model.message import Message
from tiercel.server import log
from tiercel.server.config import load

MOST_WAITING = 3000
MOST_IN_TRANSACTION = 40


async def produce(data: Path, config: Path, destination: str, total: int, rand: random.Random) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with await aio.open(data, config=load(config)) as qm:
        counter = await qm.create_queue(COUNTER, transactional=True, exist_ok=True)
        if not counter.count:
            async with qm.transaction() as transaction:
                await counter.send(Message(b"0"), transaction=transaction)
        far = qm.queue(destination)
        number = int((await counter.peek(0)).body)
        if not number:
            number = await _send(qm, counter, far, lambda: 1, total)
        while not stopping.is_set():
            waiting = far.count
            _tell(number, waiting)
            if number == total or waiting > MOST_WAITING:
                await asyncio.sleep(0.02)
                continue
            number = await _send(qm, counter, far, lambda: rand.randint(1, MOST_IN_TRANSACTION), total)
            await asyncio.sleep(0)


async def _send(
    qm: aio.AsyncEmbeddedQueueManager,
    counter: aio.AsyncEmbeddedQueue,
    far: aio.AsyncEmbeddedQueue,
    size: Callable[[], int],
    total: int,
) -> int:
    async with qm.transaction() as transaction:
        number = int((await counter.receive(0, transaction=transaction)).body)
        after = min(number + size(), total)
        for each in range(number, after):
            await far.send(letter(each), transaction=transaction)
        await counter.send(Message(b"%d" % after), transaction=transaction)
    return after


def _tell(number: int, waiting: int) -> None:
    os.write(1, b"%d %d\n" % (number, waiting))


def main() -> None:
    data, config, destination, total, seed = sys.argv[1:]
    options = load(Path(config)).log
    log.configure(level=options.level, format_name=options.format, file=options.file)
    asyncio.run(produce(Path(data), Path(config), destination, int(total), random.Random(seed)))


if __name__ == "__main__":
    main()
