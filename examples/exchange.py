r"""Two queue managers on the network, one of which is killed part-way.

This process runs one of them, on 127.0.0.1; the other is a `tiercel serve` on 127.0.0.2. It gets messages of
all three kinds, with acknowledgements to an administration queue here. Part-way it is killed with SIGKILL
and, a little later, started again.
"""

import asyncio
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import tiercel
from tiercel import aio
from tiercel.server.config import parse

HERE, THERE = "127.0.0.1", "127.0.0.2"
ACKS = rf"DIRECT=TCP:{HERE}\private$\acks"
KINDS = ("express", "recoverable", "transactional")
COUNT = 900  # messages of each kind
PATIENCE_S = 60.0


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(exchange(Path(folder), free_port()))


def free_port() -> int:
    """A port that is free at both addresses."""
    while True:
        with socket.socket() as one, socket.socket() as other:
            one.bind((HERE, 0))
            try:
                other.bind((THERE, one.getsockname()[1]))
            except OSError:
                continue
            return int(one.getsockname()[1])


def settings(host: str, port: int) -> str:
    """A free port instead of 1801, and short delays before reconnecting."""
    return f"""
        listen = {{ host = "{host}", port = {port} }}
        binary = {{ port = {port}, retry_ms = 100, retry_max_ms = 500 }}
        log = {{ level = "error" }}
    """


class Other:
    """The queue manager that is killed, in a separate process."""

    def __init__(self, folder: Path, port: int) -> None:
        self._data = folder / "there"
        self._config = folder / "there.toml"
        self._config.write_text(settings(THERE, port), "utf-8")

    async def create_queues(self) -> None:
        async with aio.open(self._data, config=parse(self._config.read_text("utf-8"))) as qm:
            for kind in KINDS:
                await qm.create_queue(rf".\private$\{kind}", transactional=kind == "transactional")

    async def start(self) -> None:
        command = ("-m", "tiercel", "serve", "--data", str(self._data), "--config", str(self._config))
        self._process = await asyncio.create_subprocess_exec(sys.executable, *command)

    async def end(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
        await self._process.wait()

    def stored(self, kind: str) -> list[int]:
        """The numbers of the messages on disk, in queue order."""
        with tiercel.open(self._data) as qm:
            return [int(message.body) for message in qm.queue(rf".\private$\{kind}").cursor()]


class Sender:
    def __init__(self, qm: aio.AsyncEmbeddedQueueManager) -> None:
        self._qm = qm
        self._queues = {kind: qm.queue(rf"DIRECT=TCP:{THERE}\private$\{kind}") for kind in KINDS}
        self.acknowledged: dict[str, set[bytes]] = {kind: set() for kind in KINDS}

    async def send(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            with self._qm.batch():  # one disk write for all three
                transaction = await self._qm.begin_transaction()
                for kind, queue in self._queues.items():
                    message = tiercel.Message(
                        str(number).encode(),
                        delivery=tiercel.DeliveryGuarantee(kind != "express"),
                        acknowledgements=tiercel.Acknowledgements.POS_ARRIVAL,
                        administration_queue=tiercel.FormatName.parse(ACKS),
                    )
                    await queue.send(message, transaction=transaction if kind == "transactional" else None)
                transaction.commit()
            await asyncio.sleep(0)  # let the network run

    async def count_acknowledgements(self) -> None:
        acks = self._qm.queue(r".\private$\acks")
        while True:
            ack = await acks.receive()
            kind = str(ack.response_queue).rpartition("\\")[2]  # where the message went
            self.acknowledged[kind].add(ack.correlation_id)  # which message it was

    def told(self) -> str:
        return ", ".join(f"{len(ids)} {kind}" for kind, ids in self.acknowledged.items())

    def waiting(self) -> int:
        return sum(queue.count for queue in self._queues.values())

    def is_done(self) -> bool:
        return not self.waiting() and all(len(self.acknowledged[kind]) == COUNT for kind in KINDS[1:])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  # it is about a queue, and queues tell nobody that they grow
            await asyncio.sleep(0.01)


async def exchange(folder: Path, port: int) -> int:
    other = Other(folder, port)
    await other.create_queues()
    await other.start()
    async with aio.open(folder / "here", config=parse(settings(HERE, port))) as qm:
        await qm.create_queue(r".\private$\acks")
        sender = Sender(qm)
        counting = asyncio.create_task(sender.count_acknowledgements())
        print(f"{HERE} sends to {THERE}, {COUNT} messages of each kind:", flush=True)
        await sender.send(range(COUNT // 3))
        await until(lambda: bool(sender.acknowledged["transactional"]))
        await sender.send(range(COUNT // 3, COUNT // 2))
        await other.end(signal.SIGKILL)
        print(f"  {COUNT // 2} of each are sent; acknowledged: {sender.told()}")
        print(f"  {THERE} is killed with SIGKILL")
        await sender.send(range(COUNT // 2, COUNT * 2 // 3))
        print(
            f"  {COUNT * 2 // 3} of each are sent; {sender.waiting()} messages wait for {THERE}", flush=True
        )
        await other.start()
        print(f"  {THERE} is started again")
        await sender.send(range(COUNT * 2 // 3, COUNT))
        await until(sender.is_done)
        print(f"  {COUNT} of each are sent; acknowledged: {sender.told()}")
        counting.cancel()
    await other.end(signal.SIGTERM)
    return report(other, sender)


def report(other: Other, sender: Sender) -> int:
    print(f"\n{THERE} is stopped, and this is what it has on disk:")
    recoverable, transactional = other.stored("recoverable"), other.stored("transactional")
    all_once = sorted(recoverable) == list(range(COUNT))
    in_order = transactional == list(range(COUNT))
    print(f"  recoverable:   {len(recoverable)}, {'each of them once' if all_once else 'NOT each once'}")
    print(
        f"  transactional: {len(transactional)}, {'each once and in order' if in_order else 'NOT IN ORDER'}"
    )
    gone = COUNT - len(sender.acknowledged["express"])
    lost = f"; {gone} more were lost in its memory" if gone else ""
    print(f"  express:       none; {COUNT - gone} were acknowledged, and lived as long as the process{lost}")
    return 0 if all_once and in_order else 1


if __name__ == "__main__":
    sys.exit(main())
