r"""The interface of every queue, whether it is in this program, a daemon's, or on another computer.

    def drain(queue: tiercel.Queue) -> list[bytes]:
        return [message.body for message in queue.consume(timeout=0)]

A function typed for `Queue` takes an `EmbeddedQueue`, a `DaemonQueue` and a `RemoteQueue`. Operations that
only one of them has, such as counting its messages, are methods of that class alone.
"""

from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import Protocol, Self, TypeAlias, Unpack
from uuid import UUID

from tiercel.model.codes import MessageSeekAction
from tiercel.model.format_name import FormatName
from tiercel.model.identifiers import MessageId
from tiercel.model.message import Message
from tiercel.model.properties import Properties

Until = Callable[[Message], object]

_CURRENT = MessageSeekAction.SEEK_CURRENT


class Transaction(Protocol):
    """Sends, receives and moves that happen all together or not at all.

    A queue takes only transactions of its own queue manager.
    """

    @property
    def id(self) -> UUID: ...


class Cursor(Protocol):
    """A position in a queue; iterating peeks at every message once."""

    def peek(self, timeout: float | None = 0) -> Message: ...

    def peek_next(self, timeout: float | None = 0) -> Message: ...

    def receive(self, timeout: float | None = 0, *, transaction: Transaction | None = None) -> Message: ...

    def __iter__(self) -> Iterator[Message]: ...

    def close(self) -> None: ...


class _NamedQueue(Protocol):
    @property
    def format_name(self) -> FormatName: ...

    @property
    def path_name(self) -> str: ...

    @property
    def journal(self) -> Self: ...

    def subqueue(self, name: str) -> Self: ...


class Queue(_NamedQueue, Protocol):
    """A queue, opened when it is first used.

    `send` takes a `Message`, or the text or bytes of one with its properties: `send("tea", label="order 7")`.
    """

    def send(
        self,
        message: Message | bytes | str,
        *,
        transaction: Transaction | None = None,
        **properties: Unpack[Properties],
    ) -> MessageId: ...

    def receive(
        self,
        timeout: float | None = None,
        *,
        lookup_id: int | None = None,
        seek: MessageSeekAction = _CURRENT,
        transaction: Transaction | None = None,
    ) -> Message: ...

    def receiving(self, timeout: float | None = None) -> AbstractContextManager[Message]: ...

    def consume(
        self, timeout: float | None = None, *, until: Until | None = None
    ) -> Generator[Message, None, None]: ...

    def peek(
        self,
        timeout: float | None = None,
        *,
        lookup_id: int | None = None,
        seek: MessageSeekAction = _CURRENT,
    ) -> Message: ...

    def cursor(self) -> Cursor: ...

    def move(
        self, message: Message | int, subqueue: str | None, *, transaction: Transaction | None = None
    ) -> None: ...

    def reject(self, message: Message | int) -> None:
        """Refuses a message that was received in an open transaction; its commit tells the sender."""

    def purge(self) -> int | None:
        """Removes every message; an embedded queue returns how many there were."""

    def close(self) -> None: ...


class AsyncQueue(_NamedQueue, Protocol):
    """The same for asyncio.

    `cursor` is missing: a remote one is asynchronous, and an embedded one never waits.
    """

    async def send(
        self,
        message: Message | bytes | str,
        *,
        transaction: Transaction | None = None,
        **properties: Unpack[Properties],
    ) -> MessageId: ...

    async def receive(
        self,
        timeout: float | None = None,  # noqa: ASYNC109  # ends the wait in the queue manager
        *,
        lookup_id: int | None = None,
        seek: MessageSeekAction = _CURRENT,
        transaction: Transaction | None = None,
    ) -> Message: ...

    def receiving(self, timeout: float | None = None) -> AbstractAsyncContextManager[Message]: ...

    def consume(
        self, timeout: float | None = None, *, until: Until | None = None
    ) -> AsyncGenerator[Message, None]: ...

    async def peek(
        self,
        timeout: float | None = None,  # noqa: ASYNC109
        *,
        lookup_id: int | None = None,
        seek: MessageSeekAction = _CURRENT,
    ) -> Message: ...

    async def move(
        self, message: Message | int, subqueue: str | None, *, transaction: Transaction | None = None
    ) -> None: ...

    async def reject(self, message: Message | int) -> None: ...

    async def purge(self) -> int | None: ...

    async def close(self) -> None: ...


class QueueManager(Protocol):
    """The queues of one computer."""

    def queue(self, name: str | FormatName) -> Queue: ...

    @property
    def journal(self) -> Queue: ...

    @property
    def dead_letters(self) -> Queue: ...

    @property
    def transactional_dead_letters(self) -> Queue: ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class AsyncQueueManager(Protocol):
    """The same for asyncio."""

    def queue(self, name: str | FormatName) -> AsyncQueue: ...

    @property
    def journal(self) -> AsyncQueue: ...

    @property
    def dead_letters(self) -> AsyncQueue: ...

    @property
    def transactional_dead_letters(self) -> AsyncQueue: ...

    async def close(self) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


QueueName: TypeAlias = str | FormatName | Queue | AsyncQueue
"""How a user names a queue: by any of its names, or by the queue itself."""
