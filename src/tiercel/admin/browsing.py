"""Browsing messages without taking them: page by page, or all as a stream."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import islice, takewhile
from typing import Any, Final, NamedTuple, Protocol

from tiercel.admin import queue_lookup
from tiercel.admin.message_json import dumps, fields_to_json, to_json
from tiercel.admin.runner import Runner
from tiercel.admin.waits import Caller, Waits
from tiercel.engine.browsing import LAST_SEQUENCE, Seen
from tiercel.engine.engine import Engine
from tiercel.engine.handles import Found, OpenQueue, Waiter
from tiercel.engine.messages import set_record
from tiercel.engine.queue_state import Lock, QueueState
from tiercel.engine.records import LAST_LOOKUP_ID, Record
from tiercel.engine.transaction import Transaction
from tiercel.model.codes import QueueAccess, class_meaning
from tiercel.model.errors import InvalidParameterError, IoTimeoutError, MessageNotFoundError
from tiercel.model.identifiers import lookup_id_sequence
from tiercel.model.message import Message
from tiercel.wire.message import decode_message, reader_of
from tiercel.wire.user_message import UserMessage

MAX_PAGE: Final = 1000  # messages
_PAGE_BYTES: Final = 4 << 20  # of packets: a page is written in one turn; its last message may exceed this
_SLICE: Final = 100  # messages per turn: about 10 ms
_SLICE_BYTES: Final = 1 << 20
_WALKED: Final = 5000  # messages passed over per turn on the way to a row
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
    fields: tuple[str, ...] | None = None  # only these properties; None: all

    def seen(self, engine: Engine, state: QueueState, at: int) -> Iterator[Seen]:
        """The selected messages after a position."""
        browse = engine.browsing.in_order if self.order is Order.QUEUE else engine.browsing.by_arrival
        return (each for each in browse(state, at) if not (self.available_only and each.is_locked))

    def row(self, seen: Seen) -> "Row":
        message = None
        if self.fields is None or self.decode:
            message = message_of(seen.lookup_id, seen.record)
            row = to_json(message, body=self.bodies)
        else:
            row = _light_row(seen, self.fields)
        row |= {"reason": class_meaning(seen.record.reason)} if seen.record.reason else {}
        row |= {"locked": True} if seen.is_locked else {}
        row |= {"locked_by": holder_of(seen.lock)} if seen.lock is not None else {}
        return Row(row, message if self.decode else None)


def _light_row(seen: Seen, names: tuple[str, ...]) -> Json:
    """Reads the properties one by one: most lists show a few, and decoding all takes ten times as long."""
    lookup_id, record, *_ = seen
    packet = UserMessage(record.packet)
    of_packet = reader_of(packet)

    def read(name: str) -> object:
        if name in _IN_RECORD:
            return lookup_id if name == "lookup_id" else getattr(record, name)
        return getattr(message_of(lookup_id, record), name) if name in _OF_BOTH else of_packet(name)

    return fields_to_json(read, names) | {"body_size": packet.sent_body_size}


_IN_RECORD: Final = frozenset({"lookup_id", "arrival_time", "abort_count", "move_count", "last_move_time"})
_OF_BOTH: Final = frozenset({"authentication_level", "verified_sender", "verified_name", "dead_letter_queue"})


def holder_of(lock: Lock) -> Json:
    """Who has taken a locked message."""
    match lock.owner:
        case None:
            return {"kind": "sending"}
        case Transaction() as transaction:
            return {"kind": "transaction", "id": str(transaction.id)}
    return {"kind": "reader"}


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


class Start(NamedTuple):
    """Where a page begins; at most one of these is given."""

    after: str = START
    last: int | None = None  # so many messages before the end, by arrival
    at: int | None = None  # a row number, from 0
    since: datetime | None = None  # a time, by arrival
    before: str | None = None  # a position: the page ends there

    def check(self, order: Order) -> None:
        given = [name for name, value in self._asdict().items() if value not in {None, START}]
        if len(given) > 1:
            raise InvalidParameterError(given[1], problem=f"it excludes {given[0]}", fix="give one of them")
        if order is Order.QUEUE and (self.last is not None or self.since is not None):
            problem = "it goes by arrival"
            raise InvalidParameterError(given[0], problem=problem, fix="use order=arrival")


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
            return options.row(_find(engine, queue, lookup_id))

        (row,) = await with_bodies([await self._runner.call(command)], self._decoder)
        return row

    async def packet(self, queue: str, lookup_id: int) -> bytes:
        def command(engine: Engine) -> bytes:
            return _find(engine, queue, lookup_id).record.packet

        return await self._runner.call(command)

    async def page(
        self,
        queue: str,
        options: BrowseOptions,
        *,
        limit: int,
        start: Start = Start(),  # noqa: B008  # immutable
        wait_s: float = 0,
        caller: Caller,
    ) -> Page:
        start.check(options.order)
        if start.at is not None:
            at = await self._row(queue, start.at, options.order)
        else:
            at, limit = await self._runner.call(
                lambda engine: _begin(engine, queue_lookup.find(engine, queue), options, start, limit)
            )
        if not limit:
            return Page([], start.before)
        page = await self._page(queue, options, at, limit)
        if page.messages or not wait_s:
            return page
        return await self._waits.until(self._news(queue, options, at, limit, wait_s), caller) or page

    async def _row(self, queue: str, row: int, order: Order) -> int:
        """The position of the message before a row; rows shift while messages come and go."""
        at, left = 0 if order is Order.ARRIVAL else -1, row

        def command(engine: Engine) -> tuple[int, int]:
            return _pass_over(engine, order)(queue_lookup.find(engine, queue), at, min(left, _WALKED))

        while left:
            at, passed = await self._runner.call(command)
            left -= passed
            if passed < _WALKED:
                break
        return at

    async def row_of(self, queue: str, place: int, order: Order = Order.QUEUE) -> int:
        """How many messages stand before a place: a lookup id, or by arrival a sequence."""
        at, row = 0 if order is Order.ARRIVAL else -1, 0

        def command(engine: Engine) -> tuple[int, int]:
            state = queue_lookup.find(engine, queue)
            return _pass_over(engine, order)(state, at, _WALKED, place)

        while True:
            at, passed = await self._runner.call(command)
            row += passed
            if passed < _WALKED:
                return row

    async def first_since(self, queue: str, time: datetime, order: Order = Order.QUEUE) -> int:
        """The place of the first message that arrived at a time or later; beyond all if none did."""

        def command(engine: Engine) -> int:
            state = queue_lookup.find(engine, queue)
            start = engine.browsing.sequence_at(state, time.timestamp())
            if order is Order.ARRIVAL:
                return start + 1
            seen = next(engine.browsing.by_arrival(state, start), None)
            return LAST_LOOKUP_ID if seen is None else seen.lookup_id

        return await self._runner.call(command)

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
            return engine.browsing.newest(state), start_of(engine, state, options, START, None)

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


def _pass_over(engine: Engine, order: Order) -> Callable[..., tuple[int, int]]:
    by_arrival = order is Order.ARRIVAL
    return engine.browsing.pass_over_arrivals if by_arrival else engine.browsing.pass_over


def _find(engine: Engine, queue: str, lookup_id: int) -> Seen:
    state = queue_lookup.find(engine, queue)
    seen = next(engine.browsing.in_order(state, lookup_id - 1), None)
    if seen is None or seen.lookup_id != lookup_id:
        raise MessageNotFoundError(f"message {lookup_id} of {state}")
    return seen


def _lines(rows: list[Json]) -> Iterator[bytes]:
    for row in rows:
        yield dumps(row)
        yield b"\n"


def _begin(
    engine: Engine, state: QueueState, options: BrowseOptions, start: Start, limit: int
) -> tuple[int, int]:
    """The position after which a page begins, and how many messages it may have."""
    if start.since is not None:
        return engine.browsing.sequence_at(state, start.since.timestamp()), limit
    if start.before is None:
        return start_of(engine, state, options, start.after, start.last), limit
    end = _position("before", start.before, options.order)
    if options.order is Order.ARRIVAL:
        begin = engine.browsing.before_last(state, limit, end - 1)
        stretch = takewhile(lambda seen: seen.sequence < end, engine.browsing.by_arrival(state, begin))
    else:
        begin = engine.browsing.back(state, end, limit)
        stretch = takewhile(lambda seen: seen.lookup_id < end, engine.browsing.in_order(state, begin))
    return begin, sum(1 for _ in islice(stretch, limit))


def start_of(engine: Engine, state: QueueState, options: BrowseOptions, after: str, last: int | None) -> int:
    """The position after which a page begins: a lookup id, or a sequence in order of arrival."""
    if last is not None:
        if options.order is not Order.ARRIVAL:
            raise InvalidParameterError("last", problem="it counts by arrival", fix="use order=arrival")
        return engine.browsing.before_last(state, last)
    if after == END:
        if options.order is Order.ARRIVAL:
            return engine.browsing.newest(state)
        raise InvalidParameterError(
            "after", problem="`end` has no meaning in queue order", fix="use order=arrival"
        )
    if after == START:
        return 0 if options.order is Order.ARRIVAL else -1
    return _position("after", after, options.order)


def _position(name: str, text: str, order: Order) -> int:
    highest = LAST_SEQUENCE if order is Order.ARRIVAL else LAST_LOOKUP_ID
    if not (text.isascii() and text.isdigit() and len(text) <= 20 and int(text) <= highest):
        fix = f"give the value of `next`, {START} or {END}" if name == "after" else "give a position"
        raise InvalidParameterError(name, present=repr(text[:60]), fix=fix)
    return int(text)


def _open_to_look(engine: Engine, state: QueueState, runner: Runner) -> OpenQueue:
    access = QueueAccess.PEEK_ADMIN if state.is_outgoing else QueueAccess.PEEK
    return engine.opening.open(engine.queues.format_name(state), access, token=runner.driver.token)


def _rows_of(found: Found, options: BrowseOptions, at: int) -> tuple[list[Row], int]:
    """The row of a message that another reader has received, and the position after it."""
    sequence = lookup_id_sequence(found.lookup_id)
    if options.order is Order.QUEUE or sequence <= at:  # the latter: returned, and shown before
        return [], at
    return [options.row(Seen(found.lookup_id, found.record, False))], sequence
