r"""Queues of another computer: `tiercel.connect`.

    with tiercel.connect("host", user="EXAMPLE\\reader", password=...) as remote:
        orders = remote.queue("orders")
        with orders.receiving(timeout=5) as message: ...

An event loop in a background thread has the connections; threads may share everything here. Interrupting a
read that waits loses no message. The implementation is in `remote_aio`.
"""

import asyncio
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from types import TracebackType
from typing import Any, Self, TypeVar

from tiercel.client.blocking import Method, P, blocking
from tiercel.client.dialing import Options
from tiercel.client.logon import connection, with_arguments_of
from tiercel.client.read_ahead import AHEAD, Held, ReadAhead, Until
from tiercel.client.remote_aio import AsyncRemoteCursor, AsyncRemoteQueue, AsyncRemoteQueueManager
from tiercel.client.remote_message import RemoteMessage
from tiercel.client.translate import check_timeout, peek_each
from tiercel.model.errors import ServiceNotAvailableError, TiercelError
from tiercel.model.format_name import FormatName

T = TypeVar("T")


@with_arguments_of(connection)
def connect(options: Options) -> "RemoteQueueManager":
    r"""Connects to the queue manager of another computer, to read its queues and to send to them.

    `user` is DOMAIN\user, user@domain or user, with a password or a Kerberos keytab. Without a `port`, the
    endpoint mapper is asked, then the port of MSMQ (2103) is tried; with `rebind` the server is always asked
    for its port. `level` is none, connect, packet, integrity or privacy: the protection of the calls
    (default: privacy with a user, none without). `workgroup`: this computer is not in a Windows domain.
    A call without an answer fails after `rpc_cancel_minutes`; after a lost connection, a call tries to
    reconnect for `reconnect_s` seconds. Messages are sent to `message_port` (default: 1801, that of MSMQ).
    """
    return RemoteQueueManager(options)


class _LoopThread:
    """An event loop in a thread, and the calls of other threads into it."""

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
        """The result. An interrupted caller cancels the work, or undoes a result that came just then."""
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
        """Ends a generator, which may happen on any thread; a lost connection has done so already."""
        if sys.is_finalizing():  # the loop has stopped
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


def _blocking_receive(
    method: Method[P, Coroutine[Any, Any, RemoteMessage]],
) -> Method[P, RemoteMessage]:
    """A caller that is interrupted just when its message has come leaves it to the next one."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> RemoteMessage:
        received: RemoteMessage = self._run(method(self._target, *args, **kwargs), self._leave)
        return received

    return call


class RemoteQueueManager:
    """The queues of one other computer."""

    def __init__(self, options: Options) -> None:
        self._thread = _LoopThread(options.host)
        self._lock = threading.Lock()
        self._is_closed = False
        try:
            self._manager = self._thread.run(_connected(options))
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
        """Ends every wait, gives back what was not acknowledged, and closes the connection."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                try:
                    self._thread.run(self._manager.close())
                finally:
                    self._thread.stop()

    def queue(self, name: str | FormatName, *, exclusive: bool = False) -> "RemoteQueue":
        r"""A queue of that computer, such as `orders` or `private$\orders`; opened when it is first used.

        With `exclusive`, nobody else can receive from it while it is open.
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

    transaction = staticmethod(AsyncRemoteQueueManager.transaction)


async def _connected(options: Options) -> AsyncRemoteQueueManager:
    manager = AsyncRemoteQueueManager(options)
    await manager.start()
    return manager


class RemoteQueue:
    """A queue of another computer, opened when it is first used; `close` ends what was opened."""

    def __init__(self, thread: _LoopThread, queue: AsyncRemoteQueue) -> None:
        self._thread = thread
        self._run = thread.run
        self._target = queue
        self.format_name = queue.format_name

    def __repr__(self) -> str:
        return repr(self._target)

    @property
    def path_name(self) -> str:
        """Where the queue is; a format name that only its own computer can resolve stays as it is."""
        return self._target.path_name

    @property
    def journal(self) -> "RemoteQueue":
        """Copies of the messages that were received from this queue while `journaling` was on."""
        return RemoteQueue(self._thread, self._target.journal)

    def subqueue(self, name: str) -> "RemoteQueue":
        return RemoteQueue(self._thread, self._target.subqueue(name))

    send = blocking(AsyncRemoteQueue.send)
    peek = blocking(AsyncRemoteQueue.peek)
    move = blocking(AsyncRemoteQueue.move)
    reject = blocking(AsyncRemoteQueue.reject)
    purge = blocking(AsyncRemoteQueue.purge)
    close = blocking(AsyncRemoteQueue.close)
    receive = _blocking_receive(AsyncRemoteQueue.receive)

    def _leave(self, message: RemoteMessage) -> None:
        self._thread.later(lambda: self._target.leave(message))

    @contextmanager
    def receiving(self, timeout: float | None = None) -> Iterator[RemoteMessage]:
        """A message to work on: acknowledged when the block ends, given back when it raises.

        When the acknowledgement fails, the message may come again, and the error says so.
        """
        queue = self._target
        held = self._run(queue.hold(timeout), lambda held: self._thread.start(queue.give_back(held)))
        try:
            yield held.message
        except BaseException:
            with suppress(TiercelError):  # a connection that was closed has given it back already
                self._run(queue.give_back(held))
            raise
        self._run(queue.acknowledge(held))

    def consume(
        self, timeout: float | None = None, *, ahead: int = AHEAD, until: Until | None = None
    ) -> Generator[RemoteMessage, None, None]:
        """The messages one after the other; see `AsyncRemoteQueue.consume`.

        Not derived from it, because that would be a call into the other thread for every message.
        """
        thread, reading = self._thread, ReadAhead(self._target, check_timeout(timeout), ahead)
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
                    if len(done) == 1:  # otherwise the loop has a call pending that takes this one too
                        thread.later(acknowledge)
                    if until is not None and until(held.message):
                        thread.run(reading.finish())
                        return
        finally:
            thread.finish(reading.close())

    def cursor(self) -> "RemoteCursor":
        """A position in the queue that moves on by reading."""
        return RemoteCursor(self._thread, self._target, self._run(self._target.cursor()))


class RemoteCursor:
    """A position in a queue of another computer; iterating peeks at every message once.

    It is lost with the connection: then reads raise `StaleHandleError`, and a new one must be made.
    """

    def __init__(self, thread: _LoopThread, queue: AsyncRemoteQueue, cursor: AsyncRemoteCursor) -> None:
        self._thread = thread
        self._run = thread.run
        self._queue = queue
        self._target = cursor

    peek = blocking(AsyncRemoteCursor.peek)
    peek_next = blocking(AsyncRemoteCursor.peek_next)
    receive = _blocking_receive(AsyncRemoteCursor.receive)
    close = blocking(AsyncRemoteCursor.close)

    def _leave(self, message: RemoteMessage) -> None:
        self._thread.later(lambda: self._queue.leave(message))

    def __iter__(self) -> Iterator[RemoteMessage]:
        return peek_each(self.peek, self.peek_next)
