"""Searching the messages of a queue by regular expression or filter, without taking them."""

import sys
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from tiercel.admin import queue_lookup
from tiercel.admin.browsing import BrowseOptions, Json, start_of
from tiercel.admin.errors import BusyError
from tiercel.admin.message_filter import Query
from tiercel.admin.runner import Runner
from tiercel.admin.searched import Searched, Stretch
from tiercel.engine.engine import Engine
from tiercel.engine.records import LAST_LOOKUP_ID, Record

MAX_PATTERN: Final = 1000  # characters
_MAX_SEARCHES: Final = 4  # at once
_IN_MEMORY: Final = 500  # messages in memory per turn
_IN_MEMORY_BYTES: Final = 1 << 20
_MAX_LOOKED: Final = 50_000  # messages per request; the caller continues with `next`
_MAX_LOOKED_BYTES: Final = 64 << 20
_PAGE_BYTES: Final = 4 << 20  # of packets that match
_ROWS: Final = 50  # per turn: about 10 ms
_OPTIONS: Final = BrowseOptions()


class Searcher(Protocol):
    async def search(
        self,
        query: Query,
        rows: Sequence[tuple[int, Record]],
        stretch: Stretch | None = None,
        limit: int = sys.maxsize,
    ) -> Searched:
        """Compares messages with their lookup ids, and those of a stretch of the store."""


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
        while at < LAST_LOOKUP_ID:
            rows, stretch = await self._stretch(queue, at)
            searched = await self._searcher.search(query, rows, stretch, limit - len(matches.messages))
            found_bytes += await self._add_rows(queue, searched.found, matches.messages)
            matches.skipped.extend(map(str, searched.skipped))
            looked, looked_bytes = looked + searched.looked, looked_bytes + searched.looked_bytes
            matches = matches._replace(looked=looked, matched=len(matches.messages))
            at = stretch.last if searched.reached is None else searched.reached
            if at < LAST_LOOKUP_ID and (
                len(matches.messages) >= limit
                or looked >= _MAX_LOOKED
                or looked_bytes >= _MAX_LOOKED_BYTES
                or found_bytes >= _PAGE_BYTES
            ):
                return matches._replace(next=str(at))
        return matches

    async def _stretch(self, queue: str, after: int) -> tuple[list[tuple[int, Record]], Stretch]:
        """The next messages that only memory has, and the stretch of the store in which they stand."""
        directory = str(self._runner.driver.directory)

        def command(engine: Engine) -> tuple[list[tuple[int, Record]], Stretch]:
            state = queue_lookup.find(engine, queue)
            rows: list[tuple[int, Record]] = []
            size_bytes = 0
            for lookup_id in state.express.irange(after + 1) if state.express else ():
                if len(rows) >= _IN_MEMORY or size_bytes >= _IN_MEMORY_BYTES:
                    return rows, Stretch(directory, state.slot, after + 1, rows[-1][0])
                rows.append((lookup_id, state.express[lookup_id]))
                size_bytes += len(rows[-1][1].packet)
            return rows, Stretch(directory, state.slot, after + 1, LAST_LOOKUP_ID)

        return await self._runner.call(command)

    async def _add_rows(self, queue: str, found: Sequence[int], messages: list[Json]) -> int:
        """Adds the messages that are still there; returns the size of their packets."""
        size_bytes = 0
        for start in range(0, len(found), _ROWS):
            command = partial(_rows, queue, found[start : start + _ROWS])
            rows, size = await self._runner.call(command)
            messages += rows
            size_bytes += size
        return size_bytes


def _rows(queue: str, lookup_ids: Sequence[int], engine: Engine) -> tuple[list[Json], int]:
    state = queue_lookup.find(engine, queue)
    seen = (next(engine.browsing.in_order(state, each - 1), None) for each in lookup_ids)
    there = [each for each in seen if each is not None and each.lookup_id in lookup_ids]
    return [_OPTIONS.row(each).json for each in there], sum(len(each.record.packet) for each in there)
