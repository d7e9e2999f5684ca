r"""Queues of another computer for asyncio: `tiercel.aio.connect`.

    async with tiercel.aio.connect("host", user="EXAMPLE\\reader", password=...) as remote:
        orders = remote.queue("orders")
        async with orders.receiving(timeout=5) as message: ...

After a lost connection the client reconnects and opens its queues again, where that can neither lose nor
double a message: a read that was not acknowledged starts over, because the server has given its message back.
"""

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from math import ceil
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, Unpack
from uuid import UUID, uuid4

from tiercel.client.channel import Answer, Link, LinkLostError
from tiercel.client.dialing import Options
from tiercel.client.interfaces import Transaction
from tiercel.client.read_ahead import AHEAD, Held, ReadAhead, Until
from tiercel.client.remote_message import RemoteMessage, queue_name
from tiercel.client.remote_session import Opened, RemoteTransaction, Session
from tiercel.client.sender import check_no_transaction
from tiercel.client.translate import check_message, check_text, check_timeout, seeks
from tiercel.model.codes import LookupAction, MessageSeekAction, QueueAccess, ReceiveAction, ShareMode
from tiercel.model.errors import (
    AccessDeniedError,
    DecodeError,
    IllegalPropertyVariantTypeError,
    InvalidParameterError,
    IoTimeoutError,
    MessageNotFoundError,
    StaleHandleError,
    TiercelError,
    UnsupportedFormatNameOperationError,
)
from tiercel.model.format_name import (
    DirectFormatName,
    FormatName,
    PrivateFormatName,
    PublicFormatName,
)
from tiercel.model.identifiers import NULL_GUID, MessageId
from tiercel.model.limits import INFINITE
from tiercel.model.message import Message
from tiercel.model.path_name import PathName, SystemQueue
from tiercel.model.properties import Properties
from tiercel.remote_read.calls import (
    RR_ACK,
    RR_NACK,
    CursorCreated,
)
from tiercel.remote_read.reader import Read

_CURRENT = MessageSeekAction.SEEK_CURRENT  # a module constant: looking up a member of an enum is slow
_RECEIVE = QueueAccess.RECEIVE
_TAKE = ReceiveAction.RECEIVE
_LONGEST_MS: Final = INFINITE - 1
_LAST: Final = 0xFFFF_FFFF_FFFF_FFFF  # the message before this one is the last (MQRR trap 16)

_PEEKS = {
    MessageSeekAction.SEEK_CURRENT: LookupAction.PEEK_CURRENT,
    MessageSeekAction.SEEK_NEXT: LookupAction.PEEK_NEXT,
    MessageSeekAction.SEEK_PREVIOUS: LookupAction.PEEK_PREV,
    MessageSeekAction.SEEK_LAST: LookupAction.PEEK_PREV,
}
_RECEIVES = {
    MessageSeekAction.SEEK_CURRENT: LookupAction.RECEIVE_CURRENT,
    MessageSeekAction.SEEK_NEXT: LookupAction.RECEIVE_NEXT,
    MessageSeekAction.SEEK_PREVIOUS: LookupAction.RECEIVE_PREV,
    MessageSeekAction.SEEK_LAST: LookupAction.RECEIVE_PREV,
}


class _Plan(NamedTuple):
    """A read as the caller requested it."""

    action: int
    timeout: float | None = 0
    lookup_id: int = 0
    cursor: int = 0
    max_body_size: int = INFINITE
    transaction: Transaction | None = None
    is_first: bool = False  # by lookup id: an empty queue is MessageNotFoundError


class AsyncRemoteQueueManager:
    """The queues of one other computer."""

    def __init__(self, options: Options) -> None:
        self._session = Session(options)

    def __repr__(self) -> str:
        return f"<RemoteQueueManager {self.host}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def host(self) -> str:
        return self._session.host

    async def start(self) -> None:
        """Makes the first connection, so that failures are raised at once."""
        await self._session.link()

    async def close(self) -> None:
        """Ends every wait, gives back what was not acknowledged, and closes the connection."""
        await self._session.close()

    def queue(self, name: str | FormatName, *, exclusive: bool = False) -> "AsyncRemoteQueue":
        r"""A queue of that computer, such as `orders` or `private$\orders`; opened when it is first used.

        With `exclusive`, nobody else can receive from it while it is open.
        """
        return AsyncRemoteQueue(self._session, queue_name(self.host, name), exclusive=exclusive)

    @property
    def journal(self) -> "AsyncRemoteQueue":
        return self._system(SystemQueue.JOURNAL)

    @property
    def dead_letters(self) -> "AsyncRemoteQueue":
        return self._system(SystemQueue.DEADLETTER)

    @property
    def transactional_dead_letters(self) -> "AsyncRemoteQueue":
        return self._system(SystemQueue.DEADXACT)

    def _system(self, queue: SystemQueue) -> "AsyncRemoteQueue":
        return self.queue(f"system$;{queue}")

    @staticmethod
    def transaction(token: bytes, identifier: UUID | None = None) -> RemoteTransaction:
        """A transaction of a coordinator that both sides know; `identifier` defaults to a new one."""
        return RemoteTransaction(identifier or uuid4(), token)


class AsyncRemoteQueue:
    """A queue of another computer, opened when it is first used."""

    def __init__(self, session: Session, name: FormatName, *, exclusive: bool = False) -> None:
        self._session = session
        self.format_name = name
        self._share = ShareMode.DENY_RECEIVE if exclusive else ShareMode.DENY_NONE
        self._opened: dict[QueueAccess, Opened] = {}
        self._opening = asyncio.Lock()
        # Messages that were acknowledged while their receiver was cancelled: for the next receiver.
        self._left: deque[RemoteMessage] = deque()
        weakref.finalize(self, session.close_later, self._opened).atexit = False

    def __repr__(self) -> str:
        return f"<RemoteQueue {self.format_name}>"

    @property
    def path_name(self) -> str:
        """Where the queue is; a format name that only its own computer can resolve stays as it is."""
        name = self.format_name
        return str(name.path) if isinstance(name, DirectFormatName) else str(name)

    @property
    def journal(self) -> "AsyncRemoteQueue":
        """Copies of the messages that were received from this queue while `journaling` was on."""
        return AsyncRemoteQueue(self._session, self._beside(journal=True))

    def subqueue(self, name: str) -> "AsyncRemoteQueue":
        return AsyncRemoteQueue(
            self._session, self._beside(subqueue=check_text("name of the subqueue", name))
        )

    def _beside(self, *, subqueue: str | None = None, journal: bool = False) -> FormatName:
        name = self.format_name
        if isinstance(name, DirectFormatName):
            path: PathName = replace(name.path, subqueue=subqueue, journal=journal)
            return DirectFormatName(name.protocol, path)
        if journal and isinstance(name, PublicFormatName | PrivateFormatName):
            return replace(name, journal=True)
        problem = "only a direct format name can name a subqueue or its journal"
        raise UnsupportedFormatNameOperationError(
            str(name), problem=problem, fix="name the queue by its path"
        )

    async def close(self) -> None:
        """Closes the handles of this object: its waits end with an error, and its messages go back."""
        opened = list(self._opened.values())
        self._opened.clear()
        for each in opened:
            if each.link.is_open:
                await self._session.close_handle(each)

    # Messages.

    async def send(
        self,
        message: Message | bytes | str,
        *,
        transaction: Transaction | None = None,
        **properties: Unpack[Properties],
    ) -> MessageId:
        """Sends a message; on return the other computer has it, and has stored it if it is recoverable.

        A text or bytes is the body of one with these properties, which are named as those of `Message`:
        `send("tea", label="order 7")`. A `Message` has its own.

        The other computer decides later whether the queue accepts it: ask for `acknowledgements` with an
        `administration_queue`. Transactions and sender's journals need a queue manager on this side.
        """
        sent = check_message(message, properties)
        check_no_transaction(transaction)
        return await self._session.sender.send(self.format_name, sent)

    async def receive(
        self,
        timeout: float | None = None,  # noqa: ASYNC109  # as with the embedded queue
        *,
        lookup_id: int | None = None,
        seek: MessageSeekAction = _CURRENT,
        transaction: Transaction | None = None,
    ) -> RemoteMessage:
        """Takes the first message, and waits up to `timeout` seconds for one (None: for ever).

        With a lookup id it takes that message, or with `seek` the one before or after it, and never waits.
        The acknowledgement is sent without waiting for its answer. If it is lost, the message may come once
        more, as with Windows; it is never lost. To be sure, use `receiving`.
        """
        if seeks(lookup_id, seek):
            return await self.take(_seeking(_RECEIVES, lookup_id, seek, transaction))
        if self._left and transaction is None:
            return self._left.popleft()
        return await self.take(_Plan(_TAKE, check_timeout(timeout), transaction=transaction))

    @asynccontextmanager
    async def receiving(self, timeout: float | None = None) -> AsyncIterator[RemoteMessage]:  # noqa: ASYNC109
        """A message to work on: acknowledged when the block ends, given back when it raises.

        When the acknowledgement fails, the message may come again, and the error says so.
        """
        held = await self.hold(timeout)
        try:
            yield held.message
        except BaseException:
            await self.give_back(held)
            raise
        await self.acknowledge(held)

    async def consume(
        self,
        timeout: float | None = None,  # noqa: ASYNC109
        *,
        ahead: int = AHEAD,
        until: Until | None = None,
    ) -> AsyncGenerator[RemoteMessage, None]:
        """The messages one after the other; each is acknowledged when the next one is asked for.

        Up to `ahead` messages are read ahead. The loop ends when none comes for `timeout` seconds, or when
        `until` is true of a message; then everything is acknowledged. A loop that is left otherwise, by
        `break` or an error, gives back its current message and those that were read ahead. A refused
        acknowledgement is raised; one that is lost with its connection is not: its message may come again.
        """
        reading = ReadAhead(self, check_timeout(timeout), ahead)
        try:
            while batch := await reading.more():
                for held in batch:
                    if not reading.is_good(held):
                        break
                    yield held.message
                    reading.acknowledge(held)
                    if until is not None and until(held.message):
                        await reading.finish()
                        return
        finally:
            await reading.close()

    async def peek(
        self,
        timeout: float | None = None,  # noqa: ASYNC109
        *,
        lookup_id: int | None = None,
        seek: MessageSeekAction = _CURRENT,
        max_body_size: int | None = None,
    ) -> RemoteMessage:
        """Reads the first message, or that of a lookup id, and leaves it in the queue.

        With `max_body_size`, at most that many bytes of the body are read; `body_size` is its full size.
        """
        if seeks(lookup_id, seek):
            plan = _seeking(_PEEKS, lookup_id, seek)
        else:
            plan = _Plan(ReceiveAction.PEEK_CURRENT, check_timeout(timeout))
        held = await self._read(plan._replace(max_body_size=_limit(max_body_size)), self._to_peek)
        return held.message

    async def cursor(self) -> "AsyncRemoteCursor":
        """A position in the queue that moves on by reading."""

        async def attempt() -> AsyncRemoteCursor:
            try:
                opened = await self.opened(QueueAccess.RECEIVE)
            except AccessDeniedError:  # an account that may only peek can do so with a cursor too
                opened = await self.opened(self._to_peek)
            handle = opened.handle
            answer = await self._session.call(opened.link, handle.create_cursor(), handle.subject)
            assert isinstance(answer, CursorCreated)
            return AsyncRemoteCursor(self, opened, handle.cursor_created(answer))

        return await self._session.retrying(attempt)

    async def move(
        self,
        message: Message | int,
        subqueue: str | None,
        *,
        transaction: Transaction | None = None,
    ) -> None:
        """Moves a message, or that of a lookup id, to a subqueue; None is the queue itself."""
        number = _lookup_id(message)
        session, name = self._session, self._beside(subqueue=subqueue)

        async def open_both() -> tuple[Opened, Opened]:
            source = await self.opened(QueueAccess.RECEIVE)
            target = await session.open(name, QueueAccess.MOVE, ShareMode.DENY_NONE, str(name))
            return source, target

        source, target = await session.retrying(open_both)
        try:
            identifier = await self._enlisted(source.link, transaction)
            request = source.handle.move(number, target.handle, identifier)
            await session.call(source.link, request, source.handle.subject)
        finally:
            await session.close_handle(target)

    async def reject(self, message: Message | int) -> None:
        """Rejects a message that was received in a transaction which is still open; its sender is told."""
        opened = await self.opened(QueueAccess.RECEIVE)
        request = opened.handle.reject(_lookup_id(message))
        await self._session.call(opened.link, request, opened.handle.subject)

    async def purge(self) -> None:
        """Removes every message; the protocol does not say how many there were."""

        async def attempt() -> None:
            opened = await self.opened(QueueAccess.RECEIVE)
            await self._session.call(opened.link, opened.handle.purge(), opened.handle.subject)

        await self._session.retrying(attempt)

    # For cursors and threads.

    def _opened_now(self, access: QueueAccess) -> Opened | None:
        """The handle, if it is open and usable."""
        opened = self._opened.get(access)
        return opened if opened is not None and opened.link.is_open and opened.handle.is_open else None

    async def opened(self, access: QueueAccess) -> Opened:
        opened = self._opened_now(access)
        if opened is not None:
            return opened
        async with self._opening:
            opened = self._opened_now(access)
            if opened is None:
                subject = str(self.format_name)
                opened = await self._session.open(self.format_name, access, self._share, subject)
                self._opened[access] = opened
            return opened

    @property
    def _to_peek(self) -> QueueAccess:
        """An exclusive queue also peeks with its receive handle: a second one would be refused."""
        return QueueAccess.RECEIVE if self._share is ShareMode.DENY_RECEIVE else QueueAccess.PEEK

    async def hold(self, timeout: float | None) -> Held:  # noqa: ASYNC109
        return await self._read(_Plan(_TAKE, check_timeout(timeout)), _RECEIVE)

    async def take(self, plan: _Plan) -> RemoteMessage:
        return await self.keep(await self._read(plan, _RECEIVE))

    def leave(self, message: RemoteMessage) -> None:
        """Keeps a message whose receiver was interrupted, for the next one."""
        self._left.appendleft(message)

    async def keep(self, held: Held) -> RemoteMessage:
        """Acknowledges a message and returns it."""
        if not held.read.is_transactional and self._session.acknowledge(held.opened, held.read):
            return held.message
        request = held.read.end(RR_ACK)
        try:
            await self._session.call(held.opened.link, request, held.opened.handle.subject)
        except asyncio.CancelledError:
            if not held.read.is_transactional:
                self.leave(held.message)
            raise
        except TiercelError:
            # The message is here, so the reader gets it. In a transaction it would be returned although it is
            # not part of it (MQRR-142, MQRR-143).
            if held.read.is_transactional:
                raise
        finally:
            held.read.forget()
        return held.message

    async def acknowledge(self, held: Held) -> None:
        subject = held.opened.handle.subject
        try:
            await self._session.call(held.opened.link, held.read.end(RR_ACK), subject)
        except LinkLostError as error:
            problem = "the connection was lost during the acknowledgement: the message may come again"
            raise LinkLostError(subject, problem=problem) from error
        finally:
            held.read.forget()

    async def give_back(self, held: Held) -> None:
        if held.read.is_delivered:
            await self._session.give_back(held.opened, [held.read])

    async def _enlisted(self, link: Link, transaction: Transaction | None) -> UUID:
        if transaction is None:
            return NULL_GUID
        if not isinstance(transaction, RemoteTransaction):
            present = type(transaction).__name__
            fix = "pass what remote.transaction() gave"
            raise InvalidParameterError("transaction", present=present, fix=fix)
        await self._session.enlist(link, transaction, self.format_name)
        return transaction.id

    async def _read(self, plan: _Plan, access: QueueAccess) -> Held:
        session, seconds = self._session, plan.timeout
        began = session.time
        deadline = None if seconds is None else began + seconds
        patience = None
        while True:
            try:
                opened = self._opened_now(access) or await self.opened(access)
                if plan.transaction is not None:
                    return await self.read_at(opened, plan, deadline)
                return await self.finish(opened, *self._begin(opened, plan, deadline))
            except LinkLostError:
                patience = patience or session.patience(deadline)
                if not await patience.wait(began):
                    raise
            except IoTimeoutError:
                if plan.is_first:
                    raise MessageNotFoundError(str(self.format_name)) from None
                if deadline is None or session.time + 1 > deadline:
                    raise  # otherwise the timeout is longer than the protocol can express
                patience = None
            began = session.time

    async def read_at(self, opened: Opened, plan: _Plan, deadline: float | None) -> Held:
        """One read on an open queue; a message that was received must still be acknowledged or given back."""
        identifier = await self._enlisted(opened.link, plan.transaction)
        return await self.finish(opened, *self._begin(opened, plan, deadline, identifier))

    def _begin(
        self, opened: Opened, plan: _Plan, deadline: float | None, transaction: UUID = NULL_GUID
    ) -> tuple[Read, float | None]:
        """A read that is not sent yet, and the seconds that it waits."""
        remaining = None if deadline is None else max(deadline - self._session.time, 0)
        read = opened.handle.start(
            plan.action,
            lookup_id=plan.lookup_id,
            cursor=plan.cursor,
            timeout_ms=INFINITE if remaining is None else min(ceil(remaining * 1000), _LONGEST_MS),
            max_body_size=plan.max_body_size,
            transaction=transaction,
        )
        return read, remaining

    async def finish(
        self, opened: Opened, read: Read, wait_s: float | None, asked: Answer | None = None
    ) -> Held:
        """The message of a read; with `asked`, of one that was sent already."""
        handle = opened.handle
        try:
            answer = await self._session.read(opened, read, wait_s, asked)
            message = RemoteMessage.of(handle.answered(read, answer), answer)
        except DecodeError:
            if read.is_delivered:
                await self._session.call_all(opened, [read.end(RR_NACK)])
            read.forget()
            raise
        if read.is_receive and not read.is_delivered:
            raise LinkLostError(handle.subject)  # while the answer was in transit
        return Held(opened, read, message)

    @property
    def session(self) -> Session:
        return self._session


class AsyncRemoteCursor:
    """A position in a queue of another computer; iterating peeks at every message once.

    It is lost with the connection: then reads raise `StaleHandleError`, and a new one must be made.
    """

    def __init__(self, queue: AsyncRemoteQueue, opened: Opened, number: int) -> None:
        self._queue = queue
        self._opened = opened
        self._number = number

    async def peek(
        self,
        timeout: float | None = 0,  # noqa: ASYNC109
        *,
        max_body_size: int | None = None,
    ) -> RemoteMessage:
        """The message at the cursor; at first, the first one."""
        return (await self._read(ReceiveAction.PEEK_CURRENT, timeout, max_body_size)).message

    async def peek_next(
        self,
        timeout: float | None = 0,  # noqa: ASYNC109
        *,
        max_body_size: int | None = None,
    ) -> RemoteMessage:
        return (await self._read(ReceiveAction.PEEK_NEXT, timeout, max_body_size)).message

    async def receive(
        self,
        timeout: float | None = 0,  # noqa: ASYNC109
        *,
        transaction: Transaction | None = None,
    ) -> RemoteMessage:
        """Takes the message at the cursor, or the next one that is there."""
        held = await self._read(ReceiveAction.RECEIVE, timeout, None, transaction)
        return await self._queue.keep(held)

    async def __aiter__(self) -> AsyncIterator[RemoteMessage]:
        read = self.peek
        while True:
            try:
                message = await read(0)
            except (IoTimeoutError, MessageNotFoundError):
                return
            yield message
            read = self.peek_next

    async def close(self) -> None:
        opened = self._opened
        if opened.link.is_open and opened.handle.is_open and self._number in opened.handle.cursors:
            session = self._queue.session
            work = session.call_all(opened, opened.handle.close_cursor(self._number))
            await session.tidy(opened.link, work)

    async def _read(
        self,
        action: ReceiveAction,
        timeout: float | None,  # noqa: ASYNC109
        max_body_size: int | None,
        transaction: Transaction | None = None,
    ) -> Held:
        seconds = check_timeout(timeout)
        deadline = None if seconds is None else self._queue.session.time + seconds
        plan = _Plan(
            action,
            seconds,
            cursor=self._number,
            max_body_size=_limit(max_body_size),
            transaction=transaction,
        )
        try:
            if self._opened.link.is_open:
                return await self._queue.read_at(self._opened, plan, deadline)
        except LinkLostError:
            pass
        problem = "the connection was lost, and the cursor with it"
        raise StaleHandleError(self._opened.handle.subject, problem=problem, fix="make a new cursor")


def _seeking(
    actions: dict[MessageSeekAction, LookupAction],
    lookup_id: int | None,
    seek: MessageSeekAction,
    transaction: Transaction | None = None,
) -> _Plan:
    if seek is MessageSeekAction.SEEK_FIRST:
        # The protocol has no lookup action for it, but a plain read begins there (MQRR trap 16).
        first = ReceiveAction.PEEK_CURRENT if actions is _PEEKS else ReceiveAction.RECEIVE
        return _Plan(first, transaction=transaction, is_first=True)
    number = _LAST if seek is MessageSeekAction.SEEK_LAST else _lookup_id(lookup_id)
    return _Plan(actions[seek], lookup_id=number, transaction=transaction)


def _lookup_id(message: object) -> int:
    number = message.lookup_id if isinstance(message, Message) else message
    if not isinstance(number, int) or isinstance(number, bool):
        kind = type(number).__name__
        raise IllegalPropertyVariantTypeError("lookup_id", present=kind, limit="int", fix="pass an int")
    if not 0 < number <= _LAST:
        raise MessageNotFoundError(f"lookup_id {number}")
    return number


def _limit(max_body_size: Any) -> int:
    if max_body_size is None:
        return INFINITE
    if not isinstance(max_body_size, int) or not 0 <= max_body_size <= INFINITE:
        raise InvalidParameterError("max_body_size", present=max_body_size, limit="0 or more bytes")
    return max_body_size
