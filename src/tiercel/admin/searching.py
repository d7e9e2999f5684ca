"""Searching the messages of a queue by regular expression or filter, without taking them."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final, NamedTuple, Protocol

from tiercel.admin import queue_lookup
from tiercel.admin.browsing import BrowseOptions, Json, start_of
from tiercel.admin.errors import BusyError
from tiercel.admin.message_filter import Query
from tiercel.admin.runner import Runner
from tiercel.engine.browsing import Seen
from tiercel.engine.engine import Engine
from tiercel.engine.records import Record

MAX_PATTERN: Final = 1000  # characters
_MAX_SEARCHES: Final = 4  # at once
_SLICE: Final = 500  # messages per turn: about 3 ms
_SLICE_BYTES: Final = 1 << 20
_MAX_LOOKED: Final = 50_000  # messages per request; the caller continues with `next`
_MAX_LOOKED_BYTES: Final = 64 << 20
_PAGE_BYTES: Final = 4 << 20  # of packets that match
_REST_S: Final = 0.02  # pause between slices while there are other clients
_OPTIONS: Final = BrowseOptions()


class Searched(NamedTuple):
    """Numbers of packets: those that match, and those that took too long."""

    found: Sequence[int]
    skipped: Sequence[int]


class Searcher(Protocol):
    async def search(self, query: Query, records: Sequence[Record]) -> Searched: ...


class Matches(NamedTuple):
    messages: list[Json]
    looked: int  # messages that were searched
    matched: int
    skipped: list[str]  # lookup ids of messages that took too long
    next: str | None


class Searching:
    def __init__(self, runner: Runner, searcher: Searcher) -> None:
        self._runner = runner
        self._searcher = searcher
        self._running = 0

    async def page(self, queue: str, query: Query, *, after: str, limit: int) -> Matches:
        """Messages that match, at most `limit`; bounded work, even if none does."""
        if self._running >= _MAX_SEARCHES:
            raise BusyError("searches", present=self._running, limit=_MAX_SEARCHES)
        self._running += 1
        try:
            return await self._page(queue, query, after, limit)
        finally:
            self._running -= 1

    async def _page(self, queue: str, query: Query, after: str, limit: int) -> Matches:
        def begin(engine: Engine) -> tuple[int, int]:
            state = queue_lookup.find(engine, queue)
            return start_of(engine, state, _OPTIONS, after, None), engine.seconds

        at, now = await self._runner.call(begin)
        query, matches = query._replace(now=now), Matches([], 0, 0, [], None)
        looked = looked_bytes = found_bytes = 0
        async with aclosing(self._slices(queue, at)) as slices:
            async for seen, is_last in slices:
                records = [each.record for each in seen]
                found, skipped = await self._searcher.search(query, records)
                kept = found[: limit - len(matches.messages)]
                done = seen if len(kept) == len(found) else seen[: kept[-1] + 1]
                matches.messages.extend(_OPTIONS.row(seen[number]).json for number in kept)
                matches.skipped.extend(str(seen[each].lookup_id) for each in skipped if each < len(done))
                looked += len(done)
                looked_bytes += sum(len(record.packet) for record in records)
                found_bytes += sum(len(records[number].packet) for number in kept)
                matches = matches._replace(looked=looked, matched=len(matches.messages))
                if is_last and len(done) == len(seen):
                    return matches
                if (
                    len(matches.messages) >= limit
                    or looked >= _MAX_LOOKED
                    or looked_bytes >= _MAX_LOOKED_BYTES
                    or found_bytes >= _PAGE_BYTES
                ):
                    return matches._replace(next=str(done[-1].lookup_id))
        raise AssertionError("the last slice says so")

    async def _slices(self, queue: str, at: int) -> AsyncGenerator[tuple[list[Seen], bool], None]:
        """The messages behind a lookup id; the next slice is read while this one is searched."""
        following = self._begin(queue, at)
        try:
            while True:
                before = self._runner.turns
                seen, is_last = await following
                if not is_last:
                    following = self._begin(queue, seen[-1].lookup_id)
                yield seen, is_last
                if self._runner.turns - before > 2:  # other clients come first
                    await asyncio.sleep(_REST_S)
        finally:
            following.cancel()

    def _begin(self, queue: str, at: int) -> "asyncio.Future[tuple[list[Seen], bool]]":
        slice_ = asyncio.ensure_future(self._slice(queue, at))
        slice_.add_done_callback(lambda done: None if done.cancelled() else done.exception() and None)
        return slice_

    async def _slice(self, queue: str, at: int) -> tuple[list[Seen], bool]:
        """The next messages, and whether these are the last."""

        def command(engine: Engine) -> tuple[list[Seen], bool]:
            seen: list[Seen] = []
            size_bytes = 0
            for each in engine.browsing.in_order(queue_lookup.find(engine, queue), at):
                seen.append(each)
                size_bytes += len(each.record.packet)
                if len(seen) >= _SLICE or size_bytes >= _SLICE_BYTES:
                    return seen, False
            return seen, True

        return await self._runner.call(command)
