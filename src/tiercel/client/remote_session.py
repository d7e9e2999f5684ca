"""A remote reader's session with one server: the link, which is replaced when it is lost, and its calls."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any, Final, TypeVar
from uuid import UUID

from tiercel.client.channel import Answer, Link, LinkLostError
from tiercel.client.dialing import Options, dial
from tiercel.client.sender import Sender
from tiercel.model.codes import QueueAccess, ShareMode
from tiercel.model.errors import (
    DecodeError,
    QueueNotAvailableError,
    RemoteMachineNotAvailableError,
    ResolveAddressError,
    ServiceNotAvailableError,
    StaleHandleError,
    TiercelError,
)
from tiercel.model.format_name import FormatName
from tiercel.remote_read.calls import (
    RR_ACK,
    RR_NACK,
    Done,
    EnlistRemoteTransaction,
    OpenQueue,
    OpenQueueForMove,
    QueueOpened,
    QueueOpenedForMove,
    Received,
    Request,
    Response,
)
from tiercel.remote_read.failures import check, error_of_fault
from tiercel.remote_read.queue_format import QueueFormat
from tiercel.remote_read.reader import Read, ReaderHandle, ReadState, RequestIds
from tiercel.rpc.status import RpcFault

_BUILD: Final = 7601  # of Windows 7, whose version 6.1 the call names: for information only
_TIDY_S: Final = 10.0  # how long a server may take to answer a cancel
_GRACE_S: Final = 5.0  # a read with a short timeout may be a little late, if that saves it
_UNANSWERED_MAX: Final = (
    96  # acknowledgements, before a caller waits for them; our server leaves 64 unanswered
)
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0
_DONE: Final = Done().encode()

T = TypeVar("T")

Told = Callable[[TiercelError | None], None]
"""Called with the refusal of an acknowledgement, or None; None as well when its connection was lost."""


def _nobody(_refused: TiercelError | None) -> None:
    """For callers that do not need to know."""


@dataclass(slots=True, eq=False)
class Opened:
    """A queue that is open on a link."""

    link: Link
    handle: ReaderHandle
    # Reads whose acknowledgements are not answered yet, and when each has taken too long.
    acknowledging: dict[Read, float] = field(default_factory=dict)
    watch: asyncio.TimerHandle | None = None
    # Closing the queue waits until there are none.
    settled: asyncio.Event = field(default_factory=asyncio.Event)


class Deadlines:
    """Ends waits that take too long, with one timer for all: one each would cost as much as its call."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due: dict[asyncio.Future[bytes], float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._look_at = inf

    def add(self, answer: "asyncio.Future[bytes]", seconds: float) -> None:
        due = self._due[answer] = self._loop.time() + seconds
        if due < self._look_at:
            self._arm(due)

    def remove(self, answer: "asyncio.Future[bytes]") -> None:
        del self._due[answer]

    def _arm(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._look_at, self._timer = due, self._loop.call_at(due, self._look)

    def _look(self) -> None:
        now, self._look_at, self._timer = self._loop.time(), inf, None
        for answer, due in self._due.items():
            if due <= now and not answer.done():
                answer.set_exception(TimeoutError())
        waiting = [due for due in self._due.values() if due > now]
        if waiting:
            self._arm(min(waiting))


class Patience:
    """Retries after a lost connection, for a limited time."""

    def __init__(self, session: "Session", allowed_s: float, deadline: float | None) -> None:
        self._session = session
        self._allowed_s = allowed_s
        self._deadline = deadline
        self._pause = 0.0
        self._lost_at: float | None = None

    async def wait(self, began: float) -> bool:
        """Waits before the next attempt; False when it is time to give up. The last one began at `began`."""
        now = self._session.time
        if self._lost_at is None or now - began > self._allowed_s:  # the last attempt worked for a while
            self._pause, self._lost_at = 0.0, now
        give_up = self._lost_at + self._allowed_s
        if self._deadline is not None:
            give_up = min(give_up, max(self._deadline, self._lost_at + _GRACE_S))
        if self._session.is_closed or now + self._pause >= give_up:
            return False
        await asyncio.sleep(self._pause)
        self._pause = min(max(2 * self._pause, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
        return True


class RemoteTransaction:
    """A transaction of a coordinator (DTC), which alone ends it; `token` is its propagation token."""

    def __init__(self, identifier: UUID, token: bytes) -> None:
        self.id = identifier
        self.token = token
        self.enlisted_at: set[str] = set()
        self.enlisting = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<RemoteTransaction {self.id}>"


class Session:
    def __init__(self, options: Options) -> None:
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._link: Link | None = None
        self._dialing = asyncio.Lock()
        self._ids = RequestIds()
        self._opened: set[Opened] = set()
        self._tidying: set[asyncio.Task[None]] = set()
        self._deadlines = Deadlines(self._loop)
        self.is_closed = False
        self.sender = Sender(options, self.retrying)

    @property
    def host(self) -> str:
        return self._options.host

    @property
    def time(self) -> float:
        return self._loop.time()

    async def close(self) -> None:
        """Ends every wait, gives back what was not acknowledged, and closes the connection."""
        self.is_closed = True
        await self.sender.close()
        link = self._link
        if link is None or not link.is_open:
            return
        try:
            async with asyncio.timeout(_TIDY_S):
                for opened in list(self._opened):
                    await self._close_handle(opened)
                if self._tidying:
                    await asyncio.wait(self._tidying)
        except TimeoutError:
            link.break_off()
        await link.close()

    async def link(self) -> Link:
        link = self._link
        if link is not None and link.is_open and not self.is_closed:
            return link
        async with self._dialing:
            if self.is_closed:
                raise ServiceNotAvailableError(
                    self.host, problem="the connection was closed", fix="connect again"
                )
            if self._link is None:
                self._link = await dial(self._options)
                self._link.on_lost.append(self._lost)
            elif not self._link.is_open:
                try:
                    self._link = await dial(self._options)
                except (RemoteMachineNotAvailableError, ResolveAddressError) as error:
                    problem = f"the connection was lost and cannot be restored: {error.problem}"
                    raise LinkLostError(self.host, problem=problem) from error
                self._link.on_lost.append(self._lost)
            return self._link

    def _lost(self) -> None:
        for opened in self._opened:
            opened.handle.lost()
        self._opened.clear()

    async def open(self, name: FormatName, access: QueueAccess, share: ShareMode, subject: str) -> Opened:
        link = await self.link()
        kind = OpenQueueForMove if access is QueueAccess.MOVE else OpenQueue
        request = kind(
            QueueFormat.of(name),
            access,
            share,
            self._options.client_id,
            build_number=_BUILD,
            is_workgroup=int(self._options.workgroup),
        )
        future = await self.send(link, request)
        limit = self._options.rpc_timeout_s
        try:
            answer = await self.answer(link, future, request, subject, limit)
        except asyncio.CancelledError:
            await self.tidy(link, self._close_unwanted(link, _late(future), request, subject))
            raise
        opened = self._handle_of(link, answer, subject)
        if not link.is_open:
            raise LinkLostError(subject)
        self._opened.add(opened)
        return opened

    def _handle_of(self, link: Link, answer: Response, subject: str) -> Opened:
        assert isinstance(answer, QueueOpened | QueueOpenedForMove)
        context = answer.move_context if isinstance(answer, QueueOpenedForMove) else 0
        return Opened(link, ReaderHandle(answer.handle, self._ids, subject, context))

    async def _close_unwanted(
        self, link: Link, future: "asyncio.Future[bytes]", request: Request, subject: str
    ) -> None:
        """Closes a queue that was opened for a caller that was cancelled."""
        with suppress(TiercelError):
            answer = await self.answer(link, future, request, subject, None)
            await self._close_handle(self._handle_of(link, answer, subject))

    async def close_handle(self, opened: Opened) -> None:
        await self.tidy(opened.link, self._close_handle(opened))

    async def _close_handle(self, opened: Opened) -> None:
        if opened.acknowledging:  # a server may take calls in any order, and a close gives messages back
            await opened.settled.wait()
        await self.call_all(opened, opened.handle.close())
        self._opened.discard(opened)

    async def call_all(self, opened: Opened, requests: Iterable[Request]) -> None:
        """Makes calls in sequence and ignores failures: what they end may have ended already."""
        for request in requests:
            with suppress(TiercelError):
                await self.call(opened.link, request, opened.handle.subject)

    async def call(self, link: Link, request: Request, subject: str) -> Response:
        """Makes a call; returns its answer, or raises the failure that it reports."""
        answer = await self.send(link, request)
        response = await self.answer(link, answer, request, subject, self._options.rpc_timeout_s)
        check(response, subject)
        return response

    async def read(
        self, opened: Opened, read: Read, wait_s: float | None, future: Answer | None = None
    ) -> Received:
        """The answer to a read, with `future` to one that was sent already; cancelling withdraws the read."""
        link, subject = opened.link, opened.handle.subject
        limit = None if wait_s is None else wait_s + self._options.rpc_timeout_s
        try:
            if future is None:
                request = read.request
                stub = request.encode()
                future = link.call_now(request.OPNUM, stub) or await link.call(request.OPNUM, stub)
            response = await self.answer(link, future, read.request, subject, limit)
        except asyncio.CancelledError:
            if future is None:
                read.forget()
            else:
                await self.tidy(link, self._withdraw(opened, read, _late(future)))
            raise
        except DecodeError:  # it may be a message
            opened.handle.delivered(read)
            raise
        except BaseException:
            read.forget()
            raise
        assert isinstance(response, Received)
        return response

    def acknowledge(self, opened: Opened, read: Read, told: Told = _nobody, seconds: float = 0.0) -> bool:
        """Acknowledges a message together with the next call, without waiting for the answer.

        The next call is one made in this turn of the loop, or within `seconds`. False if that is not
        possible. When the acknowledgement fails, the message may come once more (MQRR-142).
        """
        if len(opened.acknowledging) >= _UNANSWERED_MAX or not read.is_delivered:
            return False
        request = read.end(RR_ACK)
        tell = partial(self._acknowledged, opened, read, told)
        if not opened.link.tell(request.OPNUM, request.encode(), tell, seconds):
            read.state = ReadState.DELIVERED
            return False
        opened.acknowledging[read] = self._loop.time() + self._options.rpc_timeout_s
        opened.settled.clear()
        if opened.watch is None:
            self._watch(opened)
        return True

    @staticmethod
    def _acknowledged(opened: Opened, read: Read, told: Told, answer: bytes | Exception) -> None:
        del opened.acknowledging[read]
        if not opened.acknowledging:
            opened.settled.set()
        read.forget()
        error: TiercelError | None = None
        try:
            if isinstance(answer, RpcFault):
                raise error_of_fault(answer, read.request, opened.handle.subject)
            if isinstance(answer, bytes) and answer != _DONE:
                check(Done.decode(answer), opened.handle.subject)
        except StaleHandleError:  # the server has forgotten our handles: reconnect
            opened.link.break_off()
        except TiercelError as problem:
            error = problem
        told(error)

    def _watch(self, opened: Opened) -> None:
        """Disconnects from a server that does not answer."""
        opened.watch = None
        late_at = next(iter(opened.acknowledging.values()), None)
        if late_at is None:
            return
        if late_at <= self._loop.time():
            opened.link.break_off()
        else:
            opened.watch = self._loop.call_at(late_at, self._watch, opened)

    @staticmethod
    async def send(link: Link, request: Request) -> Answer:
        stub = request.encode()
        return link.call_now(request.OPNUM, stub) or await link.call(request.OPNUM, stub)

    async def answer(
        self, link: Link, future: "asyncio.Future[bytes]", request: Request, subject: str, limit: float | None
    ) -> Response:
        if limit is not None:
            self._deadlines.add(future, limit)
        try:
            stub = await future
        except RpcFault as fault:
            error = error_of_fault(fault, request, subject)
            if isinstance(error, StaleHandleError):  # the server has forgotten our handles: reconnect
                link.break_off()
                raise LinkLostError(subject, problem="the server no longer knows the handle") from None
            raise error from None
        except TimeoutError:
            link.break_off()
            problem = f"{type(request).__name__} was not answered within {limit:g} s"
            raise QueueNotAvailableError(subject, problem=problem) from None
        finally:
            if limit is not None:
                self._deadlines.remove(future)
        return request.RESPONSE.decode(stub)

    async def give_back(
        self, opened: Opened, held: Sequence[Read], sent: Iterable[tuple[Read, Answer]] = ()
    ) -> None:
        """Gives messages back in this order; last those of reads that are not answered yet."""

        async def give() -> None:
            nacks = [self.call_all(opened, [read.end(RR_NACK)]) for read in held if read.is_delivered]
            late = [self._withdraw(opened, read, _late(answer)) for read, answer in sent]
            await asyncio.gather(*nacks, *late)  # all are sent at once
            for read in held:
                read.forget()

        await self.tidy(opened.link, give())

    async def _withdraw(self, opened: Opened, read: Read, future: "asyncio.Future[bytes]") -> None:
        """Ends a read whose caller was cancelled; a message that still comes goes back."""
        try:
            if read.request.timeout_ms and not future.done():
                await self.call_all(opened, [read.cancel()])
            with suppress(DecodeError):
                opened.handle.answered(read, Received.decode(await future))
            if not read.is_delivered:
                opened.handle.delivered(read)  # an answer that cannot be decoded may be a message
        except (TiercelError, RpcFault):
            pass
        if read.is_delivered:
            await self.call_all(opened, [read.end(RR_NACK)])
        read.forget()

    async def tidy(self, link: Link, work: Coroutine[Any, Any, None]) -> None:
        """Completes work although its caller was cancelled; disconnects if the server does not answer."""

        async def bounded() -> None:
            try:
                async with asyncio.timeout(_TIDY_S):
                    await work
            except TimeoutError:
                link.break_off()

        task = asyncio.create_task(bounded())
        self._tidying.add(task)
        task.add_done_callback(self._tidying.discard)
        await asyncio.shield(task)

    def close_later(self, handles: dict[QueueAccess, Opened]) -> None:
        """Closes queues that were garbage-collected; any thread may call it."""

        async def close() -> None:
            for opened in handles.values():
                await self._close_handle(opened)

        def begin() -> None:
            task = self._loop.create_task(close())
            self._tidying.add(task)
            task.add_done_callback(self._tidying.discard)

        if handles and not self.is_closed:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(begin)

    async def retrying(self, attempt: Callable[[], Awaitable[T]], deadline: float | None = None) -> T:
        """Retries over a new connection when the old one is lost, for a limited time."""
        patience = self.patience(deadline)
        while True:
            began = self._loop.time()
            try:
                return await attempt()
            except LinkLostError:
                if not await patience.wait(began):
                    raise

    def patience(self, deadline: float | None) -> Patience:
        return Patience(self, self._options.reconnect_s, deadline)

    async def enlist(self, link: Link, transaction: RemoteTransaction, name: FormatName) -> None:
        """Once for each transaction and server: R_QMEnlistRemoteTransaction, [MS-MQRR] 3.2.4.2."""
        async with transaction.enlisting:
            if self.host not in transaction.enlisted_at:
                request = EnlistRemoteTransaction(transaction.id, transaction.token, QueueFormat.of(name))
                await self.call(link, request, f"transaction {transaction.id}")
                transaction.enlisted_at.add(self.host)


def _late(answer: Answer) -> "asyncio.Future[bytes]":
    """The answer to a call whose caller was cancelled."""
    return answer.late if answer.cancelled() else answer
