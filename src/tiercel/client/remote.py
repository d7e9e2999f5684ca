r"""Queues of another computer: `tiercel.connect`.

    with tiercel.connect("host", user="EXAMPLE\\reader", password=...) as remote:
        orders = remote.queue(r"private$\orders")
        with orders.receiving(timeout=5) as message: ...

An event loop in a thread of its own has the connections; threads may share everything here. Who is
interrupted while waiting for a message loses none.
"""

import asyncio
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import UUID

from tiercel.client import remote_aio
from tiercel.client.dialing import Options
from tiercel.client.embedded import check_timeout
from tiercel.client.logon import connection, with_arguments_of
from tiercel.client.read_ahead import AHEAD, Held, ReadAhead, Until
from tiercel.client.remote_message import RemoteMessage
from tiercel.client.remote_session import RemoteTransaction
from tiercel.model.codes import MessageSeekAction
from tiercel.model.errors import IoTimeoutError, MessageNotFoundError, ServiceNotAvailableError, TiercelError
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message

_CURRENT = MessageSeekAction.SEEK_CURRENT
T = TypeVar("T")


@with_arguments_of(connection)
def connect(options: Options) -> "RemoteQueueManager":
    r"""Connects to the queue manager of another computer, to read its queues and to send to them.

    `user` is DOMAIN\user, user@domain or user, and proves itself with a password or a Kerberos keytab.
    Without a port, its endpoint mapper is asked, then the port of MSMQ (2103) is tried; with `rebind` the
    server is asked for its port in any case. `level` is none, connect, packet, integrity or privacy: how well
    the calls are protected, by default privacy for a user and none for nobody. `workgroup` says that this
    computer is in no Windows domain. A call that is not answered in `rpc_cancel_minutes` has failed; for
    `reconnect_s` seconds a call tries to make a connection again that was lost. What is sent goes to
    `message_port`, by default that of MSMQ (1801).
    """
    return RemoteQueueManager(options)


class _LoopThread:
    """An event loop in a thread, and how other threads have it work."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"tiercel {name}", daemon=True)
        self._is_open = True
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    def run(self, work: Coroutine[Any, Any, T], undo: Callable[[T], None] | None = None) -> T:
        """The result; who is interrupted cancels the work, or has its result undone if it came just then."""
        if not self._is_open:
            work.close()
            raise ServiceNotAvailableError(
                self._name, problem="the connection was closed", fix="connect again"
            )
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            if not future.cancel() and undo is not None and future.exception() is None:
                undo(future.result())
            raise

    def finish(self, work: Coroutine[Any, Any, None]) -> None:
        """For the end of a generator, which may come at any place; a connection that is lost needs none."""
        if sys.is_finalizing():  # the loop runs no more
            work.close()
        elif threading.current_thread() is self._thread:
            self.start(work)
        else:
            with suppress(TiercelError):
                self.run(work)

    def later(self, call: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(call)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self.later(lambda: self._loop.create_task(work))

    def stop(self) -> None:
        self._is_open = False
        self.later(self._loop.stop)
        self._thread.join()


class RemoteQueueManager:
    """The queues of one other computer."""

    def __init__(self, options: Options) -> None:
        self._thread = _LoopThread(options.host)
        self._lock = threading.Lock()
        self._is_closed = False

        async def start() -> remote_aio.RemoteQueueManager:
            manager = remote_aio.RemoteQueueManager(options)
            await manager.start()
            return manager

        try:
            self._manager = self._thread.run(start())
        except BaseException:
            self._thread.stop()
            raise

    def __repr__(self) -> str:
        return repr(self._manager)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def host(self) -> str:
        return self._manager.host

    def close(self) -> None:
        """Ends every wait, gives back what was not acknowledged, and lets go of the connection."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                try:
                    self._thread.run(self._manager.close())
                finally:
                    self._thread.stop()

    def queue(self, name: str | FormatName, *, exclusive: bool = False) -> "RemoteQueue":
        r"""A queue of that computer, such as `private$\orders`; it is opened when it is first used.

        With `exclusive`, nobody else may receive from it as long as it is open.
        """
        return RemoteQueue(self._thread, self._manager.queue(name, exclusive=exclusive))

    @property
    def journal(self) -> "RemoteQueue":
        return RemoteQueue(self._thread, self._manager.journal)

    @property
    def dead_letters(self) -> "RemoteQueue":
        return RemoteQueue(self._thread, self._manager.dead_letters)

    @property
    def transactional_dead_letters(self) -> "RemoteQueue":
        return RemoteQueue(self._thread, self._manager.transactional_dead_letters)

    def transaction(self, token: bytes, identifier: UUID | None = None) -> RemoteTransaction:
        """A transaction of a coordinator that both sides know; its own id by default is a new one."""
        return self._manager.transaction(token, identifier)


class RemoteQueue:
    """A queue of another computer, opened when it is first used; `close` ends what was opened."""

    def __init__(self, thread: _LoopThread, queue: remote_aio.RemoteQueue) -> None:
        self._thread = thread
        self._queue = queue
        self.format_name = queue.format_name

    def __repr__(self) -> str:
        return repr(self._queue)

    @property
    def path_name(self) -> str:
        """Where the queue is; a name that only its own computer can read stays as it is."""
        return self._queue.path_name

    @property
    def journal(self) -> "RemoteQueue":
        """Copies of the messages that were received from this queue while `journaling` was on."""
        return RemoteQueue(self._thread, self._queue.journal)

    def subqueue(self, name: str) -> "RemoteQueue":
        return RemoteQueue(self._thread, self._queue.subqueue(name))

    def close(self) -> None:
        """Ends what this object has opened: waits are told, messages that it holds go back."""
        self._thread.run(self._queue.close())

    def send(self, message: Message | bytes, *, transaction: RemoteTransaction | None = None) -> MessageId:
        """Sends a message; on return that computer has it, stored if it is recoverable.

        Whether the queue takes it is its computer's matter: `acknowledgements` and an `administration_queue`
        tell. For a transaction, and for journals of the sender, open a queue manager of your own.
        """
        return self._thread.run(self._queue.send(message, transaction=transaction))

    def receive(
        self,
        timeout: float | None = None,
        *,
        lookup_id: int | None = None,
        seek: MessageSeekAction = _CURRENT,
        transaction: RemoteTransaction | None = None,
    ) -> RemoteMessage:
        """Takes the first message, and waits `timeout` seconds for one (None: for ever).

        With a lookup id it takes that message, or with `seek` the one before or after it, and never waits.
        The acknowledgement is sent, but its answer is not waited for. When it is lost, the message may come
        once more, as with Windows; it does not get lost. Who wants to know uses `receiving`.
        """
        work = self._queue.receive(timeout, lookup_id=lookup_id, seek=seek, transaction=transaction)
        return self._thread.run(work, self._leave)

    def _leave(self, message: RemoteMessage) -> None:
        self._thread.later(lambda: self._queue.leave(message))

    @contextmanager
    def receiving(self, timeout: float | None = None) -> Iterator[RemoteMessage]:
        """A message to work on: acknowledged when the block ends well, given back when it raises.

        When the acknowledgement fails, the message may come again, and the error says so.
        """
        queue = self._queue
        held = self._thread.run(queue.hold(timeout), lambda held: self._thread.start(queue.give_back(held)))
        try:
            yield held.message
        except BaseException:
            with suppress(TiercelError):  # a connection that was closed has given it back already
                self._thread.run(queue.give_back(held))
            raise
        self._thread.run(queue.acknowledge(held))

    def consume(
        self, timeout: float | None = None, *, ahead: int = AHEAD, until: Until | None = None
    ) -> Generator[RemoteMessage, None, None]:
        """The messages one after the other, each acknowledged when the next one is asked for.

        Up to `ahead` messages are read before they are asked for. When none comes for `timeout` seconds, or
        `until` says of one that it was the last, the loop ends and everything is acknowledged. Who leaves it
        otherwise, by `break` or an error, has not acknowledged the message in hand: it goes back, together
        with those that were read ahead. Refused acknowledgements are raised; one that is lost with its
        connection is not, and its message may come again.
        """
        thread, reading = self._thread, ReadAhead(self._queue, check_timeout(timeout), ahead)
        done: deque[Held] = deque()

        def acknowledge() -> None:
            while done:
                reading.acknowledge(done.popleft())

        try:
            while batch := thread.run(reading.more()):
                for held in batch:
                    if not reading.is_good(held):
                        break
                    yield held.message
                    done.append(held)
                    if len(done) == 1:  # otherwise the loop has yet to come to those before
                        thread.later(acknowledge)
                    if until is not None and until(held.message):
                        thread.run(reading.finish())
                        return
        finally:
            thread.finish(reading.close())

    def peek(
        self,
        timeout: float | None = None,
        *,
        lookup_id: int | None = None,
        seek: MessageSeekAction = _CURRENT,
        max_body_size: int | None = None,
    ) -> RemoteMessage:
        """Looks at the first message, or that of a lookup id, and leaves it where it is.

        With `max_body_size`, only that many bytes of the body come; `body_size` is how many there are.
        """
        return self._thread.run(
            self._queue.peek(timeout, lookup_id=lookup_id, seek=seek, max_body_size=max_body_size)
        )

    def cursor(self) -> "RemoteCursor":
        """A place in the queue that moves on by reading."""
        return RemoteCursor(self._thread, self._queue, self._thread.run(self._queue.cursor()))

    def move(
        self,
        message: Message | int,
        subqueue: str | None,
        *,
        transaction: RemoteTransaction | None = None,
    ) -> None:
        """Moves a message, named by itself or by its lookup id, into a subqueue; None is the queue itself."""
        self._thread.run(self._queue.move(message, subqueue, transaction=transaction))

    def reject(self, message: Message | int) -> None:
        """Has the sender told that a message, received in a transaction that is not over, was rejected."""
        self._thread.run(self._queue.reject(message))

    def purge(self) -> None:
        """Removes every message; the server does not tell how many there were."""
        self._thread.run(self._queue.purge())


class RemoteCursor:
    """A place in a queue of another computer; iterating peeks at every message once.

    It is lost with the connection: then `StaleHandleError` says so, and a new one must be made.
    """

    def __init__(
        self, thread: _LoopThread, queue: remote_aio.RemoteQueue, cursor: remote_aio.RemoteCursor
    ) -> None:
        self._thread = thread
        self._queue = queue
        self._cursor = cursor

    def peek(self, timeout: float | None = 0, *, max_body_size: int | None = None) -> RemoteMessage:
        """The message under the cursor; at first, the first one."""
        return self._thread.run(self._cursor.peek(timeout, max_body_size=max_body_size))

    def peek_next(self, timeout: float | None = 0, *, max_body_size: int | None = None) -> RemoteMessage:
        return self._thread.run(self._cursor.peek_next(timeout, max_body_size=max_body_size))

    def receive(
        self, timeout: float | None = 0, *, transaction: RemoteTransaction | None = None
    ) -> RemoteMessage:
        """Takes the message under the cursor, or the next one that is there."""
        work = self._cursor.receive(timeout, transaction=transaction)
        return self._thread.run(work, lambda message: self._thread.later(lambda: self._queue.leave(message)))

    def __iter__(self) -> Iterator[RemoteMessage]:
        read = self.peek
        while True:
            try:
                message = read(0)
            except (IoTimeoutError, MessageNotFoundError):
                return
            yield message
            read = self.peek_next

    def close(self) -> None:
        self._thread.run(self._cursor.close())
