r"""The embedded queue manager for asyncio: the same names, with `await` where a call may wait or write.

    async with await tiercel.aio.open("data") as qm:
        orders = await qm.create_queue(r".\private$\orders")
        message = await orders.receive(timeout=5)

Everything runs on the thread of the event loop, commits too: a worker thread would be slower. A read that is
cancelled while it waits loses nothing: what had come to it goes back into its queue.
"""

import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self

from tiercel.client import consumer, embedded
from tiercel.client.consumer import Claim, ClaimedMessage
from tiercel.client.dialing import Options
from tiercel.client.embedded import Transaction
from tiercel.client.logon import connection, with_arguments_of
from tiercel.client.remote_aio import RemoteQueueManager
from tiercel.client.translate import message_of
from tiercel.engine.claims import ClaimStatus
from tiercel.engine.discards import Discard
from tiercel.engine.handles import Found, OpenQueue, Waiter
from tiercel.faces import faces
from tiercel.model.codes import MessageSeekAction, QueueAccess
from tiercel.model.errors import IoTimeoutError, MqError
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message
from tiercel.server.config import Config
from tiercel.server.daemon import Daemon
from tiercel.server.driver import Driver
from tiercel.server.node import Clock
from tiercel.server.reads import Alarm, Reads
from tiercel.store import DEFAULT_MAX_BYTES

_CURRENT = MessageSeekAction.SEEK_CURRENT


async def open(  # noqa: A001  # the same name as tiercel.open
    directory: str | os.PathLike[str],
    *,
    computer_name: str | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    clock: Clock = time.time,
    listen: str | None = None,
    config: Config | None = None,
) -> "QueueManager":
    """Opens the queue manager of a directory; with `listen` (HOST:PORT) or a `config` it talks to others."""
    if listen is None and config is None:
        return QueueManager(_OnLoop(directory, computer_name=computer_name, max_bytes=max_bytes, clock=clock))
    config = config or Config()
    if listen is not None:
        config = config.with_listen(listen)
    manager = _OnNetwork(
        directory, computer_name=computer_name, max_bytes=max_bytes, clock=clock, config=config
    )
    await manager.daemon.start()
    return QueueManager(manager)


@with_arguments_of(connection)
async def connect(options: Options) -> RemoteQueueManager:
    """Connects to the queue manager of another computer; the arguments are those of `tiercel.connect`."""
    manager = RemoteQueueManager(options)
    await manager.start()
    return manager


class _OnLoop(embedded.QueueManager):
    """Tells futures instead of threads, and has the loop wake it when a time-out is due."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._reads = Reads()
        self._alarm = Alarm()

    def _completed(self, waiter: Waiter) -> None:
        self._reads.completed(waiter)

    def _deadline_changed(self) -> None:
        if self._reads:
            self._arm()

    async def wait_for(self, waiter: Waiter) -> Found:
        self._arm()
        return await self._reads.result(self.driver, waiter)

    def _arm(self) -> None:
        self._alarm.set(self.driver)

    def close(self) -> None:
        self._alarm.cancel()
        super().close()

    async def stop(self) -> None:
        self.close()

    @property
    def address(self) -> str | None:
        return None

    @property
    def data_endpoint(self) -> str | None:
        return None


class _OnNetwork(_OnLoop):
    """The same with sockets: the daemon has the timer, and its batches tell the futures."""

    def __init__(self, *arguments: Any, config: Config, **options: Any) -> None:
        self._config = config
        super().__init__(*arguments, **options)

    def _open(self, directory: str | os.PathLike[str], **options: Any) -> Driver:
        node = replace(
            self._config.node,
            data=os.fspath(directory),
            max_bytes=options["max_bytes"],
            computer_name=options["computer_name"] or self._config.node.computer_name,
        )
        config = replace(self._config, node=node)
        self.daemon = Daemon(config, completed=self._completed, clock=options["clock"], faces=faces(config))
        return self.daemon.driver

    def _arm(self) -> None:
        """Nothing to do: the daemon hears of every deadline."""

    async def stop(self) -> None:
        await self.daemon.stop()
        self.close()

    @property
    def address(self) -> str | None:
        return str(self.daemon.endpoints[0])

    @property
    def data_endpoint(self) -> str | None:
        addresses = [face.addresses for face in self.daemon.faces]
        return next((each["data_endpoint"] for each in addresses if "data_endpoint" in each), None)


class QueueManager:
    def __init__(self, manager: _OnLoop) -> None:
        self._manager = manager

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._manager.stop()

    @property
    def address(self) -> str | None:
        """Where other queue managers reach this one, as HOST:PORT; None when it talks to nobody."""
        return self._manager.address

    @property
    def data_endpoint(self) -> str | None:
        """The address of the data endpoint, as http://HOST:PORT; None when `config` does not enable it."""
        return self._manager.data_endpoint

    async def create_queue(
        self, path_name: str, *, transactional: bool = False, exist_ok: bool = False, **properties: Any
    ) -> "Queue":
        queue = self._manager.create_queue(
            path_name, transactional=transactional, exist_ok=exist_ok, **properties
        )
        return Queue(self._manager, queue)

    async def delete_queue(self, path_name: str) -> None:
        self._manager.delete_queue(path_name)

    def queue(self, name: str | FormatName) -> "Queue":
        return Queue(self._manager, self._manager.queue(name))

    def queues(self) -> "list[Queue]":
        return [Queue(self._manager, queue) for queue in self._manager.queues()]

    @property
    def journal(self) -> "Queue":
        return Queue(self._manager, self._manager.journal)

    @property
    def dead_letters(self) -> "Queue":
        return Queue(self._manager, self._manager.dead_letters)

    @property
    def transactional_dead_letters(self) -> "Queue":
        return Queue(self._manager, self._manager.transactional_dead_letters)

    @property
    def properties(self) -> dict[str, object]:
        return self._manager.properties

    async def set_properties(self, **properties: Any) -> None:
        self._manager.set_properties(**properties)

    def discards(self) -> list[Discard]:
        return self._manager.discards()

    async def consumer(self, name: str) -> "Consumer":
        return Consumer(self._manager.consumer(name))

    def claims(self) -> list[ClaimStatus]:
        return self._manager.claims()

    async def release_claims(self, consumer: str, queue: "str | FormatName | Queue | None" = None) -> None:
        self._manager.release_claims(consumer, None if queue is None else _place(queue))

    async def forget_consumer(self, name: str) -> None:
        self._manager.forget_consumer(name)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        with self._manager.transaction() as transaction:
            yield transaction

    async def begin_transaction(self) -> Transaction:
        return self._manager.begin_transaction()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """One write for everything in the block, which must not `await` anything that waits."""
        with self._manager.batch():
            yield


class Consumer:
    """Reading the messages of a claim needs no `await`: they are there."""

    def __init__(self, consumer: consumer.Consumer) -> None:
        self._consumer = consumer

    def __repr__(self) -> str:
        return repr(self._consumer)

    @property
    def name(self) -> str:
        return self._consumer.name

    @property
    def epoch(self) -> int:
        return self._consumer.epoch

    async def claim(
        self,
        queue: "str | FormatName | Queue",
        limit: int = 1000,
        *,
        byte_limit: int | None = None,
        acknowledge: int = 0,
    ) -> Claim:
        place = _place(queue)
        return self._consumer.claim(place, limit, byte_limit=byte_limit, acknowledge=acknowledge)

    def messages(self, queue: "str | FormatName | Queue", lo: int, hi: int) -> Iterator[ClaimedMessage]:
        return self._consumer.messages(_place(queue), lo, hi)

    async def acknowledge(self, queue: "str | FormatName | Queue", up_to: int) -> int:
        return self._consumer.acknowledge(_place(queue), up_to)

    async def release(self, queue: "str | FormatName | Queue | None" = None) -> None:
        self._consumer.release(None if queue is None else _place(queue))


class Queue:
    def __init__(self, manager: _OnLoop, queue: embedded.Queue) -> None:
        self._manager = manager
        self._queue = queue
        self._reading = manager.driver.engine.reading

    def __repr__(self) -> str:
        return repr(self._queue)

    # What a queue is needs no await.

    @property
    def format_name(self) -> FormatName:
        return self._queue.format_name

    @property
    def path_name(self) -> str:
        return self._queue.path_name

    @property
    def count(self) -> int:
        return self._queue.count

    @property
    def size_bytes(self) -> int:
        return self._queue.size_bytes

    @property
    def label(self) -> str:
        return self._queue.label

    @property
    def transactional(self) -> bool:
        return self._queue.transactional

    @property
    def properties(self) -> dict[str, object]:
        return self._queue.properties

    async def set_properties(self, **properties: Any) -> None:
        self._queue.set_properties(**properties)

    @property
    def journal(self) -> "Queue":
        return Queue(self._manager, self._queue.journal)

    def subqueue(self, name: str) -> "Queue":
        return Queue(self._manager, self._queue.subqueue(name))

    async def delete(self) -> None:
        self._queue.delete()

    async def close(self) -> None:
        self._queue.close()

    async def send(self, message: Message | bytes, *, transaction: Transaction | None = None) -> MessageId:
        return self._queue.send(message, transaction=transaction)

    async def send_many(
        self, messages: Iterable[Message | bytes], *, transaction: Transaction | None = None
    ) -> list[MessageId]:
        return self._queue.send_many(messages, transaction=transaction)

    async def receive_many(
        self, limit: int, timeout: float | None = None, *, transaction: Transaction | None = None
    ) -> list[Message]:
        seconds, opened = embedded.check_timeout(timeout), self._open(QueueAccess.RECEIVE)
        end = None if seconds is None else time.monotonic() + seconds
        while not (messages := self._queue.receive_first(limit, transaction)):
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                break
            with suppress(IoTimeoutError):  # by peeking: a task that is cancelled has taken nothing
                await self._wait(partial(self._reading.peek, opened, left))
        return messages

    async def receive(
        self,
        timeout: float | None = None,
        *,
        lookup_id: int | None = None,
        seek: MessageSeekAction = _CURRENT,
        transaction: Transaction | None = None,
    ) -> Message:
        if embedded.seeks(lookup_id, seek):
            return self._queue.receive(lookup_id=lookup_id, seek=seek, transaction=transaction)
        seconds = embedded.check_timeout(timeout)
        try:
            return self._queue.receive(0, transaction=transaction)
        except IoTimeoutError:
            if seconds == 0:
                raise
        within = None if transaction is None else transaction.of(self._manager)
        opened = self._open(QueueAccess.RECEIVE)
        # In two phases, so that a task which is cancelled just then gives the message back.
        found = await self._wait(
            lambda: self._reading.receive(opened, seconds, transaction=within, two_phase=within is None)
        )
        if within is None:
            self._manager.driver.run(lambda: self._reading.keep(opened, found.lookup_id))
        return message_of(found)

    @asynccontextmanager
    async def receiving(self, timeout: float | None = None) -> AsyncIterator[Message]:
        """A message to work on: received when the block ends well, given back when it raises."""
        opened, seconds = self._open(QueueAccess.RECEIVE), embedded.check_timeout(timeout)
        found = await self._wait(lambda: self._reading.receive(opened, seconds, two_phase=True))
        run = self._manager.driver.run
        try:
            yield message_of(found)
        except BaseException:
            with suppress(MqError):  # a queue that was closed or deleted has given it back already
                run(lambda: self._reading.end_receive(opened, found.lookup_id, delete=False))
            raise
        run(lambda: self._reading.keep(opened, found.lookup_id))

    async def consume(
        self, timeout: float | None = None, *, until: embedded.Until | None = None
    ) -> AsyncGenerator[Message, None]:
        """The messages one after the other, each received when the next one is asked for.

        When none comes for `timeout` seconds, or `until` says of one that it was the last, the loop ends.
        Who leaves it otherwise, by `break` or an error, has not received the message in hand: it goes back.
        """
        while True:
            try:
                async with self.receiving(timeout) as message:
                    yield message
            except IoTimeoutError:
                return
            if until is not None and until(message):
                return

    async def peek(
        self,
        timeout: float | None = None,
        *,
        lookup_id: int | None = None,
        seek: MessageSeekAction = _CURRENT,
    ) -> Message:
        if embedded.seeks(lookup_id, seek):
            return self._queue.peek(lookup_id=lookup_id, seek=seek)
        seconds = embedded.check_timeout(timeout)
        try:
            return self._queue.peek(0)
        except IoTimeoutError:
            if seconds == 0:
                raise
        opened = self._open(QueueAccess.PEEK)
        return message_of(await self._wait(lambda: self._reading.peek(opened, seconds)))

    def _open(self, access: QueueAccess) -> OpenQueue:
        return self._manager.driver.run(lambda: self._queue.opened(access))

    async def _wait(self, command: Callable[[], Found | Waiter]) -> Found:
        result = self._manager.driver.run(command)
        if isinstance(result, Found):
            return result
        self._manager.driver.refuse_to_wait_in_batch(result)
        return await self._manager.wait_for(result)

    async def move(
        self, message: Message | int, subqueue: str | None, *, transaction: Transaction | None = None
    ) -> None:
        self._queue.move(message, subqueue, transaction=transaction)

    async def purge(self) -> int:
        return self._queue.purge()

    def cursor(self) -> embedded.Cursor:
        """A cursor for reads that do not wait."""
        return self._queue.cursor()


def _place(queue: str | FormatName | Queue) -> str | FormatName:
    return queue.format_name if isinstance(queue, Queue) else queue
