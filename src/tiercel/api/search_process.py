"""The process that searches messages, started by `MessageSearcher`.

It reads stored messages itself, from a committed snapshot of the store: the loop of the queue manager passes
on only those that are in memory.
"""

import heapq
import json
import re
import signal
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from types import FrameType
from typing import TYPE_CHECKING, Final

from tiercel.admin.message_filter import Candidate, FilterError, Query, parse_filter
from tiercel.admin.searched import Searched, Stretch
from tiercel.api.child_process import serve
from tiercel.api.message_matcher import MessageMatcher
from tiercel.engine.records import lookup_id_of, message_key, packet_arrival_reason, packet_of
from tiercel.model.errors import DecodeError, StoreDamagedError
from tiercel.store import Reader, open_reader
from tiercel.store.interface import Keyspace

if TYPE_CHECKING:
    from tiercel.engine.records import Record

_SIZE: Final = struct.Struct("<I")
_LOOKUP_ID: Final = struct.Struct("<Q")  # then the record as it is stored
MESSAGE_S: Final = 0.5  # budget of one message: more than once this, less than twice
ANSWER_S: Final = 1.0  # of an answer: others have a turn, and the snapshot ends
_MAX_LOOKED: Final = 20_000  # messages per answer
_MAX_BYTES: Final = 16 << 20
_MAX_FOUND_BYTES: Final = 4 << 20


class _TooSlowError(Exception):
    pass


def question_of(
    query: Query, rows: "Sequence[tuple[int, Record]]", stretch: Stretch | None, limit: int
) -> bytes:
    head = json.dumps([query, stretch, limit]).encode()
    encoded = (_LOOKUP_ID.pack(lookup_id) + record.encode() for lookup_id, record in rows)
    return b"".join(part for each in (head, *encoded) for part in (_SIZE.pack(len(each)), each))


def _parts(question: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(question):
        (size,) = _SIZE.unpack_from(question, at)
        at += _SIZE.size
        yield question[at : at + size]
        at += size


@lru_cache(maxsize=8)
def _matcher(query: Query) -> Callable[[bytes], bool]:
    """Tells whether a stored record matches."""
    if not query.is_filter:
        matcher = MessageMatcher(query.text, ignore_case=query.ignore_case)
        return lambda data: matcher.matches(packet_of(data))
    wanted, now = parse_filter(query.text), query.now
    return lambda data: wanted.matches(Candidate(*packet_arrival_reason(data), now))


Rows = Iterator[tuple[int, bytes]]


class Stores:
    """The stores that were read; they stay open, because opening takes longer than a search."""

    def __init__(self) -> None:
        self._readers: dict[str, Reader] = {}

    @contextmanager
    def rows(self, stretch: Stretch | None) -> Iterator[Rows]:
        """Lookup ids and records of the stored messages, from one snapshot."""
        if stretch is None:
            yield iter(())
            return
        reader = self._readers.get(stretch.directory)
        if reader is None:
            reader = self._readers[stretch.directory] = open_reader(stretch.directory)
        ends = message_key(stretch.slot, stretch.first), message_key(stretch.slot, stretch.last) + b"\0"
        with reader.snapshot() as view:
            yield ((lookup_id_of(key), data) for key, data in view.range(Keyspace.MESSAGES, *ends))


class Search:
    """Searches packets; one on which the pattern or the decoder takes too long is skipped.

    The second tick of a timer during one message ends it: regular expressions check for signals.
    """

    def __init__(self) -> None:
        self._stores = Stores()
        self._ticks = 0
        self._is_searching = False
        signal.signal(signal.SIGALRM, self._tick)

    def _tick(self, _signal: int, _frame: FrameType | None) -> None:
        self._ticks += 1
        if self._ticks > 1 and self._is_searching:
            raise _TooSlowError

    def answer(self, question: bytes) -> bytes:
        head, *parts = _parts(question)
        query, stretch, limit = json.loads(head)
        try:
            matches = _matcher(Query(*query))
        except (re.error, FilterError, OverflowError, RecursionError) as problem:
            return json.dumps({"error": str(problem) or type(problem).__name__}).encode()
        given = [(_LOOKUP_ID.unpack_from(part)[0], part[_LOOKUP_ID.size :]) for part in parts]
        signal.setitimer(signal.ITIMER_REAL, MESSAGE_S, MESSAGE_S)
        try:
            with self._stores.rows(None if stretch is None else Stretch(*stretch)) as stored:
                rows = heapq.merge(stored, given) if given else stored
                return json.dumps(self._searched(matches, rows, limit)._asdict()).encode()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _searched(self, matches: Callable[[bytes], bool], rows: Rows, limit: int) -> Searched:
        found: list[int] = []
        skipped: list[int] = []
        looked = looked_bytes = found_bytes = 0
        until = time.monotonic() + ANSWER_S
        for lookup_id, data in rows:
            try:
                self._ticks, self._is_searching = 0, True
                is_match = matches(data)
                self._is_searching = False
            except StoreDamagedError:  # the queue manager sets it aside
                self._is_searching = False
                continue
            except (_TooSlowError, MemoryError, RecursionError, DecodeError):
                self._is_searching = False
                skipped.append(lookup_id)
            else:
                if is_match:
                    found.append(lookup_id)
                    found_bytes += len(data)
            looked += 1
            looked_bytes += len(data)
            if (
                len(found) >= limit
                or found_bytes >= _MAX_FOUND_BYTES
                or looked >= _MAX_LOOKED
                or looked_bytes >= _MAX_BYTES
                or time.monotonic() > until
            ):
                return Searched(found, skipped, looked, looked_bytes, lookup_id)
        return Searched(found, skipped, looked, looked_bytes, None)


if __name__ == "__main__":
    serve(Search().answer)
