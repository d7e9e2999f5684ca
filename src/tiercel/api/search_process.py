"""The process that searches messages, started by `MessageSearcher`."""

import json
import re
import signal
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from tiercel.admin.message_filter import Candidate, FilterError, Query, parse_filter
from tiercel.api.child_process import serve
from tiercel.api.message_matcher import MessageMatcher
from tiercel.model.errors import DecodeError

if TYPE_CHECKING:
    from tiercel.engine.records import Record

_SIZE: Final = struct.Struct("<I")
_ROW: Final = struct.Struct("<IH")  # arrival time, reason; then the packet
MESSAGE_S: Final = 0.5  # budget of one message: more than once this, less than twice


class _TooSlowError(Exception):
    pass


def question_of(query: Query, records: "Sequence[Record]") -> bytes:
    head = json.dumps(query).encode()
    rows = (_ROW.pack(each.arrival_time, each.reason) + each.packet for each in records)
    return b"".join(part for each in (head, *rows) for part in (_SIZE.pack(len(each)), each))


def _parts(question: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(question):
        (size,) = _SIZE.unpack_from(question, at)
        at += _SIZE.size
        yield question[at : at + size]
        at += size


@lru_cache(maxsize=8)
def _matcher(query: Query) -> Callable[[bytes], bool]:
    """Tells whether a row of the question matches."""
    if not query.is_filter:
        matcher = MessageMatcher(query.text, ignore_case=query.ignore_case)
        return lambda row: matcher.matches(row[_ROW.size :])
    wanted = parse_filter(query.text)

    def matches(row: bytes) -> bool:
        arrival_time, reason = _ROW.unpack_from(row)
        return wanted.matches(Candidate(row[_ROW.size :], arrival_time, reason, query.now))

    return matches


class Search:
    """Searches packets; one on which the pattern or the decoder takes too long is skipped.

    The second tick of a timer during one message ends it: regular expressions check for signals.
    """

    def __init__(self) -> None:
        self._ticks = 0
        self._is_searching = False
        signal.signal(signal.SIGALRM, self._tick)

    def _tick(self, _signal: int, _frame: FrameType | None) -> None:
        self._ticks += 1
        if self._ticks > 1 and self._is_searching:
            raise _TooSlowError

    def answer(self, question: bytes) -> bytes:
        head, *rows = _parts(question)
        try:
            matches = _matcher(Query(*json.loads(head)))
        except (re.error, FilterError, OverflowError, RecursionError) as problem:
            return json.dumps({"error": str(problem) or type(problem).__name__}).encode()
        signal.setitimer(signal.ITIMER_REAL, MESSAGE_S, MESSAGE_S)
        try:
            return json.dumps(self._searched(matches, rows)).encode()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _searched(self, matches: Callable[[bytes], bool], rows: list[bytes]) -> dict[str, Any]:
        found, skipped = [], []
        for number, row in enumerate(rows):
            try:
                self._ticks, self._is_searching = 0, True
                is_match = matches(row)
                self._is_searching = False
            except (_TooSlowError, MemoryError, RecursionError, DecodeError):
                self._is_searching = False
                skipped.append(number)
            else:
                found += [number] if is_match else []
        return {"found": found, "skipped": skipped}


if __name__ == "__main__":
    serve(Search().answer)
