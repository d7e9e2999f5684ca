"""Browsing messages without taking them: page by page, or all as a stream."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol

from tiercel.admin import queue_lookup
from tiercel.admin.message_json import dumps, to_json
from tiercel.admin.runner import Runner
from tiercel.admin.waits import Caller, Waits
from tiercel.engine.browsing import LAST_SEQUENCE, Seen
from tiercel.engine.engine import Engine
from tiercel.engine.handles import Found, OpenQueue, Waiter
from tiercel.engine.messages import set_record
from tiercel.engine.queue_state import QueueState
from tiercel.engine.records import LAST_LOOKUP_ID, Record
from tiercel.model.codes import QueueAccess, class_meaning
from tiercel.model.errors import InvalidParameterError, IoTimeoutError, MessageNotFoundError
from tiercel.model.identifiers import lookup_id_sequence
from tiercel.model.message import Message
from tiercel.wire.message import decode_message
from tiercel.wire.user_message import UserMessage

MAX_PAGE: Final = 1000  # messages
_PAGE_BYTES: Final = 4 << 20  # of packets: a page is written in one turn; its last message may exceed this
_SLICE: Final = 100  # messages per turn: about 10 ms
_SLICE_BYTES: Final = 1 << 20
_REST_S: Final = 0.02  # pause between slices of an export while there are other clients
START: Final = "start"
END: Final = "end"

Json = dict[str, Any]


class Order(StrEnum):
    QUEUE = "queue"  # as they are received: by priority, then arrival
    ARRIVAL = "arrival"  # as they became visible


@dataclass(frozen=True, slots=True)
class BrowseOptions:
    """Which messages to return, and what to include of each."""

    order: Order = Order.QUEUE
    bodies: bool = True
    decode: bool = False
    available_only: bool = False

    def seen(self, engine: Engine, state: QueueState, at: int) -> Iterator[Seen]:
        """The selected messages after a position."""
        browse = engine.browsing.in_order if self.order is Order.QUEUE else engine.browsing.by_arrival
        return (each for each in browse(state, at) if not (self.available_only and each.is_locked))

    def row(self, seen: Seen) -> "Row":
        message = message_of(seen.lookup_id, seen.record)
        row = to_json(message, body=self.bodies)
        row |= {"reason": class_meaning(seen.record.reason)} if seen.record.reason else {}
        row |= {"locked": True} if seen.is_locked else {}
        return Row(row, message if self.decode else None)


class Decoder(Protocol):
    async def decode(self, messages: Sequence[Message]) -> Sequence[Json | None]:
        """A description of each body for people; None for an empty one."""


class Row(NamedTuple):
    json: Json
    message: Message | None  # if its body is to be decoded


async def with_bodies(rows: Sequence[Row], decoder: Decoder) -> list[Json]:
    """Adds the decoded bodies; outside a batch, because it takes time."""
    wanted = [row for row in rows if row.message is not None]
    found = await decoder.decode([row.message for row in wanted if row.message is not None])
    for row, decoded in zip(wanted, found, strict=True):
        if decoded is not None:
            row.json["decoded"] = decoded
    return [row.json for row in rows]


class Page(NamedTuple):
    messages: list[Json]
    next: str | None


class _Slice(NamedTuple):
    rows: list[Row]
    at: int  # where the next one begins
    size_bytes: int
    is_last: bool


def message_of(lookup_id: int, record: Record) -> Message:
    """All properties of a message in a queue."""
    message = decode_message(UserMessage(record.packet))
    set_record(message, lookup_id, record)
    return message


class Messages:
    def __init__(self, runner: Runner, waits: Waits, decoder: Decoder) -> None:
        self._runner = runner
        self._waits = waits
        self._decoder = decoder

    async def one(self, queue: str, lookup_id: int, options: BrowseOptions) -> Json:
        def command(engine: Engine) -> Row:
            state = queue_lookup.find(engine, queue)
            seen = next(engine.browsing.in_order(state, lookup_id - 1), None)
            if seen is None or seen.lookup_id != lookup_id:
                raise MessageNotFoundError(f"message {lookup_id} of {state}")
            return options.row(seen)

        (row,) = await with_bodies([await self._runner.call(command)], self._decoder)
        return row

    async def page(
        self,
        queue: str,
        options: BrowseOptions,
        *,
        after: str,
        limit: int,
        last: int | None,
        wait_s: float,
        caller: Caller,
    ) -> Page:
        at = await self._runner.call(
            lambda engine: start_of(engine, queue_lookup.find(engine, queue), options, after, last)
        )
        page = await self._page(queue, options, at, limit)
        if page.messages or not wait_s:
            return page
        return await self._waits.until(self._news(queue, options, at, limit, wait_s), caller) or page

    async def _page(self, queue: str, options: BrowseOptions, at: int, limit: int) -> Page:
        rows: list[Row] = []
        size_bytes, is_last = 0, False
        while len(rows) < limit and size_bytes < _PAGE_BYTES and not is_last:
            part = await self._slice(queue, options, at, min(limit - len(rows), _SLICE))
            rows += part.rows
            at, size_bytes, is_last = part.at, size_bytes + part.size_bytes, part.is_last
        has_more = options.order is Order.ARRIVAL or not is_last
        return Page(await with_bodies(rows, self._decoder), str(at) if has_more else None)

    async def _news(self, queue: str, options: BrowseOptions, at: int, limit: int, wait_s: float) -> Page:
        """Waits for new messages; the first is returned even if another reader has received it meanwhile."""
        opened: dict[
            QueueAccess, OpenQueue
        ] = {}  # filled inside the batch: a cancelled request knows what it opened

        def wait(engine: Engine) -> Found | Waiter:
            state = queue_lookup.find(engine, queue)
            seen = next(options.seen(engine, state, at), None)
            if seen is not None:  # it arrived since the page was read
                return Found(state, seen.lookup_id, seen.record)
            handle = opened[QueueAccess.PEEK] = _open_to_look(engine, state, self._runner)
            return engine.reading.wait_for_news(handle, wait_s)

        try:
            found = await self._runner.read(wait)
        except IoTimeoutError:
            return Page([], str(at) if options.order is Order.ARRIVAL else None)
        finally:
            self._runner.driver.close_later(opened)
        page = await self._page(queue, options, at, limit)
        if page.messages:
            return page
        rows, at = _rows_of(found, options, at)
        is_arrival = options.order is Order.ARRIVAL
        return Page(await with_bodies(rows, self._decoder), str(at) if is_arrival else None)

    async def _slice(
        self, queue: str, options: BrowseOptions, at: int, limit: int, newest: int = LAST_SEQUENCE
    ) -> _Slice:
        def command(engine: Engine) -> _Slice:
            state = queue_lookup.find(engine, queue)
            browse = engine.browsing.in_order if options.order is Order.QUEUE else engine.browsing.by_arrival
            rows, size_bytes, reached = [], 0, at
            for looked, seen in enumerate(browse(state, at), 1):
                reached = seen.lookup_id if options.order is Order.QUEUE else seen.sequence
                if seen.sequence <= newest and not (options.available_only and seen.is_locked):
                    rows.append(options.row(seen))
                    size_bytes += len(seen.record.packet)
                if len(rows) >= limit or size_bytes >= _SLICE_BYTES or looked >= _SLICE:
                    return _Slice(rows, reached, size_bytes, False)
            return _Slice(rows, reached, size_bytes, True)

        return await self._runner.call(command)

    async def export(self, queue: str, options: BrowseOptions) -> Callable[[], AsyncGenerator[bytes, None]]:
        """All messages present now, one per line, without later arrivals. Raises before the first line."""

        def begin(engine: Engine) -> tuple[int, int]:
            state = queue_lookup.find(engine, queue)
            return engine.browsing.newest, start_of(engine, state, options, START, None)

        newest, start = await self._runner.call(begin)

        async def lines() -> AsyncGenerator[bytes, None]:
            at, is_last = start, False
            while not is_last:
                before = self._runner.turns
                part = await self._slice(queue, options, at, _SLICE, newest)
                at, is_last = part.at, part.is_last
                if part.rows:
                    yield b"".join(_lines(await with_bodies(part.rows, self._decoder)))
                if self._runner.turns - before > 1:  # other clients come first
                    await asyncio.sleep(_REST_S)

        return lines


def _lines(rows: list[Json]) -> Iterator[bytes]:
    for row in rows:
        yield dumps(row)
        yield b"\n"


def start_of(engine: Engine, state: QueueState, options: BrowseOptions, after: str, last: int | None) -> int:
    """The position after which a page begins: a lookup id, or a sequence in order of arrival."""
    if last is not None:
        if options.order is not Order.ARRIVAL:
            raise InvalidParameterError("last", problem="it counts by arrival", fix="use order=arrival")
        return engine.browsing.before_last(state, last)
    if after == END:
        if options.order is Order.ARRIVAL:
            return engine.browsing.newest
        raise InvalidParameterError(
            "after", problem="`end` has no meaning in queue order", fix="use order=arrival"
        )
    if after == START:
        return 0 if options.order is Order.ARRIVAL else -1
    highest = LAST_SEQUENCE if options.order is Order.ARRIVAL else LAST_LOOKUP_ID
    if not (after.isascii() and after.isdigit() and len(after) <= 20 and int(after) <= highest):
        fix = f"give the value of `next`, {START} or {END}"
        raise InvalidParameterError("after", present=repr(after[:60]), fix=fix)
    return int(after)


def _open_to_look(engine: Engine, state: QueueState, runner: Runner) -> OpenQueue:
    access = QueueAccess.PEEK_ADMIN if state.is_outgoing else QueueAccess.PEEK
    return engine.opening.open(engine.queues.format_name(state), access, token=runner.driver.token)


def _rows_of(found: Found, options: BrowseOptions, at: int) -> tuple[list[Row], int]:
    """The row of a message that another reader has received, and the position after it."""
    sequence = lookup_id_sequence(found.lookup_id)
    if options.order is Order.QUEUE or sequence <= at:  # the latter: returned, and shown before
        return [], at
    return [options.row(Seen(found.lookup_id, found.record, False))], sequence
