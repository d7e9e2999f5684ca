"""Read-ahead: requests the next messages of a loop over a remote queue before the loop asks for them.

Messages are read in batches. While the loop works on one batch, the next is requested, together with the
acknowledgements of the last. These reads never wait; only when a batch finds the queue empty, one read waits.
A batch is requested when the one before it is complete, and handed out by lookup id: this is the order of
the queue, whatever order a server processes calls in.

It begins with single messages. Batches grow while the loop finishes them quickly, and shrink when it does
not, so that messages are not kept from other readers for long.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from tiercel.client.channel import Answer, LinkLostError
from tiercel.client.remote_message import RemoteMessage
from tiercel.client.remote_session import Opened
from tiercel.client.translate import check_number
from tiercel.model.codes import ReceiveAction
from tiercel.model.errors import InvalidParameterError, IoTimeoutError, TiercelError
from tiercel.remote_read.calls import StartReceive
from tiercel.remote_read.reader import Read

if TYPE_CHECKING:
    from tiercel.client.remote_aio import AsyncRemoteQueue

AHEAD: Final = 16
_AHEAD_MAX: Final = 64
_BRIEF_S: Final = 0.1  # a loop that finishes a batch in this time gets a larger one
_STALE_S: Final = 30.0  # older messages go back: the server may be about to give them to others
_ACKNOWLEDGE_S: Final = 0.001  # how long an acknowledgement waits for reads to be sent with
_TAKE: Final = ReceiveAction.RECEIVE

Until = Callable[[RemoteMessage], object]


class Held(NamedTuple):
    """A message and the read that delivered it."""

    opened: Opened
    read: Read
    message: RemoteMessage


class ReadAhead:
    """The reads and messages of one loop over a queue; `close` gives back what is left."""

    def __init__(self, queue: "AsyncRemoteQueue", timeout: float | None, ahead: int) -> None:
        if not 0 <= check_number("ahead", ahead) <= _AHEAD_MAX:
            raise InvalidParameterError("ahead", present=ahead, limit=f"0 to {_AHEAD_MAX} messages")
        self._queue = queue
        self._session = queue.session
        self._timeout = timeout
        self._most = (ahead + 1) // 2  # one batch is processed while the next is requested
        self._size = 1
        self._opened: Opened | None = None  # where the messages come from
        self._is_empty = True  # as far as we know, nothing could be read ahead
        self._reads: deque[tuple[Read, Answer]] = deque()
        self._held: dict[Read, Held] = {}  # not acknowledged
        self._given_at = 0.0
        self._done: deque[Held] = deque()  # to be acknowledged, where that was not possible at once
        self._unanswered = 0  # acknowledgements
        self._settled = asyncio.Event()
        self._refused: TiercelError | None = None

    async def more(self) -> list[Held]:
        """The next messages, in the order of the queue; none when `timeout` has passed without any."""
        self._check_refused()
        if self._held:  # the loop skipped them
            await self.close()
        is_brief = self._session.time - self._given_at < _BRIEF_S
        self._size = min(2 * self._size if is_brief else max(self._size // 2, 1), self._most)
        if not self._reads:
            self._start()
        if not await self._gather() and not await self._wait():
            await self.finish()
            return []
        self._given_at = self._session.time
        return sorted(self._held.values(), key=lambda held: held.message.lookup_id)

    def is_good(self, held: Held) -> bool:
        """Whether the message is still ours: its connection may be lost, or it may be too old."""
        return held.read.is_delivered and self._session.time - self._given_at < _STALE_S

    def acknowledge(self, held: Held) -> None:
        """Acknowledges a message, with the next reads or after a moment."""
        del self._held[held.read]
        self._done.append(held)
        self._acknowledge()

    async def finish(self) -> None:
        """Waits until every acknowledgement was answered."""
        await self._acknowledge_all()
        while self._unanswered:
            self._settled.clear()
            await self._settled.wait()
        self._check_refused()

    async def close(self) -> None:
        """Gives back messages that were not acknowledged."""
        await self._acknowledge_all()
        held, reads, self._is_empty = list(self._held), list(self._reads), True
        self._held.clear()
        self._reads.clear()
        if self._opened is not None and (held or reads):
            await self._session.give_back(self._opened, held, reads)

    # Reading.

    def _start(self) -> None:
        """Requests a batch, together with the acknowledgements of earlier messages."""
        opened = self._opened
        if self._is_empty or opened is None or not opened.link.is_open or not opened.handle.is_open:
            return
        reads = [opened.handle.start(_TAKE) for _ in range(self._size)]
        answers = opened.link.call_together(StartReceive.OPNUM, (read.request.encode() for read in reads))
        self._reads.extend(zip(reads, answers, strict=False))
        for read in reads[len(answers) :]:  # the connection has no room for more calls
            read.forget()

    async def _gather(self) -> bool:
        """Takes the messages of a batch, and requests the next; returns whether there were any."""
        try:
            while self._reads:
                await self._take(*self._reads.popleft())
        except LinkLostError:  # the earlier messages of the same connection went back, too
            self._is_empty = True
            self._held.clear()
            self._reads.clear()
        self._start()
        await self._acknowledge_all()
        return bool(self._held)

    async def _take(self, read: Read, answer: Answer) -> None:
        assert self._opened is not None
        try:
            self._held[read] = await self._queue.finish(self._opened, read, 0, answer)
        except IoTimeoutError:
            self._is_empty = True

    async def _wait(self) -> bool:
        """Waits for one message; returns whether it came."""
        try:
            held = await self._queue.hold(self._timeout)
        except IoTimeoutError:
            return False
        self._opened, self._is_empty = held.opened, False
        self._held[held.read] = held
        return True

    # Acknowledging.

    def _acknowledge(self) -> None:
        """Sends as many acknowledgements as possible without waiting."""
        while self._done and self._session.acknowledge(*self._done[0][:2], self._answered, _ACKNOWLEDGE_S):
            self._done.popleft()
            self._unanswered += 1

    async def _acknowledge_all(self) -> None:
        self._acknowledge()
        while self._done:  # the server takes one call at a time, or owes too many answers
            held = self._done.popleft()
            if held.read.is_delivered:  # otherwise its connection is lost, and it comes again
                with suppress(LinkLostError):
                    await self._queue.acknowledge(held)

    def _answered(self, refused: TiercelError | None) -> None:
        self._unanswered -= 1
        self._refused = self._refused or refused
        if not self._unanswered:
            self._settled.set()

    def _check_refused(self) -> None:
        refused, self._refused = self._refused, None
        if refused is not None:
            refused.add_note("The server refused an acknowledgement: the message may come again.")
            raise refused
